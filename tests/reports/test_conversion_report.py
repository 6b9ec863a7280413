"""The page of a conversion: counts, arrivals, sizes and run times by hand, and a row for each reason."""

from __future__ import annotations

import polars as pl

from ray_sim.reports.conversion_report import RowsByReason, conversion_page
from ray_sim.reports.page import Page, render

JOBS = pl.LazyFrame(
    {
        "submit_s": [1000.0, 1000.5, 1002.0, 1003.5],
        "num_gpus": [1.0, 0.5, 3.0, 0.0],
        "duration_s": [0.25, 59.0, 60.0, 1e9],
    }
)


def _page(jobs: pl.LazyFrame = JOBS, warnings: tuple[str, ...] = ()) -> Page:
    rejected = RowsByReason(
        "Rejected rows", {"missing_vc": 2}, {"missing_vc": ("line or record 7 of t.csv", "<b>,,1")}
    )
    return conversion_page(
        "Conversion of t.csv",
        "4 jobs from csv in w.parquet",
        jobs=jobs,
        counts=[("rows read", 6), ("rows kept", 4), ("rejected, missing_vc", 2)],
        others=[rejected, RowsByReason("Rows left out", {}, {})],
        notes=[("time_zone", "UTC")],
        warnings=warnings,
    )


def test_arrivals_sizes_and_run_times_by_hand() -> None:
    (jobs,) = [section for section in _page().sections if section.heading == "Jobs"]
    # 3.5 s are 4 intervals of 1 s: two jobs in the first, none in the second.
    series = jobs.charts[0].data["series"]
    assert series == [{"name": "jobs", "x": [0, 1, 2, 3, 4], "y": [2, 0, 1, 1, 0]}]
    sizes, run_times = (picture.svg for picture in jobs.pictures)
    for label in ("0", "up to 1", "up to 4"):
        assert f">{label}<" in sizes
    assert "up to 2" not in sizes
    # 59 s are below a minute, and a minute is not; 1e9 s are 11,574 days.
    for label in ("below 1 s", "10 s to 1 min", "1 min to 10 min", "1000 d and more"):
        assert f">{label}<" in run_times
    assert "1 h to 1 d" not in run_times


def test_the_counts_of_rows_and_one_rejected_row_of_each_reason_are_tables() -> None:
    tables = {section.heading: section.tables for section in _page().sections}
    assert list(tables) == ["Rows", "Rejected rows", "Jobs", "Notes"]
    texts = [[cell.text for cell in row] for row in tables["Rows"][0].rows]
    assert texts == [["rows read", "6"], ["rows kept", "4"], ["rejected, missing_vc", "2"]]
    (row,) = tables["Rejected rows"][0].rows
    assert [cell.text for cell in row] == ["missing_vc", "2", "line or record 7 of t.csv", "<b>,,1"]


def test_warnings_come_first_and_texts_of_the_trace_are_no_markup() -> None:
    page = _page(warnings=("job_id <i>",))
    assert page.sections[0].text == ("job_id <i>",)
    html = render(page).decode()
    assert "&lt;b&gt;,,1" in html
    assert "<i>" not in html
    assert html == render(_page(warnings=("job_id <i>",))).decode()


def test_one_job_and_the_longest_span_have_a_page() -> None:
    assert _page(JOBS.head(1)).sections
    ends = JOBS.head(2).with_columns(submit_s=pl.Series([0.0, 2.0**36]))
    (jobs,) = [section for section in _page(ends).sections if section.heading == "Jobs"]
    assert jobs.charts[0].data["y_title"] == "jobs in 1000 d"
