"""What a sweep costs beside its simulations: fan-out, store and MLflow, with Ray running already."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.burn import steps_per_cpu_s
from benchmarks.processes import cpu_seconds, descendants
from ray_sim.experiments.fanout import cluster
from ray_sim.experiments.run import run_scenario
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import RunFailedError

BUDGET = 0.10
"""CPU time beside the simulations, over theirs."""

BUSY_BUDGET = 0.90
"""Share of the cores' time that is used while the sweep runs."""

_ALONE = 5
"""Runs simulated alone, to know what one costs."""


@dataclass(frozen=True, slots=True)
class Report:
    """One measured sweep."""

    workload: str
    runs: int
    cores: int
    simulation_cpu_s: float
    """Of all runs, each taken to cost what one costs alone."""
    total_cpu_s: float
    """Of the driver, Ray and its workers, from the first run to the last log."""
    driver_cpu_s: float
    wall_s: float
    simulated_wall_s: float
    """Sum over the runs of the wall time that their simulation took in the worker."""

    @property
    def overhead(self) -> float:
        """CPU time beside the simulations, over theirs."""
        return self.total_cpu_s / self.simulation_cpu_s - 1

    @property
    def busy(self) -> float:
        """Share of the cores' time that the sweep used."""
        return self.total_cpu_s / (self.wall_s * self.cores)

    @property
    def occupied(self) -> float:
        """Share of the cores' time in which a simulation was under way."""
        return self.simulated_wall_s / (self.wall_s * self.cores)

    def headings(self) -> list[str]:
        """Columns of the table."""
        return ["figure", "value", "budget"]

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        return [
            ("runs", self.runs, ""),
            ("cores", self.cores, ""),
            ("CPU s of the simulations", round(self.simulation_cpu_s, 1), ""),
            ("CPU s of everything", round(self.total_cpu_s, 1), ""),
            ("CPU s of the driver", round(self.driver_cpu_s, 1), ""),
            ("wall s", round(self.wall_s, 1), ""),
            ("overhead", f"{self.overhead:.1%}", f"< {BUDGET:.0%}"),
            ("cores busy", f"{self.busy:.1%}", f">= {BUSY_BUDGET:.0%}"),
            ("cores simulating", f"{self.occupied:.1%}", ""),
        ]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        shares = {"overhead": self.overhead, "busy": self.busy, "occupied": self.occupied}
        return {**asdict(self), **shares, "budget": BUDGET, "busy_budget": BUSY_BUDGET}


def run(runs: int = 200, run_cpu_s: float = 1.0) -> Report:
    """Sweep `runs` configurations of about `run_cpu_s` CPU seconds each on this machine's cores."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-overhead-") as folder, _own_mlflow(Path(folder)):
        desk = Path(folder)
        steps = round(steps_per_cpu_s() * run_cpu_s)
        alone_cpu_s = _alone_cpu_s(steps)
        with cluster("local") as cores:
            # Workers, imports, kernels and the MLflow store are there once this is through.
            _sweep(desk, "warm-up", 4 * cores, steps=0)
            wall_s, total_cpu_s, driver_cpu_s = _sweep(desk, "measured", runs, steps)
        return Report(
            workload=f"{runs} runs of {alone_cpu_s:.2f} CPU s each",
            runs=runs,
            cores=cores,
            simulation_cpu_s=alone_cpu_s * runs,
            total_cpu_s=total_cpu_s,
            driver_cpu_s=driver_cpu_s,
            wall_s=wall_s,
            simulated_wall_s=_simulated_wall_s(desk / "measured"),
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


def _sweep(desk: Path, name: str, seeds: int, steps: int) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of all processes, and those of this one, of a sweep."""
    (desk / f"{name}.yaml").write_text(yaml.safe_dump(_content(name, seeds, steps)))
    wall_s, total_s, driver_s = time.perf_counter(), _cpu_seconds(), time.process_time()
    report = run_sweep(desk / f"{name}.yaml", desk / name)
    if not report.ok:
        raise RunFailedError(f"the sweep failed: {report.to_dict()}")
    return (time.perf_counter() - wall_s, _cpu_seconds() - total_s, time.process_time() - driver_s)


def _cpu_seconds() -> float:
    return cpu_seconds([os.getpid(), *descendants(os.getpid())])


def _simulated_wall_s(store: Path) -> float:
    _, entries = ResultStore(store).read_plan()
    directories = [ResultStore(store).run_directory(entry.content_hash) for entry in entries]
    timings = [json.loads((directory / "timing.json").read_text()) for directory in directories]
    return float(sum(timing["wall_s"]["simulate"] for timing in timings))
