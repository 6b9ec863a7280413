"""Conversion of a CSV of a million rows: seconds and memory."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from benchmarks.figures import MEMORY_TOLERANCE, Figures, wall_clock
from benchmarks.processes import answer, call, peak_mb
from workloads.convert import convert
from workloads.synthetic.synth import synth

ROWS = 1_000_000

WALL_BUDGET_S = 15.0
"""Most seconds for a million rows."""

PEAK_BUDGET_MB = 1000.0
"""Largest peak memory of the process that converts."""


@wall_clock
@pytest.mark.parametrize("case", ["csv", "csv-shuffled"])
def test_a_conversion(case: str, tmp_path: Path, figures: Figures) -> None:
    rows, path = 1_000 if figures.small else ROWS, tmp_path / "jobs.csv"
    figures.input("synthetic jobs")
    columns = ["job_id", "submit_s", "vc", "num_gpus", "duration_s"]
    synth("philly", rows, seed=1)[0].select(columns).write_csv(path)
    if case == "csv-shuffled":  # random order of time
        pl.read_csv(path).sample(fraction=1, shuffle=True, seed=1).write_csv(path)
    peak: list[float] = []

    def convert_apart() -> None:
        peak.append(call("benchmarks.conversion", str(path))[1]["peak_mb"])

    wall_s = figures.median_s(convert_apart, 3)
    million_s = wall_s * 1e6 / rows
    figures.add(f"{case}.million_rows_wall_s", million_s, "s", "smaller", WALL_BUDGET_S)
    figures.add(f"{case}-{ROWS}.peak_mb", max(peak), "MB", "smaller", PEAK_BUDGET_MB, MEMORY_TOLERANCE)


def _child(source: str) -> None:
    """Print the peak memory of the process."""
    path = Path(source)
    convert("csv", [path], path.with_suffix(".parquet"))
    answer({"peak_mb": peak_mb()})


if __name__ == "__main__":
    _child(*sys.argv[1:])
