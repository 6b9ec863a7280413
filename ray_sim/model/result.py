"""Result of a run: jobs, events, timeline and summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from ray_sim.kernels.core.arrays import EVENT_NAMES, ROLE_NAMES
from ray_sim.model.distribution import Distribution
from ray_sim.model.figures import FIGURES, KindFigures, all_figures
from ray_sim.model.html import facts_html
from ray_sim.model.readable import duration, number
from ray_sim.model.text import shown

FiguresT = TypeVar("FiguresT", bound=KindFigures)


class JobStatus(StrEnum):
    """State of a job at the end of the run."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    EVICTED = "evicted"
    FAILED = "failed"
    KILLED = "killed"
    UNFINISHED = "unfinished"


JOB_SCHEMA: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "vc": pl.String(),
    "user": pl.String(),
    "num_gpus": pl.Float64(),
    "duration_s": pl.Float64(),
    "submit_s": pl.Float64(),
    "start_s": pl.Float64(),
    "finish_s": pl.Float64(),
    "jct_s": pl.Float64(),
    "queue_s": pl.Float64(),
    "run_s": pl.Float64(),
    "preemptions": pl.Int64(),
    "restarts": pl.Int64(),
    "interruptions": pl.Int64(),
    "lost_s": pl.Float64(),
    "status": pl.String(),
    "reason": pl.String(),
    "utility": pl.Float64(),
    "attempts": pl.Int64(),
    "preempted": pl.Int64(),
    "gpu_s": pl.Float64(),
    "wasted_gpu_s": pl.Float64(),
    "rho": pl.Float64(),
}
"""Columns of jobs.parquet, one row per job in (submit, trace order).

Times are seconds in the workload's own time. `start_s` is the first start. `queue_s` is the total time
between submission and end without resources, `run_s` the total time with resources, restart pauses
included, so jct_s = queue_s + run_s for a completed job. A time is null if its event never happened.
`interruptions` counts how often a job lost a server, `lost_s` is the progress lost with servers and at stops,
of chunked jobs summed over workers; `preemptions` counts suspensions by the scheduler. `attempts` counts
those begun, `preempted` the stops of others to make room for this job. `gpu_s` is GPU time held, of chunked
jobs the time of workers in training, null where nothing stops them; `wasted_gpu_s` is the part of it that
went into pauses and lost progress, all of it for a job that failed. `rho` is the finish-time fairness
of a completed job, see `ray_sim.model.metrics.finish_time_fairness`.
"""

STOP_SCHEMA: dict[str, pl.DataType] = {
    "time_s": pl.Float64(),
    "job_id": pl.String(),
    "attempt": pl.Int64(),
    "reason": pl.String(),
    "by": pl.String(),
    "lost_s": pl.Float64(),
}
"""Columns of stops.parquet: ends of holdings before completion, in the order in which they happened.

`attempt` counts from 1, `by` is the job that the stop made room for, `lost_s` the progress that it cost.
"""

TEAM_SCHEMA: dict[str, pl.DataType] = {
    "team": pl.String(),
    "jobs": pl.Int64(),
    **{str(status): pl.Int64() for status in JobStatus},
    **{f"wait_s_{figure}": pl.Float64() for figure in ("mean", "median", "p95")},
    "within_slo": pl.Float64(),
    **{f"{what}_gpu_h": pl.Float64() for what in ("held", "quota")},
    "use": pl.Float64(),
    **{f"{what}_gpu_h": pl.Float64() for what in ("borrowed", "unmet")},
    "suffered": pl.Int64(),
    "caused": pl.Int64(),
    "wasted_gpu_h": pl.Float64(),
    "wasted_by_reason": pl.String(),
    "rho_mean": pl.Float64(),
    "rho_p95": pl.Float64(),
}
"""Columns of teams.parquet, a row per team of the cluster.

Waits are from submission to first start; a job that never started misses its SLO. `quota_gpu_h` is the quota
times the time of the run, `use` what was held over it, `borrowed_gpu_h` held beyond it, `unmet_gpu_h` free
below it while jobs of the team waited for as much. `suffered` and `caused` count suspensions by the policy
for another job; `wasted_by_reason` is JSON.
"""

