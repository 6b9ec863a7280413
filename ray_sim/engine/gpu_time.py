"""GPU time that jobs held, and what of it went into pauses, lost progress and failed jobs: for results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from ray_sim.engine.stops import SERVER
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import EVICT, FAILED, FINISH, LOSE, MOVE, START, STOP, Recorder
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray, FloatArray, IntArray, us_to_seconds

if TYPE_CHECKING:
    from ray_sim.engine.result import Outcome


_CHANGES = (START, MOVE, STOP, LOSE, FINISH, EVICT)


class Holdings(NamedTuple):
    """Spells in which jobs held the same GPUs, (n,) each, by job and time; spells without GPUs included."""

    job: IntArray
    from_us: IntArray
    until_us: IntArray
    gpus: FloatArray


def holdings_of(world: World, record: Recorder, end_us: int, per_gpu: FloatArray | None = None) -> Holdings:
    """The holdings of a run that ended at ``end_us``, from each job's first start on; O(n log n) events.

    With ``per_gpu``, (S,), a GPU of a server counts that much.
    """
    at = np.flatnonzero(np.isin(record.kind[: int(record.size[0])], _CHANGES))
    at = at[np.argsort(record.job[at], kind="stable")]
    kind, job, time = record.kind[at], record.job[at], record.time[at]
    # The rows of a holding are next to each other in the record.
    begins = (np.diff(job, prepend=-1) != 0) | (np.diff(time, prepend=-1) != 0)
    begins |= (np.diff(kind, prepend=-1) != 0) | (np.diff(at, prepend=-1) != 1)
    demand = world.arrays.demand[job, np.maximum(record.role[at], 0), GPU]
    gpus = np.where((kind == START) | (kind == MOVE), record.value[at] * demand, 0)
    if per_gpu is not None:
        gpus = gpus * per_gpu[record.server[at]]
    held = np.bincount(np.cumsum(begins) - 1, gpus) / QUANTA_PER_UNIT["gpu"]
    job, time = job[begins], time[begins]
    until = np.where(np.diff(job, append=-1) != 0, np.maximum(end_us, time), np.append(time[1:], 0))
    return Holdings(job, time, until, held)


def held_gpu_us(world: World, record: Recorder, now_us: int) -> FloatArray:
    """(J,) GPU-microseconds that each job has held in a run whose last instant is ``now_us``."""
    spells = holdings_of(world, record, world.end_us(now_us))
    spent_us = spells.gpus * (spells.until_us - spells.from_us)
    sums: FloatArray = np.bincount(spells.job, spent_us, minlength=len(world.table)).astype(np.float64)
    return sums


def held_cost(world: World, outcome: Outcome, counted: BoolArray | None) -> float | None:
    """Hours that the counted jobs held GPUs, each times its server's price over the server's GPUs.

    None where servers have no prices, and of chunked jobs, whose workers are no holdings.
    """
    if world.cluster.price is None or outcome.kind.lost_by_worker:
        return None
    gpus = world.arrays.capacity[:, GPU] / QUANTA_PER_UNIT["gpu"]
    per_gpu = np.divide(world.cluster.price, gpus, out=np.zeros(len(gpus)), where=gpus > 0)
    spells = holdings_of(world, outcome.record, world.end_us(outcome.now_us), per_gpu)
    of = slice(None) if counted is None else counted[spells.job]
    return float(us_to_seconds(spells.gpus * (spells.until_us - spells.from_us))[of].sum()) / 3600


def _lost_us(outcome: Outcome) -> IntArray:
    """(J,) progress lost; zeros where no stop costs any."""
    lost, jobs = outcome.ledger.lost, len(outcome.ledger.status)
    return lost.copy() if len(lost) else np.zeros(jobs, dtype=np.int64)


def wasted_gpu_s(outcome: Outcome, gpu_us: FloatArray | None, run_us: IntArray) -> pl.Series:
    """GPU-seconds of pauses and lost progress at a job's mean GPUs; all that a failed job held."""
    ledger = outcome.ledger
    if gpu_us is None:
        return pl.Series([None], dtype=pl.Float64()).new_from_index(0, len(run_us))
    if outcome.kind.lost_by_worker:
        return pl.Series(us_to_seconds(np.where(ledger.status == FAILED, gpu_us, _lost_us(outcome))))
    idle_us = run_us - outcome.kind.ran_us() + _lost_us(outcome)
    idle_us = np.where(ledger.status == FAILED, run_us, idle_us)
    share = np.divide(idle_us, run_us, out=np.zeros(len(run_us)), where=run_us > 0)
    return pl.Series(us_to_seconds(gpu_us * share))


def preempted(outcome: Outcome) -> IntArray:
    """(J,) stops of others to make room for each job."""
    by = outcome.stops.rows["by"]
    return np.bincount(by[by >= 0], minlength=len(outcome.ledger.status))


def wasted_gpu_h(jobs: pl.DataFrame, outcome: Outcome, counted: BoolArray | None) -> dict[str, float] | None:
    """GPU-hours wasted by reason, over the counted jobs: what no stop explains went into pauses."""
    if jobs["gpu_s"].null_count():
        return None
    wasted, run_s = jobs["wasted_gpu_s"].to_numpy(writable=True), jobs["run_s"].to_numpy()
    gpus = np.divide(jobs["gpu_s"].to_numpy(), run_s, out=np.zeros(len(run_s)), where=run_s > 0)
    if outcome.kind.lost_by_worker:
        gpus[:] = 1.0
    chosen = np.ones(len(run_s), dtype=np.bool_) if counted is None else counted
    failed, by_reason = outcome.ledger.status == FAILED, dict[str, float]()
    for job in np.flatnonzero(failed & chosen).tolist():
        reason = outcome.reasons[job]
        by_reason[reason] = by_reason.get(reason, 0.0) + float(wasted[job])
    lost_us, rows, words = _lost_us(outcome), outcome.stops.rows, outcome.stops.words
    other = np.array([word != SERVER for word in words], dtype=np.bool_)[rows["reason"]]
    of = other & chosen[rows["job"]] & ~failed[rows["job"]]
    spent = us_to_seconds(rows["lost_us"][of]) * gpus[rows["job"][of]]
    sums = np.bincount(rows["reason"][of], spent, minlength=len(words))
    for word, gpu_s in zip(words, sums.tolist(), strict=True):
        by_reason[word] = by_reason.get(word, 0.0) + gpu_s
    np.subtract.at(lost_us, rows["job"][other], rows["lost_us"][other])
    by_reason[SERVER] = float((us_to_seconds(lost_us) * gpus)[chosen & ~failed].sum())
    by_reason["pause"] = float(wasted[chosen].sum()) - sum(by_reason.values())
    return {word: gpu_s / 3600 for word, gpu_s in sorted(by_reason.items()) if gpu_s > _TRACE_OF_ROUNDING}


_TRACE_OF_ROUNDING = 1e-6
"""GPU-seconds."""
