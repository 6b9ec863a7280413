"""Workload files of a few jobs by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from ray_sim.cli import main
from tests.worlds import Job
from workloads.provenance import Provenance
from workloads.schema import with_all_columns
from workloads.store import write_workload

Columns = Mapping[str, Sequence[object]]


def stored(path: Path, jobs: Sequence[Job], columns: Columns | None = None) -> Path:
    """Write jobs as a workload with further columns; returns the path."""
    frame = pl.DataFrame(
        {
            "job_id": [f"J{i + 1}" for i in range(len(jobs))],
            "trace_order": list(range(len(jobs))),
            "submit_s": [float(job.submit_s) for job in jobs],
            "num_gpus": [float(job.gpus) for job in jobs],
            "duration_s": [float(job.duration_s) for job in jobs],
            "vc": pl.Series([job.vc for job in jobs], dtype=pl.String),
            **(columns or {}),
        }
    )
    counts = {"read": len(jobs), "kept": len(jobs)}
    made = Provenance(converter="hand", converter_version="1", counts=counts)
    write_workload(with_all_columns(frame), made, path)
    return path


def write_jobs(path: Path, jobs: Sequence[Job]) -> None:
    """Write jobs as a workload, by converting them from CSV."""
    table = path.with_suffix(".csv")
    lines = [f"J{i},{job.submit_s},{job.duration_s},{job.gpus}" for i, job in enumerate(jobs, start=1)]
    table.write_text("\n".join(["job_id,submit_s,duration_s,num_gpus", *lines]) + "\n")
    path.unlink(missing_ok=True)
    assert main(["convert", "csv", str(table), "-o", str(path)]) == 0
