"""Benchmark of the phases of `ray-sim run`, from the start of its process to the end."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.children import call
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.week import CLUSTER, philly_week

_TOLERANCE = 0.5
"""Tolerance; some phases take a few milliseconds only."""


def run(step: Step = lambda what: None, repetitions: int = 5) -> Findings:
    """Time the phases of a run in separate processes; medians after a first run that fills the caches."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-phases-") as folder:
        workload, source = philly_week(Path(folder))
        runs = []
        for repetition in range(repetitions + 1):
            step(f"run {repetition + 1} of {repetitions + 1}")
            out = Path(folder) / f"run-{repetition}"
            wall_s, seconds = call("benchmarks.phased_run", str(workload), CLUSTER, str(out))
            runs.append({"python": wall_s - seconds.pop("whole"), **seconds})
    rows = [
        Measurement(
            case=phase,
            metric="wall_s",
            value=statistics.median(each[phase] for each in runs[1:]),
            unit="s",
            better="smaller",
            tolerance=_TOLERANCE,
        )
        for phase in runs[0]
    ]
    return Findings(source, tuple(rows))
