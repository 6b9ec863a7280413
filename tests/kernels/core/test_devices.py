"""Devices that tasks get: by hand, and by trying every choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core.devices import DEVICE, choose_devices
from ray_sim.kernels.core.room import device_room


def free_of(devices: list[int]) -> np.ndarray:
    """One server with one resource, GPUs, and these free devices."""
    return np.array([[sum(devices), *devices]], dtype=np.int64)


def chosen(devices: list[int], ask: int, tasks: int = 1) -> list[int] | None:
    """Milli-GPU that the tasks take of each device; None if some find none."""
    taken = np.full((1, len(devices)), 7, dtype=np.int64)
    found = choose_devices(free_of(devices), 0, 1, ask, tasks, taken, 0)
    return taken[0].tolist() if found else None


@pytest.mark.parametrize(
    ("ask", "tasks", "expected"),
    [
        (400, 1, [0, 0, 400]),
        (450, 1, [0, 450, 0]),
        (1000, 1, [1000, 0, 0]),
        (200, 2, [0, 0, 400]),
        (300, 3, [300, 300, 300]),
        (600, 2, None),
        (2000, 1, None),
        (0, 3, [0, 0, 0]),
    ],
)
def test_a_share_goes_to_the_least_that_suffices(ask: int, tasks: int, expected: list[int] | None) -> None:
    """Free are 1.0, 0.5 and 0.4 GPU."""
    assert chosen([1000, 500, 400], ask, tasks) == expected


def test_whole_gpus_are_the_lowest_free_ones_and_ties_go_to_the_lowest_number() -> None:
    assert chosen([500, 1000, 1000, 1000], 2000) == [0, 1000, 1000, 0]
    assert chosen([500, 500], 500) == [500, 0]


SERVERS = st.lists(st.sampled_from([0, 200, 500, 700, 1000]), min_size=1, max_size=4)
ASKS = st.sampled_from([100, 300, 500, 600, 1000, 2000])


@given(devices=SERVERS, ask=ASKS, wanted=st.integers(0, 6))
def test_room_is_what_a_choice_for_one_task_after_another_finds(
    devices: list[int], ask: int, wanted: int
) -> None:
    left, fit = list(devices), 0
    while fit < wanted and (taken := chosen(left, ask)) is not None:
        left = [have - take for have, take in zip(left, taken, strict=True)]
        assert min(left) >= 0
        assert sum(taken) == ask
        assert ask < DEVICE or set(taken) <= {0, DEVICE}
        fit += 1
    assert device_room(free_of(devices), 0, 1, ask, wanted) == fit
    assert (chosen(devices, ask, wanted) is not None) == (fit == wanted)
