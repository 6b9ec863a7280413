"""Small worlds on which every policy must hold its contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.read_only import Array
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.cluster import Availability, Cluster, ServerKind
from ray_sim.model.job import JobTable
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray

Job = tuple[float, int, float, str]
"""Submission in seconds, GPUs, run time in seconds, vc."""

EdgeCase = tuple[World, bool]
"""A world, and whether its jobs can end."""

SLOT_S = 60.0

TYPED = "jobs that accept certain GPU types only"
"""Name of the edge case that policies may refuse, see `Policy.respects_types`."""

SHARED = "jobs that ask for a share of a GPU"
"""Name of the edge case that policies may refuse, see `Policy.respects_shares`."""

FIRST_FAILS = Availability(
    time_us=np.array([0, 90, 130]) * US_PER_S,
    server=np.zeros(3, dtype=np.int64),
    up=np.array([False, True, False]),
)
"""Server 0 is away until 90 s and from 130 s on."""


def job_table(jobs: Sequence[Job]) -> JobTable:
    """Jobs in the order given, which is the order of submission."""
    submit = np.array([round(job[0] * US_PER_S) for job in jobs], dtype=np.int64)
    gpus = np.array([job[1] for job in jobs], dtype=np.int64)
    names = tuple(sorted({job[3] for job in jobs}))
    origin = int(submit[0]) if len(jobs) else 0
    return JobTable(
        job_id=pl.Series([f"job-{i}" for i in range(len(jobs))], dtype=pl.String),
        submit_us=submit - origin,
        work_us=np.array([round(job[2] * US_PER_S) for job in jobs], dtype=np.int64),
        tasks=np.maximum(gpus, 1),
        demand=1000 * np.minimum(gpus, 1)[:, None],
        resources=("gpu",),
        num_gpus=gpus.astype(np.float64),
        vc=np.array([names.index(job[3]) for job in jobs], dtype=np.int64),
        vc_names=names,
        user=pl.Series([f"user-{i % 3}" for i in range(len(jobs))], dtype=pl.String),
        priority=np.arange(len(jobs), dtype=np.int64) % 4,
        trace_order=np.arange(len(jobs), dtype=np.int64),
        origin_us=origin,
    )


def cluster(gpus: Sequence[int], vcs: Sequence[str], speeds: Sequence[float] = ()) -> Cluster:
    """Build a cluster of servers with the given numbers of GPUs."""
    n = len(gpus)
    return Cluster(
        name="contract",
        server_names=tuple(f"server-{i}" for i in range(n)),
        resources=("gpu",),
        capacity=np.array([[1000 * g] for g in gpus], dtype=np.int64),
        speed=np.array(speeds or [1.0] * n),
        vc=tuple(vcs),
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=(None,) * n,
    )


def _busy_jobs(n: int, seed: int) -> list[Job]:
    """Mixed sizes and lengths with ties, arriving faster than they can be served."""
    draw = Streams(seed).generator("contract-jobs")
    submit = np.cumsum(draw.integers(0, 40, n))
    gpus = draw.choice([1, 1, 1, 2, 2, 4, 8], n)
    duration = np.ceil(draw.exponential(200.0, n))
    vcs = draw.choice(["a", "b"], n)
    return [
        (float(s), int(g), float(d), str(v)) for s, g, d, v in zip(submit, gpus, duration, vcs, strict=True)
    ]


def busy_world(n: int = 60, seed: int = 0, *, partition: Partition = "none") -> World:
    """Seven servers, two virtual clusters, two speeds, heavy queueing, restarts that cost."""
    servers = cluster([4, 4, 8, 2, 4, 4, 8], ["a", "a", "a", "b", "b", "b", "b"], [1, 1, 1, 0.5, 1, 1, 0.5])
    params = {"slot_s": SLOT_S, "restart_cost_s": 7.0}
    return build_world(job_table(_busy_jobs(n, seed)), servers, partition=partition, params=params)


def failing_world(n: int = 60, seed: int = 0) -> World:
    """The busy world, whose servers go every few minutes, come back, and leave jobs at a checkpoint."""
    world = busy_world(n, seed)
    params = {"slot_s": SLOT_S, "restart_cost_s": 7.0, "checkpoint_s": 60.0}
    return build_world(world.table, failing(world.cluster, seed), params=params)


def failing(servers: Cluster, seed: int) -> Cluster:
    """The cluster, each of whose servers goes now and then, and comes back."""
    draw = Streams(seed).generator("contract-outages")
    down_us = np.cumsum(draw.integers(20, 200, 40)) * US_PER_S
    spans = draw.integers(1, 400, 40) * US_PER_S
    changes: list[tuple[int, int, bool]] = []
    back_us = np.zeros(len(servers), dtype=np.int64)
    for time_us, span_us, server in zip(down_us, spans, draw.integers(0, len(servers), 40), strict=True):
        if time_us > back_us[server]:
            back_us[server] = time_us + span_us
            changes += [(int(time_us), int(server), False), (int(back_us[server]), int(server), True)]
    columns = [np.array(column) for column in zip(*sorted(changes), strict=True)]
    return replace(servers, availability=Availability(*columns))


def edge_cases() -> dict[str, World]:
    """Worlds that trip careless policies, by what is special about them."""
    servers = cluster([4, 4], ["a", "a"])
    cases: dict[str, list[Job]] = {
        "no job": [],
        "one job": [(5.0, 2, 10.0, "a")],
        "a job larger than the cluster": [(0.0, 9, 10.0, "a"), (1.0, 8, 10.0, "a")],
        "all at once": [(3.0, 1 + i % 4, 10.0 + i, "a") for i in range(20)],
        "jobs of no length": [(0.0, 4, 0.0, "a"), (0.0, 8, 5.0, "a"), (2.0, 8, 0.0, "a"), (2.0, 1, 1.0, "a")],
    }
    params = {"slot_s": SLOT_S}
    worlds = {name: build_world(job_table(jobs), servers, params=params) for name, jobs in cases.items()}
    nothing = job_table([(at, 0, 30.0, "a") for at in (0.0, 0.0, 70.0, 100.0)])
    failing_server = replace(servers, availability=FIRST_FAILS)
    worlds["jobs that demand nothing on a server that fails"] = build_world(
        nothing, failing_server, params=params
    )
    stranded = [(0.0, 1, 10.0, "a"), (0.0, 1, 10.0, "nowhere"), (1.0, 1, 10.0, "a")]
    worlds["a vc without servers"] = build_world(job_table(stranded), servers, partition="vc", params=params)
    worlds[TYPED] = with_types(busy_world(20))
    worlds[SHARED] = with_shares(busy_world(20))
    return worlds


def with_shares(world: World) -> World:
    """The same world with tasks of 0.3 to 1 GPU, so that servers have room in sum and on no device."""
    milli = np.array([300, 600, 1000, 500, 800])[np.arange(len(world.table)) % 5]
    table = replace(world.table, demand=milli[:, None], num_gpus=world.table.tasks * milli / 1000)
    return build_world(table, world.cluster, partition=world.partition, params=world.params)


def with_types(world: World) -> World:
    """The same world with two GPU types and a server without, and jobs that accept one, both, any or none."""
    types = [("x", "y")[server % 2] for server in range(len(world.cluster) - 1)]
    lists = [("x", None, "y|x", "y", "x|z", "z")[job % 6] for job in range(len(world.table))]
    table = replace(world.table, gpu_types=pl.Series(lists, dtype=pl.String))
    servers = replace(world.cluster, gpu_type=(*types, None))
    return build_world(table, servers, partition=world.partition, params=world.params)


def with_longer_runs(world: World, jobs: BoolArray) -> World:
    """The same world with longer run times of these jobs."""
    return replace(world, table=replace(world.table, work_us=longer(world.table.work_us, jobs, 3 * US_PER_S)))


def longer(column: Array, jobs: BoolArray, least: int) -> Array:
    """The column, raised at these jobs by ``least`` and more, so that their order is another."""
    return np.where(jobs, column + 2 * column[::-1] + least, column)
