"""Benchmark of a sweep's overhead: fan-out, store and MLflow, while Ray runs already."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import yaml

from benchmarks.burn import steps_per_cpu_s
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import command, cpu_seconds, descendants, idle_seconds, require_proc
from ray_sim.experiments.fanout import cluster
from ray_sim.experiments.run import run_scenario
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import RunFailedError

BUDGET = 1.10
"""Largest CPU time of the whole sweep, relative to that of its simulations."""

BUSY_BUDGET = 0.90
"""Least share of the cores' time, without that of other processes, that the sweep uses."""

_SHARE_TOLERANCE = 0.05
"""Tolerance of figures near 1."""

_ALONE = 5
"""Number of runs simulated alone, to measure the cost of one."""


def run(step: Step = lambda what: None, runs: int = 200, run_cpu_s: float = 1.0) -> Findings:
    """Sweep `runs` configurations of about `run_cpu_s` CPU seconds each on this machine's cores."""
    require_proc()
    with tempfile.TemporaryDirectory(prefix="ray_sim-overhead-") as folder, _own_mlflow(Path(folder)):
        desk = Path(folder)
        step("simulating alone")
        steps = round(steps_per_cpu_s() * run_cpu_s)
        alone_cpu_s = _alone_cpu_s(steps)
        with cluster("local") as cores:
            step("simulating on all cores at once, each alone")
            together_cpu_s = _together_cpu_s(steps, cores)
            step("a sweep to warm up")  # starts workers, compiles kernels, makes the MLflow store
            _sweep(desk, "warm-up", 4 * cores, steps=0)
            step(f"a sweep of {runs} runs")
            spent = _sweep(desk, "measured", runs, steps)
    used_s = spent.driver_cpu_s + spent.worker_cpu_s + spent.service_cpu_s
    ratio, busy = used_s / (alone_cpu_s * runs), used_s / (used_s + spent.idle_s)
    others = max(0.0, cores - (used_s + spent.idle_s) / spent.wall_s)  # the system counts in ticks
    return Findings(
        f"{runs} runs of {run_cpu_s:g} CPU s",
        (
            Measurement("sweep", "times_simulation", ratio, "x", "smaller", BUDGET, _SHARE_TOLERANCE),
            Measurement("sweep", "cores_busy", busy, "share", "larger", BUSY_BUDGET, _SHARE_TOLERANCE),
            Measurement("sweep", "wall_s", spent.wall_s, "s", "smaller"),
            Measurement("driver", "cpu_ms_per_run", spent.driver_cpu_s / runs * 1000, "ms", "smaller"),
            Measurement("worker", "cpu_ms_per_run", spent.worker_cpu_s / runs * 1000, "ms", "smaller"),
            Measurement("alone", "cpu_ms_per_run", alone_cpu_s * 1000, "ms", "neither"),
            Measurement("together", "cpu_ms_per_run", together_cpu_s * 1000, "ms", "neither"),
            Measurement("ray-services", "cores", spent.service_cpu_s / spent.wall_s, "cores", "smaller"),
            Measurement("other-processes", "cores", others, "cores", "neither"),
        ),
    )


@contextmanager
def _own_mlflow(desk: Path) -> Iterator[None]:
    """Log both sweeps to one store, independently of the user's environment."""
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
    """CPU seconds of one whole run: drawing the jobs and simulating them."""
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


def _together_cpu_s(steps: int, cores: int) -> float:
    """Mean over the cores of CPU seconds of one run while all simulate: cores share caches and clock."""
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        return sum(pool.map(_alone_cpu_s, [steps] * cores)) / cores


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
    if not report.ok:
        raise RunFailedError(f"the sweep failed: {report.to_dict()}")
    return _Spent.so_far() - before
