"""Observations and fitted models of active jobs: losses, speeds, stragglers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ray_sim.model.job import Exchange
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.optimus.allocation_kernels import TERMS
from ray_sim.policies.optimus.speed_fit import Speeds, fitted_time, trial_pairs

MEMORY = 16
"""Pairs of workers and parameter servers of a job whose speeds are remembered; then the oldest goes."""

TrialSpeed = Callable[[IntArray, IntArray, IntArray], FloatArray]
"""Samples per second of jobs with so many workers and parameter servers, NaN where there is no room."""


class Knowledge(NamedTuple):
    """Rows of active jobs, (n,) each."""

    job: IntArray
    """Sorted."""
    time: FloatArray
    """(n, TERMS) fitted coefficients of the time of a step."""
    curve: FloatArray
    """(n, 3) fitted b0, b1, b2 of the loss."""
    epochs: IntArray
    """Losses that the curve was fitted to."""
    seen: FloatArray
    """(n, MEMORY, 3) workers, parameter servers and steps per second that were observed."""
    seen_pairs: IntArray
    """Observations ever made; number i is at i mod MEMORY."""
    was_slow: BoolArray
    """Whether a worker was slow at the last decision."""
    changed_us: IntArray
    """When the job's placements were last changed."""


def nothing_known(jobs: IntArray) -> Knowledge:
    """Knowledge of new jobs: none."""
    n = len(jobs)
    return Knowledge(
        job=jobs,
        time=np.zeros((n, TERMS)),
        curve=np.zeros((n, 3)),
        epochs=np.zeros(n, dtype=np.int64),
        seen=np.zeros((n, MEMORY, 3)),
        seen_pairs=np.zeros(n, dtype=np.int64),
        was_slow=np.zeros(n, dtype=np.bool_),
        changed_us=np.zeros(n, dtype=np.int64),
    )


def carried_over(known: Knowledge, jobs: IntArray) -> tuple[Knowledge, BoolArray]:
    """Knowledge of these jobs, sorted, and (n,) which of them are new."""
    _, old, new = np.intersect1d(known.job, jobs, assume_unique=True, return_indices=True)
    carried = nothing_known(jobs)
    for before, after in zip(known[1:], carried[1:], strict=True):
        after[new] = before[old]
    fresh = np.ones(len(jobs), dtype=np.bool_)
    fresh[new] = False
    return carried, fresh


def note_speeds(known: Knowledge, at: IntArray, tasks: IntArray, steps_per_s: FloatArray) -> IntArray:
    """Remember observed speeds; returns those of ``at`` of which something new was learned.

    A pair seen before has the speed that was seen last.

    Parameters
    ----------
    at : (m,) rows of the jobs observed
    tasks : (m, 2) their workers and parameter servers
    steps_per_s : (m,) > 0
    """
    remembered = np.arange(MEMORY) < known.seen_pairs[at, None]
    again = remembered & (known.seen[at, :, :2] == tasks[:, None, :]).all(axis=2)
    place = np.where(again.any(axis=1), again.argmax(axis=1), known.seen_pairs[at] % MEMORY)
    changed: BoolArray = ~again.any(axis=1) | (known.seen[at, place, 2] != steps_per_s)
    known.seen[at, place, :2] = tasks
    known.seen[at, place, 2] = steps_per_s
    known.seen_pairs[at] += ~again.any(axis=1)
    return at[changed]


def fit_speeds(
    known: Knowledge,
    at: IntArray,
    exchange: IntArray,
    batch: FloatArray,
    most_workers: IntArray,
    trial_speed: TrialSpeed,
) -> None:
    """Fit the speeds of the jobs in rows ``at`` to trial runs, and to what was observed since instead.

    Parameters
    ----------
    exchange, batch, most_workers : (m,) of these jobs
    """
    pairs = [trial_pairs(Exchange(kind), most) for kind, most in zip(exchange, most_workers, strict=True)]
    lengths = [len(workers) for workers, _ in pairs]
    if not lengths:
        return
    workers, ps = (np.concatenate(column) for column in zip(*pairs, strict=True))
    samples_per_s = trial_speed(np.repeat(known.job[at], lengths), workers, ps)
    trials = np.stack([workers, ps, samples_per_s / np.repeat(batch, lengths)], axis=1)
    ran = ~np.isnan(samples_per_s)
    ends = np.cumsum(lengths)
    for i, row in enumerate(at.tolist()):
        observed = known.seen[row, : min(int(known.seen_pairs[row]), MEMORY)]
        tried = trials[ends[i] - lengths[i] : ends[i]][ran[ends[i] - lengths[i] : ends[i]]]
        once = ~(tried[:, None, :2] == observed[None, :, :2]).all(axis=2).any(axis=1)
        points = np.concatenate([tried[once], observed])
        if len(points):
            known.time[row] = fitted_time(int(exchange[i]), float(batch[i]), Speeds(*points.T))
