"""Data of the study of Optimus: its jobs, and the times of Google's submissions."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ray_sim.experiments.figures.file import bundled_figures
from tests.conftest import REPOSITORY

STUDY = REPOSITORY / "docs/studies/optimus"


def test_the_jobs_of_the_figures_are_the_converted_csv_file() -> None:
    jobs = pl.read_parquet(bundled_figures()["optimus/main"].with_name("jobs.parquet"))
    written = pl.read_csv(STUDY / "jobs.csv")
    as_floats = pl.col("submit_s", "num_gpus", "duration_s").cast(pl.Float64)
    assert jobs.select(as_floats).equals(written.select(as_floats))
    # 30 of them in 12,000 s ask for 25.3 workers at a time; with a parameter server each, 5.5 cores of 160 a
    # pair.
    worker_s = (written["num_gpus"] * written["duration_s"]).mean()
    assert isinstance(worker_s, float)
    assert 30 * worker_s / 12_000 * 5.5 / 160 == pytest.approx(0.8698, abs=5e-5)


def test_google_s_submissions_of_seven_hours_are_taken_at_equal_distances(tmp_path: Path) -> None:
    # One submission every 100 s for seven hours makes 252; a later one and other events do not count.
    start_us, step_us = 600_000_000, 100_000_000
    lines = [f"{start_us + number * step_us},,{number},0,u,0,n,l" for number in range(253)]
    others = ["0,,900,0,u,0,n,l", f"{start_us + 5},,901,1,u,0,n,l"]
    with gzip.open(tmp_path / "part-00000-of-00500.csv.gz", "wt") as part:
        part.write("\n".join([*others, *lines]) + "\n")
    out = tmp_path / "jobs.csv"
    command = [sys.executable, str(STUDY / "google_arrivals.py"), str(tmp_path), "-o", str(out)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == "126 of 252 submissions\n"
    jobs, own = pl.read_csv(out), pl.read_csv(STUDY / "jobs.csv")
    assert jobs["submit_s"].to_list() == [200.0 * number for number in range(126)]
    assert jobs["duration_s"].to_list() == [own["duration_s"][number % 60] for number in range(126)]
