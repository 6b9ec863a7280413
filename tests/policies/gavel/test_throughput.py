"""Throughput: its worked examples, with prices and deadlines."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.policies.gavel.needs import mean_speed
from ray_sim.policies.gavel.throughput import Throughput
from tests.policies.gavel.small_jobs import assert_shareable, example, random_jobs, rows_of, speeds
from tests.proofs import instances

E = example()
PRICES = np.array([2.0, 1.0])


def test_largest_sum_of_speeds() -> None:
    shares = Throughput().shares(E)
    np.testing.assert_allclose(shares, [[1, 0], [0, 0], [0, 1]], atol=1e-12)
    assert speeds(E, shares).sum() == pytest.approx(7)


def test_largest_sum_of_speeds_over_price() -> None:
    # 4/2 or 2/2 or 3/2 on a, 3/1 on b: 2 + 3.
    shares = Throughput(prices=PRICES).shares(E)
    assert (E.speed * shares / PRICES).sum() == pytest.approx(5)


def test_largest_sum_of_speeds_relative_to_the_mean_gpu() -> None:
    # a: 4/2.5, 2/1.5, 3/3; b: 1/2.5, 1/1.5, 3/3. Job 1 to a, job 3 to b: 1.6 + 1.
    shares = Throughput(relative=True).shares(E)
    assert (speeds(E, shares) / mean_speed(E)).sum() == pytest.approx(2.6)


def test_a_deadline_costs_speed_of_others() -> None:
    # Job 2 needs 2000 steps in 2000 s: half of a, of which job 1 has the rest: 0.5 x 4/2 + 0.5 x 2/2 + 3.
    rule = Throughput(prices=PRICES, allowed_s=np.array([np.inf, 2000.0, np.inf]))
    shares = rule.shares(E)
    np.testing.assert_allclose(shares, np.array([[0.5, 0], [0.5, 0], [0, 1]]), atol=1e-9)
    assert (E.speed * shares / PRICES).sum() == pytest.approx(4.5)
    assert rule.infeasible == 0


@pytest.mark.parametrize("age_s", [0.0, 1500.0])
def test_deadlines_that_cannot_all_be_met_are_all_dropped_and_counted(age_s: float) -> None:
    # Jobs 1, 2 in 1000 s take all of a each; at 1500 s the deadlines are over.
    rule = Throughput(allowed_s=np.array([1000.0, 1000, np.inf]))
    np.testing.assert_array_equal(rule.shares(example(age_s=np.full(3, age_s))), Throughput().shares(E))
    assert rule.infeasible == 1
    again = Throughput(allowed_s=rule.allowed_s)
    again.restore(rule.state())
    again.shares(E)
    assert again.infeasible == 2


def test_deadlines_are_by_rows_of_the_workload() -> None:
    allowed_s = np.full(3, np.inf)
    allowed_s[1] = 2000
    shares = Throughput(allowed_s=allowed_s).shares(rows_of(E, [0, 1]))
    assert speeds(rows_of(E, [0, 1]), shares)[1] >= 1 - 1e-9


def test_no_shares_have_a_larger_sum() -> None:
    # Each of 200 random feasible shares has at most the sum.
    for seed in range(instances(20, 5)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, 6, pairs=bool(seed % 2))
        shares = Throughput().shares(now)
        assert_shareable(now, shares)
        gpus = np.concatenate([now.gpus, now.gpus[now.pairs[:, 0]]])
        for _ in range(200):
            tried = rng.random(shares.shape) * (rng.random(shares.shape) < 0.2)
            time = tried[:6].sum(axis=1)
            np.add.at(time, now.pairs, tried[6:].sum(axis=1)[:, None])
            tried /= max(time.max(), (gpus @ tried / now.capacity).max(), 1e-9)
            assert speeds(now, tried).sum() <= speeds(now, shares).sum() + 1e-9


def test_no_jobs_have_no_shares() -> None:
    assert Throughput().shares(rows_of(E, np.zeros(0, dtype=int))).shape == (0, 2)
