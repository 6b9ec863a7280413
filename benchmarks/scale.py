"""Benchmark of sweeps of many short runs: speed, memory of the driver, and completeness of the results."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.children import answer, call
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import peak_mb, require_proc
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import run_sweep

SIZES = (1_000, 10_000)
"""Numbers of runs of the sweeps."""

JOBS = 20
"""Jobs of each run; its simulation takes a fraction of a millisecond."""

PEAK_BUDGET_MB = 1000.0
"""Largest peak memory of the driver of the larger sweep."""

_MEMORY_TOLERANCE = 0.1
"""Tolerance of memory figures, which vary less than times."""


def run(step: Step = lambda what: None, sizes: Sequence[int] = SIZES) -> Findings:
    """Sweep these numbers of runs of a tiny workload, logged as numbers, in separate processes."""
    require_proc()
    rows: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="ray_sim-scale-") as folder:
        for size in sizes:
            step(f"a sweep of {size:,} runs")
            rows += _rows(str(size), size, call("benchmarks.scale", f"{folder}/{size}", str(size))[1])
    return Findings(f"synthetic workloads of {JOBS} jobs, logged without timelines and files", tuple(rows))


def _rows(case: str, runs: int, found: dict[str, float]) -> list[Measurement]:
    cpu_ms = 1000 * found["driver_cpu_s"] / runs
    return [
        Measurement(case, "wall_s", found["wall_s"], "s", "smaller"),
        Measurement(case, "results_per_s", runs / found["fan_out_s"], "/s", "larger"),
        Measurement(case, "driver_cpu_ms_per_run", cpu_ms, "ms", "smaller"),
        Measurement(
            case, "driver_peak_mb", found["peak_mb"], "MB", "smaller", PEAK_BUDGET_MB, _MEMORY_TOLERANCE
        ),
        Measurement(case, "lost_results", runs - found["stored"], "", "smaller", 0, 0),
        Measurement(case, "lost_in_mlflow", runs - found["logged"], "", "smaller", 0, 0),
    ]


def _child(desk: Path, runs: int) -> None:
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
    ends: list[float] = []
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    report = run_sweep(
        desk / "sweep.yaml",
        desk / "store",
        progress=lambda done, failed, total: ends.append(time.perf_counter()),
    )
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    store = ResultStore(desk / "store")
    _, entries = store.read_plan()
    present = sum(store.has(entry.content_hash) for entry in entries)
    answer(
        {
            "wall_s": wall_s,  # includes the start and end of Ray, and MLflow
            "fan_out_s": ends[-1] - ends[0],  # from the first result to the last
            "driver_cpu_s": cpu_s,
            "peak_mb": peak_mb(),
            "stored": present - len(store.damaged(entries)),
            "logged": report.logged.created if report.logged else 0,
        }
    )


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]))
