"""The published part of Google's trace of 2011, against counts made without this code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workloads.convert import convert
from workloads.store import read_frame
from workloads.trace_format import Censored, ConvertOptions, RowKind, RunTime

Real = Callable[[str], Path]


@pytest.mark.slow
def test_the_published_part_has_the_jobs_tasks_and_events_that_were_counted(
    real: Real, tmp_path: Path
) -> None:
    source = real("data/google2011")
    report = convert("google-2011", [source], tmp_path / "w.parquet", options=ConvertOptions(cluster=True))
    notes = report.notes
    assert notes["task_events"] == {
        "SUBMIT": 201_491,
        "SCHEDULE": 189_994,
        "EVICT": 4_338,
        "FAIL": 581,
        "FINISH": 43_237,
        "KILL": 10_505,
        "LOST": 0,
        "UPDATE_PENDING": 0,
        "UPDATE_RUNNING": 0,
        "last_s": 5_611.086346,
    }
    assert (notes["jobs"], notes["tasks"], notes["tasks_without_any_end"]) == (4_895, 190_926, 138_706)
    assert notes["tasks_running_at_time_0"] == 132_982
    assert notes["tasks_whose_request_changed_before_the_run"] == 37_604
    assert notes["most_submissions_of_a_task"] == 184
    assert (notes["machines"], notes["machines_that_ran_tasks"]) == (12_583, 12_492)
    assert notes["machines_that_ran_tasks_and_have_no_capacity"] == 3
    assert notes["machine_events_without_capacity"] == 32
    # Sequences "0" and "05" never ran; of the others, those whose last event is no end are censored.
    assert report.rejected == {"censored": 131_652, "ended_before_start": 71, "never_started": 11_178}
    assert (report.read, report.kept) == (190_926, 48_025)
    cluster = report.cluster
    assert cluster is not None
    # 21,443 ADD and 8,957 REMOVE, all legal; 12,477 of the first at time 0.
    assert cluster.availability is not None
    assert len(cluster.availability) == 21_443 + 8_957 - 12_477


@pytest.mark.slow
def test_each_closed_attempt_of_the_published_part_is_a_row(real: Real, tmp_path: Path) -> None:
    options = ConvertOptions(run_time=RunTime.ATTEMPTS)
    report = convert(
        "google-2011", [real("data/google2011/task_events")], tmp_path / "w.parquet", options=options
    )
    frame = read_frame(report.out)
    assert (frame.height, report.rejected["censored"]) == (58_585, 189_994 - 58_585)
    assert (frame["duration_s"] > 0).all()
    # Measured over the closed attempts: median 406 s, at most 5,611 s.
    assert round(float(frame["duration_s"].quantile(0.5) or 0)) == 406
    assert round(float(frame["duration_s"].to_numpy().max())) == 5_611


@pytest.mark.slow
def test_jobs_of_the_published_part_are_all_there(real: Real, tmp_path: Path) -> None:
    options = ConvertOptions(rows=RowKind.JOB, censored=Censored.CUT)
    report = convert(
        "google-2011", [real("data/google2011/task_events")], tmp_path / "w.parquet", options=options
    )
    frame = read_frame(report.out)
    rejected = sum(report.rejected.values())
    assert report.read == report.kept + rejected == 4_895
    assert frame["num_tasks"].to_numpy().max() == 20_010
