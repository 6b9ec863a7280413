"""Two schedules of the same jobs agree exactly or the difference is shown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError
from ray_sim.reports.diff import JobDifference, diff_jobs, read_job_times
from tests.results_by_hand import three_jobs


def test_a_run_equals_itself() -> None:
    jobs = three_jobs().jobs
    diff = diff_jobs(jobs, jobs)
    assert diff.same
    assert diff.compared == 3


def test_another_simulators_csv_in_whole_seconds_is_the_same_schedule(tmp_path: Path) -> None:
    # Job c never runs: empty cells there, nulls here.
    (tmp_path / "other.csv").write_text("job_id,fifo_start,fifo_end\nb,10,30\na,0,10\nc,,\n")
    assert diff_jobs(three_jobs().jobs, read_job_times(tmp_path / "other.csv"), "fifo_start", "fifo_end").same


def test_one_microsecond_is_a_difference() -> None:
    jobs = three_jobs().jobs
    later = jobs.with_columns(
        pl.when(pl.col("job_id") == "b").then(30.000001).otherwise("finish_s").alias("finish_s")
    )
    diff = diff_jobs(jobs, later)
    assert (diff.compared, diff.differing) == (3, 1)
    assert diff.first_differences == (JobDifference("b", 10.0, 10.0, 30.0, 30.000001),)


def test_never_started_differs_from_started_at_zero() -> None:
    jobs = three_jobs().jobs
    diff = diff_jobs(jobs, jobs.with_columns(pl.col("start_s").fill_null(0.0)))
    assert [difference.job_id for difference in diff.first_differences] == ["c"]


def test_jobs_without_a_partner_are_counted_on_their_side() -> None:
    jobs = three_jobs().jobs
    other = jobs.with_columns(pl.col("job_id").replace("c", "d"))
    diff = diff_jobs(jobs, other)
    assert (diff.compared, diff.only_here, diff.only_there) == (2, 1, 1)
    assert (diff.first_only_here, diff.first_only_there) == (("c",), ("d",))
    assert not diff.same


@pytest.mark.parametrize(
    ("csv", "complaint"),
    [
        ("job_id,start_s\na,0\n", r"no column finish_s; it has: job_id, start_s"),
        ("job_id,start_s,finish_s\na,0,10\na,0,10\n", r"job_id a comes 2 times"),
        ("job_id,start_s,finish_s\na,0,soon\n", r"finish_s of row 1 is 'soon', not seconds"),
        ("job_id,start_s,finish_s\na,0,nan\n", r"finish_s of row 1 is 'nan', not seconds"),
    ],
)
def test_a_table_that_cannot_be_compared_says_why(tmp_path: Path, csv: str, complaint: str) -> None:
    (tmp_path / "other.csv").write_text(csv)
    with pytest.raises(InvalidInputError, match=complaint):
        diff_jobs(three_jobs().jobs, read_job_times(tmp_path / "other.csv"))


@pytest.mark.parametrize("name", ["none.csv", "none.parquet"])
def test_a_missing_table_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{name}: cannot be read: No such file"):
        read_job_times(tmp_path / name)
