"""Small jobs for computations of shares, and what all shares must keep."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow


def example(**changes: object) -> JobsNow:
    """Three new jobs of one GPU and weight 1 on two types, a and b, of one GPU each, with changes."""
    jobs = JobsNow(
        job=np.arange(3),
        speed=np.array([[4.0, 1.0], [2.0, 1.0], [3.0, 3.0]]),
        gpus=np.ones(3, dtype=np.int64),
        weight=np.ones(3),
        steps_left=np.array([4000.0, 2000.0, 6000.0]),
        age_s=np.zeros(3),
        capacity=np.array([1, 1]),
        pairs=np.zeros((0, 2), dtype=np.int64),
        pair_speed=np.zeros((0, 2, 2)),
    )
    arrays = {name: np.array(value) for name, value in changes.items()}
    return replace(jobs, **arrays)


def rows_of(now: JobsNow, rows: npt.ArrayLike) -> JobsNow:
    """Some of the jobs, in any order, which keep their rows of the workload; without pairs."""
    of_jobs = ("job", "speed", "gpus", "weight", "steps_left", "age_s")
    return replace(now, **{name: getattr(now, name)[rows] for name in of_jobs})


def random_jobs(rng: np.random.Generator, jobs: int, *, pairs: bool = False) -> JobsNow:
    """Jobs of three types, some of which do not run on the first; ``pairs``: one GPU each, some share it."""
    speed = rng.uniform(0.5, 10, (jobs, 1)) * rng.uniform(0.5, 4, (jobs, 3))
    speed[rng.random(jobs) < 0.2, 0] = 0
    together = np.array(list(combinations(range(jobs), 2)), dtype=np.int64).reshape(-1, 2)
    together = together[rng.random(len(together)) < 0.7] if pairs else together[:0]
    share = rng.uniform(0.2, 1, (len(together), 2, 3))
    return JobsNow(
        job=np.arange(jobs),
        speed=speed,
        gpus=np.ones(jobs, dtype=np.int64) if pairs else rng.choice([1, 1, 2, 4], jobs),
        weight=rng.choice([1.0, 1.0, 5.0], jobs),
        steps_left=rng.uniform(1e3, 1e6, jobs),
        age_s=rng.uniform(0, 1e4, jobs),
        capacity=rng.integers(4, 9, 3),
        pairs=together,
        pair_speed=speed[together] * share * (speed[together] > 0).all(axis=1, keepdims=True),
    )


def speeds(now: JobsNow, shares: FloatArray) -> FloatArray:
    """(J,) steps per second of each job with these shares."""
    jobs = len(now.job)
    total: FloatArray = (now.speed * shares[:jobs]).sum(axis=1)
    np.add.at(total, now.pairs, (now.pair_speed * shares[jobs:, None]).sum(axis=2))
    return total


def assert_shareable(now: JobsNow, shares: FloatArray) -> None:
    """Each job's time and each type's GPUs are enough, but for what rounding to six digits adds."""
    jobs = len(now.job)
    time = shares[:jobs].sum(axis=1)
    np.add.at(time, now.pairs, shares[jobs:].sum(axis=1)[:, None])
    gpus = np.concatenate([now.gpus, now.gpus[now.pairs[:, 0]]])
    assert (shares >= 0).all()
    assert (time <= 1 + 2e-6).all()
    assert (gpus @ shares <= now.capacity + 1e-6 * gpus.sum()).all()
