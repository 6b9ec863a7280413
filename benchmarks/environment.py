"""Environments of gymnasium: placements per CPU second, resets, and a vector of environments."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from benchmarks.figures import Figures
from benchmarks.week import equal_servers
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.job import Exchange, JobTable, TrainingProfile
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

if TYPE_CHECKING:
    import gymnasium

PLACEMENTS_BUDGET, RESET_BUDGET_MS, VECTOR_BUDGET = 8_000, 1.0, 0.95
"""Least placements per CPU second, largest milliseconds of a reset, and least placements per CPU second of a
vector relative to one environment."""

JOBS, VECTOR = 1_000, 8

_ID = "ray_sim.environments:ray_sim/Placement-v1"
_SERVERS, _SLOT_S, _JOBS_PER_SLOT = 6, 1200, 3
_RESOURCES = ("gpu", "cpu", "memory_gib")


@pytest.fixture
def world(figures: Figures) -> World:
    """Jobs on the servers of Harmony's testbed."""
    pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'ray_sim[gym]'")
    jobs = 20 if figures.small else JOBS
    figures.input(f"{jobs} elastic jobs on {_SERVERS} servers, {_JOBS_PER_SLOT} in each interval")
    return harmony_world(jobs)


def test_placements(world: World, figures: Figures) -> None:
    import gymnasium

    one: gymnasium.Env[Any, Any] = gymnasium.make(_ID, episodes=world)
    several = gymnasium.make_vec(_ID, num_envs=VECTOR, episodes=world)
    alone: list[float] = []
    together: list[float] = []
    _episode(one)

    def one_after_the_other() -> None:
        alone.append(statistics.harmonic_mean([_episode(one) for _ in range(VECTOR)]))

    figures.median_s(lambda: together.append(_episodes(several)), 5, before_each=one_after_the_other)
    rate, ratio = statistics.median(alone), statistics.median(np.divide(together, alone).tolist())
    figures.add("one.placements_per_cpu_s", rate, "placements/s", "larger", PLACEMENTS_BUDGET)
    figures.add(f"vector-{VECTOR}.times_one", ratio, "x", "larger", VECTOR_BUDGET)


def test_resets(world: World, figures: Figures) -> None:
    import gymnasium

    one: gymnasium.Env[Any, Any] = gymnasium.make(_ID, episodes=world)
    reset_ms = 1000 * figures.median_s(lambda: one.reset(seed=0), 200)
    figures.add("one.reset_ms", reset_ms, "ms", "smaller", RESET_BUDGET_MS)


def _episode(env: gymnasium.Env[Any, Any]) -> float:
    """Placements per CPU second of an episode in which the first valid action is taken."""
    seen, _ = env.reset(seed=0)
    steps, over = 0, False
    began = time.process_time()
    while not over:
        seen, _, terminated, truncated, _ = env.step(seen["action_mask"].argmax())
        steps, over = steps + 1, terminated or truncated
    return steps / (time.process_time() - began)


def _episodes(envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> float:
    """The same of all environments together; their episodes are equal, so they end in one step."""
    seen, _ = envs.reset(seed=0)
    steps, over = 0, False
    began = time.process_time()
    while not over:
        seen, _, terminated, truncated, _ = envs.step(seen["action_mask"].argmax(axis=1))
        steps, over = steps + envs.num_envs, bool((terminated | truncated).all())
    return steps / (time.process_time() - began)


def harmony_world(jobs: int) -> World:
    """World of small asynchronous jobs on the servers of Harmony's testbed, about half of which are busy."""
    draw = Streams(1).generator("benchmark-environment")
    workers, ps = draw.integers(1, 4, jobs), draw.integers(1, 3, jobs)
    batch = np.full(jobs, 64.0)

    def every(value: float) -> FloatArray:
        return np.full(jobs, value)

    def demand(*quanta: int) -> IntArray:
        return np.tile(quanta, (jobs, 1)).astype(np.int64)

    training = TrainingProfile(
        exchange=np.full(jobs, Exchange.ASYNC, dtype=np.int64),
        epochs=draw.integers(10, 50, jobs).astype(np.float64),
        samples=batch * draw.integers(20, 100, jobs),
        batch=batch,
        sample_s=draw.choice([0.01, 0.02], jobs),
        gradient_mb=draw.choice([10.0, 100.0], jobs),
        bandwidth_mbps=every(1000.0),
        internal_bandwidth_mbps=every(10_000.0),
        step_s=every(0.02),
        step_s_per_worker=every(0.001),
        step_s_per_ps=every(0.001),
        workers_per_ps=every(2.0),
        num_workers=workers,
        num_ps=ps,
        worker_demand=demand(1_000, 2_000, 8 * 1024),
        ps_demand=demand(0, 2_000, 8 * 1024),
        model=draw.integers(0, 2, jobs),
        model_names=("small", "large"),
    )
    submit = np.sort(draw.integers(0, jobs // _JOBS_PER_SLOT * _SLOT_S + 1, jobs)) * 1_000_000
    table = JobTable(
        job_id=pl.Series([f"J{i}" for i in range(jobs)]),
        submit_us=submit - submit[0],
        work_us=draw.integers(600, 7200, jobs) * 1_000_000,
        tasks=workers,
        demand=demand(1_000, 2_000, 8 * 1024),
        resources=_RESOURCES,
        num_gpus=workers.astype(np.float64),
        vc=np.full(jobs, -1),
        training=training,
    )
    params = {"truth": "placement", "slot_s": _SLOT_S, "overcommit": 2.0}
    return build_world(table, harmony_servers(), params=params)


def harmony_servers() -> Cluster:
    """Six servers of Harmony's testbed."""
    return equal_servers([ServerKind.PLAIN] * _SERVERS, {"gpu": 2, "cpu": 8, "memory_gib": 48})
