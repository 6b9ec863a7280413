"""The way from a command to the engine is short, and goes through each part of a scenario once."""

from __future__ import annotations

from pathlib import Path

from ray_sim.cli import main
from tests.entered_modules import Entered


def test_a_run_enters_at_most_22_modules_above_the_engine(at_desk: Path) -> None:
    ran: list[int] = []
    command = ["run", "--workload", "week.parquet", "--cluster", "small.yaml", "--policy", "srtf"]
    found = Entered().during(lambda: ran.append(main(command)))
    assert ran == [0]
    assert len(found.above_the_engine()) <= 22
    assert len(found.entries) <= 38
    assert found.entries["ray_sim.experiments.rehearsal"] == 0
