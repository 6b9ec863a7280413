"""Build tables and summary from the arrays of a finished run.

Called at the end of both loops. Columns and reasons are part of the result format, see
`ray_sim/experiments/results/result_files.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from ray_sim.certificates.jct import JctLimits, NoJctLimits, certify_jct
from ray_sim.engine.gpu_time import held_cost, preempted, wasted_gpu_h, wasted_gpu_s
from ray_sim.engine.injectors import fault_warnings
from ray_sim.engine.kinds.facts import NEVER_FITS
from ray_sim.engine.kinds.run import KindOutcome
from ray_sim.engine.order import order_warnings
from ray_sim.engine.scoring import packing_columns
from ray_sim.engine.stops import StopLog
from ray_sim.engine.team_table import team_table
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVENT_NAMES,
    EVICTED,
    FAILED,
    KILLED,
    NEVER,
    REJECTED,
    ROLE_NAMES,
    RUNNING,
    WAITING,
    Ledger,
    Recorder,
)
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.distribution import Distribution, distribution
from ray_sim.model.metrics import Trim, finish_time_fairness, summarise
from ray_sim.model.result import (
    EVENT_SCHEMA,
    JOB_SCHEMA,
    JctCertificate,
    JobStatus,
    RunResult,
)
from ray_sim.model.units import BoolArray, FloatArray, IntArray, us_to_seconds
from ray_sim.model.utility import delay_s, utility


@dataclass(frozen=True, slots=True)
class Outcome:
    """State of a run at its end, from either loop."""

    ledger: Ledger
    record: Recorder
    now_us: int
    """Last instant of the run."""
    reasons: dict[int, str]
    """Reason by job, where it is another than the status implies, see `_status` and `RunCore.reasons`."""
    loop: str
    """`compiled` or `general`."""
    kind: KindOutcome
    loop_reason: str | None = None
    decision_seconds: Sequence[float] = ()
    policy_counts: Mapping[str, int] | None = None
    timeline_columns: Mapping[str, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    """See `Policy.timeline_columns`."""
    policy_figures: Mapping[str, float] = field(default_factory=dict)
    policy_warnings: Sequence[str] = ()
    stops: StopLog = field(default_factory=StopLog)
    """Stops of the general loop."""
    attempt: IntArray | int = 0
    """(J,) times that each job has failed and was tried again; 0 where none has."""
    order: Order | None = None
    """Order rule of the policy, if it has one."""


def build_result(world: World, outcome: Outcome, trim: Trim | None = None) -> RunResult:
    """Frames and summary of a finished run; `trim` says which jobs the summary counts."""
    counted = None if trim is None else trim.counted(world.table.submit_us)
    # Before the frames, whose memory is the peak.
    certificate, no_certificate = certify_completed(world, outcome, counted)
    timeline, offered, absent = _timeline(world, outcome), _offered(world), _absent(world)
    jobs = _jobs(world, outcome)
    if (alone_us := world.kind.alone_us(world)) is not None:
        alone_s, gpus = us_to_seconds(alone_us), offered.get("gpu", 0.0)
        rho = finish_time_fairness(jobs, alone_s, timeline, gpus, absent)
        jobs.replace_column(jobs.get_column_index("rho"), rho)
    summary = summarise(jobs, timeline, offered, trim, absent, world.table.group)
    summary = replace(
        summary,
        certificate=certificate,
        no_certificate=no_certificate,
        utility_certificate=world.kind.certify_utility(world, summary.utility, counted),
        jct_or_horizon_s=_jct_or_horizon_s(world, jobs, counted),
        figures=outcome.kind.figures(jobs, counted),
        wasted_gpu_h=wasted_gpu_h(jobs, outcome, counted),
        cost=held_cost(world, outcome, counted),
        policy_counts=dict(outcome.policy_counts) if outcome.policy_counts else None,
        policy_figures=dict(outcome.policy_figures) if outcome.policy_figures else None,
        policy_warnings=[
            *fault_warnings(world, outcome.now_us),
            *outcome.policy_warnings,
            *order_warnings(outcome.order, world, outcome.ledger, outcome.record),
        ]
        or None,
    )
    return RunResult(
        jobs=jobs,
        events=_events(world, outcome.record),  # last, as this frame is the largest
        timeline=timeline,
        summary=summary,
        stops=outcome.stops.table(world) if outcome.loop == "general" else None,
        teams=team_table(world, outcome, jobs),
        loop=outcome.loop,
        loop_reason=outcome.loop_reason,
        decision_seconds=tuple(outcome.decision_seconds),
    )


def certify_completed(
    world: World, outcome: Outcome, counted: BoolArray | None
) -> tuple[JctCertificate | None, str | None]:
    """Certificate of the counted jobs that completed, or the reason why nothing bounds their JCT.

    Both are None if no job completed, or if their kind is certified by other figures.
    """
    ledger = outcome.ledger
    completed = ledger.status == COMPLETED
    done = np.flatnonzero(completed if counted is None else completed & counted)
    limits = world.kind.jct_limits(world, done) if len(done) else None
    if isinstance(limits, JctLimits):
        return certify_jct(limits, world.table.submit_us[done], ledger.end[done]), None
    return None, limits.reason if isinstance(limits, NoJctLimits) else None


def _offered(world: World) -> dict[str, float]:
    """Total of each resource in its unit, over servers that count as offered."""
    totals = world.arrays.capacity[world.facts.counted_servers].sum(axis=0).tolist()
    return {
        name: total / quanta
        for (name, quanta), total in zip(world.facts.resources.items(), totals, strict=True)
    }


def _absent(world: World) -> pl.DataFrame | None:
    """Resources of unavailable servers, from each time on; None if servers are always available."""
    outages = world.outages
    if len(outages.time) == 0 and world.there.all():
        return None
    capacity, counted = np.zeros_like(world.arrays.capacity), world.facts.counted_servers
    capacity[counted] = world.arrays.capacity[counted]
    sign = np.where(outages.up, -1, 1)[:, None]
    first = capacity[~world.there].sum(axis=0)
    quanta = np.cumsum(np.vstack([first, sign * capacity[outages.server]]), axis=0)
    times_us = np.concatenate([[0], outages.time]) + world.table.origin_us
    amounts = {name: quanta[:, r] / unit for r, (name, unit) in enumerate(world.facts.resources.items())}
    return pl.DataFrame({"time_s": us_to_seconds(times_us), **amounts})


def _jobs(world: World, outcome: Outcome) -> pl.DataFrame:
    table, ledger = world.table, outcome.ledger
    completed = ledger.status == COMPLETED
    ended = ledger.end < NEVER
    until = np.where(ended, ledger.end, np.maximum(world.end_us(outcome.now_us), table.submit_us))
    running = ledger.status == RUNNING
    run_us = ledger.held + np.where(running, until - ledger.held_since, 0)
    finished = np.isin(ledger.status, (COMPLETED, EVICTED, FAILED, KILLED))
    gpu_us = outcome.kind.gpu_us(world, outcome.record, run_us)
    status, reason = _status(world, outcome)
    columns: dict[str, pl.Series | np.ndarray] = {
        "job_id": table.job_id,
        "vc": _named(table.vc_names, table.vc),
        "user": _user(world),
        "num_gpus": table.num_gpus,
        "duration_s": us_to_seconds(table.work_us),
        "submit_s": us_to_seconds(table.submit_us + table.origin_us),
        "start_s": _seconds_or_null(ledger.first_start + table.origin_us, ledger.first_start < NEVER),
        "finish_s": _seconds_or_null(ledger.end + table.origin_us, finished),
        "jct_s": _seconds_or_null(ledger.end - table.submit_us, completed),
        "queue_s": us_to_seconds(until - table.submit_us - run_us),
        "run_s": us_to_seconds(run_us),
        "preemptions": ledger.preemptions.astype(np.int64),
        "restarts": ledger.restarts.astype(np.int64),
        "interruptions": _or_zeros(ledger.interruptions, len(table)),
        "lost_s": us_to_seconds(_or_zeros(ledger.lost, len(table))),
        "status": status,
        "reason": reason,
        "utility": _utility(world, ledger.end, completed),
        "attempts": _attempts(outcome),
        "preempted": preempted(outcome),
        "gpu_s": _nulls(len(table), pl.Float64()) if gpu_us is None else us_to_seconds(gpu_us),
        "wasted_gpu_s": wasted_gpu_s(outcome, gpu_us, run_us),
        "rho": _nulls(len(table), pl.Float64()),  # until the timeline is known
    }
    return _frame(columns, JOB_SCHEMA).hstack(
        [series.alias(name) for name, series in outcome.kind.job_columns().items()]
    )


def _attempts(outcome: Outcome) -> IntArray:
    """(J,) attempts that began; a gang that fails and does not start again has begun no further one."""
    ledger, stops = outcome.ledger, outcome.stops.rows
    begun: IntArray = (ledger.first_start < NEVER) + outcome.attempt
    stopped = np.zeros_like(begun)
    np.maximum.at(stopped, stops["job"], stops["attempt"] + 1)
    idle = np.isin(ledger.status, (WAITING, KILLED)) & (stopped > 0) & (not outcome.kind.lost_by_worker)
    begun[idle] = stopped[idle]
    return begun


def _frame(columns: Mapping[str, pl.Series | np.ndarray], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns with these types, in this order; without expressions, each of which costs a query."""
    return pl.DataFrame([pl.Series(name, columns[name]).cast(kind) for name, kind in schema.items()])


