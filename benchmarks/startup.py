"""Benchmarks of whole commands, with compiled code in the cache: wall time, and time of `run` by phase."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.children import call, python
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.week import CLUSTER, philly_week

HELP_BUDGET_S, RUN_BUDGET_S = 0.3, 2.0
"""Largest wall seconds by command."""

_TOLERANCE = 0.5
"""Tolerance of phases; some take a few milliseconds only."""


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


def run_phases(step: Step = lambda what: None, repetitions: int = 5) -> Findings:
    """Time the phases of a run, from the start of its process to the end; medians as in `run`."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-phases-") as folder:
        workload, source = philly_week(Path(folder))
        runs = []
        for repetition in range(repetitions + 1):
            step(f"run {repetition + 1} of {repetitions + 1}")
            out = Path(folder) / f"run-{repetition}"
            wall_s, seconds = call("benchmarks.phased_run", str(workload), CLUSTER, str(out))
            runs.append({"python": wall_s - seconds.pop("whole"), **seconds})
    rows = []
    for phase in runs[0]:
        median_s = statistics.median(each[phase] for each in runs[1:])
        rows.append(Measurement(phase, "wall_s", median_s, "s", "smaller", tolerance=_TOLERANCE))
    return Findings(source, tuple(rows))
