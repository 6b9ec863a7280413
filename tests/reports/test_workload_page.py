"""Charts of workloads: every job is counted once, and a long time has few points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ray_sim.reports.page import MOST_POINTS, Page, Section, render
from ray_sim.reports.plots import size_cdf_svg
from ray_sim.reports.workload_page import workload_sections


def page(
    submit_s: Mapping[str, Sequence[float]], by_hour: Mapping[str, Sequence[int]] | None = None
) -> tuple[Section, ...]:
    frames = {
        name: pl.LazyFrame({"submit_s": at, "duration_s": [60.0] * len(at), "num_gpus": [1.0] * len(at)})
        for name, at in submit_s.items()
    }
    return workload_sections(frames, by_hour or {})


def chart(found: tuple[Section, ...], heading: str) -> Any:
    section = next(each for each in found if each.heading == heading)
    return section.charts[0].data


def test_arrivals_are_counted_in_round_intervals_since_the_first_of_each() -> None:
    # B begins 1,000 s late and in disorder: 0, 9 and 10 s after its first job. The 14,989.5 s of A are less
    # than 1,499 intervals of 10 s, whose ends are the 1,500 points that a line may have.
    data = chart(page({"A": [0.0, 14_989.5], "B": [1009.0, 1000.0, 1010.0]}), "Arrivals")
    assert data["y_title"] == "jobs in 10 s"
    a, b = data["series"]
    # A step for each interval; the last value stands twice, at both ends of its interval.
    assert (len(a["x"]), a["x"][-1], sum(a["y"][:-1])) == (MOST_POINTS, 14_990.0, 2.0)
    assert (b["name"], b["x"], b["y"]) == ("B", [0.0, 10.0, 20.0], [2.0, 1.0, 1.0])


def test_centuries_are_counted_in_the_longest_intervals() -> None:
    data = chart(page({"A": [0.0, 0.5, 2.0**36]}), "Arrivals")
    # 2^36 s are 795.4 times 1,000 days.
    (line,) = data["series"]
    assert (data["y_title"], len(line["x"]), sum(line["y"][:-1])) == ("jobs in 1000 d", 797, 3.0)


def test_two_months_are_counted_by_hour_and_no_job_is_lost() -> None:
    hours = 62 * 24
    data = chart(page({"A": [3600.0 * hour for hour in range(hours)], "B": [0.0]}), "Arrivals")
    line = data["series"][0]
    assert data["y_title"] == "jobs in 1 h"
    assert sum(line["y"][:-1]) == hours


def test_hours_of_the_day_are_shares_of_the_workloads_that_have_local_days() -> None:
    found = page({"A": [0.0] * 4, "B": [0.0]}, {"A": [3, *[0] * 22, 1]})
    (line,) = chart(found, "Hours of the day")["series"]
    assert line["name"] == "A"
    assert (len(line["x"]), line["x"][-1]) == (25, 86_400.0)
    assert line["y"] == [0.75, *[0.0] * 22, 0.25, 0.25]
    assert "Hours of the day" not in [each.heading for each in page({"A": [0.0], "B": [0.0]})]


def test_names_are_text_in_the_page() -> None:
    hostile = "<script>$a$"
    found = Page("t", "s", page({hostile: [0.0, 60.0], "B": [0.0]}))
    assert hostile.encode() not in render(found)


def test_sizes_have_ticks_at_powers_of_two_up_to_the_largest() -> None:
    def ticks(*largest: float) -> list[str]:
        curves = {str(i): np.array([0.5, size]) for i, size in enumerate(largest)}
        return re.findall(r">([\d,]+)</text>", size_cdf_svg(curves, "sizes"))

    # 24 and 3 GPUs lie below 32; of 2^20 every third power is named.
    assert ticks(24.0, 3.0)[:6] == ["1", "2", "4", "8", "16", "32"]
    assert ticks(2.0**20, 1.0)[:7] == ["1", "8", "64", "512", "4,096", "32,768", "262,144"]
