"""Read-only views: they share memory with the array, and numpy refuses every way to write to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ray_sim.engine.read_only import read_only


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5),
        np.zeros((0, 2), dtype=np.int64),
        np.ones(3),
        np.ones(3, dtype=np.bool_),
        np.eye(4)[:, ::2],
    ],
)
def test_a_view_sees_the_array_and_cannot_be_made_writable(array: Any) -> None:
    view = read_only(array)
    assert (view.shape, view.dtype) == (array.shape, array.dtype)
    assert (view == array).all()
    with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
        view.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        view[...] = 0
    assert array.flags.writeable
    array[...] = 0  # the owner writes, and the view shows it
    assert (view == 0).all()