def _nulls(n: int, kind: pl.DataType) -> pl.Series:
    return pl.Series([None], dtype=kind).new_from_index(0, n)


def _user(world: World) -> pl.Series:
    """User of each job, null where the workload names none."""
    table = world.table
    return _nulls(len(table), pl.String()) if table.user is None else table.user


def _utility(world: World, end_us: IntArray, completed: BoolArray) -> pl.Series:
    """Utility of each job, 0 unless it completed; null where the workload has no utilities."""
    table = world.table
    if table.utility is None:
        return _nulls(len(table), pl.Float64())
    delays_s = delay_s(np.where(completed, end_us, table.submit_us), table.submit_us, world.slot_us)
    return pl.Series(np.where(completed, utility(table.utility, np.arange(len(table)), delays_s), 0.0))


def _jct_or_horizon_s(world: World, jobs: pl.DataFrame, counted: BoolArray | None) -> Distribution | None:
    """JCTs of the counted jobs, the horizon for those that did not complete; None without a horizon."""
    if not world.bounded:
        return None
    completed = jobs["status"] == JobStatus.COMPLETED
    horizon_s = float(us_to_seconds(np.array(world.horizon_us)))
    jct_s = np.where(completed, jobs["jct_s"].fill_null(horizon_s), horizon_s)
    return distribution(jct_s if counted is None else jct_s[counted])


