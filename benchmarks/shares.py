"""Benchmark of sharing servers among elastic jobs: one round of a policy, from its view to its decision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np
import polars as pl

from benchmarks.measurement import Findings, Measurement, Step
from ray_sim.engine.build_world import build_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.job import Exchange, JobTable, TrainingProfile
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy

POLICIES: dict[str, dict[str, object]] = {"drf": {"cap": "asked"}, "tetris": {}}
JOBS = 4_000
BUNDLES = (12, 13)
"""Bundles (a worker and a parameter server) that jobs request in turn: 100,000 tasks in all."""

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000)

BUDGET_S = 1.0
"""Largest CPU time of a round on the largest cluster."""

_RESOURCES = ("gpu", "cpu", "memory_gib")
_SERVER = (8_000, 72_000, 192 * 1024)
"""Capacity of a server: milli-GPU, milli-CPU, MiB."""


def run(
    step: Step = lambda what: None, sizes: Sequence[int] = SIZES, jobs: int = JOBS, repetitions: int = 3
) -> Findings:
    """Measure a round of every policy on clusters of several sizes, after a first round that compiles."""
    rows: list[Measurement] = []
    for name, params in POLICIES.items():
        seconds = {}
        for servers in sizes:
            step(f"{name}, {servers:,} servers")
            cpu_s, tasks = _round(_world(jobs, servers), name, params, repetitions)
            seconds[servers] = cpu_s
            budget = BUDGET_S if servers == max(SIZES) else None
            case = f"{name}-{servers}"
            rows.append(Measurement(case, "cpu_s", cpu_s, "s", "smaller", budget))
            rows.append(Measurement(case, "tasks", tasks, "tasks", "neither"))
        growth = seconds[max(sizes)] / seconds[min(sizes)]
        rows.append(Measurement(name, "time_ratio", growth, "x", "smaller"))
    return Findings(f"{jobs:,} elastic jobs that ask for 12 or 13 bundles, from empty", tuple(rows))


def _round(world: World, name: str, params: dict[str, object], repetitions: int) -> tuple[float, int]:
    """Median CPU seconds of the first decision, and the number of tasks that it places."""
    policy = create_policy(name, params)
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    view = simulation.advance()
    assert view is not None, "jobs come at once"
    seconds, tasks = [], 0
    for _ in range(repetitions + 1):
        began = time.process_time()
        changes = policy.decide(view).changes
        seconds.append(time.process_time() - began)
        assert changes is not None, "something fits"
        tasks = int(changes.tasks.sum())
    return statistics.median(seconds[1:]), tasks


def _world(jobs: int, servers: int) -> World:
    """World of jobs that arrive at once with different demands, on identical servers."""
    cluster = Cluster(
        name="alike",
        server_names=tuple(f"s{i}" for i in range(servers)),
        resources=_RESOURCES,
        capacity=np.tile(np.array(_SERVER, dtype=np.int64), (servers, 1)),
        speed=np.ones(servers),
        vc=(None,) * servers,
        kind=(ServerKind.PLAIN,) * servers,
        gpu_type=(None,) * servers,
    )
    return build_world(_table(jobs), cluster, params={"truth": "placement", "slot_s": 600})


def _table(n: int) -> JobTable:
    draw = Streams(1).generator("bench-shares")
    ones, bundles = np.ones(n), np.resize(BUNDLES, n)
    worker = np.stack([draw.integers(0, 3, n), draw.integers(1, 6, n), draw.integers(1, 16, n)], axis=1)
    ps = np.stack([np.zeros(n, np.int64), draw.integers(1, 6, n), draw.integers(1, 16, n)], axis=1)
    quanta = np.array([1000, 1000, 1024])
    return JobTable(
        job_id=pl.Series([f"job-{i}" for i in range(n)], dtype=pl.String),
        submit_us=np.zeros(n, dtype=np.int64),
        work_us=draw.integers(10**9, 10**10, n),
        tasks=np.ones(n, dtype=np.int64),
        demand=worker * quanta,
        resources=_RESOURCES,
        num_gpus=ones,
        vc=np.full(n, -1, dtype=np.int64),
        trace_order=np.arange(n),
        training=TrainingProfile(
            exchange=np.full(n, Exchange.SYNC, dtype=np.int64),
            epochs=ones,
            samples=1e6 * ones,
            batch=64 * ones,
            sample_s=0.01 * ones,
            gradient_mb=50 * ones,
            bandwidth_mbps=1000 * ones,
            internal_bandwidth_mbps=1e5 * ones,
            step_s=0 * ones,
            step_s_per_worker=0 * ones,
            step_s_per_ps=0 * ones,
            workers_per_ps=ones,
            num_workers=bundles,
            num_ps=bundles,
            worker_demand=worker * quanta,
            ps_demand=ps * quanta,
            model=np.full(n, -1, dtype=np.int64),
            model_names=(),
        ),
    )
