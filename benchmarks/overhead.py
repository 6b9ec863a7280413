"""What a sweep costs beside its simulations: fan-out, store and MLflow, with Ray running already."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.burn import steps_per_cpu_s
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import cpu_seconds, descendants, require_proc
from ray_sim.experiments.fanout import cluster
from ray_sim.experiments.run import run_scenario
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import RunFailedError

BUDGET = 1.10
"""Most CPU time of the whole sweep, over that of its simulations."""

BUSY_BUDGET = 0.90
"""Share of the cores' time that is used while the sweep runs."""

_SHARE_TOLERANCE = 0.05
"""Of figures that stay near 1."""

_ALONE = 5
"""Runs simulated alone, to know what one costs."""


def run(step: Step = lambda what: None, runs: int = 200, run_cpu_s: float = 1.0) -> Findings:
    """Sweep `runs` configurations of about `run_cpu_s` CPU seconds each on this machine's cores."""
    require_proc()
    with tempfile.TemporaryDirectory(prefix="ray_sim-overhead-") as folder, _own_mlflow(Path(folder)):
        desk = Path(folder)
        step("simulating alone")
        steps = round(steps_per_cpu_s() * run_cpu_s)
        simulation_cpu_s = _alone_cpu_s(steps) * runs
        with cluster("local") as cores:
            step("a sweep to warm up")  # then workers, imports, kernels and the MLflow store are there
            _sweep(desk, "warm-up", 4 * cores, steps=0)
            step(f"a sweep of {runs} runs")
            spent = _sweep(desk, "measured", runs, steps)
        occupied = _simulated_wall_s(desk / "measured") / (spent.wall_s * cores)
    ratio, driver_ms = spent.total_cpu_s / simulation_cpu_s, spent.driver_cpu_s / runs * 1000
    busy = spent.total_cpu_s / (spent.wall_s * cores)
    return Findings(
        f"{runs} runs of {run_cpu_s:g} CPU s",
        (
            Measurement("sweep", "times_simulation", ratio, "x", "smaller", BUDGET, _SHARE_TOLERANCE),
            Measurement("sweep", "cores_busy", busy, "share", "larger", BUSY_BUDGET, _SHARE_TOLERANCE),
            Measurement("sweep", "cores_simulating", occupied, "share", "larger", None, _SHARE_TOLERANCE),
            Measurement("driver", "cpu_ms_per_run", driver_ms, "ms", "smaller"),
            Measurement("sweep", "wall_s", spent.wall_s, "s", "smaller"),
            Measurement("one-run", "cpu_s", simulation_cpu_s / runs, "s", "neither"),
        ),
    )


@contextmanager
def _own_mlflow(desk: Path) -> Iterator[None]:
    """Log to one store for both sweeps, whatever the user's environment says."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{desk / 'mlflow.db'}"
    try:
        yield
    finally:
        del os.environ["MLFLOW_TRACKING_URI"]
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


def _content(name: str, seeds: int, steps: int) -> dict[str, object]:
    return {
        "name": name,
        "workloads": [{"synth": {"profile": "philly", "jobs": 300}}],
        "clusters": ["edge-cloud"],
        "policies": [{"name": "benchmarks.burn:Burn", "params": {"steps": steps}}],
        "seeds": {"count": seeds},
    }


def _alone_cpu_s(steps: int) -> float:
    """CPU seconds of one run, as a whole: drawing the jobs and simulating them."""
    content = {
        "workload": {"synth": {"profile": "philly", "jobs": 300}},
        "cluster": "edge-cloud",
        "policy": "benchmarks.burn:Burn",
        "params": {"steps": steps},
    }
    spent = []
    for seed in range(_ALONE):
        scenario = parse_scenario({**content, "seed": seed}, "benchmark")
        began = time.process_time()
        run_scenario(scenario)
        spent.append(time.process_time() - began)
    return sorted(spent)[_ALONE // 2]


@dataclass(frozen=True, slots=True)
class _Spent:
    """What a sweep took, from the first run to the last log."""

    wall_s: float
    total_cpu_s: float
    """Of the driver, Ray and its workers."""
    driver_cpu_s: float


def _sweep(desk: Path, name: str, seeds: int, steps: int) -> _Spent:
    (desk / f"{name}.yaml").write_text(yaml.safe_dump(_content(name, seeds, steps)))
    wall_s, total_s, driver_s = time.perf_counter(), _cpu_seconds(), time.process_time()
    report = run_sweep(desk / f"{name}.yaml", desk / name)
    if not report.ok:
        raise RunFailedError(f"the sweep failed: {report.to_dict()}")
    return _Spent(time.perf_counter() - wall_s, _cpu_seconds() - total_s, time.process_time() - driver_s)


def _cpu_seconds() -> float:
    return cpu_seconds([os.getpid(), *descendants(os.getpid())])


def _simulated_wall_s(store: Path) -> float:
    _, entries = ResultStore(store).read_plan()
    directories = [ResultStore(store).run_directory(entry.content_hash) for entry in entries]
    timings = [json.loads((directory / "timing.json").read_text()) for directory in directories]
    return float(sum(timing["wall_s"]["simulate"] for timing in timings))
