"""Tiny worlds of elastic jobs, and the least mean completion time of schedules that are tried all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.pools import partition_servers
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.job import Exchange
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from tests.training import profile, rows, together
from tests.worlds import Job, cluster_of, job_table

NICS = ("per_task", "per_server", "per_link")


def tiny_training_world(seed: int, *, jobs: int = 4) -> World:
    """Up to ``jobs`` jobs of some seconds on one or two servers with two resources; some have partitions."""
    draw = Streams(seed).generator("tiny-training-world")
    pd_ors = bool(draw.integers(4) == 0)
    n = int(draw.integers(1, jobs + 1))
    servers = int(draw.integers(1, 3))
    exchanges = [Exchange.SYNC, Exchange.SYNC, Exchange.ASYNC, *([] if pd_ors else [Exchange.ALL_REDUCE])]
    profiles = [
        profile(
            exchange=int(draw.choice(exchanges)),
            epochs=1,
            samples=float(draw.choice([2.0, 5.0, 9.0, 20.0])),
            batch=float(draw.choice([1.0, 2.0, 6.0])),
            sample_s=float(draw.choice([0.5, 1.0, 2.0])),
            gradient_mb=float(draw.choice([0.0, 5.0, 20.0])),
            bandwidth_mbps=float(draw.choice([80.0, 400.0])),
            internal_bandwidth_mbps=float(draw.choice([400.0, 400.0, 80.0])),
            step_s=float(draw.choice([0.0, 0.1])),
            step_s_per_worker=float(draw.choice([0.0, 0.0, 0.2, 1.0])),
            step_s_per_ps=float(draw.choice([0.0, 0.0, 0.2])),
            workers_per_ps=float(draw.integers(1, 3)),
        )
        for _ in range(n)
    ]
    demands = [1000 * draw.integers(low, high, (n, 2)) for low, high in (([1, 0], [3, 3]), ([0, 1], [2, 3]))]
    training = replace(together(*profiles), worker_demand=demands[0], ps_demand=demands[1])
    vcs = ["a", "b"][:servers]
    partition: Partition = "vc" if servers == 2 and draw.integers(3) == 0 else "none"
    submit = np.sort(draw.choice([0.0, 0.0, 1.0, 4.0, 11.0], n))
    table = job_table(
        [Job(float(at), 1, 10.0, str(draw.choice(["a", "b"][:servers]))) for at in submit - submit[0]],
        ("gpu", "cpu"),
    )
    cluster = cluster_of(
        draw.integers(1, 5, servers).tolist(),
        vc=vcs,
        speed=draw.choice([1.0, 1.0, 0.5, 2.0], servers).tolist(),
        cpu=draw.integers(1, 6, servers).tolist(),
    )
    facts: dict[str, object] = {"truth": "pd_ors"} if pd_ors else {"nic": str(draw.choice(NICS))}
    params = {"truth": "placement", **facts}
    return build_world(replace(table, training=training), cluster, partition=partition, params=params)


class Way(NamedTuple):
    """Something that a job may hold."""

    used: tuple[int, ...]
    """Flat (servers, R) quanta."""
    samples_per_s: float


def ways(world: World, job: int, servers: IntArray) -> list[Way]:
    """All placements of a job on empty servers with which it trains."""
    facts, arrays = ElasticFacts.in_world(world), world.arrays
    worker, ps = arrays.demand[job]
    capacity = arrays.capacity[servers]
    here = [list(_tasks(worker, ps, capacity[i], facts, job)) for i in range(len(servers))]
    at = {int(server): i for i, server in enumerate(servers)}
    placements = list(product(*here))
    nowhere = (0, 0)
    everywhere = [
        [each[at[s]] if s in at else nowhere for s in range(len(arrays.capacity))] for each in placements
    ]
    progress = facts.progress(np.ones(len(world.table)), None)
    speed = progress.samples_per_s(np.full(len(placements), job), rows(*everywhere))
    tasks = np.array(placements)
    used = tasks[..., :1] * worker + tasks[..., 1:] * ps
    return [
        Way(tuple(of_way.ravel().tolist()), float(rate))
        for of_way, rate in zip(used, speed.tolist(), strict=True)
        if rate > 0
    ]


def _tasks(
    worker: IntArray, ps: IntArray, capacity: IntArray, facts: ElasticFacts, job: int
) -> Iterator[tuple[int, int]]:
    """Workers and parameter servers that fit on one empty server."""
    most_ps = 0 if facts.profile.exchange[job] == Exchange.ALL_REDUCE else 5
    for w, p in product(range(6), range(most_ps + 1)):
        if (w * worker + p * ps <= capacity).all():
            yield w, p


def able_jobs(world: World) -> BoolArray:
    """(J,) jobs that can train alone in their partition."""
    part = world.arrays.job_part
    return np.array([bool(ways(world, j, partition_servers(world)[p])) for j, p in enumerate(part)])


def least_mean_jct(world: World, jobs: IntArray) -> float:
    """Least mean JCT in seconds of these jobs, if allocations change when a job comes or ends.

    Every such schedule is feasible, so it is at least the least of all schedules.
    """
    part, total = world.arrays.job_part[jobs], 0.0
    for p, servers in enumerate(partition_servers(world)):
        mine = jobs[part == p]
        total += _least_total(world, mine, servers) if len(mine) else 0.0
    return total / len(jobs)


def _least_total(world: World, jobs: IntArray, servers: IntArray) -> float:
    submit = world.table.submit_us[jobs] / US_PER_S
    work = np.asarray(world.work[jobs], dtype=np.float64)
    of_jobs = [_not_beaten(ways(world, int(job), servers)) for job in jobs]
    room = world.arrays.capacity[servers].ravel()

    @cache
    def speeds(active: tuple[int, ...]) -> list[tuple[float, ...]]:
        """Speeds of the active jobs, for every way to share the servers that is not worse for all."""
        used, rate = np.zeros((1, len(room)), dtype=np.int64), np.zeros((1, 0))
        for i in active:
            mine, speed = of_jobs[i]
            used = (used[:, None] + mine[None]).reshape(-1, len(room))
            rate = np.hstack([np.repeat(rate, len(mine), axis=0), np.tile(speed, len(rate))[:, None]])
            fits = (used <= room).all(axis=1)
            used, rate = used[fits], rate[fits]
        return _largest(rate)

    @cache
    def least(now: float, left: tuple[float, ...]) -> float:
        active = tuple(i for i in range(len(jobs)) if submit[i] <= now and left[i] > 0)
        later = [float(at) for at in submit if at > now]
        if not active:
            return least(min(later), left) if later else 0.0
        best = np.inf
        for rate in speeds(active):
            ends = [
                now + left[i] / speed if speed > 0 else np.inf for i, speed in zip(active, rate, strict=True)
            ]
            until = min([*ends, *later])
            if until == np.inf:
                continue
            after, done = list(left), 0.0
            for i, speed, end in zip(active, rate, ends, strict=True):
                ended = end <= until * (1 + 1e-12)
                after[i] = 0.0 if ended else left[i] - speed * (until - now)
                done += until - float(submit[i]) if ended else 0.0
            best = min(best, done + least(until, tuple(after)))
        return best

    return least(0.0, tuple(work.tolist()))


def _not_beaten(found: list[Way]) -> tuple[IntArray, FloatArray]:
    """Nothing, and placements that no other one beats with no more; (n, S R) quanta and (n,) speeds."""
    used = np.array([(0,) * len(found[0].used), *(way.used for way in found)], dtype=np.int64)
    rate = np.array([0.0, *(way.samples_per_s for way in found)])
    no_more = (used[:, None] <= used[None]).all(axis=2) & (rate[:, None] >= rate[None])
    better = no_more & ~(no_more.T & (np.arange(len(rate))[:, None] >= np.arange(len(rate))))
    kept = ~better.any(axis=0)
    return used[kept], rate[kept]


def _largest(rate: FloatArray) -> list[tuple[float, ...]]:
    rate = np.unique(rate, axis=0)
    at_least = (rate[:, None] >= rate[None]).all(axis=2) & ~np.eye(len(rate), dtype=np.bool_)
    return [tuple(row) for row in rate[~at_least.any(axis=0)].tolist()]
