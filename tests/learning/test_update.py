"""The baseline where there is no critic."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")

from ray_sim.learning.update import MovingAverage


def test_a_moving_average_by_hand() -> None:
    """With decay 0.5: (1 x 0.5 + 4) / (0.5 + 1) = 3."""
    average = MovingAverage(0.5)
    assert average.value == 0.0
    average.add(np.array([1.0, 4.0]))
    assert average.value == 3.0
