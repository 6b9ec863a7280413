"""Workload files of a few jobs by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ray_sim.cli import main
from tests.worlds import Job


def write_jobs(path: Path, jobs: Sequence[Job]) -> None:
    """Write jobs as a workload, by converting them from CSV."""
    table = path.with_suffix(".csv")
    lines = [f"J{i},{job.submit_s},{job.duration_s},{job.gpus}" for i, job in enumerate(jobs, start=1)]
    table.write_text("\n".join(["job_id,submit_s,duration_s,num_gpus", *lines]) + "\n")
    path.unlink(missing_ok=True)
    assert main(["convert", "csv", str(table), "-o", str(path)]) == 0
