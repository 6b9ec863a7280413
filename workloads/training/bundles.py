"""Requested bundles (workers and parameter servers of a job): servers needed, training rate, feasibility.

Rates and feasibility refer to the reference servers of the training profile, `shortest_s` to one job alone.
The readers and generators of workloads call this module. J is the number of jobs, R of resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.step_time import least_placement_sample_s, pd_ors_sample_s
from ray_sim.model.training_progress import Form, placement_progress
from ray_sim.model.units import BoolArray, FloatArray, IntArray, capacity_quanta
from workloads.job_table import pair_profile, role_demand, training_profile
from workloads.training.profile import TrainingDraws


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


def spread_rates(profile: TrainingProfile, bundles: JobBundles, servers: IntArray) -> FloatArray:
    """Samples per second of each bundle spread evenly over so many servers, (J,), of speed 1."""
    truth = placement_progress(profile, np.ones(int(servers.max(initial=1))))
    return truth.samples_per_s(np.arange(len(servers)), _even_rows(bundles, servers))


def apart_rates(profile: TrainingProfile, bundles: JobBundles) -> FloatArray:
    """Samples per second of each bundle with every task on a server of its own, of speed 1."""
    tasks = bundles.workers + bundles.ps
    ptr = np.concatenate([[0], np.cumsum(tasks)])
    server = np.arange(ptr[-1]) - np.repeat(ptr[:-1], tasks)  # workers first, then parameter servers
    of_ps = server >= np.repeat(bundles.workers, tasks)
    ones = np.ones(len(server), dtype=np.int64)
    rows = Rows(ptr=ptr, server=server, role=np.where(of_ps, PARAMETER_SERVER, WORKER), tasks=ones)
    truth = placement_progress(profile, np.ones(int(tasks.max(initial=1))))
    return truth.samples_per_s(np.arange(len(tasks)), rows)


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


def bundles_of(frame: pl.DataFrame, resources: Sequence[str]) -> JobBundles:
    """Requested bundles of the J jobs of a frame: workers, parameter servers and the demand of each.

    Parameters
    ----------
    frame : with `num_workers`, `num_ps` and the demand of both roles
    resources : R names; they set the order of the demand's columns
    """
    return JobBundles(
        frame["num_workers"].to_numpy(),
        frame["num_ps"].to_numpy(),
        role_demand(frame, "worker", resources),
        role_demand(frame, "ps", resources),
    )


def reference_rates(frame: pl.DataFrame, draws: TrainingDraws) -> FloatArray:
    """(J,) samples per second of each bundle, placed on as few reference servers as possible.

    A bundle that fits on no number of them is rated as on one server large enough.

    Run time = epochs x samples / rate. Enrichment knows the run time and computes `samples`; a draw of whole
    jobs knows `samples` and computes the run time.

    Parameters
    ----------
    frame : all columns that a step time needs; `samples` may be null
    """
    resources = tuple(draws.reference_server)
    training = training_profile(frame.with_columns(samples=0.0), resources)
    bundles = bundles_of(frame, resources)
    return spread_rates(training, bundles, np.maximum(1, fewest_servers(bundles, _capacity(draws))))


@dataclass(frozen=True, slots=True)
class TracedRates:
    """Samples per second of the requested bundles of J jobs on reference servers, (J,) each."""

    traced: FloatArray
    """On the fewest servers, where the traced run is assumed."""
    near: FloatArray
    """With all tasks on one server, however large."""
    far: FloatArray
    """With each task on a server of its own."""
    on_one: BoolArray
    """Whether one reference server holds the bundle, or none do."""


def traced_rates(frame: pl.DataFrame, draws: TrainingDraws) -> TracedRates:
    """Rates of the J jobs of a frame with all columns that a step time needs; `samples` may be null."""
    resources = tuple(draws.reference_server)
    training = training_profile(frame.with_columns(samples=0.0), resources)
    bundles = bundles_of(frame, resources)
    servers = np.maximum(1, fewest_servers(bundles, _capacity(draws)))
    return TracedRates(
        traced=spread_rates(training, bundles, servers),
        near=spread_rates(training, bundles, np.ones_like(servers)),
        far=apart_rates(training, bundles),
        on_one=servers == 1,
    )


def infeasible_on_reference(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, BoolArray]:
    """(J,) masks by reason: jobs whose bundle does not fit on any number of reference servers.

    A job is in the mask of the first reason that applies. The dict is empty if the profile has no reference
    server, since jobs then demand nothing.
    """
    if not draws.reference_server:
        return {}
    bundles = bundles_of(frame, tuple(draws.reference_server))
    return infeasible_bundles(bundles, _capacity(draws)[None, :], endless=True)


def shortest_s(frame: pl.DataFrame, truth: Form, speed: float = 1.0) -> FloatArray:
    """(J,) shortest training time of each job in seconds, if it runs alone.

    A job has at most one worker per sample of its batch. With ``pd_ors`` the time is V theta^i / F in the
    symbols of the PD-ORS paper, on one server. For ``placement``, and for all-reduce jobs, which ``pd_ors``
    does not cover, see `least_placement_sample_s`.

    Parameters
    ----------
    truth : form of the true training progress
    speed : speed of the fastest server, > 0; divides the training time
    """
    training = training_profile(frame, ())
    training = replace(training, sample_s=training.sample_s / speed)
    jobs = np.arange(frame.height)
    sample_s = least_placement_sample_s(training, jobs)
    if truth == "pd_ors":
        pairs = pair_profile(frame)
        of_pairs = training if pairs is None else pairs.of_training(training)
        of_paper = pd_ors_sample_s(of_pairs, jobs, internal=True) / training.batch
        sample_s = np.where(training.exchange == Exchange.ALL_REDUCE, sample_s, of_paper)
    seconds: FloatArray = training.work * sample_s
    return seconds


def any_reason(reasons: dict[str, BoolArray], jobs: int) -> BoolArray:
    """(J,) mask of the jobs with at least one reason; `jobs` is J, needed if `reasons` is empty."""
    return np.asarray(np.logical_or.reduce([np.zeros(jobs, np.bool_), *reasons.values()]))


def _capacity(draws: TrainingDraws) -> IntArray:
    """(R,) capacity of one reference server in quanta, in the order of `draws.reference_server`."""
    amounts = draws.reference_server.items()
    return np.array([int(capacity_quanta(amount, name)) for name, amount in amounts], dtype=np.int64)
