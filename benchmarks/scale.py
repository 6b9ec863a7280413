"""Sweeps of many short runs: how fast they go, what the driver needs, whether all results are there."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import RunFailedError

SIZES = (1_000, 10_000)
JOBS = 20
"""Of each run: its simulation takes a fraction of a millisecond."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sweep, in a process of its own that starts Ray and MLflow's store."""

    runs: int
    wall_s: float
    """From reading the file to the last run in MLflow, Ray's start and end included."""
    fan_out_s: float
    """From the first to the last result."""
    driver_cpu_s: float
    peak_mb: float
    """Of the driver, by the system's account."""
    stored: int
    """Sound results in the store."""
    logged: int

    @property
    def whole(self) -> bool:
        """Whether every run is in the store and in MLflow."""
        return self.stored == self.logged == self.runs


@dataclass(frozen=True, slots=True)
class Report:
    """Sweeps of two sizes."""

    workload: str
    rows: list[Row]

    def headings(self) -> list[str]:
        """Columns of the table."""
        return [
            *("runs", "wall s", "runs/s", "results/s", "driver CPU ms a run", "driver peak MB"),
            *("stored", "in MLflow", "result"),
        ]

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        return [
            (
                row.runs,
                round(row.wall_s, 1),
                round(row.runs / row.wall_s, 1),
                round(row.runs / row.fan_out_s, 1),
                round(1000 * row.driver_cpu_s / row.runs, 1),
                round(row.peak_mb),
                row.stored,
                row.logged,
                "passed" if row.whole else "FAILED",
            )
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"workload": self.workload, "rows": [asdict(row) for row in self.rows]}


def run(sizes: tuple[int, ...] = SIZES) -> Report:
    """Sweep so many runs of a tiny workload each, logged as numbers."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-scale-") as folder:
        rows = [_measure(Path(folder) / str(size), size) for size in sizes]
    return Report(f"synthetic workloads of {JOBS} jobs, logged without timelines and files", rows)


def _measure(desk: Path, runs: int) -> Row:
    desk.mkdir()
    content = {
        "name": "scale",
        "workloads": [{"synth": {"profile": "philly", "jobs": JOBS}}],
        "clusters": ["edge-cloud"],
        "policies": ["fifo", "sjf"],
        "seeds": {"count": runs // 2},
        "log": "numbers",
    }
    (desk / "sweep.yaml").write_text(yaml.safe_dump(content))
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    command = [sys.executable, "-m", "benchmarks.scale", str(desk)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailedError(f"a sweep of {runs:,} runs failed: {done.stderr}")
    return Row(**json.loads(done.stdout))


def _child(desk: Path) -> None:
    ends: list[float] = []
    began = time.perf_counter()
    report = run_sweep(
        desk / "sweep.yaml",
        desk / "store",
        progress=lambda done, failed, total: ends.append(time.perf_counter()),
    )
    wall_s = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    store = ResultStore(desk / "store")
    _, entries = store.read_plan()
    row = Row(
        runs=report.configurations,
        wall_s=wall_s,
        fan_out_s=ends[-1] - ends[0],
        driver_cpu_s=used.ru_utime + used.ru_stime,
        peak_mb=used.ru_maxrss / 1000,
        stored=sum(map(store.has, (entry.content_hash for entry in entries))) - len(store.damaged(entries)),
        logged=report.logged.created if report.logged else 0,
    )
    sys.stdout.write(json.dumps(asdict(row)))


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
