"""A sweep's overhead: fan-out, store and MLflow, while Ray runs already."""

from __future__ import annotations

import os
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

import pytest
import yaml

from benchmarks.figures import Figures
from benchmarks.own_policy import steps_per_cpu_s
from benchmarks.processes import command, cpu_seconds, descendants, idle_seconds
from ray_sim.experiments.fanout.connection import cluster
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.sweep import run_sweep

BUDGET = 1.10
"""Largest CPU time of the whole sweep, relative to that of its simulations."""

BUSY_BUDGET = 0.90
"""Least share of the cores' time, without that of other processes, that the sweep uses."""

RUNS, RUN_CPU_S = 200, 1.0

_SHARE_TOLERANCE = 0.05
"""Tolerance of figures near 1."""

_ALONE = 5
"""Number of runs simulated alone, to measure the cost of one."""


def test_a_sweep(tmp_path: Path, figures: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run_cpu_s = (8, 0.01) if figures.small else (RUNS, RUN_CPU_S)
    figures.input(f"{runs} runs of {run_cpu_s:g} CPU s")
    # Both sweeps log to one store, whatever the user's environment says.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    steps = round(steps_per_cpu_s() * run_cpu_s)
    alone_cpu_s = _alone_cpu_s(steps)
    spent: list[_Spent] = []
    with cluster("local") as cores:
        _sweep(tmp_path, "warm-up", 4 * cores, steps=0)  # starts workers, compiles, makes the MLflow store
        figures.once_s(lambda: spent.append(_sweep(tmp_path, "measured", runs, steps)))
    used_s = spent[0].driver_cpu_s + spent[0].worker_cpu_s + spent[0].service_cpu_s
    ratio, busy = used_s / (alone_cpu_s * runs), used_s / (used_s + spent[0].idle_s)
    figures.add("sweep.times_simulation", ratio, "x", "smaller", BUDGET, _SHARE_TOLERANCE)
    figures.add("sweep.cores_busy", busy, "share", "larger", BUSY_BUDGET, _SHARE_TOLERANCE)
    figures.add("sweep.wall_s", spent[0].wall_s, "s", "smaller")
    for case, cpu_s in (("driver", spent[0].driver_cpu_s), ("worker", spent[0].worker_cpu_s)):
        figures.add(f"{case}.cpu_ms_per_run", cpu_s / runs * 1000, "ms", "smaller")
    figures.add("alone.cpu_ms_per_run", alone_cpu_s * 1000, "ms", "neither")


def _content(name: str, seeds: int, steps: int) -> dict[str, object]:
    return {
        "name": name,
        "workloads": [{"synth": {"profile": "philly", "jobs": 300}}],
        "clusters": ["edge-cloud"],
        "policies": [{"name": "benchmarks.own_policy:Burn", "params": {"steps": steps}}],
        "seeds": {"count": seeds},
    }


def _alone_cpu_s(steps: int) -> float:
    """CPU seconds of one whole run: drawing the jobs and simulating them."""
    content = {
        "workload": {"synth": {"profile": "philly", "jobs": 300}},
        "cluster": "edge-cloud",
        "policy": "benchmarks.own_policy:Burn",
        "params": {"steps": steps},
    }
    spent = []
    for seed in range(_ALONE):
        scenario = parse_scenario({**content, "seed": seed}, "benchmark")
        began = time.process_time()
        prepare(scenario).run()
        spent.append(time.process_time() - began)
    return sorted(spent)[_ALONE // 2]


@dataclass(frozen=True, slots=True)
class _Spent:
    """CPU seconds so far, or between two instants."""

    wall_s: float
    driver_cpu_s: float
    worker_cpu_s: float
    service_cpu_s: float
    """CPU seconds of Ray's own processes."""
    idle_s: float
    """Idle seconds of all cores, unused by any process of the machine."""

    @classmethod
    def so_far(cls) -> Self:
        """CPU seconds of this process, which is the driver, and of its descendants."""
        children = descendants(os.getpid())
        workers = [pid for pid in children if command(pid).startswith("ray::")]
        return cls(
            wall_s=time.perf_counter(),
            driver_cpu_s=time.process_time(),
            worker_cpu_s=cpu_seconds(workers),
            service_cpu_s=cpu_seconds(children.keys() - workers),
            idle_s=idle_seconds(),
        )

    def __sub__(self, before: Self) -> Self:
        pairs = zip(astuple(self), astuple(before), strict=True)
        return type(self)(*(late - early for late, early in pairs))


def _sweep(desk: Path, name: str, seeds: int, steps: int) -> _Spent:
    (desk / f"{name}.yaml").write_text(yaml.safe_dump(_content(name, seeds, steps)))
    before = _Spent.so_far()
    report = run_sweep(desk / f"{name}.yaml", desk / name)
    assert report.ok, report.to_dict()
    return _Spent.so_far() - before