def _or_zeros(counts: np.ndarray, n: int) -> IntArray:
    """Counts of every job; zeros where the ledger has no such counts, as in a world without outages."""
    return counts.astype(np.int64) if len(counts) else np.zeros(n, dtype=np.int64)


def _seconds_or_null(us: IntArray, valid: np.ndarray) -> pl.Series:
    return pl.Series(np.where(valid, us_to_seconds(us), np.nan), nan_to_null=True)


def _status(world: World, outcome: Outcome) -> tuple[pl.Series, pl.Series]:
    """Status and reason of each job. The reason follows from the status unless `Outcome.reasons` has it."""
    ends = ("completed", "rejected", "evicted", "failed", "killed")
    names = [*[str(JobStatus.UNFINISHED)] * COMPLETED, *ends]
    status = _named(names, outcome.ledger.status)
    unfinished = _why_unfinished(world, outcome.ledger)
    reasons = [*[unfinished] * COMPLETED, None, NEVER_FITS, "world", "failed", "killed"]
    reason = pl.Series(reasons, dtype=pl.String)[outcome.ledger.status]
    refused = np.flatnonzero(outcome.ledger.status == REJECTED)
    reason = reason.scatter(refused, world.facts.why_never(refused))
    if outcome.reasons:
        jobs = sorted(outcome.reasons)
        reason = reason.scatter(jobs, [outcome.reasons[job] for job in jobs])
    return status, reason


