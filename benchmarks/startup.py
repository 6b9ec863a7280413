"""Benchmark of whole commands: wall time including imports and files, with compiled code in the cache."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.children import python
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.week import CLUSTER, philly_week

HELP_BUDGET_S, RUN_BUDGET_S = 0.3, 2.0
"""Largest wall seconds by command."""


def run(step: Step = lambda what: None, repetitions: int = 5) -> Findings:
    """Time commands in separate processes; medians after a first run that fills the caches."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-startup-") as folder:
        desk = Path(folder)
        workload, source = philly_week(desk)
        simulate = ["run", "--workload", workload.name, "--cluster", CLUSTER, "-p", "placement=pooled"]
        rows = []
        for case, command, budget_s in (("help", ["--help"], HELP_BUDGET_S), ("run", simulate, RUN_BUDGET_S)):
            step(f"ray-sim {' '.join(command)}")
            wall_s = [python("-m", "ray_sim.cli", *command, cwd=desk)[0] for _ in range(repetitions + 1)]
            rows.append(Measurement(case, "wall_s", statistics.median(wall_s[1:]), "s", "smaller", budget_s))
    return Findings(source, tuple(rows))
