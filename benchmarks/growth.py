"""Growth: ten times the jobs on the same cluster at the same load, time and memory per policy."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ray_sim.engine.run import run_world
from ray_sim.engine.world import build_world
from ray_sim.experiments.cluster_file import load_cluster
from ray_sim.policies.registry import create_policy
from workloads.store import load_workload, write_workload
from workloads.synth import synth

SIZES = (100_000, 1_000_000)
LOAD_SCALE = 2.94
"""Offered load 0.9 on the `philly` cluster."""

TIME_BUDGET, MEMORY_BUDGET = 13.0, 11.0
"""Most times the time and the memory for ten times the jobs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run in a process of its own: CPU seconds of the run, peak memory of the process."""

    policy: str
    jobs: int
    cpu_s: float
    peak_mb: float
    times_time: float | None = None
    """CPU seconds over those of a tenth of the jobs."""
    times_memory: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of the benchmark."""

    workload: str
    rows: list[Row]

    def headings(self) -> list[str]:
        """Columns of the table."""
        return ["policy", "jobs", "CPU s", "peak MB", f"x time (<= {TIME_BUDGET:g})", "x memory (<= 11)"]

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        return [
            (row.policy, row.jobs, round(row.cpu_s, 2), round(row.peak_mb), *map(_ratio, _ratios(row)))
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"workload": self.workload, "rows": [asdict(row) for row in self.rows]}


def _ratios(row: Row) -> tuple[float | None, float | None]:
    return row.times_time, row.times_memory


def _ratio(value: float | None) -> object:
    return "" if value is None else round(value, 2)


def run() -> Report:
    """Measure every policy at both sizes."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for jobs in SIZES:
            frame, provenance = synth("philly", jobs, seed=1, load_scale=LOAD_SCALE)
            paths.append(Path(folder) / f"{jobs}.parquet")
            write_workload(frame, provenance, paths[-1])
        for policy in ("fifo", "sjf", "srtf", "las"):
            small, large = (_measure(policy, path) for path in paths)
            ratios = {
                "times_time": large.cpu_s / small.cpu_s,
                "times_memory": large.peak_mb / small.peak_mb,
            }
            rows += [small, Row(**{**asdict(large), **ratios})]
    return Report("synth philly at offered load 0.9 on philly", rows)


def _measure(policy: str, workload: Path) -> Row:
    command = [sys.executable, "-m", "benchmarks.growth", policy, str(workload)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Row(**json.loads(done.stdout))


def _child(policy: str, workload: str) -> None:
    cluster = load_cluster("philly")
    table = load_workload(workload, cluster.resources)
    begin = time.process_time()
    run_world(build_world(table, cluster), create_policy(policy))
    cpu_s = time.process_time() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    sys.stdout.write(json.dumps(asdict(Row(policy, len(table), cpu_s, peak_mb))))


if __name__ == "__main__":
    _child(*sys.argv[1:])
