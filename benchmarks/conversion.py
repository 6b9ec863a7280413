"""Converting a trace, beside a bare scan of the same file: speed and memory by format."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.children import answer, call
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import peak_mb, require_proc
from workloads.convert import convert
from workloads.philly_writer import write_philly_csv
from workloads.synth import synth

SIZES = (100_000, 1_000_000)
"""Rows."""

SPEED_BUDGET = 0.5
"""Least speed, over that of the bare scan."""

_MEMORY_TOLERANCE = 0.1


def run(step: Step = lambda what: None, sizes: tuple[int, int] = SIZES, repetitions: int = 5) -> Findings:
    """Convert synthetic traces of two sizes in every format that can be written, each in its own process."""
    require_proc()
    rows: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="ray_sim-conversion-") as folder:
        for form in ("philly-csv", "csv"):
            runs = []
            for size in sizes:
                step(f"{form}, {size:,} rows")
                source = Path(folder) / f"{form}-{size}.csv"
                _write(form, size, source)
                runs.append(call("benchmarks.conversion", form, str(source), str(repetitions))[1])
            rows += _rows(form, sizes, runs)
    return Findings("synthetic Philly jobs as CSV", tuple(rows))


def _write(form: str, size: int, path: Path) -> None:
    frame, _ = synth("philly", size, seed=1)
    if form == "philly-csv":
        write_philly_csv(frame, path)
    else:
        frame.select("job_id", "submit_s", "vc", "num_gpus", "duration_s").write_csv(path)


def _rows(form: str, sizes: tuple[int, int], runs: list[dict[str, float]]) -> list[Measurement]:
    small, large = runs
    slope = (large["peak_mb"] - small["peak_mb"]) * 1e6 / (sizes[1] - sizes[0])
    return [
        Measurement(form, "speed_of_bare_scan", large["speed"], "x", "larger", SPEED_BUDGET),
        Measurement(form, "rows_per_s", sizes[1] / large["wall_s"], "rows/s", "larger"),
        *(
            Measurement(
                f"{form}-{size}", "peak_mb", each["peak_mb"], "MB", "smaller", None, _MEMORY_TOLERANCE
            )
            for size, each in zip(sizes, runs, strict=True)
        ),
        Measurement(form, "bytes_per_row", slope, "B", "smaller", None, _MEMORY_TOLERANCE),
    ]


def _child(form: str, source: str, repetitions: str) -> None:
    """Wall seconds, speed over that of the bare scan, and peak memory of the process."""
    path = Path(source)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(int(repetitions)):  # in turn, so that what else the machine does falls on both
        began = time.perf_counter()
        convert(form, [path], path.with_suffix(".parquet"))
        ours.append(time.perf_counter() - began)
        if not bare:
            peak = peak_mb()  # before the bare scan can have had its share in it
        began = time.perf_counter()
        pl.scan_csv(path).sink_parquet(path.with_suffix(".bare"))
        bare.append(time.perf_counter() - began)
    speed = statistics.median(b / a for a, b in zip(ours, bare, strict=True))
    answer({"wall_s": statistics.median(ours), "speed": speed, "peak_mb": peak})


if __name__ == "__main__":
    _child(*sys.argv[1:])
