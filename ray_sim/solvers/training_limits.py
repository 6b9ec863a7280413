"""Upper bounds on the speed of elastic jobs, and lower bounds on the resources per sample.

Both progress rules, in closed form; docs/certificates.md has the derivations. Stragglers, restarts and other
slowdowns do not invalidate a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.step_time import least_of_sum, pd_ors_sample_s, transfer_s
from ray_sim.model.training_progress import Nic
from ray_sim.model.units import FloatArray, IntArray

_MOST = 2.0**62
"""Value for a number without a bound."""

_FORGIVEN = 1e-9
"""Relative tolerance of a rounded quotient, so that limits stay valid."""


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    """Limits that no placement on a pool of servers exceeds."""

    samples_per_s: FloatArray
    """(n,) largest training speed; 0 if the job can never train."""
    resource_time: FloatArray
    """(n, R) least quanta x seconds per sample."""


@dataclass(frozen=True, slots=True)
class ServerPool:
    """Servers of a pool by kind, H of them."""

    capacity: IntArray
    """(H, R) quanta."""
    speed: FloatArray
    """(H,)."""
    count: IntArray
    """(H,) servers of each kind."""


def pool_of(capacity: IntArray, speed: FloatArray) -> ServerPool:
    """Group servers, (S, R) and (S,), by kind."""
    rows = np.column_stack([capacity, speed])
    _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
    return ServerPool(capacity[first], speed[first], count)


def pd_ors_limits(profile: TrainingProfile, jobs: IntArray, pool: ServerPool) -> TrainingLimits:
    """Limits under truth=pd_ors.

    At most F workers train: on one server at the internal rate, as many as fit with their share of parameter
    servers; on several servers at the external rate, as many as fit on the pooled servers.
    """
    gamma, most = profile.workers_per_ps[jobs], profile.batch[jobs]
    worker, ps = profile.worker_demand[jobs], profile.ps_demand[jobs]
    together = worker + ps / gamma[:, None]
    tau = profile.sample_s[jobs]
    inside_s = pd_ors_sample_s(profile, jobs, internal=True) - tau
    between_s = pd_ors_sample_s(profile, jobs, internal=False) - tau
    fastest, least_s = np.zeros(len(jobs)), np.full(len(jobs), np.inf)
    for capacity, speed in zip(pool.capacity, pool.speed.tolist(), strict=True):
        alone = ((worker + ps) <= capacity).all(axis=1)
        workers = np.where(alone, np.minimum(most, _shared_room(together, gamma, capacity)), 0.0)
        fastest = np.maximum(fastest, workers / (tau / speed + inside_s))
        least_s = np.where(alone, np.minimum(least_s, tau / speed + inside_s), least_s)
    if pool.count.sum() > 1:
        sample_s = tau / pool.speed.max() + between_s
        shared = _shared_room(together, gamma, _total(pool))
        workers = np.minimum(most, np.minimum(_most_tasks(worker, pool), shared))
        fastest = np.maximum(fastest, workers / sample_s)
        least_s = np.minimum(least_s, sample_s)
    return TrainingLimits(fastest, np.where(fastest > 0, least_s, 0.0)[:, None] * together)


def placement_limits(profile: TrainingProfile, jobs: IntArray, pool: ServerPool, nic: Nic) -> TrainingLimits:
    """Limits under truth=placement, for every exchange."""
    batch, exchange = profile.batch[jobs], profile.exchange[jobs]
    worker, ps = profile.worker_demand[jobs], profile.ps_demand[jobs]
    most_workers, most_ps = _most_tasks(worker, pool), _most_tasks(ps, pool)
    training = batch * profile.sample_s[jobs] / pool.speed.max()
    bandwidth = np.maximum(profile.bandwidth_mbps[jobs], profile.internal_bandwidth_mbps[jobs])
    there_and_back = 2.0 * transfer_s(profile.gradient_mb[jobs], bandwidth)
    rest, per_worker = profile.step_s[jobs], profile.step_s_per_worker[jobs]
    per_ps = profile.step_s_per_ps[jobs]

    ring, apart = exchange == Exchange.ALL_REDUCE, exchange == Exchange.ASYNC
    with_one = there_and_back + per_ps
    transfer = with_one if nic != Nic.PER_LINK else least_of_sum(there_and_back, per_ps, most_ps)
    in_step = least_of_sum(training, per_worker, most_workers) + rest
    in_ring = rest + np.where(
        training > there_and_back,
        least_of_sum(np.maximum(training - there_and_back, 0.0), per_worker, most_workers) + there_and_back,
        training + per_worker,
    )
    by_itself = training + transfer + rest + per_worker * most_workers
    step = np.where(ring, in_ring, in_step + transfer)
    speed = np.where(apart, most_workers * batch / by_itself, batch / step)
    speed = np.where((most_workers < 1) | (~ring & (most_ps < 1)), 0.0, speed)

    worker_s = (training + rest + per_worker + np.where(ring, 0.0, transfer)) / batch
    several = np.maximum(most_workers, 1.0)
    ps_s = np.where(apart, (training + rest + with_one) / several + per_worker, in_step + with_one) / batch
    resource_time = worker_s[:, None] * worker + np.where(ring, 0.0, ps_s)[:, None] * ps
    return TrainingLimits(speed, resource_time)


def _total(pool: ServerPool) -> IntArray:
    total: IntArray = (pool.capacity * pool.count[:, None]).sum(axis=0)
    return total


def _shared_room(together: FloatArray, gamma: FloatArray, capacity: IntArray) -> FloatArray:
    """(n,) workers that train in this capacity, (R,), with their share of parameter servers.

    With a fraction in gamma, gamma x parameter servers may be a fraction of workers too.
    """
    return np.where(gamma % 1 == 0, _whole_room(together, capacity), _room(together, capacity))


def _whole_room(demand: FloatArray | IntArray, capacity: IntArray) -> FloatArray:
    """(n,) tasks of each demand that one server of this capacity, (R,), holds."""
    whole: FloatArray = np.floor(_room(demand, capacity))
    return whole


def _room(demand: FloatArray | IntArray, capacity: IntArray) -> FloatArray:
    room = np.full(len(demand), _MOST)
    for r, amount in enumerate(capacity.tolist()):
        some = demand[:, r] > 0
        room[some] = np.minimum(room[some], amount / demand[some, r])
    return room * (1.0 + _FORGIVEN)


def _most_tasks(demand: IntArray, pool: ServerPool) -> FloatArray:
    """(n,) tasks of each demand that all servers together hold."""
    tasks = np.zeros(len(demand))
    for capacity, count in zip(pool.capacity, pool.count.tolist(), strict=True):
        tasks += count * _whole_room(demand, capacity)
    return np.minimum(tasks, _MOST)
