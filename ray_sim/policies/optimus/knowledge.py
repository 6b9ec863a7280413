"""Observations and fitted models of active jobs: losses, speeds, stragglers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.optimus.allocation import TERMS
from ray_sim.policies.optimus.speed_fit import Speeds, fitted_times, trial_pairs

MEMORY = 16
"""Number of (workers, parameter servers) pairs of a job whose speeds are kept; the oldest is replaced."""

TrialSpeed = Callable[[IntArray, IntArray, IntArray], FloatArray]
"""Samples per second of jobs with these numbers of workers and parameter servers, NaN without room."""


class Knowledge(NamedTuple):
    """Observations and fitted models of active jobs, (n,) each."""

    job: IntArray
    """Sorted."""
    time: FloatArray
    """(n, TERMS) fitted coefficients of the step time."""
    curve: FloatArray
    """(n, 3) fitted b0, b1, b2 of the loss."""
    epochs: IntArray
    """Number of losses to which the curve was fitted."""
    seen: FloatArray
    """(n, MEMORY, 3) observed workers, parameter servers and steps per second."""
    seen_pairs: IntArray
    """Number of observations so far; number i is at i mod MEMORY."""
    was_slow: BoolArray
    """Whether a worker was slow at the last decision."""
    changed_us: IntArray
    """Time of the last change of the job's placements."""


def nothing_known(jobs: IntArray) -> Knowledge:
    """Create empty knowledge of new jobs."""
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
    """Select the knowledge of these jobs, sorted, and mark new ones: (n,)."""
    _, old, new = np.intersect1d(known.job, jobs, assume_unique=True, return_indices=True)
    carried = nothing_known(jobs)
    for before, after in zip(known[1:], carried[1:], strict=True):
        after[new] = before[old]
    fresh = np.ones(len(jobs), dtype=np.bool_)
    fresh[new] = False
    return carried, fresh


def note_speeds(known: Knowledge, at: IntArray, tasks: IntArray, steps_per_s: FloatArray) -> IntArray:
    """Record observed speeds; returns those of ``at`` with new information.

    A pair that was seen before takes its latest speed.

    Parameters
    ----------
    at : (m,) rows of the jobs observed
    tasks : (m, 2) workers and parameter servers
    steps_per_s : (m,) > 0
    """
    remembered = np.arange(MEMORY) < known.seen_pairs[at, None]
    seen = known.seen[at]
    again = remembered & (seen[:, :, 0] == tasks[:, :1]) & (seen[:, :, 1] == tasks[:, 1:])
    first_time = ~again.any(axis=1)
    place = np.where(first_time, known.seen_pairs[at] % MEMORY, again.argmax(axis=1))
    changed: BoolArray = first_time | (known.seen[at, place, 2] != steps_per_s)
    known.seen[at, place, :2] = tasks
    known.seen[at, place, 2] = steps_per_s
    known.seen_pairs[at] += first_time
    return at[changed]


def fit_speeds(
    known: Knowledge,
    at: IntArray,
    exchange: IntArray,
    batch: FloatArray,
    most_workers: IntArray,
    trial_speed: TrialSpeed,
) -> None:
    """Fit the speeds of the jobs in rows ``at`` to trial runs, or to observations of the same pairs.

    Parameters
    ----------
    exchange, batch, most_workers : (m,) of these jobs
    """
    if len(at) == 0:
        return
    kinds = zip(exchange.tolist(), most_workers.tolist(), strict=True)
    pairs = [trial_pairs(kind, most) for kind, most in kinds]
    of = np.repeat(np.arange(len(at)), [len(workers) for workers, _ in pairs])
    workers, ps = (np.concatenate(column) for column in zip(*pairs, strict=True))
    samples_per_s = trial_speed(known.job[at[of]], workers, ps)
    trials = np.stack([workers, ps, samples_per_s / batch[of]], axis=1)
    remembered = np.arange(MEMORY) < known.seen_pairs[at, None]
    seen = known.seen[at[of]]
    repeated = (trials[:, :1] == seen[:, :, 0]) & (trials[:, 1:2] == seen[:, :, 1]) & remembered[of]
    once = ~repeated.any(axis=1) & ~np.isnan(samples_per_s)
    seen_of, place = np.nonzero(remembered)
    owner = np.concatenate([of[once], seen_of])
    order = np.argsort(owner, kind="stable")  # of each job its trials, then what was observed
    points = np.concatenate([trials[once], known.seen[at[seen_of], place]])[order]
    counts = np.bincount(owner, minlength=len(at))
    fitted = counts > 0
    ptr = np.concatenate([[0], np.cumsum(counts[fitted])])
    observed = Speeds(ptr, *np.ascontiguousarray(points.T))
    known.time[at[fitted]] = fitted_times(exchange[fitted], batch[fitted], observed)
