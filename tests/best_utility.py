"""Tiny utility worlds, and the most that can be earned in them, by trying everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.job import UtilityProfile
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.solvers.planning.slot_job import SlotJob, slot_job
from ray_sim.solvers.utility_bounds import BucketProblem
from tests.training import profile, together
from tests.worlds import Job, cluster_of, job_table

SLOT_S = 10.0
SLOTS = 3


def tiny_world(seed: int, *, jobs: int = 4, horizon: bool = True) -> World:
    """One or two servers, up to ``jobs`` jobs of some worker-slots each, that come at the first two slots."""
    draw = Streams(seed).generator("tiny-utility-world")
    n = int(draw.integers(1, jobs + 1))
    servers = int(draw.integers(1, 3))
    profiles = [
        profile(
            epochs=1,
            samples=float(draw.choice([1.0, 2.0, 3.0, 4.0])),
            batch=int(draw.integers(1, 4)),
            sample_s=float(draw.choice([5.0, 7.5, 10.0])),
            gradient_mb=float(draw.choice([0.0, 10.0])),
            bandwidth_mbps=float(draw.choice([20.0, 80.0])),
            internal_bandwidth_mbps=160.0,
            workers_per_ps=int(draw.integers(1, 3)),
        )
        for _ in range(n)
    ]
    training = replace(
        together(*profiles),
        worker_demand=1000 * draw.integers([1, 0], [3, 2], (n, 2)),
        ps_demand=1000 * draw.integers([0, 0], [2, 3], (n, 2)),
        model=np.zeros(n, dtype=np.int64),
        model_names=("ctc",),
    )
    submit = np.sort(draw.choice([0.0, 0.0, SLOT_S], n))
    submit -= submit[0]
    table = job_table([Job(float(at), 1, 100.0) for at in submit], ("gpu", "cpu"))
    utility = UtilityProfile(
        utility_max=draw.integers(1, 10, n).astype(np.float64),
        utility_decay_per_s=draw.choice([0.0, 0.05, 0.3], n),
        utility_due_s=draw.choice([0.0, 10.0, 20.0], n),
    )
    cluster = cluster_of(draw.integers(1, 5, servers).tolist(), cpu=draw.integers(1, 5, servers).tolist())
    facts: dict[str, object] = {"truth": "pd_ors", "slot_s": SLOT_S}
    if horizon:
        facts["horizon_s"] = SLOTS * SLOT_S
    return build_world(replace(table, training=training, utility=utility), cluster, params=facts)


def slot_jobs(world: World, slots: int = SLOTS) -> list[SlotJob]:
    """The jobs in slots."""
    table, slot_us = world.table, world.slot_us
    assert table.training is not None
    assert table.utility is not None
    assert slot_us is not None
    return [
        slot_job(i, int(-(-at // slot_us)), slots, slot_us / 1e6, table.training, table.utility)
        for i, at in enumerate(table.submit_us.tolist())
    ]


class _Way(NamedTuple):
    """What a job may do in a slot."""

    used: tuple[int, ...]
    """Flat (S, R)."""
    samples: float


def best_utility(jobs: Sequence[SlotJob], capacity: IntArray, barred: BoolArray | None = None) -> float:
    """The most that these jobs earn together, each decided anew in every slot with knowledge of all.

    A job takes the first resource of no server that is ``barred`` to it, (n, S).
    """
    barred = np.zeros((len(jobs), len(capacity)), dtype=np.bool_) if barred is None else barred
    ways = [list(_ways(job, capacity, away)) for job, away in zip(jobs, barred, strict=True)]
    room = tuple(capacity.ravel().tolist())
    slots = max(job.arrival + len(job.utility) for job in jobs)

    @cache
    def trained(active: tuple[int, ...]) -> list[tuple[float, ...]]:
        """Samples of each active job in a slot, for every way to share the servers that trains no less."""
        found = set()
        for chosen in product(*(ways[i] for i in active)):
            taken = [sum(used) for used in zip(*(way.used for way in chosen), strict=True)]
            if all(used <= free for used, free in zip(taken, room, strict=False)):
                found.add(tuple(way.samples for way in chosen))
        return [one for one in found if not any(_trains_more(other, one) for other in found)]

    @cache
    def best(slot: int, left: tuple[float, ...]) -> float:
        if slot == slots:
            return 0.0
        active = tuple(i for i, job in enumerate(jobs) if job.arrival <= slot and left[i] > 0)
        most = 0.0
        for samples in trained(active):
            after, earned = list(left), 0.0
            for i, of_job in zip(active, samples, strict=True):
                job = jobs[i]
                after[i] = round(left[i] - of_job, 9)
                if after[i] <= 1e-9 * job.samples:
                    after[i] = 0.0
                    earned += float(job.utility[slot - job.arrival])
            most = max(most, earned + best(slot + 1, tuple(after)))
        return most

    return best(0, tuple(job.samples for job in jobs))


def _ways(job: SlotJob, capacity: IntArray, barred: BoolArray) -> Iterator[_Way]:
    """Nothing, and every number of workers on every server with as few parameter servers as they need."""
    servers = len(capacity)
    found = {_Way((0,) * capacity.size, 0.0)}
    for workers in product(range(job.most_workers + 1), repeat=servers):
        total = sum(workers)
        if not 0 < total <= job.most_workers:
            continue
        needed = int(-(-total // job.workers_per_ps))
        for ps in product(range(needed + 1), repeat=servers):
            if sum(ps) != needed:
                continue
            used = np.outer(workers, job.worker_demand) + np.outer(ps, job.ps_demand)
            if (used <= capacity).all() and not used[barred, 0].any():
                one = sum(w + p > 0 for w, p in zip(workers, ps, strict=True)) == 1
                theta = job.theta_internal if one else job.theta_external
                found.add(_Way(tuple(used.ravel().tolist()), total / theta))
    return iter(way for way in found if not any(_beats(other, way) for other in found))


def _trains_more(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether it trains every job at least as much, and is not the same: that never earns less."""
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _beats(one: _Way, other: _Way) -> bool:
    """Whether it trains as much with no more, and is not the same."""
    return (
        one != other
        and one.samples >= other.samples
        and all(a <= b for a, b in zip(one.used, other.used, strict=True))
    )


def slot_claims(jobs: Sequence[SlotJob], capacity: IntArray) -> BucketProblem:
    """What jobs claim of servers that are one pool, in a bucket for each slot."""
    slots = max(job.arrival + len(job.utility) for job in jobs)
    fastest = np.array([job.fastest for job in jobs])
    samples = np.array([job.samples for job in jobs])
    arrival = np.array([job.arrival for job in jobs])
    most = np.array([job.most_workers for job in jobs]) / (samples * fastest)
    workers_per_ps = np.array([[job.workers_per_ps] for job in jobs])
    blend = np.array([job.worker_demand for job in jobs]) + (
        np.array([job.ps_demand for job in jobs]) / workers_per_ps
    )
    return BucketProblem(
        worth=np.array([[*[0.0] * job.arrival, *job.utility] for job in jobs]),
        first=np.array([min(job.arrival + job.shortest - 1, slots) for job in jobs]),
        most=np.where(np.arange(slots) >= arrival[:, None], np.minimum(most, 1.0)[:, None], 0.0),
        resource_time=blend * (samples * fastest)[:, None],
        offer=np.tile(capacity.sum(axis=0).astype(np.float64), (slots, 1)),
    )