EVENT_SCHEMA: dict[str, pl.DataType] = {
    "time_s": pl.Float64(),
    "event": pl.Enum(EVENT_NAMES),
    "job_id": pl.String(),
    "server": pl.String(),
    "role": pl.Enum(ROLE_NAMES),
    "count": pl.Int64(),
}
"""Columns of events.parquet, in the order of the events; enums are strings in the file.

`submit`, `reject`, `stop`, `finish`, `evict` have no server. `start` (first holding, or the next one
after a stop) and `move` (holding changed while held) have one row per server and role, with the
complete new holding. `level` is a change of queue, `count` the new queue. `server_down` and `server_up`
have a server and no job; `lose` is a job that returns to waiting because it lost that server.

For a chunked job, `start`, `stop` and `finish` with the role chunk mark the time in which a chunk makes
progress on a server; `count` is its number. With the role ps, `start`, `move` and `stop` name the server on
which the job holds a parameter server, until it finishes or is evicted. `lose` with these roles is a chunk
(after its `stop`, if it was making progress) or a parameter server that was lost with its server, or a chunk
of a job that was stopped.
"""


@dataclass(frozen=True, slots=True)
class JctCertificate:
    """Gap between a run's mean JCT and lower bounds for its completed jobs on its servers.

    The bounds hold for every feasible schedule, see docs/certificates.md. With partitions they are means
    weighted by jobs.
    """

    b1_s: float
    """Mean shortest run, including the upload if there is one, without any waiting."""
    b2_s: float | None
    """Mean flow time of the best schedule on one machine as fast as the whole partition."""
    b3_s: float | None
    """Mean busy time on that machine plus half the shortest run."""
    bound_s: float
    """Mean over partitions of the largest bound: no schedule has a smaller mean JCT."""
    gap: float | None
    """Mean JCT / `bound_s` - 1, >= 0 up to rounding unless the run was sped up; null if the bound is 0 and
    the mean JCT is not."""
    only_b1: str | None = None
    """Reason why B2 and B3 give no bound and are null; null where they hold."""
    lp_s: float | None = None
    """Optimum of the linear programme of chunks; null where jobs are not chunked, or as `no_lp` says."""
    no_lp: str | None = None
    """Reason why the linear programme was not solved, in at least one partition; null where it was."""
    speed_up: float | None = None
    """Speed of the run's workers relative to those of the bounds; null where equal."""
    b4_s: float | None = None
    """Bound by a linear programme on all resources at a time; null without the world parameter `bound_cells`,
    or as `no_b4` says."""
    no_b4: str | None = None
    """Reason why that programme was not solved, in at least one partition; null where it was."""
    binding: str | None = None
    """Name of the largest bound, such as B3, in `partition`; null in results of earlier versions."""
    resource: str | None = None
    """Resource whose capacity gives that bound; null where no single one does."""
    partition: str | None = None
    """Partition that contributes most to `bound_s`; null without partitions."""
    types: str | None = None
    """GPU types on which the jobs that contribute most to `bound_s` run, such as P100|T4; absent where they
    may use their whole partition."""

    @property
    def binding_text(self) -> str | None:
        """The largest bound, its resource, types and partition, e.g. ``B3 of gpu on T4 in vc a``."""
        if self.binding is None:
            return None
        resource = "" if self.resource is None else f" of {self.resource}"
        types = "" if self.types is None else f" on {self.types}"
        partition = "" if self.partition is None else f" in vc {self.partition}"
        return f"{self.binding}{resource}{types}{partition}"


