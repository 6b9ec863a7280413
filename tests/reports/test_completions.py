"""Policies that complete different numbers of jobs are named, over the seeds that all of them have."""

from __future__ import annotations

from ray_sim.reports.completions import completion_note, completion_notes


def test_equal_numbers_with_each_common_seed_need_no_remark() -> None:
    # Seed 1 draws fewer jobs; las lacks seed 2.
    fifo = [("fifo", 0, 10), ("fifo", 1, 8), ("fifo", 2, 3)]
    assert completion_note([*fifo, ("las", 0, 10), ("las", 1, 8)]) is None
    assert completion_note([*fifo, ("las", 7, 1)]) is None  # no common seed
    assert completion_note(fifo) is None
    assert completion_note([]) is None


def test_the_least_and_the_most_are_named() -> None:
    runs = [("fifo", None, 10), ("las", 0, 10), ("las", 1, 9), ("sjf", 0, 0), ("sjf", 1, 1)]
    assert completion_note(runs) == (
        "different numbers of completed jobs, on average 0.5 (sjf) to 10 (fifo); times are over completed "
        "jobs only"
    )


def test_places_are_compared_each_by_itself() -> None:
    runs = [("edge", "fifo", 0, 3), ("pool", "fifo", 0, 5), ("edge", "las", 0, 3), ("pool", "las", 0, 4)]
    (place,) = completion_notes(runs)
    assert place == "pool"
