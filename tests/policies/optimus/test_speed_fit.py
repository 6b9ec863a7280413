"""Optimus's models of speed: what they recover from trial runs."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.model.job import Exchange
from ray_sim.model.units import FloatArray
from ray_sim.policies.optimus.allocation import step_s
from ray_sim.policies.optimus.speed_fit import Speeds, fitted_times, trial_pairs
from tests.optimus_speeds import AsyncSpeed, SyncSpeed

SYNC_THETA = np.array([0.02, 0.5, 0.3, 0.01, 0.02])
ASYNC_THETA = np.array([2.0, 0.3, 0.01, 0.02])


def speeds_of(workers: FloatArray, ps: FloatArray, steps_per_s: FloatArray) -> Speeds:
    """Speeds of one job."""
    return Speeds(np.array([0, len(workers)]), workers, ps, steps_per_s)


def seen(model: SyncSpeed | AsyncSpeed, pairs: list[tuple[int, int]]) -> Speeds:
    w, p = np.array(pairs, dtype=np.float64).T
    return speeds_of(w, p, model.steps_per_s(w, p))


def fitted_time(exchange: Exchange, batch: float, speeds: Speeds) -> FloatArray:
    """Coefficients of one job."""
    one: FloatArray = fitted_times(np.array([exchange]), np.array([batch]), speeds)[0]
    return one


MIXED = [(1, 1), (1, 2), (2, 1), (4, 2), (8, 8)]


def test_synchronous_speeds_are_recovered_from_five_pairs() -> None:
    model = SyncSpeed(np.array(128.0), SYNC_THETA)
    found = fitted_time(Exchange.SYNC, 128.0, seen(model, MIXED))
    np.testing.assert_allclose(found, [0.02 * 128, 0.5, 0.3, 0.01, 0.02, 0, 0], rtol=1e-9, atol=1e-12)
    # Example 3.A: f(1, 1) = 1 / (2.56 + 0.5 + 0.3 + 0.01 + 0.02); arguments are workers, then servers.
    assert 1 / step_s(found, 1, 1) == pytest.approx(0.294985, abs=1e-6)
    assert 1 / step_s(found, 2, 1) == pytest.approx(0.413223, abs=1e-6)
    assert 1 / step_s(found, 1, 2) == pytest.approx(0.306748, abs=1e-6)


def test_asynchronous_speeds_are_recovered_from_four_pairs() -> None:
    """W / f = 2 + 0.3 w / p + 0.01 w + 0.02 p, so 1 / f = 2 / w + 0.3 / p + 0.01 + 0.02 p / w."""
    model = AsyncSpeed(ASYNC_THETA)
    found = fitted_time(Exchange.ASYNC, 32.0, seen(model, MIXED[1:]))
    np.testing.assert_allclose(found, [2, 0.01, 0, 0, 0, 0.3, 0.02], rtol=1e-9, atol=1e-12)
    assert 1 / step_s(found, 6, 3) == pytest.approx(float(model.steps_per_s(np.array(6.0), np.array(3.0))))


def test_pairs_that_tell_nothing_apart_leave_terms_out_and_predict_their_like() -> None:
    """With w = p only, w and p are one column: any split of their sum predicts the speeds seen."""
    model = SyncSpeed(np.array(64.0), SYNC_THETA)
    alike = [(n, n) for n in range(1, 11)]
    found = fitted_time(Exchange.SYNC, 64.0, seen(model, alike))
    assert (found == 0).sum() >= 4  # two terms the model lacks, and at least two it cannot tell
    for n in (1, 5, 20):
        exact = model.steps_per_s(np.array(float(n)), np.array(float(n)))
        assert 1 / step_s(found, n, n) == pytest.approx(float(exact))
    once = fitted_time(Exchange.SYNC, 64.0, seen(model, [(3, 2)]))
    assert 1 / step_s(once, 3, 2) == pytest.approx(float(model.steps_per_s(np.array(3.0), np.array(2.0))))


def test_jobs_without_parameter_servers_have_no_terms_of_them() -> None:
    w = np.array([1.0, 2, 4, 8])
    found = fitted_time(Exchange.ALL_REDUCE, 100.0, speeds_of(w, np.zeros(4), 1 / (5 / w + 0.25 + 0.01 * w)))
    np.testing.assert_allclose(found, [5, 0.25, 0, 0.01, 0, 0, 0], rtol=1e-9, atol=1e-12)


def test_errors_count_relative_to_the_speed() -> None:
    """Speeds 1 % too high all over scale every coefficient alike."""
    model = SyncSpeed(np.array(128.0), SYNC_THETA)
    exact = seen(model, [*MIXED, (16, 4), (16, 16)])
    fast = speeds_of(exact.workers, exact.ps, exact.steps_per_s * 1.01)
    one, other = (fitted_time(Exchange.SYNC, 128.0, speeds) for speeds in (exact, fast))
    np.testing.assert_allclose(other * 1.01, one, rtol=1e-8, atol=1e-12)


def test_trials_are_as_large_as_is_of_use() -> None:
    for exchange in Exchange:
        w, p = trial_pairs(exchange, 100)
        assert 8 <= len(w) <= 10
        assert (w != p).any()
        assert (p == 0).all() == (exchange == Exchange.ALL_REDUCE)
        w, _ = trial_pairs(exchange, 3)
        assert w.max() <= 3
        assert len(trial_pairs(exchange, 1)[0]) >= 1
