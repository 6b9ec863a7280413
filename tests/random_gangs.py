"""Random jobs of one or two roles on servers that are partly used, and worlds of one such job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.job import Exchange, JobTable
from ray_sim.model.units import QUANTA_PER_UNIT
from tests.naive_placement import Gang
from tests.training import profile

SIZES = st.sampled_from([0, 256, 512, 512, 1024])
"""Powers of two, so that the kernels' shares of a server are exact in floating point too."""

DEMANDS = st.sampled_from([0, 64, 128, 128, 300, 512])


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """A job of one role on servers that are partly used."""
    [gang] = draw(jobs_of(1, most_tasks=12, most_servers=6))
    return gang


@st.composite
def jobs_of(draw: st.DrawFn, roles: int, *, most_tasks: int, most_servers: int) -> list[Gang]:
    """A job as one gang for each role, on the same servers."""
    resources = draw(st.integers(1, 2))
    capacity = draw(
        st.lists(st.lists(SIZES, min_size=resources, max_size=resources), min_size=1, max_size=most_servers)
    )
    n = len(capacity)
    there = draw(st.lists(st.sampled_from([True, True, False]), min_size=n, max_size=n))
    free = draw(free_of(capacity))
    free = [amounts if up else [0] * resources for amounts, up in zip(free, there, strict=True)]
    return [
        Gang(
            draw(st.integers(int(role == 0), most_tasks)),
            draw(st.lists(DEMANDS, min_size=resources, max_size=resources)),
            capacity,
            free,
            there,
        )
        for role in range(roles)
    ]


@st.composite
def free_of(draw: st.DrawFn, upper: list[list[int]], lower: list[list[int]] | None = None) -> list[list[int]]:
    """Free amounts between two bounds; whole servers are often at the upper one."""
    lower = lower or [[0] * len(amounts) for amounts in upper]
    return [
        high if draw(st.booleans()) else [draw(st.integers(a, b)) for a, b in zip(low, high, strict=True)]
        for low, high in zip(lower, upper, strict=True)
    ]


def world_with(job: Sequence[Gang]) -> World:
    """A world whose only job has these roles."""
    workers = job[0]
    n, names = len(workers.capacity), tuple(QUANTA_PER_UNIT)[: len(workers.demand)]
    cluster = Cluster(
        name="test",
        server_names=tuple(f"s{i}" for i in workers.servers),
        resources=names,
        capacity=np.array(workers.capacity, dtype=np.int64),
        speed=np.ones(n),
        vc=(None,) * n,
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=(None,) * n,
    )
    table = JobTable(
        job_id=pl.Series(["gang"]),
        submit_us=np.zeros(1, np.int64),
        work_us=np.zeros(1, np.int64),
        tasks=np.array([workers.tasks]),
        demand=np.array([workers.demand]),
        resources=names,
        num_gpus=np.ones(1),
        vc=np.full(1, -1),
    )
    if len(job) == 1:
        return build_world(table, cluster, params={"gpu_shares": "pooled"})
    exchange = Exchange.SYNC if job[1].tasks else Exchange.ALL_REDUCE
    training = replace(
        profile(exchange=exchange, num_workers=workers.tasks, num_ps=job[1].tasks),
        worker_demand=np.array([workers.demand]),
        ps_demand=np.array([job[1].demand]),
    )
    return build_world(
        replace(table, training=training), cluster, params={"truth": "placement", "gpu_shares": "pooled"}
    )
