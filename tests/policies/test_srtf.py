"""Shortest first, by run time or by run time times GPUs."""

from __future__ import annotations

import pytest

from tests.worlds import Job, replay, times_of, world_of


@pytest.mark.parametrize("policy", ["sjf", "srtf"])
def test_by_area_a_long_job_of_one_gpu_goes_before_a_short_one_of_four(policy: str) -> None:
    # On four GPUs: 10 s x 4 GPUs against 20 s x 1.
    world = world_of([Job(0, 4, 10), Job(0, 1, 20)], [4])
    assert times_of(replay(world, policy)) == {"J1": (0, 10), "J2": (10, 30)}
    assert times_of(replay(world, policy, key="area")) == {"J1": (20, 30), "J2": (0, 20)}


def test_what_is_left_counts_not_what_was_at_first() -> None:
    # At 15 s J1 has 5 s x 4 GPUs left, as much as J2 has: the earlier one goes on. At 16 s J3 has less than
    # the 4 s x 4 GPUs of J1, which then finds no room beside it and J2, and ends after them.
    world = world_of([Job(0, 4, 20), Job(15, 1, 20), Job(16, 1, 10)], [4])
    assert times_of(replay(world, "srtf", key="area")) == {"J1": (0, 40), "J2": (16, 36), "J3": (16, 26)}
