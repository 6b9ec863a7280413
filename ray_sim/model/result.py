"""Result of a run: jobs, events, timeline and summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import polars as pl

from ray_sim.kernels.core.arrays import EVENT_NAMES, ROLE_NAMES


class JobStatus(StrEnum):
    """State of a job at the end of the run."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    EVICTED = "evicted"
    UNFINISHED = "unfinished"


JOB_SCHEMA: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "vc": pl.String(),
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
}
"""Columns of jobs.parquet, one row per job in (submit, trace order).

Times are seconds in the workload's own time. `start_s` is the first start; `queue_s` is all time
between submission and end without resources; `run_s` all time with them, restart pauses
included, so jct_s = queue_s + run_s for a completed job. Null where it never happened.
`interruptions` counts the times a job lost a server, `lost_s` is the progress it lost with them;
`preemptions` are its scheduler's doing.
"""

EVENT_SCHEMA: dict[str, pl.DataType] = {
    "time_s": pl.Float64(),
    "event": pl.Enum(EVENT_NAMES),
    "job_id": pl.String(),
    "server": pl.String(),
    "role": pl.Enum(ROLE_NAMES),
    "count": pl.Int64(),
}
"""Columns of events.parquet, in the order in which things happened; in the file enums are strings.

`submit`, `reject`, `stop`, `finish`, `evict` have no server. `start` (first holding, or the next one
after a stop) and `move` (holding changed while held) have one row per server and role, with the
complete new holding. `level` is a change of queue, `count` the new queue. `server_down` and `server_up`
have a server and no job; `lose` is a job that waits again because it lost that server.

Of a chunked job, `start`, `stop` and `finish` with the role chunk say when a chunk makes progress on a
server; `count` is its number. With the role ps `start`, `move` and `stop` say which server it holds a
parameter server on, until it finishes or is evicted. `lose` with these roles is a chunk (after its `stop`, if
it was making progress) or a parameter server that was lost with its server.
"""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A sample's mean and quantiles, in the unit its field's name states; null when empty."""

    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class JctCertificate:
    """Gap between a run's mean JCT and lower bounds for its completed jobs and servers.

    Lower bounds for every feasible schedule, see docs/certificates.md; with partitions, means over
    them weighted by jobs.
    """

    b1_s: float
    """Mean shortest run, with the upload before it where there is one: nobody waits."""
    b2_s: float | None
    """Mean flow time of the best schedule on one machine as fast as the whole partition."""
    b3_s: float | None
    """Mean busy time on that machine plus half the shortest run."""
    bound_s: float
    """The best of all in each partition: no schedule has a smaller mean JCT."""
    gap: float | None
    """Mean JCT / `bound_s` - 1, >= 0 up to rounding unless the run was sped up; null where only the bound
    is 0."""
    only_b1: str | None = None
    """Why B2 and B3 bound nothing and are null; null where they hold."""
    lp_s: float | None = None
    """Optimum of the linear programme of chunks; null where jobs are not chunked, or as `no_lp` says."""
    no_lp: str | None = None
    """Why the linear programme of chunks was not solved, somewhere at least; null where it was."""
    speed_up: float | None = None
    """Speed of workers in the run relative to the bounds; null where equal."""


@dataclass(frozen=True, slots=True)
class DeadlineMisses:
    """Jobs that were not done when they were due."""

    late: int
    """Completed, after their deadline."""
    never: int
    """Rejected, evicted or unfinished."""
    share: float | None
    """Both over all jobs but those of which the horizon leaves it open; null where there are none."""


@dataclass(frozen=True, slots=True)
class UtilityCertificate:
    """Gap between a run's total utility and upper bounds for its jobs and servers.

    Upper bounds for every feasible schedule, see docs/certificates.md; with partitions, sums over them.
    """

    u1: float
    """Every job completes as early as it could alone."""
    u2: float
    """Every job buys what pays best at prices at which all servers are sold."""
    u3: float | None
    """Optimum of a linear programme in which jobs share all servers as one; null where it is left out."""
    bound: float
    """The least of the three in each partition: no schedule earns more."""
    gap: float | None
    """`bound` / utility - 1, >= 0 up to rounding; null where nothing was earned."""
    hopeful: int
    """Jobs that the bounds count: each could complete by the horizon if it were alone."""
    hopeless: int
    """The other jobs; no schedule earns anything with them."""
    no_u3: str | None = None
    """Why U3 is left out; null where it is not."""
    optimum: float | None = None
    """The best schedule in whole slots that was found; as all below null unless the world asks for it."""
    optimum_bound: float | None = None
    """No schedule in whole slots earns more; one that changes between slots may."""
    optimum_ratio: float | None = None
    """`optimum` / utility; null also where nothing was earned."""
    optimum_proven: bool | None = None
    """Whether the search ended by itself, so that none in whole slots is better than `optimum`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in numbers, over the jobs that are counted: all, unless the run was trimmed.

    Distributions are over completed jobs.
    """

    jobs: int
    completed: int
    rejected: int
    evicted: int
    unfinished: int
    reasons: dict[str, int]
    """Jobs that did not complete, by reason."""
    jct_s: Distribution
    queue_s: Distribution
    makespan_s: float | None
    """Last completion minus first submission."""
    utilisation: dict[str, float]
    """Used over offered per resource, averaged from first submission to last completion; of a trimmed
    run, over the window in which submissions are counted. A server that is not there offers nothing."""
    jain_index: float | None
    """Jain's index of the per-job progress rates duration / JCT; 1 = all slowed alike."""
    finish_time_fairness: Distribution
    """JCT over the run time on an equal share of the cluster (Themis); above 1 is unfair."""
    preemptions: int
    restarts: int
    interruptions: int
    """Times a job lost a server."""
    lost_s: float
    """Progress lost with servers, over all jobs."""
    utility: float | None
    """Sum over jobs of what each was worth when it completed, 0 for those that did not; null where the
    workload has no utilities."""
    certificate: JctCertificate | None = None
    """Null where no job completed, or where no bound is known for the kind of jobs."""
    utility_certificate: UtilityCertificate | None = None
    """Null unless jobs are elastic and have utilities."""
    group_jct_s: Distribution | None = None
    """First submission to last completion of each group of rows, such as the tasks of a job of Google's;
    over groups of which all rows are counted and completed. Null where the workload has no groups."""
    jct_or_horizon_s: Distribution | None = None
    """JCT over all jobs, those that did not complete counting the horizon; null where there is none."""
    stalled_s: float | None = None
    """Time that chunked jobs had a worker but no parameter server, and so stood still, added up over jobs;
    null where jobs are not chunked."""
    ceil_share: float | None = None
    """Share of the training time of completed chunks that is rounding up to whole slots; null where jobs
    are not chunked, or no chunk took any time."""
    upload_ceil_share: float | None = None
    """The same of the uploads of all chunks that were sent off."""
    preemption_cost_s: float | None = None
    """Time of workers that preempted chunks owed more, added up; null where jobs are not chunked."""
    deadlines: DeadlineMisses | None = None
    """Null where jobs have no deadlines."""
    restart_share: float | None = None
    """Share of the time with servers that jobs spent in restart pauses; null where jobs are chunked."""
    cross_server_gb: float | None = None
    """Traffic of elastic jobs between servers, 10^9 bytes; null where jobs are not elastic."""
    ps_imbalance: float | None = None
    """Parameters on a job's fullest parameter server over the average, averaged over the time that elastic
    jobs trained with parameter servers; null where none did."""
    speed_error: float | None = None
    """Mean relative error |told - true| / true of the speeds that the policy expected of elastic jobs, over
    all that it told in the whole run; null where it told none."""
    convergence_error: float | None = None
    """The same of what it believed that jobs had left to train."""
    policy_counts: dict[str, int] | None = None
    """Counts that the policy reports over the whole run; null where it reports none."""
    policy_figures: dict[str, float] | None = None
    """Numbers of the policy that are no counts; null where it has none."""
    policy_warnings: list[str] | None = None
    """Warnings of the policy, a sentence each; null where it has none."""
    trimmed_jobs: int | None = None
    """Jobs that were simulated and are not counted; null where nothing was trimmed."""

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict, as written to summary.json."""
        return asdict(self)

    def flat(self) -> dict[str, float]:
        """Every number under a dotted key without nulls, e.g. ``jct_s.mean``: MLflow's metrics."""
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
    `used_<resource>` in the resource's unit; of elastic jobs also `speed_error` and `convergence_error` as
    in `Summary`, over what the policy told at this instant, null where it told nothing. A policy may add
    more, see `Policy.course`.
    """

    jobs: pl.DataFrame
    events: pl.DataFrame
    timeline: pl.DataFrame
    summary: Summary
    loop: str
    """`compiled` or `general`: which of the two equal loops ran."""
    loop_reason: str | None = None
    """Why the compiled loop was not taken."""
    decision_seconds: tuple[float, ...] = field(default=())
    """Wall-clock seconds of each decision of the general loop, for timing.json only."""
    recoveries: int = 0
    """Actors that died and were made anew, for timing.json only."""
