"""True speeds of jobs that share servers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ray_sim.engine.simulation import Simulation
from ray_sim.kernels.core.arrays import RUNNING
from ray_sim.learning.speeds import Running, true_speeds
from ray_sim.policies.registry import create_policy
from tests.learning.batch_worlds import random_worlds

Ints = npt.NDArray[np.int64]


def test_they_are_the_rates_of_a_run_with_these_placements() -> None:
    for world in random_worlds(1, 20, jobs=10):
        simulation = Simulation(world, policy := create_policy("load_balance", {}))
        policy.start(simulation.world, simulation.streams)
        compared = 0
        while (view := simulation.advance()) is not None:
            simulation.apply(policy.decide(view))
            ledger = simulation.core.ledger
            jobs = np.flatnonzero(ledger.status == RUNNING)
            running = Running(jobs[None], held(simulation, jobs)[None])
            np.testing.assert_array_equal(true_speeds([world]).rates(running)[0], ledger.rate[jobs])
            compared += len(jobs)
        assert compared > 0


def held(simulation: Simulation, jobs: Ints) -> Ints:
    """(K, 2, S) tasks of jobs."""
    pool, servers = simulation.core.placements.pool, len(simulation.world.cluster)
    tasks = np.zeros((len(jobs), 2, servers), dtype=np.int64)
    for k, job in enumerate(jobs):
        row = pool.head[job]
        while row >= 0:
            tasks[k, pool.row_role[row], pool.row_server[row]] += pool.row_count[row]
            row = pool.row_next[row]
    return tasks


def _random_running(draw: np.random.Generator, jobs: int) -> Running:
    tasks = draw.integers(0, 3, (4, jobs, 2, 3))
    tasks[:, :, :, 0] += 1
    return Running(np.tile(np.arange(jobs), (4, 1)), tasks)


def test_a_permutation_of_jobs_permutes_the_speeds() -> None:
    (world,) = random_worlds(2, 1, jobs=8)
    jobs = len(world.table)
    truth, draw = true_speeds([world]), np.random.default_rng(1)
    running = _random_running(draw, jobs)
    before = truth.rates(running).copy()
    order = draw.permutation(jobs)
    after = truth.rates(Running(running.job[:, order].copy(), running.tasks[:, order].copy()))
    np.testing.assert_array_equal(after, before[:, order])


def test_a_permutation_of_equal_servers_changes_no_speed() -> None:
    (world,) = random_worlds(2, 1, jobs=8)
    truth, draw = true_speeds([world]), np.random.default_rng(1)
    running = _random_running(draw, len(world.table))
    before = truth.rates(running).copy()
    after = truth.rates(Running(running.job, running.tasks[..., draw.permutation(3)].copy()))
    np.testing.assert_allclose(after, before, rtol=1e-12)  # rates of workers are summed server by server
