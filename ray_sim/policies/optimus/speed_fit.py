"""Speeds of jobs as a function of workers and parameter servers, fitted to trial runs and observations.

Source: Peng et al., Optimus, EuroSys 2018, section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ray_sim.model.job import Exchange
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.allocation import TERMS
from ray_sim.policies.optimus.placement import place_alone
from ray_sim.policies.shared.typed_servers import bundle_pool
from ray_sim.policy_api import ElasticContext, Rows

# Indices in `TERMS` of the coefficients of each model.
_SYNC = np.array([0, 1, 2, 3, 4])
_ASYNC = np.array([0, 5, 1, 6])

_NOISE = 1e-9
"""Terms below this share of the step time are rounding errors: a task that saves so little has no gain."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Observed speeds of m jobs, those of job i at ``ptr[i]:ptr[i + 1]``; at least one of each."""

    ptr: IntArray
    workers: FloatArray
    ps: FloatArray
    """0 for an all-reduce job."""
    steps_per_s: FloatArray
    """Steps of all workers together, > 0."""


def fitted_times(exchange: IntArray, batch: FloatArray, seen: Speeds) -> FloatArray:
    """(m, 7) coefficients >= 0 of the step times in `TERMS`, with the least squared relative error.

    Both models are linear in theta once inverted: 1 / f for jobs in step, w / f for others. The rows are
    weighted by the speed. Columns that the observed pairs do not separate (w and p if all pairs have w = p)
    share nothing: some of them get all, the others 0.

    Parameters
    ----------
    exchange : (m,) of `Exchange`; all-reduce jobs have the terms of jobs in step without p
    batch : (m,) M, samples per step of a job in step
    """
    from scipy.optimize import nnls  # takes 0.3 s to load, which other policies need not wait for

    w, p, counts = seen.workers, seen.ps, np.diff(seen.ptr)
    per_ps = np.divide(w, p, out=np.zeros_like(w), where=p > 0)
    on_its_own = exchange == Exchange.ASYNC
    alone = np.repeat(on_its_own, counts)
    rows = np.stack([np.repeat(batch, counts) / w, np.ones_like(w), per_ps, w, p], axis=1)
    rows *= np.where(alone, seen.steps_per_s / w, seen.steps_per_s)[:, None]
    size = np.sqrt(np.add.reduceat(rows * rows, seen.ptr[:-1], axis=0))
    size[size == 0] = 1.0
    rows /= np.repeat(size, counts, axis=0)
    coefficients, ones = np.zeros((len(exchange), TERMS)), np.ones(counts.max(initial=0))
    parts = zip(on_its_own.tolist(), pairwise(seen.ptr.tolist()), strict=True)
    for i, (asynchronous, (begin, end)) in enumerate(parts):
        terms, first = (_ASYNC, 1) if asynchronous else (_SYNC, 0)
        share = nnls(rows[begin:end, first:], ones[: end - begin])[0]
        share[share < _NOISE * math.sqrt(end - begin)] = 0.0
        coefficients[i, terms] = share / size[i, first:]
    coefficients[:, 0] *= np.where(on_its_own, 1.0, batch)
    return coefficients


def trial_pairs(exchange: int, most_workers: int) -> tuple[IntArray, IntArray]:
    """Workers and parameter servers of the trial runs of a new job, at most ten pairs.

    Some pairs have w = p and some do not; otherwise w and p, and 1 and w / p, could not be separated.

    Parameters
    ----------
    most_workers : largest useful number of workers, >= 1
    """
    if exchange == Exchange.ALL_REDUCE:
        pairs = _RING_TRIALS[_RING_TRIALS[:, 0] <= most_workers]
    else:
        pairs = _TRIALS[_TRIALS[:, 0] <= most_workers]
    return pairs[:, 0], pairs[:, 1]


_TRIALS = np.array(
    [(1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (4, 8), (8, 4), (8, 8)], dtype=np.int64
)
_RING_TRIALS = np.array([(w, 0) for w in (1, 2, 3, 4, 6, 8, 12, 16)], dtype=np.int64)
MOST_TRIAL_TASKS = 16
"""Largest number of servers that a trial run can use."""


class TrialRuns:
    """Runs on the empty servers of a job's pool, placed evenly on few servers as by the policy."""

    def __init__(self, world: ElasticContext) -> None:
        self._world = world
        self._servers = [few_of_each_kind(world.cluster.capacity[pool]) for pool in world.pools]
        """(S, R) quanta of the servers of each pool, at most as many per kind as one trial can use."""

    def samples_per_s(self, jobs: IntArray, workers: IntArray, ps: IntArray) -> FloatArray:
        """(n,) speeds of trial runs with these numbers of tasks, NaN where the pool has no room.

        Parameters
        ----------
        jobs : (n,), repeats allowed
        workers, ps : (n,), up to `MOST_TRIAL_TASKS` each
        """
        found = np.full(len(jobs), np.nan)
        pool = bundle_pool(self._world, jobs)
        tasks = np.stack([workers, ps], axis=1)
        for q in np.unique(pool).tolist():
            at = np.flatnonzero(pool == q)
            trial = place_alone(tasks[at], self._world.jobs.role_demand[jobs[at]], self._servers[q])
            placed = np.unique(trial.job)
            ptr = np.append(np.searchsorted(trial.job, placed), len(trial.job))
            at = at[placed]
            rows = Rows(ptr, trial.server, trial.role, trial.count)
            found[at] = self._world.trial_speed(jobs[at], rows)
        return found


def few_of_each_kind(capacity: IntArray) -> IntArray:
    """Rows of (S, R) capacities, at most the first `MOST_TRIAL_TASKS` of equal ones."""
    _, kind = np.unique(capacity, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], kind[order])
    earlier = np.empty(len(kind), dtype=np.int64)
    earlier[order] = np.arange(len(kind)) - first
    few: IntArray = capacity[earlier < MOST_TRIAL_TASKS]
    return few
