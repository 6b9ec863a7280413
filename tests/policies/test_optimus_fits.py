"""Optimus's models of loss and speed: what they recover, and what they make of bad points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.job import Exchange
from ray_sim.model.loss import last_epoch, loss
from ray_sim.model.units import FloatArray
from ray_sim.policies.optimus.allocation import step_s
from ray_sim.policies.optimus.loss_fit import clean_point, epochs_left, fitted_curves
from ray_sim.policies.optimus.speed_fit import Speeds, fitted_times, trial_pairs
from tests.optimus_speeds import AsyncSpeed, SyncSpeed
from tests.proofs import instances

SYNC_THETA = np.array([0.02, 0.5, 0.3, 0.01, 0.02])
ASYNC_THETA = np.array([2.0, 0.3, 0.01, 0.02])
B = np.array([0.05, 1.2, 0.1])


def curve(b: FloatArray, epochs: int) -> FloatArray:
    return loss(b[0], b[1], b[2], np.arange(1.0, epochs + 1))


def fit(*losses: FloatArray) -> FloatArray:
    ptr = np.concatenate([[0], np.cumsum([len(of_job) for of_job in losses])]).astype(np.int64)
    return fitted_curves(ptr, np.concatenate(losses))


def test_the_loss_curve_of_example_3d_is_found_again() -> None:
    """B = (0.05, 1.2, 0.1) from 60 points; the drop is 0.001013 at epoch 117 and 0.000999 at 118."""
    np.testing.assert_allclose(fit(curve(B, 60))[0], B, rtol=1e-5)
    b0, b1, _ = fit(curve(B, 60))[0]
    assert last_epoch(b0, b1, np.array(1e-3), np.array(1.0)) == 118
    left = epochs_left(fit(curve(B, 60)), np.array([60.0]), np.array([1e-3]), np.array([10.0]), 1000.0)
    assert left[0] == 118 + 9 - 60


@settings(max_examples=instances(60), deadline=None)
@given(
    b0=st.floats(0.01, 1),
    b1=st.floats(0.2, 3),
    b2=st.floats(0, 1),
    n=st.integers(20, 400),
    scale=st.floats(0.01, 100),
)
def test_noise_free_losses_are_followed_at_any_scale(
    b0: float, b1: float, b2: float, n: int, scale: float
) -> None:
    exact = scale * curve(np.array([b0, b1, b2]), n)
    found = fit(exact)[0]
    np.testing.assert_allclose(curve(found, n), exact, rtol=1e-4)


def test_jobs_are_fitted_each_by_itself() -> None:
    other = np.array([0.3, 0.9, 0.0])
    together = fit(curve(B, 60), np.empty(0), curve(other, 30), curve(B, 4))
    np.testing.assert_array_equal(together[0], fit(curve(B, 60))[0])
    np.testing.assert_array_equal(together[2], fit(curve(other, 30))[0])
    np.testing.assert_array_equal(together[[1, 3]], 0.0)  # no point, and fewer than five


def test_a_point_off_its_neighbours_becomes_their_mean() -> None:
    """The next five are at least 0.4, the five before at most 0.9; 5.0 and 0.1 lie outside, 0.62 inside."""
    falling = np.array([1.0, 0.9, 0.8, 0.7, 5.0, 0.6, 0.5, 0.4, 0.3])
    assert clean_point(falling, 0, 9, 4) == (0.7 + 0.6) / 2
    falling[4] = 0.1
    assert clean_point(falling, 0, 9, 4) == (0.7 + 0.6) / 2
    falling[4] = 0.62
    assert clean_point(falling, 0, 9, 4) == 0.62
    assert clean_point(np.array([0.1, 0.9, 0.8]), 0, 3, 0) == 0.9  # at the ends, the only neighbour
    assert clean_point(np.array([0.9, 0.8, 7.0]), 0, 3, 2) == 0.8


def test_outliers_do_not_spoil_the_fit() -> None:
    points = curve(B, 60)
    points[[10, 33]] = [9.0, 0.0]
    np.testing.assert_allclose(curve(fit(points)[0], 60), curve(B, 60), rtol=2e-3)


@pytest.mark.parametrize("losses", [np.zeros(9), np.full(9, 0.7), np.arange(1.0, 10)])
def test_losses_that_do_not_fall_leave_the_default_of_twenty_epochs(losses: FloatArray) -> None:
    curves = fit(losses)
    assert curves[0, 0] == 0.0
    done, one = np.array([9.0]), np.ones(1)
    assert epochs_left(curves, done, 1e-3 * one, one, 100.0) == 20
    assert epochs_left(curves, done, 1e-3 * one, one, 15.0) == 15 - 9
    assert epochs_left(curves, done, 1e-3 * one, one, 5.0) == 1  # never less than one epoch


@settings(max_examples=instances(100), deadline=None)
@given(st.lists(st.floats(0, 1e6) | st.sampled_from([0.0, 1.0]), max_size=40))
def test_any_losses_give_coefficients_that_are_numbers(losses: list[float]) -> None:
    found = fit(np.array(losses))
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def test_noisy_losses_give_the_end_within_a_tenth() -> None:
    """b0 = 0.05, threshold 0.005: the true end is epoch 42 + 9; of 20 noisy runs the median errs by less."""
    draw = np.random.default_rng(1)
    noisy = [curve(B, 35) + draw.normal(0, 0.005, 35) for _ in range(20)]
    one = np.ones(20)
    end = 35 + epochs_left(fit(*noisy), 35 * one, 0.005 * one, 10 * one, 100.0)
    true = last_epoch(B[0], B[1], np.array(0.005), np.array(10.0))
    assert np.median(np.abs(end / true - 1)) < 0.1


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