@dataclass(frozen=True, slots=True)
class UtilityCertificate:
    """Gap between a run's total utility and upper bounds for its jobs on its servers.

    The bounds hold for every feasible schedule, see docs/certificates.md. With partitions they are sums.
    """

    u1: float
    """Utility if every job completed as early as it could alone."""
    u2: float
    """Utility if every job bought its best schedule at prices that sell the capacity of all servers."""
    u3: float | None
    """Optimum of a linear programme that pools all servers; null where it is left out."""
    bound: float
    """Sum over partitions of the least of the three: no schedule earns more."""
    gap: float | None
    """`bound` / utility - 1, >= 0 up to rounding; null where nothing was earned."""
    hopeful: int
    """Jobs that could complete by the horizon if each were alone; only these count in the bounds."""
    hopeless: int
    """Other jobs; no schedule earns utility with them."""
    no_u3: str | None = None
    """Reason why U3 is left out; null where it is not."""
    optimum: float | None = None
    """Best utility found with whole slots; null, like the next three, without `optimum_nodes`."""
    optimum_bound: float | None = None
    """Upper bound for schedules in whole slots; a schedule that changes between slots may earn more."""
    optimum_ratio: float | None = None
    """`optimum` / utility; null also where the utility is 0."""
    optimum_proven: bool | None = None
    """Whether the search ended by itself: no schedule in whole slots is better than `optimum`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Metrics of one run, over the jobs that count: all jobs, unless the run was trimmed.

    Distributions are over completed jobs.
    """

    jobs: int
    """Jobs that count."""
    completed: int
    """Jobs that did all of their work."""
    rejected: int
    """Jobs that were refused before they ever held resources."""
    evicted: int
    """Jobs that the policy ended before their work was done."""
    unfinished: int
    """Jobs that were waiting or running when the run ended."""
    reasons: dict[str, int]
    """Number of jobs that did not complete, by reason."""
    jct_s: Distribution
    """Completion time (JCT): from submission to completion."""
    queue_s: Distribution
    """Total time between submission and completion without resources."""
    makespan_s: float | None
    """Last completion minus first submission."""
    utilisation: dict[str, float]
    """Used over offered amount per resource, averaged from first submission to last completion, or, in a
    trimmed run, over the window in which submissions count. An unavailable server offers nothing."""
    jain_index: float | None
    """Jain's index of the progress rates duration / JCT of jobs; 1 if all jobs are slowed equally."""
    finish_time_fairness: Distribution
    """Column `rho` of jobs: JCT over the run time on an equal share of the GPUs that were available (Themis);
    above 1 is worse than that share."""
    preemptions: int
    """Suspensions by the scheduler, summed over jobs."""
    restarts: int
    """Starts after the first, and moves, summed over jobs."""
    interruptions: int
    """Times that a job lost a server, summed over jobs."""
    lost_s: float
    """Progress lost with servers, over all jobs."""
    utility: float | None
    """Sum of the utilities of completed jobs; null where the workload has no utilities."""
    certificate: JctCertificate | None = None
    """Null where no job completed, or where no bound is known for the kind of jobs."""
    no_certificate: str | None = None
    """Reason why nothing bounds the completion times of completed jobs; null where something does, or where
    jobs are announced."""
    utility_certificate: UtilityCertificate | None = None
    """Null unless jobs are rigid or elastic and have utilities."""
    group_jct_s: Distribution | None = None
    """First submission to last completion of each group of rows, such as the tasks of a job in Google's
    traces; over groups whose rows all count and completed. Null where the workload has no groups."""
    jct_or_horizon_s: Distribution | None = None
    """JCT over all jobs, with the horizon for jobs that did not complete; null where there is no horizon."""
    figures: KindFigures | None = None
    """Figures of the kind of jobs. In summary.json, their keys stand at the top and those of other
    kinds are null."""
    policy_counts: dict[str, int] | None = None
    """Counts that the policy reports over the whole run; null where it reports none."""
    policy_figures: dict[str, float] | None = None
    """Numbers that the policy reports and that are not counts; null where it reports none."""
    policy_warnings: list[str] | None = None
    """Warnings of the kind of job and of the policy, one sentence each; null where there are none."""
    failed: int = 0
    """Jobs that failed for good."""
    killed: int = 0
    """Jobs that were ended by a time limit or their user."""
    wasted_gpu_h: dict[str, float] | None = None
    """GPU-hours of pauses, of progress lost at stops by reason, and of failed jobs by reason; null for
    chunked jobs."""
    cost: float | None = None
    """Prices of GPUs, those of their servers by the hour, times the hours that jobs held them; null where
    servers have no prices, and for chunked jobs."""
    jct_ended_s: Distribution | None = None
    """Time from submission to the end of completed, failed and killed jobs; null where none failed or was
    killed."""
    trimmed_jobs: int | None = None
    """Jobs that were simulated but do not count; null where the run was not trimmed."""

    if not TYPE_CHECKING:  # type checkers know `figures_as`

        def __getattr__(self, name: str) -> Any:
            """A figure of a kind of jobs by its key of summary.json: null where other kinds have it."""
            kinds = (*FIGURES, type(self.figures)) if name != "figures" and self.figures else FIGURES
            if name not in all_figures({}, kinds):
                raise AttributeError(f"a summary has no '{name}', only the keys of summary.json")
            return getattr(self.figures, name, None)

    def figures_as(self, kind: type[FiguresT]) -> FiguresT | None:
        """The figures of the jobs if they are of this class, else None."""
        return self.figures if isinstance(self.figures, kind) else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to a plain nested dict, as written to summary.json."""
        content: dict[str, Any] = {}
        for name, value in asdict(self).items():
            content |= all_figures(value or {}) if name == "figures" else {name: value}
        if self.certificate is not None and self.certificate.types is None:
            del content["certificate"]["types"]  # results without GPU types stay as they were
        return content

    def flat(self) -> dict[str, float]:
        """Flatten to dotted keys without nulls, e.g. ``jct_s.mean``: MLflow's metrics."""
        return dict(_flatten("", self.to_dict()))


