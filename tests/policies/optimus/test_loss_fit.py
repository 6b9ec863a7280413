"""Optimus's model of the loss: what it recovers, and what it makes of bad points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.loss import last_epoch, loss
from ray_sim.model.units import FloatArray
from ray_sim.policies.optimus.loss_fit import clean_point, epochs_left, fitted_curves
from tests.proofs import instances

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
