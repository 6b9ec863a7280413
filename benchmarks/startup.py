"""Wall time of whole commands, with compiled code in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import Figures, wall_clock
from benchmarks.processes import python
from benchmarks.week import CLUSTER, philly_week

BUDGETS_S = {"help": 0.3, "run": 2.0}
"""Largest wall seconds by command."""


@wall_clock
@pytest.mark.parametrize("command", BUDGETS_S)
def test_a_command(command: str, tmp_path: Path, figures: Figures) -> None:
    workload, source = philly_week(tmp_path, figures.small)
    figures.input(source)
    run = ["run", "--workload", workload.name, "--cluster", CLUSTER, "-p", "placement=pooled"]
    arguments = {"help": ["--help"], "run": run}[command]
    wall_s = figures.median_s(lambda: python("-m", "ray_sim.cli", *arguments, cwd=tmp_path), 5)
    figures.add(f"{command}.wall_s", wall_s, "s", "smaller", BUDGETS_S[command])
