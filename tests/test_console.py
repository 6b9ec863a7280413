"""What people see while work goes on."""

from __future__ import annotations

from itertools import count

from ray_sim.console import Pace


def test_a_pace_counts_from_the_first_report_on() -> None:
    # A look at the clock every 2 s. 400 of 1,000 were there at first; then 100 in 2 s: 500 left at 50/s.
    seconds = count(0, 2)
    pace = Pace(lambda: next(seconds))
    assert pace.text(400, 1000) == ""
    assert pace.text(500, 1000) == "50/s, 0:00:10 left"
    assert pace.text(1000, 1000) == "150/s, 0:00:00 left"


def test_a_slow_pace_has_two_digits() -> None:
    seconds = count(0, 30)
    pace = Pace(lambda: next(seconds))
    pace.text(0, 100)
    assert pace.text(1, 100) == "0.033/s, 0:49:30 left"