def _why_unfinished(world: World, ledger: Ledger) -> str:
    """Reason of the jobs that have not ended: what ended the run."""
    if world.bounded:
        return "horizon"
    # No event was due. A job that makes progress is due to end, then later than times are counted.
    progressing = (ledger.status == RUNNING) & (ledger.rate > 0.0)
    return "clock" if progressing.any() else "stalled"


def _named(names: Sequence[str], codes: np.ndarray, kind: pl.DataType | None = None) -> pl.Series:
    """Names by code, as text unless the type is given; -1 is null."""
    return pl.Series([*names, None], dtype=kind or pl.String())[codes]


def _job_ids(world: World, jobs: np.ndarray) -> pl.Series:
    """Ids of jobs; -1, in events of servers, is null."""
    ids = world.table.job_id
    return (ids if len(world.outages.time) == 0 else pl.concat([ids, _nulls(1, pl.String())]))[jobs]


def _events(world: World, record: Recorder) -> pl.DataFrame:
    n = int(record.size[0])
    names = (*EVENT_NAMES, *world.facts.event_names)
    schema = EVENT_SCHEMA | {"event": pl.Enum(names)}
    columns: dict[str, pl.Series | np.ndarray] = {
        "time_s": us_to_seconds(record.time[:n] + world.table.origin_us),
        "event": _named(names, record.kind[:n], schema["event"]),
        "job_id": _job_ids(world, record.job[:n]),
        "server": _named(world.cluster.server_names, record.server[:n]),
        "role": _named(ROLE_NAMES, record.role[:n], schema["role"]),
        "count": record.value[:n].astype(np.int64),
    }
    if record.device is not None:
        columns["devices"] = _device_names(world, record, record.device[:n])
        schema |= {"devices": pl.String()}
    return _frame(columns, schema)


def _device_names(world: World, record: Recorder, device: IntArray) -> pl.Series:
    """Devices of the tasks of each holding, e.g. ``0-0-1`` of three that ask for 0.4; null for none."""
    ask = np.minimum(world.arrays.demand[record.job[: len(device)], 0, GPU], DEVICE)
    times = device // np.maximum(ask, 1)[:, None]
    sets, event = np.unique(times, axis=0, return_inverse=True)
    devices = np.arange(times.shape[1])
    names = ["-".join(map(str, np.repeat(devices, each))) or None for each in sets]
    return pl.Series(names, dtype=pl.String())[event]


def _last_at(time_us: IntArray, known_us: IntArray, value: FloatArray) -> pl.Series:
    """The last value known at each of these instants; null before the first value."""
    at = np.searchsorted(known_us, time_us, side="right") - 1
    return pl.Series(np.append(value, np.nan)[at]).fill_nan(None)


def _timeline(world: World, outcome: Outcome) -> pl.DataFrame:
    record, n = outcome.record, int(outcome.record.size[1])
    used = {
        f"used_{name}": record.line_used[:n, r] / quanta
        for r, (name, quanta) in enumerate(world.facts.resources.items())
    }
    return pl.DataFrame(
        {
            "time_s": us_to_seconds(record.line_time[:n] + world.table.origin_us),
            "waiting": record.line_waiting[:n].astype(np.int64),
            "running": record.line_running[:n].astype(np.int64),
            **used,
            **({} if outcome.order is None else packing_columns(world, outcome.order.placement, record)),
            **outcome.kind.timeline(record.line_time[:n]),
            **{
                name: _last_at(record.line_time[:n], *points)
                for name, points in outcome.timeline_columns.items()
            },
        }
    )
