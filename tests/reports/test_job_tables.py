"""Completion times by kind of job: classes of GPUs are powers of two, ties keep the job order."""

from __future__ import annotations

import polars as pl
import pytest

from ray_sim.reports.run_report import jct_by_size, slowest_jobs
from tests.results_by_hand import three_jobs


@pytest.mark.parametrize(
    ("gpus", "upper"),
    [(0.0, 0.0), (0.25, 1.0), (1.0, 1.0), (1.5, 2.0), (2.0, 2.0), (3.0, 4.0), (4.0, 4.0), (5.0, 8.0)]
    + [(2.0**n, 2.0**n) for n in (3, 10, 29)],
)
def test_a_size_class_ends_at_a_power_of_two(gpus: float, upper: float) -> None:
    jobs = three_jobs().jobs.head(1).with_columns(num_gpus=pl.lit(gpus))
    assert jct_by_size(jobs)["gpus"].to_list() == [upper]


def test_only_completed_jobs_are_slow_and_the_earlier_of_equals_comes_first() -> None:
    jobs = three_jobs(last_jct_s=10.0).jobs
    assert slowest_jobs(jobs, 10)["job_id"].to_list() == ["a", "b"]
    assert slowest_jobs(jobs, 1)["job_id"].to_list() == ["a"]
