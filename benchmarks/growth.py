"""Time and memory of each policy for ten times the jobs at the same load."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.figures import MEMORY_TOLERANCE, Figures
from benchmarks.processes import answer, call, peak_mb
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.policies.registry import create_policy
from workloads.store import load_workload, write_workload
from workloads.synthetic.synth import synth

SIZES = (100_000, 1_000_000)

LOAD_SCALE = 2.94
"""Load scale with which 100,000 jobs bring 0.9 of the work that the `philly` cluster can do in their span."""

TIME_BUDGET, MEMORY_BUDGET = 13.0, 11.0
"""Largest ratios of time and memory for ten times the jobs."""

PEAK_BUDGET_MB = 1500.0
"""Largest peak memory at the larger size."""


@pytest.fixture(scope="module")
def workloads(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Workload files by number of jobs, of both sizes."""
    folder = tmp_path_factory.mktemp("growth")
    paths = {}
    for jobs in (50, 500) if request.config.getoption("--small") else SIZES:
        paths[jobs] = folder / f"{jobs}.parquet"
        write_workload(*synth("philly", jobs, seed=1, load_scale=LOAD_SCALE), paths[jobs])
    return paths


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "las"])
def test_growth(policy: str, workloads: dict[int, Path], figures: Figures) -> None:
    figures.input("synth philly with work for 0.9 of philly")
    found: list[dict[str, float]] = []

    def measure() -> None:  # each in its own process
        found.extend(call("benchmarks.growth", policy, str(path))[1] for path in workloads.values())

    figures.once_s(measure)
    small, large = found
    for jobs, each in zip(SIZES, found, strict=True):
        figures.add(f"{policy}-{jobs}.cpu_s", each["cpu_s"], "s", "smaller")
    figures.add(f"{policy}.time_ratio", large["cpu_s"] / small["cpu_s"], "x", "smaller", TIME_BUDGET)
    peak, memory = large["peak_mb"], MEMORY_TOLERANCE
    figures.add(f"{policy}-{SIZES[1]}.peak_mb", peak, "MB", "smaller", PEAK_BUDGET_MB, memory)
    figures.add(f"{policy}.memory_ratio", peak / small["peak_mb"], "x", "smaller", MEMORY_BUDGET, memory)


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
