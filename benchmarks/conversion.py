"""Benchmark of trace conversion by format: seconds and memory for a million rows."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.children import answer, call
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.philly_csv import write_philly_csv
from benchmarks.philly_log import Oddity, write_philly_log
from benchmarks.processes import peak_mb, require_proc
from workloads.convert import convert
from workloads.synthetic.synth import synth

SIZES = (100_000, 1_000_000)
"""Rows."""

WALL_BUDGET_S = 15.0
"""Most seconds for a million rows: lines of a table, events, or records of a log."""

PEAK_BUDGET_MB = 1000.0
"""Largest peak memory of the process that converts the larger trace."""

ODDITY_RATE = 0.01
"""Rate of each oddity of a job log."""

_MEMORY_TOLERANCE = 0.1

_EVENT_S = 0.001
"""Microseconds between two events of a trace of tasks."""


def _write_csv(rows: int, path: Path) -> None:
    synth("philly", rows, seed=1)[0].select("job_id", "submit_s", "vc", "num_gpus", "duration_s").write_csv(
        path
    )


def _write_shuffled_csv(rows: int, path: Path) -> None:
    """Write the same jobs in random order of time."""
    _write_csv(rows, path)
    pl.read_csv(path).sample(fraction=1, shuffle=True, seed=1).write_csv(path)


def _write_philly_csv(rows: int, path: Path) -> None:
    write_philly_csv(synth("philly", rows, seed=1)[0], path)


def _write_philly_log(rows: int, path: Path) -> None:
    write_philly_log(path, rows, 1, dict.fromkeys(Oddity, ODDITY_RATE))


def _write_task_events(rows: int, path: Path) -> None:
    """Write submit, start and finish events of rows / 3 tasks."""
    tasks = pl.DataFrame({"task": range(rows // 3)})
    time_us = (600 + pl.col("place") * _EVENT_S) * 1_000_000
    events = pl.concat(
        tasks.select("task", event=pl.lit(event), place=pl.col("task") + later)
        for event, later in ((0, 0), (1, 100), (4, 10_000))
    )
    events.sort("place", "event").select(
        time=time_us.cast(pl.Int64),
        missing=pl.lit(None),
        job=6_000_000_000 + pl.col("task") // 100,
        task=pl.col("task") % 100,
        machine=pl.when(pl.col("event") > 0).then(pl.col("task") % 12_583),
        event="event",
        user=pl.format("user{}=", pl.col("task") // 100 % 400),
        scheduling_class=pl.col("task") % 4,
        priority=pl.col("task") % 12,
        cpu=pl.col("task") % 40 / 80,
        memory=pl.col("task") % 97 / 100,
        disk=pl.lit(0.000_4),
        different_machines=pl.lit(0),
    ).write_csv(path, include_header=False)


def _write_instance_events(rows: int, path: Path) -> None:
    """Write the five events of each of rows / 5 instances: submission, waiting, start and finish."""
    steps = ((0, 0), (1, 1), (2, 2), (3, 100), (6, 10_000))
    events = sorted((task + later, task, event) for task in range(rows // 5) for event, later in steps)
    with path.open("w", encoding="utf-8") as stream:
        for place, task, event in events:
            record = {
                "time": str(600_000_000 + 1000 * place),
                "type": str(event),
                "collection_id": str(6_000_000_000 + task // 100),
                "scheduling_class": "2",
                "collection_type": "0",
                "priority": "200",
                "alloc_collection_id": "0",
                "instance_index": str(task % 100),
                "machine_id": str(task % 12_583),
                "resource_request": {"cpus": 0.02062988, "memory": 0.0144},
                "constraint": [],
            }
            stream.write(json.dumps(record) + "\n")


def _scan_csv(path: Path) -> None:
    pl.scan_csv(path).sink_parquet(path.with_suffix(".bare"))


def _scan_events(path: Path) -> None:
    pl.scan_csv(path, has_header=False).sink_parquet(path.with_suffix(".bare"))


def _parse_json(path: Path) -> None:
    json.loads(path.read_bytes())


def _parse_lines(path: Path) -> None:
    with path.open("rb") as stream:
        for line in stream:
            json.loads(line)


@dataclass(frozen=True, slots=True)
class _Form:
    """A writer of synthetic traces of a format, and a minimal reader."""

    format: str
    write: Callable[[int, Path], None]
    bare: Callable[[Path], None]
    file: str
    share: float = 1.0
    """Divisor of the sizes: a record of a log takes as much work as ten rows of a table."""


_FORMS = {
    "csv": _Form("csv", _write_csv, _scan_csv, "jobs.csv"),
    "csv-shuffled": _Form("csv", _write_shuffled_csv, _scan_csv, "jobs.csv"),
    "philly-csv": _Form("philly-csv", _write_philly_csv, _scan_csv, "jobs.csv"),
    "philly": _Form("philly", _write_philly_log, _parse_json, "log.json", 0.1),
    "google-2011": _Form("google-2011", _write_task_events, _scan_events, "task_events.csv"),
    "google-2019": _Form("google-2019", _write_instance_events, _parse_lines, "instance_events.json", 0.3),
}


def run(step: Step = lambda what: None, sizes: tuple[int, int] = SIZES, repetitions: int = 5) -> Findings:
    """Convert synthetic traces of two sizes in every form, each in its own process."""
    require_proc()
    rows: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="ray_sim-conversion-") as folder:
        for name, form in _FORMS.items():
            runs = []
            here = (int(sizes[0] * form.share), int(sizes[1] * form.share))
            for size in here:
                step(f"{name}, {size:,} rows")
                source = Path(folder) / f"{name}-{size}-{form.file}"
                form.write(size, source)
                runs.append(call("benchmarks.conversion", name, str(source), str(repetitions))[1])
                source.unlink()
            rows += _rows(name, here, runs)
    return Findings("synthetic traces", tuple(rows))


def _rows(form: str, sizes: tuple[int, int], runs: list[dict[str, float]]) -> list[Measurement]:
    small, large = runs
    slope = max(0.0, large["peak_mb"] - small["peak_mb"]) * 1e6 / (sizes[1] - sizes[0])
    return [
        Measurement(
            form, "million_rows_wall_s", large["wall_s"] * 1e6 / sizes[1], "s", "smaller", WALL_BUDGET_S
        ),
        Measurement(form, "speed_of_bare_scan", large["speed"], "x", "larger"),
        *(
            Measurement(
                f"{form}-{size}", "peak_mb", each["peak_mb"], "MB", "smaller", budget, _MEMORY_TOLERANCE
            )
            for size, each, budget in zip(sizes, runs, (None, PEAK_BUDGET_MB), strict=True)
        ),
        Measurement(form, "bytes_per_row", slope, "B", "smaller", None, _MEMORY_TOLERANCE),
    ]


def _child(name: str, source: str, repetitions: str) -> None:
    """Print wall seconds, speed relative to the bare pass, and peak memory of the process."""
    path = Path(source)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(int(repetitions)):  # alternating, so that other load of the machine affects both
        began = time.perf_counter()
        convert(_FORMS[name].format, [path], path.with_suffix(".parquet"))
        ours.append(time.perf_counter() - began)
        if not bare:
            peak = peak_mb()  # before the bare pass adds to it
        began = time.perf_counter()
        _FORMS[name].bare(path)
        bare.append(time.perf_counter() - began)
    speed = statistics.median(b / a for a, b in zip(ours, bare, strict=True))
    answer({"wall_s": statistics.median(ours), "speed": speed, "peak_mb": peak})


if __name__ == "__main__":
    _child(*sys.argv[1:])
