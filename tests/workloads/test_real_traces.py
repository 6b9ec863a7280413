"""The converters on the published traces; skipped where these are absent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from workloads.convert import convert
from workloads.store import load_workload, read_frame

Real = Callable[[str], Path]


@pytest.mark.slow
def test_the_published_philly_csv_keeps_every_job_and_rejects_the_empty_row(
    real: Real, tmp_path: Path
) -> None:
    report = convert("philly-csv", [real("data/philly/sia_philly.csv.gz")], tmp_path / "w.parquet")
    assert (report.read, report.kept, report.rejected) == (82_248, 82_247, {"empty_row": 1})
    assert report.notes["duplicate_rows_kept"] == 65
    assert report.notes["ambiguous_local_times"] == 7
    # The first submission, 2017-09-04 10:30:41 in summer time.
    assert report.notes["epoch_utc"] == "2017-09-04T17:30:41+00:00"
    assert report.warnings == ()
    frame = read_frame(report.out)
    assert frame["vc"].n_unique() == 15
    assert round(float(frame["num_gpus"].to_numpy() @ frame["duration_s"].to_numpy()) / 3600) == 978_078
    # Last submission 2017-12-22 08:02:11: naively 9,408,690 s after the first, and an hour more in truth.
    assert frame["submit_s"][-1] == 9_408_690 + 3600


@pytest.mark.slow
def test_the_jobs_of_the_reference_week_bear_the_same_names(real: Real, tmp_path: Path) -> None:
    convert("philly-csv", [real("data/philly/sia_philly.csv.gz")], tmp_path / "all.parquet")
    convert("csv", [real("reference/replay/philly_week_pool.csv")], tmp_path / "week.parquet")
    columns = ["job_id", "num_gpus", "duration_s"]
    week, all_jobs = (read_frame(tmp_path / name).select(columns) for name in ("week.parquet", "all.parquet"))
    assert week.join(all_jobs, on=columns, how="semi").height == week.height == 10_650


def test_the_reference_replays_convert_whole_and_name_what_they_ignore(real: Real, tmp_path: Path) -> None:
    for name, jobs, ignored in (
        ("philly_week_6vc.csv", 2_020, "fifo_start_s, fifo_finish_s, sjf_start_s, sjf_finish_s"),
        ("philly_week_pool.csv", 10_650, "fifo_start_s, fifo_finish_s"),
    ):
        source = real(f"reference/replay/{name}")
        report = convert("csv", [source], tmp_path / "w.parquet")
        assert (report.read, report.kept, report.rejects) == (jobs, jobs, None)
        assert report.warnings == (f"ignored columns: {ignored}",)
        table = load_workload(report.out)
        assert len(table) == jobs
        raw = pl.read_csv(source, infer_schema_length=None)
        assert table.origin_us + int(table.submit_us[-1]) == raw["submit_s"].to_numpy().max() * 1_000_000
        assert int(table.tasks.sum()) == raw["num_gpus"].sum()
