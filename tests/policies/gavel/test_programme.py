"""The linear programme and the tie rule beside general solvers, and their errors."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.needs import mean_speed
from ray_sim.policies.gavel.programme import InfeasibleSharesError, Programme, UnsolvedError
from tests.policies.gavel.small_jobs import example, random_jobs, speeds
from tests.proofs import instances

E = example()


def by_sequential_quadratic_programming(now: JobsNow, need: FloatArray) -> FloatArray:
    """The tie rule by a general solver, on the whole of J + P shares."""
    jobs, shape = len(now.job), (len(now.job) + len(now.pairs), len(now.capacity))
    gpus = np.concatenate([now.gpus, now.gpus[now.pairs[:, 0]]])
    weight = gpus[:, None] / now.capacity

    def slack(x: FloatArray) -> FloatArray:
        shares = x.reshape(shape)
        time = shares[:jobs].sum(axis=1)
        np.add.at(time, now.pairs, shares[jobs:].sum(axis=1)[:, None])
        return np.concatenate(
            [1 - time, 1 - gpus @ shares / now.capacity, speeds(now, shares) / need - (1 - 1e-6)]
        )

    runs = np.concatenate([now.speed > 0, (now.pair_speed > 0).all(axis=1)])
    problem: dict[str, Any] = {
        "fun": lambda x: (weight * x.reshape(shape) ** 2).sum(),
        "x0": np.full(runs.size, 0.1),
        "jac": lambda x: (2 * weight * x.reshape(shape)).ravel(),
        "bounds": [(0, float(each)) for each in runs.ravel()],
        "constraints": {"type": "ineq", "fun": slack},
        "options": {"ftol": 1e-14, "maxiter": 500},
    }
    result = minimize(method="SLSQP", **problem)
    assert result.success, result.message
    return np.reshape(result.x, shape)


@pytest.mark.parametrize("pairs", [False, True])
def test_tie_rule_is_the_least_sum_of_squares(pairs: bool) -> None:
    # At 0.8 of the largest level, where the general solver is sure to within 1e-5.
    for seed in range(instances(30, 6)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, int(rng.integers(1, 5)), pairs=pairs)
        programme = Programme("max_min", now)
        need = 0.8 * programme.corner(per_level=mean_speed(now)).level * mean_speed(now)
        expected = by_sequential_quadratic_programming(now, need)
        np.testing.assert_allclose(programme.evened(need), expected, rtol=0, atol=1e-5)


def test_level_and_its_binding_jobs_are_those_of_the_prices() -> None:
    # A dual solution bounds the level of other parts: here with one job's part doubled.
    for seed in range(instances(30, 6)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, int(rng.integers(2, 12)), pairs=bool(seed % 2))
        programme, part = Programme("max_min", now), mean_speed(now)
        level, shares, binding = programme.corner(per_level=part)
        assert binding.sum() == pytest.approx(1, rel=1e-9)
        rounding = 1e-6 * now.speed.max()  # of shares
        assert (speeds(now, shares) >= level * part - rounding).all()
        tight = binding > 1e-6
        np.testing.assert_allclose(speeds(now, shares)[tight], level * part[tight], rtol=0, atol=rounding)
        for job in range(2):
            raised = np.where(np.arange(len(part)) == job, part * 2, part)
            assert programme.corner(per_level=raised).level <= level / (1 + binding[job]) * (1 + 1e-9)


def test_identical_jobs_are_one_class_and_get_the_mean() -> None:
    # 20 jobs like job 1 of the example, 10 like job 2.
    rows = np.repeat([0, 1], [20, 10])
    now = replace(
        E,
        job=np.arange(30),
        speed=E.speed[rows],
        gpus=E.gpus[rows],
        weight=E.weight[rows],
        steps_left=E.steps_left[rows],
        age_s=E.age_s[rows],
    )
    # b to jobs like 2, with f of a: 10 x 1.5 z = 1 + 2 f and 20 x 2.5 z = 4 (1 - f), so 80 z = 6.
    level, shares, _ = Programme("max_min", now).corner(per_level=mean_speed(now))
    assert level == pytest.approx(0.075, rel=1e-9)
    assert (shares[:20] == shares[0]).all()
    assert (shares[20:] == shares[20]).all()


@pytest.mark.filterwarnings("error")
def test_types_without_gpus_have_no_shares() -> None:
    shares = Programme("max_min", replace(E, capacity=np.array([0, 3]))).evened(np.array([1.0, 1, 3]))
    np.testing.assert_allclose(shares, [[0, 1], [0, 1], [0, 1]], atol=2e-6)


def test_a_pair_of_which_one_does_not_run_has_no_shares() -> None:
    # On a job 2 would stand still while job 1 makes 2 steps per second.
    pair_speed = np.array([[[2.0, 1.5], [0.0, 1.0]]])
    now = example(speed=np.ones((3, 2)), pairs=[[0, 1]], pair_speed=pair_speed)
    level, shares, _ = Programme("max_min", now).corner(per_level=np.array([1.0, 0, 0]))
    assert level == pytest.approx(1.5)
    np.testing.assert_allclose(shares[3], [0, 1])


def test_errors_name_the_programme_and_its_sizes() -> None:
    text = re.escape("programme makespan of 3 jobs, 0 pairs, 2 GPU types: expected an optimum, found: ")
    with pytest.raises(UnsolvedError, match=text):
        Programme("makespan", E).evened(np.array([4.0, 2, 3]))
    with pytest.raises(InfeasibleSharesError, match=text):
        Programme("makespan", E).corner(floor=np.array([4.0, 2, 3]), gain=E.speed)
