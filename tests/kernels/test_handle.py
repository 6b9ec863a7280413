"""Handles: kernels read and write the same arrays as through the group itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.handle import handle
from tests.command_line import python


class Inner(NamedTuple):
    """Group within a group."""

    values: I64
    matrix: I64


class Outer(NamedTuple):
    """Group that is passed."""

    inner: Inner
    added: I64


@kernel
def add_all(group: Outer, row: int) -> int:
    """Add to a row of the matrix, return the sum of the values."""
    total = 0
    for i in range(len(group.inner.values)):
        group.inner.matrix[row, i] += group.added[0]
        total += group.inner.values[i]
    return total


def test_a_kernel_sees_through_a_handle_what_it_sees_in_the_group() -> None:
    group = Outer(Inner(np.arange(4), np.zeros((2, 4), dtype=np.int64)), np.array([5]))
    by_handle = handle(group)
    assert add_all(by_handle, 1) == add_all(group, 0) == 6
    assert group.inner.matrix.tolist() == [[5] * 4, [5] * 4]
    group.added[0] = 7  # arrays are shared, not copied
    group.inner.values[3] = 10
    assert add_all(by_handle, 1) == 13
    assert group.inner.matrix.tolist() == [[5] * 4, [12] * 4]


def test_a_handle_keeps_its_arrays_alive() -> None:
    by_handle = handle(Outer(Inner(np.arange(1000), np.zeros((1, 1000), dtype=np.int64)), np.array([1])))
    others = [np.full(1000, -1) for _ in range(100)]  # would take the memory of arrays that are gone
    assert add_all(by_handle, 0) == 499_500
    assert len(others) == 100


STORED = """
import numpy as np
import pytest
from ray_sim.kernels import handle as handles
from ray_sim.kernels.core.arrays import new_calendar
handles.handle(new_calendar(3))
print(sum(handles._unpack.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_another_process_takes_the_stored_code_of_handles(tmp_path: Path) -> None:
    # What makes a handle is compiled too, by functions that have another pickle in each process.
    python("-c", STORED, NUMBA_CACHE_DIR=str(tmp_path))
    assert python("-c", STORED, NUMBA_CACHE_DIR=str(tmp_path)) == "1\n"


def test_without_compilation_a_handle_is_the_group() -> None:
    code = "from ray_sim.kernels.handle import handle; group = (1, 2); print(handle(group) is group)"
    assert python("-c", code, NUMBA_DISABLE_JIT="1") == "True\n"
