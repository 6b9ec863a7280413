"""Benchmark of growth: time and memory of each policy for ten times the jobs at the same load."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.children import answer, call
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import peak_mb, require_proc
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.policies.registry import create_policy
from workloads.store import load_workload, write_workload
from workloads.synthetic.synth import synth

POLICIES = ("fifo", "sjf", "srtf", "las")
SIZES = (100_000, 1_000_000)

LOAD_SCALE = 2.94
"""Load scale with which 100,000 jobs bring 0.9 of the work that the `philly` cluster can do in their span."""

TIME_BUDGET, MEMORY_BUDGET = 13.0, 11.0
"""Largest ratios of time and memory for ten times the jobs."""

PEAK_BUDGET_MB = 1500.0
"""Largest peak memory at the larger size."""

_MEMORY_TOLERANCE = 0.1
"""Tolerance of memory figures, which vary less than times."""


def run(
    step: Step = lambda what: None,
    sizes: tuple[int, int] = SIZES,
    policies: Sequence[str] = POLICIES,
) -> Findings:
    """Measure policies at two sizes, the second ten times the first, each in a separate process."""
    require_proc()
    rows: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="ray_sim-growth-") as folder:
        paths = []
        for jobs in sizes:
            step(f"drawing {jobs:,} jobs")
            paths.append(Path(folder) / f"{jobs}.parquet")
            write_workload(*synth("philly", jobs, seed=1, load_scale=LOAD_SCALE), paths[-1])
        for policy in policies:
            runs = []
            for jobs, path in zip(sizes, paths, strict=True):
                step(f"{policy}, {jobs:,} jobs")
                runs.append(call("benchmarks.growth", policy, str(path))[1])
            rows += _rows(policy, sizes, runs)
    return Findings("synth philly with work for 0.9 of philly", tuple(rows))


def _rows(policy: str, sizes: tuple[int, int], runs: list[dict[str, float]]) -> list[Measurement]:
    small, large = runs
    slope = (large["peak_mb"] - small["peak_mb"]) * 1e6 / (sizes[1] - sizes[0])
    memory = _MEMORY_TOLERANCE
    return [
        *(
            Measurement(f"{policy}-{jobs}", "cpu_s", each["cpu_s"], "s", "smaller")
            for jobs, each in zip(sizes, runs, strict=True)
        ),
        Measurement(policy, "time_ratio", large["cpu_s"] / small["cpu_s"], "x", "smaller", TIME_BUDGET),
        Measurement(f"{policy}-{sizes[0]}", "peak_mb", small["peak_mb"], "MB", "smaller", None, memory),
        Measurement(
            f"{policy}-{sizes[1]}", "peak_mb", large["peak_mb"], "MB", "smaller", PEAK_BUDGET_MB, memory
        ),
        Measurement(
            policy, "memory_ratio", large["peak_mb"] / small["peak_mb"], "x", "smaller", MEMORY_BUDGET, memory
        ),
        Measurement(policy, "bytes_per_job", slope, "B", "smaller", None, memory),
    ]


def _child(policy: str, workload: str) -> None:
    """Print CPU seconds of the run and peak memory of the process."""
    cluster = load_cluster("philly")
    table = load_workload(workload, cluster.resources)
    began = time.process_time()
    run_world(build_world(table, cluster), create_policy(policy))
    cpu_s = time.process_time() - began
    answer({"cpu_s": cpu_s, "peak_mb": peak_mb()})


if __name__ == "__main__":
    _child(*sys.argv[1:])
