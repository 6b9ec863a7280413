"""The paper's form of the loss, worked out by hand, and the epochs at which jobs end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ray_sim.model.loss import last_epoch, last_epoch_with_drop, loss


def test_the_drop_of_example_3_d_falls_below_a_thousandth_at_epoch_118() -> None:
    # l(116) - l(117) = 0.001013, l(117) - l(118) = 0.000999.
    b0, b1, b2 = np.array(0.05), np.array(1.2), np.array(0.1)
    values = loss(b0, b1, b2, np.array([0.0, 116.0, 117.0, 118.0]))
    assert values[0] == pytest.approx(1 / 1.2 + 0.1)
    np.testing.assert_allclose(-np.diff(values[1:]), [0.001013, 0.000999], atol=5e-7)
    threshold = np.array(1e-3)
    assert last_epoch(b0, b1, threshold, np.array(1.0)) == 118
    assert last_epoch(b0, b1, threshold, np.array(10.0)) == 127


@given(
    b0=st.floats(1e-3, 10),
    b1=st.floats(1e-3, 10),
    threshold=st.floats(1e-4, 0.5),
)
def test_a_job_ends_at_the_first_epoch_that_drops_by_less_than_the_threshold(
    b0: float, b1: float, threshold: float
) -> None:
    first = last_epoch(np.array(b0), np.array(b1), np.array(threshold), np.array(1.0))
    epochs = np.maximum(first + np.array([-2.0, -1.0, 0.0, 1.0]), 0)
    at = loss(np.array(b0), np.array(b1), np.array(0.0), epochs)
    assert at[1] - at[2] <= threshold * (1 + 1e-9)
    assert first == 1 or at[0] - at[1] >= threshold * (1 - 1e-9)


def test_a_drop_of_the_loss_starts_the_count_anew() -> None:
    # l(k) = 1 / (k + 1) is 1, 1/2, 1/3, 1/4, 1/5, ...; it falls by 0.083 in epoch 3 and by 0.05 in epoch 4.
    def end(drop: float, epoch: float) -> float:
        given = (1.0, 1.0, 0.1, 2.0, drop, epoch)
        return float(last_epoch_with_drop(*(np.array(number) for number in given)))

    assert end(0.0, 0.0) == 4
    # Halved from epoch 4 on: it falls from 1/4 to 1/10, by 0.15; then by 1/10 - 1/12 = 0.017.
    one, epochs = np.array(1.0), np.array([3.0, 4.0, 5.0])
    halved = loss(one, one, np.array(0.0), epochs, 0.5, 4.0)
    np.testing.assert_allclose(halved, [1 / 4, 1 / 10, 1 / 12])
    assert end(0.5, 4.0) == 6
    assert end(0.5, 5.0) == 4  # it has ended before
    assert end(0.1, 4.0) == 4  # 1/4 - 9/50 = 0.07 is below the threshold


@given(
    b0=st.floats(1e-2, 10),
    b1=st.floats(1e-2, 10),
    threshold=st.floats(1e-3, 0.5),
    patience=st.integers(1, 5),
    drop=st.floats(0, 0.9),
    drop_epoch=st.integers(0, 40),
)
def test_the_last_epoch_is_where_counting_the_falls_ends(
    b0: float, b1: float, threshold: float, patience: int, drop: float, drop_epoch: int
) -> None:
    curve = loss(np.array(b0), np.array(b1), np.array(0.1), np.arange(0.0, 800.0), drop, max(drop_epoch, 1))
    falls = -np.diff(curve)
    assume((np.abs(falls - threshold) > 1e-9).all())
    in_a_row, epoch = 0, 0
    while in_a_row < patience:
        in_a_row = in_a_row + 1 if falls[epoch] < threshold else 0
        epoch += 1
    given = (b0, b1, threshold, float(patience), drop, float(drop_epoch))
    assert last_epoch_with_drop(*(np.array(number) for number in given)) == epoch
