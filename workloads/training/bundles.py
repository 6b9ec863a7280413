"""Requested bundles (workers and parameter servers of a job): servers needed, training rate, feasibility."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.job import TrainingProfile
from ray_sim.model.training_progress import placement_progress
from ray_sim.model.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class JobBundles:
    """Requested workers and parameter servers of J jobs, with their demands."""

    workers: IntArray
    """(J,) >= 1."""
    ps: IntArray
    """(J,) >= 0."""
    worker_demand: IntArray
    """(J, R) quanta of one worker."""
    ps_demand: IntArray
    """(J, R) quanta of one parameter server."""

    def of(self, jobs: IntArray | BoolArray) -> JobBundles:
        """Bundles of the given jobs (indices or a mask)."""
        return JobBundles(self.workers[jobs], self.ps[jobs], self.worker_demand[jobs], self.ps_demand[jobs])


def fewest_servers(bundles: JobBundles, capacity: IntArray) -> IntArray:
    """Fewest identical servers on which each bundle fits when spread evenly, task i on server i mod k.

    Bisection over the number of servers, since a spread over more servers never fits worse.

    Parameters
    ----------
    capacity : (R,) quanta of one server

    Returns
    -------
    (J,); 0 where not even a worker and a parameter server fit together
    """
    low = np.ones(len(bundles.workers), dtype=np.int64)
    high = np.maximum(bundles.workers, bundles.ps)
    fits = _fits_evenly(bundles, low, capacity)
    open_ = np.flatnonzero(~fits)
    low[open_[~_fits_evenly(bundles.of(open_), high[open_], capacity)]] = 0
    open_ = open_[low[open_] > 0]
    low, high = low.copy(), np.where(fits, 1, high)
    while len(open_ := open_[high[open_] - low[open_] > 1]):
        middle = (low[open_] + high[open_]) // 2
        enough = _fits_evenly(bundles.of(open_), middle, capacity)
        high[open_[enough]] = middle[enough]
        low[open_[~enough]] = middle[~enough]
    return np.where(low == 0, 0, high)


def _fits_evenly(bundles: JobBundles, servers: IntArray, capacity: IntArray) -> BoolArray:
    """Whether the fullest of ``servers`` servers holds its tasks; monotone: more servers never hurt."""
    workers, ps = -(-bundles.workers // servers), -(-bundles.ps // servers)
    load: IntArray = workers[:, None] * bundles.worker_demand + ps[:, None] * bundles.ps_demand
    return np.asarray((load <= capacity).all(axis=1))


def bundle_rates(profile: TrainingProfile, bundles: JobBundles, capacity: IntArray) -> FloatArray:
    """Samples per second of each bundle on the fewest identical servers of speed 1, by the placement truth.

    A bundle that fits on no number of them is rated as on one server large enough.

    Parameters
    ----------
    capacity : (R,) quanta of one server
    """
    return spread_rates(profile, bundles, np.maximum(1, fewest_servers(bundles, capacity)))


def spread_rates(profile: TrainingProfile, bundles: JobBundles, servers: IntArray) -> FloatArray:
    """Samples per second of each bundle spread evenly over so many servers, (J,), of speed 1."""
    truth = placement_progress(profile, np.ones(int(servers.max(initial=1))))
    return truth.samples_per_s(np.arange(len(servers)), _even_rows(bundles, servers))


def apart_rates(profile: TrainingProfile, bundles: JobBundles) -> FloatArray:
    """Samples per second of each bundle with every task on a server of its own, of speed 1."""
    tasks = bundles.workers + bundles.ps
    truth = placement_progress(profile, np.ones(int(tasks.max(initial=1))))
    return truth.samples_per_s(np.arange(len(tasks)), _rows_apart(bundles))


def _rows_apart(bundles: JobBundles) -> Rows:
    """Placements of each bundle, workers on the first servers and parameter servers on the next."""
    tasks = bundles.workers + bundles.ps
    ptr = np.concatenate([[0], np.cumsum(tasks)])
    server = np.arange(ptr[-1]) - np.repeat(ptr[:-1], tasks)
    of_ps = server >= np.repeat(bundles.workers, tasks)
    return Rows(
        ptr=ptr,
        server=server,
        role=np.where(of_ps, PARAMETER_SERVER, WORKER),
        tasks=np.ones(len(server), dtype=np.int64),
    )


def _even_rows(bundles: JobBundles, servers: IntArray) -> Rows:
    """Placements of each bundle, spread evenly over its number of servers."""
    first = np.concatenate([[0], np.cumsum(servers)])
    job = np.repeat(np.arange(len(servers)), servers)
    server = np.arange(first[-1]) - first[job]
    tasks = [
        asked[job] // servers[job] + (server < asked[job] % servers[job])
        for asked in (bundles.workers, bundles.ps)
    ]
    return Rows(
        ptr=2 * first,
        server=np.repeat(server, 2),
        role=np.tile(np.array([WORKER, PARAMETER_SERVER]), len(server)),
        tasks=np.stack(tasks, axis=1).ravel(),
    )


def infeasible_bundles(bundles: JobBundles, capacity: IntArray, *, endless: bool) -> dict[str, BoolArray]:
    """Jobs whose bundle certainly never fits, by the first reason that applies.

    A bundle that passes may still not fit, since roles compete for servers.

    Parameters
    ----------
    capacity : (S, R) quanta of the empty servers
    endless : whether the number of servers is unlimited
    """
    n = len(bundles.workers)
    kinds, count = np.unique(capacity, axis=0, return_counts=True)
    room = {WORKER: np.zeros(n, np.int64), PARAMETER_SERVER: np.zeros(n, np.int64)}
    asked = {WORKER: bundles.workers, PARAMETER_SERVER: bundles.ps}
    demand = {WORKER: bundles.worker_demand, PARAMETER_SERVER: bundles.ps_demand}
    for kind, servers in zip(kinds, count, strict=True):
        for role, wanted in asked.items():
            each = np.where(demand[role] > 0, kind // np.maximum(demand[role], 1), wanted[:, None])
            room[role] += servers * np.minimum(each.min(axis=1), wanted)
    total = sum(asked[role][:, None] * demand[role] for role in asked)
    too_small = np.zeros(n, dtype=np.bool_)
    if not endless:
        too_small = (total > capacity.sum(axis=0)).any(axis=1)
        for role in asked:
            too_small |= room[role] < asked[role]
    verdicts = {
        "a worker fits no server": room[WORKER] == 0,
        "a parameter server fits no server": (bundles.ps > 0) & (room[PARAMETER_SERVER] == 0),
        "the cluster is too small": too_small,
    }
    seen = np.zeros(n, dtype=np.bool_)
    reasons = {}
    for reason, applies in verdicts.items():
        reasons[reason] = applies & ~seen
        seen |= applies
    return reasons
