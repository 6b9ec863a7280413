"""Charts of two workloads: every job is counted once, and a long time has few points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ray_sim.reports.page import MOST_POINTS, Page, Section, Table, render
from ray_sim.reports.plots import size_cdf_svg
from ray_sim.reports.workload_page import workloads_page

TABLE = Table(("quantity", "A", "B", "B against A"), ())


def page(submit_s: Mapping[str, Sequence[float]], by_hour: Mapping[str, Sequence[int]] | None = None) -> Page:
    frames = {
        name: pl.DataFrame({"submit_s": at, "duration_s": [60.0] * len(at), "num_gpus": [1.0] * len(at)})
        for name, at in submit_s.items()
    }
    return workloads_page(TABLE, frames, by_hour or {})


def chart(found: Page, heading: str) -> Any:
    section: Section = next(each for each in found.sections if each.heading == heading)
    return section.charts[0].data


def test_arrivals_are_counted_by_hour_since_the_first_of_each() -> None:
    # B begins 1,000 s late and in disorder: 0, 3,599 and 3,600 s after its first job.
    data = chart(page({"A": [0.0, 7200.0], "B": [4599.0, 1000.0, 4600.0]}), "Arrivals")
    assert data["y_title"] == "jobs per hour"
    # A step for each hour; the last value stands twice, at both ends of its hour.
    assert [(line["name"], line["x"], line["y"]) for line in data["series"]] == [
        ("A", [0.0, 3600.0, 7200.0, 10_800.0], [1.0, 0.0, 1.0, 1.0]),
        ("B", [0.0, 3600.0, 7200.0], [2.0, 1.0, 1.0]),
    ]


def test_years_are_counted_in_longer_intervals_that_lose_no_job() -> None:
    hours = 50_000
    data = chart(page({"A": [3600.0 * hour for hour in range(hours)], "B": [0.0]}), "Arrivals")
    line = data["series"][0]
    # 50,000 hours in at most 1,499 intervals are 34 hours each.
    assert data["y_title"] == "jobs per 34 hours"
    assert len(line["x"]) <= MOST_POINTS
    assert sum(line["y"][:-1]) == hours


def test_hours_of_the_day_are_shares_of_the_workloads_that_have_local_days() -> None:
    found = page({"A": [0.0] * 4, "B": [0.0]}, {"A": [3, *[0] * 22, 1]})
    (line,) = chart(found, "Hours of the day")["series"]
    assert line["name"] == "A"
    assert (len(line["x"]), line["x"][-1]) == (25, 86_400.0)
    assert line["y"] == [0.75, *[0.0] * 22, 0.25, 0.25]
    assert "Hours of the day" not in [each.heading for each in page({"A": [0.0], "B": [0.0]}).sections]


def test_names_are_text_in_the_page() -> None:
    hostile = "<script>$a$"
    assert hostile.encode() not in render(page({hostile: [0.0, 60.0], "B": [0.0]}))


def test_sizes_have_ticks_at_powers_of_two_up_to_the_largest() -> None:
    def ticks(*largest: float) -> list[str]:
        curves = {str(i): np.array([0.5, size]) for i, size in enumerate(largest)}
        return re.findall(r">([\d,]+)</text>", size_cdf_svg(curves, "sizes"))

    # 24 and 3 GPUs lie below 32; of 2^20 every third power is named.
    assert ticks(24.0, 3.0)[:6] == ["1", "2", "4", "8", "16", "32"]
    assert ticks(2.0**20, 1.0)[:7] == ["1", "8", "64", "512", "4,096", "32,768", "262,144"]
