"""Work left and the time at which it is done, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core import progress
from ray_sim.kernels.core.arrays import NEVER, WORKER
from tests.kernels.by_hand import Run, world_arrays


@given(
    work=st.integers(1, 10**12),
    steps=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])), max_size=8),
)
def test_work_left_and_finish_are_those_of_exact_arithmetic(
    work: int, steps: list[tuple[int, float]]
) -> None:
    """Rates that are powers of two make every product exact in binary."""
    run = Run.of(world_arrays([[2]], [[[1]]], [[2]]), [work])
    ledger, calendar = run.books.ledger, run.books.calendar
    run.submit(0, 0)
    run.place(0, (0, [(0, WORKER, 2)]))
    now, rate, left = 0, Fraction(1), Fraction(work)
    for span, new_rate in steps:
        if rate and left <= rate * span:
            break  # it ends before
        now, left = now + span, left - rate * span
        progress.set_rate(ledger, calendar, 0, now, new_rate, 0)
        rate = Fraction(new_rate)
        assert progress.work_left(ledger, 0, now) == left
        assert progress.executed(ledger, 0, now) == now
        expected = now + ceil(left / rate) if rate else NEVER
        assert ledger.finish[0] == expected
        assert calendar.heap[0] == 0
