"""Repair of whole tasks that a rounding left too many, too few or without room, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.kernels.planning.parametric_slot_lp import SlotOffer
from ray_sim.kernels.planning.slot_tasks import Room, Tasks, repair

PRICE = np.array([[3.0, 1.0], [1.0, 1.0], [3.0, 2.0]])
"""Of a worker and of a parameter server; a worker takes two quanta, a parameter server one."""
IN_ORDER = np.array([1, 0, 2]), np.array([0, 1, 2])


@pytest.mark.parametrize(
    ("free", "held", "needed", "repaired"),
    [
        # Surplus workers leave the dearest server, of equals the lowest; then the dearest parameter server.
        ([9, 9, 9], [(1, 1), (1, 0), (1, 1)], 1, [(0, 1), (1, 0), (0, 0)]),
        # Five quanta on three: the dearer role, a worker, goes to the cheapest server, with what serves it.
        ([3, 9, 9], [(2, 1), (0, 0), (0, 0)], 2, [(1, 1), (1, 1), (0, 0)]),
        # Of roles of equal price the parameter server goes; both come again where they are cheapest.
        ([9, 2, 9], [(0, 0), (1, 1), (0, 0)], 1, [(0, 1), (1, 0), (0, 0)]),
        ([1, 1, 1], [(0, 0), (0, 0), (0, 0)], 1, None),
    ],
)
def test_repaired_tasks_fit_and_are_enough_at_the_least_price(
    free: list[int], held: list[tuple[int, int]], needed: int, repaired: list[tuple[int, int]] | None
) -> None:
    room, there = np.array(free)[:, None], np.array(held)
    offer = SlotOffer(room.astype(np.float64), PRICE, *IN_ORDER)
    tasks = Tasks(there, np.arange(3), np.ones(3, np.int64), np.array([3]), there.sum(axis=0))
    enough = repair(Room(room, np.array([[2], [1]]), 4, 1.0, offer), needed, tasks)
    assert (list(map(tuple, tasks.held.tolist())) if enough else None) == repaired
    assert tasks.total.tolist() == tasks.held.sum(axis=0).tolist()