def _flatten(prefix: str, value: object) -> list[tuple[str, float]]:
    if isinstance(value, dict):
        return [
            pair
            for key, inner in value.items()
            for pair in _flatten(f"{prefix}.{key}" if prefix else str(key), inner)
        ]
    if isinstance(value, (int, float)):
        return [(prefix, float(value))]
    return []


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run. The frames have the columns of `JOB_SCHEMA` and `EVENT_SCHEMA`.

    `timeline` has a row per instant at which something changed: `time_s`, `waiting`, `running` and
    `used_<resource>` in the resource's unit; for elastic jobs also `speed_error` and `convergence_error` as
    in `ElasticFigures`, over the estimates of this instant, null where there are none. A policy may add
    columns, see `Policy.timeline_columns`.
    """

    jobs: pl.DataFrame
    events: pl.DataFrame
    timeline: pl.DataFrame
    summary: Summary
    loop: str
    """Loop that ran, `compiled` or `general`; both give equal results."""
    loop_reason: str | None = None
    """Reason why the compiled loop did not run."""
    decision_seconds: tuple[float, ...] = field(default=())
    """Wall-clock seconds of each decision of the general loop, for timing.json only."""
    stops: pl.DataFrame | None = None
    """Columns of `STOP_SCHEMA`; None from the compiled loop, which does not list stops."""
    teams: pl.DataFrame | None = None
    """Columns of `TEAM_SCHEMA`; None where the cluster has no teams."""
    recoveries: int = 0
    """Actors that died and were restarted, for timing.json only."""

    def _repr_html_(self) -> str:
        """Outcome of the run as a small table, for notebooks."""
        return facts_html("run", self._facts(), "; ".join(self.summary.policy_warnings or ()))

    def __repr__(self) -> str:
        """Outcome of the run in lines, for consoles."""
        return "\n".join(f"{shown(label):<28}  {text}" for label, text in self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        summary = self.summary
        bound = summary.certificate
        facts = [
            ("jobs", number(summary.jobs)),
            ("completed", number(summary.completed)),
            *((f"not completed, {reason}", number(count)) for reason, count in summary.reasons.items()),
            ("mean JCT", duration(summary.jct_s.mean)),
            ("median JCT", duration(summary.jct_s.median)),
            ("p99 JCT", duration(summary.jct_s.p99)),
            ("mean queueing delay", duration(summary.queue_s.mean)),
            ("makespan", duration(summary.makespan_s)),
            *((f"utilisation, {name}", f"{used:.1%}") for name, used in summary.utilisation.items() if used),
        ]
        if summary.utility is not None:
            facts.append(("utility", number(summary.utility)))
        if bound is not None:
            facts += [("lower bound on mean JCT", duration(bound.bound_s)), ("gap", number(bound.gap))]
        return facts
