"""The first fault of a decision's changes, fault by fault."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.kernels.core import feasibility
from ray_sim.kernels.core.arrays import WORKER
from tests.kernels.by_hand import Rows, Run, ints, world_arrays
from tests.worlds import changes_of


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(0, [(0, WORKER, 2)]), (2, [(0, WORKER, 2), (1, WORKER, 2)])], (feasibility.OK, -1, -1)),
        ([(3, [])], (feasibility.NO_SUCH_JOB, 3, -1)),
        ([(1, [(0, WORKER, 1)]), (0, [(0, WORKER, 2)])], (feasibility.NOT_SORTED, 0, -1)),
        ([(0, [(2, WORKER, 2)])], (feasibility.NO_SUCH_SERVER, 0, 2)),
        ([(0, [(0, 1, 2)])], (feasibility.BAD_ROLE, 0, 0)),
        ([(0, [(0, WORKER, 3)])], (feasibility.BAD_COUNT, 0, 0)),  # of a gang of 2
        ([(0, [(0, WORKER, 1)])], (feasibility.NOT_A_GANG, 0, -1)),
        ([(0, [(1, WORKER, 1), (0, WORKER, 1)])], (feasibility.NOT_SORTED, 0, 0)),
        ([(0, [(1, WORKER, 2)]), (1, [(1, WORKER, 1)])], (feasibility.OVER_CAPACITY, 1, 1)),  # 3 of 2
        ([(0, [])], (feasibility.NOTHING_HELD, 0, -1)),
    ],
)  # fmt: skip
def test_the_first_fault_of_changes_is_found(
    rows: list[tuple[int, Rows]], fault: tuple[int, int, int]
) -> None:
    shop = world_arrays([[4], [2]], [[[1]]] * 3, [[2], [1], [4]])
    run, free = Run.of(shop, [10, 10, 10]), np.empty_like(shop.capacity)
    run.submit(0, 0)
    assert feasibility.check_changes(run.steps, changes_of(rows), ints([]), False, 1, free, None) == fault
    assert run.books.pool.free.tolist() == [[4], [2]]  # a check changes nothing
