"""Measured jobs of equal speeds are rigid jobs; certificates count GPUs at the price of their type."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.pools import TypeSpeeds
from ray_sim.solvers.jct_bound import jct_bounds
from tests.measured_worlds import Steps, measured_world, speed_table
from tests.proofs import instances
from tests.worlds import Job, cluster_of, job_table, replay, times_of

E_SPEEDS = np.array([[4.0, 1.0], [2.0, 1.0], [3.0, 3.0]])
E_STEPS = np.array([4000.0, 2000.0, 6000.0])


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "las"])
def test_jobs_of_speed_1_everywhere_are_rigid(policy: str) -> None:
    for seed in range(instances(100)):
        draw = np.random.default_rng([51, seed])
        n, servers = int(draw.integers(2, 12)), draw.integers(1, 5, draw.integers(1, 4)).tolist()
        jobs = [
            Steps(float(at), "m", int(steps), int(gpus))
            for at, steps, gpus in zip(
                np.sort(draw.integers(0, 30, n)), draw.integers(1, 20, n), draw.integers(1, 5, n), strict=True
            )
        ]
        speeds = speed_table({("m", gpus): {"X": 1.0} for gpus in range(1, 5)})
        measured = measured_world(jobs, [("X", gpus) for gpus in servers], speeds)
        rigid = build_world(
            job_table([Job(job.submit_s, job.gpus, job.steps) for job in jobs]), cluster_of(servers)
        )
        for placement in ("consolidate", "spread"):
            found = times_of(replay(measured, policy, placement=placement))
            assert found == times_of(replay(rigid, policy, placement=placement)), f"instance {seed}"


@pytest.mark.parametrize(
    ("prices", "b2", "b3"), [((1.0, 1.0), 7000 / 6, 1500.0), ((1.0, 0.5), 4000 / 3, 5000 / 3)]
)
def test_priced_gpus_of_three_jobs_on_two_types(prices: tuple[float, float], b2: float, b3: float) -> None:
    # One GPU of each type; prices 1, 1/2 reach the optimum of the mean, 1,666.7 s.
    alone = TypeSpeeds(np.array([0, 1]), E_SPEEDS / E_STEPS[:, None], np.ones(3))
    paid = alone.least_paid(np.arange(3), np.array(prices))
    assert paid.tolist() == pytest.approx([1000, 1000, 2000 if prices[1] == 1 else 1000])
    bounds = jct_bounds(
        np.zeros(3, dtype=np.int64),
        (E_STEPS / E_SPEEDS.max(axis=1)),
        paid[:, None],
        np.array([[sum(prices)]]),
        np.zeros(3, dtype=np.int64),
    )
    assert bounds is not None
    assert (bounds.b2, bounds.b3) == pytest.approx((b2, b3))


def best_mean_s(steps: np.ndarray, speed: np.ndarray) -> float:
    """Least mean completion time of jobs of one GPU that come at 0, by trying all lists."""
    jobs, types = speed.shape
    best = float(np.inf)
    for order in permutations(range(jobs)):
        for where in np.ndindex(*(types,) * jobs):
            free = np.zeros(types)
            total = 0.0
            for job in order:
                free[where[job]] += steps[job] / speed[job, where[job]]
                total += float(free[where[job]])
            best = min(best, total / jobs)
    return best


def test_no_bound_of_measured_jobs_exceeds_the_best_list_schedule() -> None:
    tight = 0
    for seed in range(instances(400, 40)):
        draw = np.random.default_rng([510, seed])
        n = int(draw.integers(2, 5))
        speed = draw.choice([1.0, 2.0, 3.0, 4.0, 8.0], (n, 2))
        steps = draw.integers(1, 50, n)
        table = speed_table({(f"m{j}", 1): dict(zip("XY", speed[j], strict=True)) for j in range(n)})
        jobs = [Steps(0.0, f"m{j}", int(steps[j])) for j in range(n)]
        world = measured_world(jobs, [("X", 1), ("Y", 1)], table)
        certificate = replay(world, "fifo").summary.certificate
        best = best_mean_s(steps, speed)
        assert certificate is not None
        assert certificate.bound_s <= best + 1e-6, f"instance {seed}"
        tight += certificate.resource == "priced GPUs"
    assert tight > 0
