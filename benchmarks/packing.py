"""Jobs of GPU types, and pods that the rule of fragments places on devices: CPU time in the compiled loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from benchmarks.figures import Figures
from benchmarks.week import equal_servers
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.job import JobTable
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.policies.registry import create_policy

TYPES, LOAD = 10, 0.9
TYPED_BUDGET_S, PODS_BUDGET_S = 10.0, 5.0


def test_typed_jobs_in_a_strict_queue(figures: Figures) -> None:
    world = _typed_world(10_000 if figures.small else 1_000_000)
    pools = len(world.arrays.pool_ptr) - 1
    figures.input(
        f"{len(world.table):,} jobs of {pools} pools on {len(world.cluster):,} servers, load {LOAD}"
    )
    cpu_s = figures.median_s(lambda: run_world(world, create_policy("fifo")), 1)
    figures.add("typed.cpu_s", cpu_s, "s", "smaller", TYPED_BUDGET_S)


def test_pods_by_fragments(figures: Figures) -> None:
    world = _pods(500 if figures.small else 10_866)
    figures.input(f"{len(world.table):,} pods on {len(world.cluster):,} servers, placement=fgd")
    params = {"placement": "fgd", "no_room": "reject"}
    cpu_s = figures.median_s(lambda: run_world(world, create_policy("fifo", params)), 3)
    figures.add("fgd.cpu_s", cpu_s, "s", "smaller", PODS_BUDGET_S)


def _typed_world(jobs: int) -> World:
    """Jobs of 1 to 16 GPUs for one, two, four or all of the types, in turn of the servers."""
    draw, servers = Streams(0).generator("benchmark-typed"), _servers(1000, {"gpu": 8})
    lists = [
        None,
        *["|".join(f"t{(i + k) % TYPES}" for k in range(n)) for n in (1, 2, 4) for i in range(TYPES)],
    ]
    tasks = draw.choice([1, 1, 1, 2, 4, 8, 16], jobs)
    work = np.ceil(draw.exponential(3600 * US_PER_S, jobs)).astype(np.int64)
    span = (tasks * work).sum() / (LOAD * servers.capacity.sum() / 1000)
    submit = np.sort(draw.integers(0, int(span), jobs))
    chosen = [lists[i] for i in draw.integers(0, len(lists), jobs)]
    table = _table(submit, work, tasks, np.full((jobs, 1), 1000), ("gpu",), chosen)
    return build_world(table, servers)


def _pods(pods: int) -> World:
    """Pods that come once a second and stay: shares, whole GPUs and CPU only, for all or certain types."""
    draw, servers = Streams(0).generator("benchmark-pods"), _servers(1213, {"gpu": 5, "cpu": 96})
    milli = draw.choice([0, 100, 250, 400, 500, 650, 800, 1000, 1000, 2000, 4000], pods)
    demand = np.stack([milli, draw.choice([1000, 2000, 4000, 6000, 8000, 11_000], pods)], axis=1)
    second = np.arange(pods) * US_PER_S
    chosen = [(None, None, "t0|t1", "t2")[i] for i in draw.integers(0, 4, pods)]
    table = _table(
        second, np.full(pods, 2 * pods * US_PER_S), np.ones(pods, np.int64), demand, ("gpu", "cpu"), chosen
    )
    return build_world(table, servers)


def _servers(count: int, offers: dict[str, int]) -> Cluster:
    types = tuple(f"t{server % TYPES}" for server in range(count))
    return replace(equal_servers([ServerKind.PLAIN] * count, offers), gpu_type=types)


def _table(
    submit: IntArray,
    work: IntArray,
    tasks: IntArray,
    demand: IntArray,
    resources: tuple[str, ...],
    lists: list[str | None],
) -> JobTable:
    return JobTable(
        job_id=pl.Series(np.arange(len(submit)).astype(str)),
        submit_us=submit - submit[0],
        work_us=work,
        tasks=tasks,
        demand=demand,
        resources=resources,
        num_gpus=tasks * demand[:, 0] / 1000,
        vc=np.full(len(submit), -1),
        gpu_types=pl.Series(lists, dtype=pl.String),
    )
