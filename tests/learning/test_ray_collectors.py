"""Trainings with Ray actors: the bytes of one in this process, also where actors or the driver die."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from benchmarks.processes import descendants
from ray_sim.experiments.fanout.connection import cluster
from ray_sim.learning.curves import Point
from ray_sim.learning.train import TrainingReport, run_training
from tests.command_line import RAY_SIM, environment, process
from tests.learning.small_training import contents, parsed, written
from tests.patience import until

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with cluster("local"):
        yield


def collectors() -> list[int]:
    """Processes below this one that hold an actor that collects."""

    def name(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""  # it has ended

    return sorted(pid for pid in descendants(os.getpid()) if name(pid).startswith("ray::Collector"))


def trained(folder: Path, out: Path, actors: int, **options: Any) -> TrainingReport:
    return run_training(parsed(folder), out, command="c", actors=actors, **options)


def test_any_number_of_actors_gives_the_same_bytes_also_where_one_is_killed(tmp_path: Path) -> None:
    def kill_one(point: Point) -> None:
        if point.round < 2:
            until(lambda: bool(collectors()), "an actor has started")
            os.kill(collectors()[-1], signal.SIGKILL)

    for actors in (0, 1, 2):
        trained(tmp_path, tmp_path / str(actors), actors)
    report = trained(tmp_path, tmp_path / "killed", 2, report=kill_one)
    assert report.deaths == 2
    whole = contents(tmp_path / "0")
    for name in ("1", "2", "killed"):
        assert contents(tmp_path / name) == whole


def test_after_a_kill_of_the_driver_a_training_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    plan, out = written(tmp_path), tmp_path / "out"
    train = ["train", "harmony", str(plan)]
    with subprocess.Popen(
        [*RAY_SIM, *train, "--actors", "1", "-o", str(out)], stderr=subprocess.PIPE, env=environment()
    ) as driver:
        until((out / "state.npz").exists, "a round is done")
        driver.kill()
    process(*train, "--actors", "0", "-o", str(out), "--resume")
    process(*train, "--actors", "0", "-o", str(tmp_path / "whole"))
    assert contents(out) == contents(tmp_path / "whole")
