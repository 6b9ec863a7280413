"""Sweeps that are interrupted, killed, or run out of disk, each in a process and a Ray of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mlflow import MlflowClient

from benchmarks.processes import command, descendants, still_running
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.tracking.log import log_stores
from tests.conftest import REPOSITORY
from tests.killed_sweeps import undisturbed, wrong_after_kill
from tests.mlflow_server import mlflow_server
from tests.patience import PATIENCE_S, until
from tests.sweeps import children

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def _end_agents_after_runs(processes: dict[int, int]) -> None:
    """Wait until no run goes on, and end Ray's agents: they take a minute to notice by themselves."""
    agents = {pid: started for pid, started in processes.items() if "Agent" in command(pid)}
    others = {pid: started for pid, started in processes.items() if pid not in agents}
    until(lambda: not still_running(others), "Ray has ended with its driver")
    for pid in still_running(agents):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def own_desk(desk: Path, tmp_path: Path) -> Path:
    """A copy of the desk, with sweep.yaml of fifo, a policy that waits for the file `go`, and sjf."""
    for name in ("week.parquet", "small.yaml", "mine.py"):
        shutil.copyfile(desk / name, tmp_path / name)
    _write_sweep(tmp_path, policies=["fifo", "mine:Waiting", "sjf"])
    return tmp_path


def _write_sweep(directory: Path, **changes: object) -> None:
    content = {"name": "faults", "workloads": ["week.parquet"], "clusters": ["small.yaml"], **changes}
    (directory / "sweep.yaml").write_text(yaml.safe_dump(content))


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    return {**kept, "PYTHONPATH": path}


def _sweep(directory: Path, *options: str) -> subprocess.Popen[str]:
    """A sweep of one configuration at a time, in its own process group as in a terminal."""
    arguments = ["sweep", "sweep.yaml", "-o", "store", "--max-in-flight", "1", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "ray_sim.cli", *arguments],
        cwd=directory,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _halfway(directory: Path) -> tuple[subprocess.Popen[str], dict[int, int]]:
    """A sweep whose second configuration runs, and the processes below it."""
    driver = _sweep(directory)
    until((directory / "waiting").exists, "the second configuration runs")
    return driver, descendants(driver.pid)


def _resumed(directory: Path) -> dict[str, Any]:
    """Report of the sweep that goes on; whoever waits, or still lives, may finish, and write."""
    (directory / "go").touch()
    resumed = _sweep(directory, "--resume", "--json")
    report: dict[str, Any] = json.loads(resumed.communicate()[0])
    assert resumed.returncode == 0
    return report


def _logged(directory: Path) -> list[str]:
    client = MlflowClient(tracking_uri=f"sqlite:///{directory / 'store' / 'mlflow.db'}")
    return sorted(str(run.info.run_name) for run in children("faults", client))


@pytest.mark.long
@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (os.killpg, signal.SIGINT, 130),  # what a terminal does with Ctrl-C
        # What `kill` does; of a whole group it would end Ray's daemons too.
        (os.kill, signal.SIGTERM, 143),
    ],
)
def test_a_signal_keeps_and_logs_what_is_done_and_ends_ray(
    own_desk: Path, send: Callable[[int, int], None], number: int, code: int
) -> None:
    driver, processes = _halfway(own_desk)
    send(driver.pid, number)
    output, errors = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == code, errors
    assert "1 of 3" in output
    assert "2; go on with the same command and --resume" in output
    assert f"{signal.Signals(number).name}: keeping what is done" in errors
    assert "Traceback" not in errors
    assert _logged(own_desk) == ["fifo"]
    until(lambda: not still_running(processes), "Ray has ended")
    report = _resumed(own_desk)
    assert (report["resumed"], report["missing"]) == (1, 0)
    assert _logged(own_desk) == ["fifo", "mine:Waiting", "sjf"]


@pytest.mark.long
def test_the_death_of_its_ray_leaves_configurations_missing_and_none_failed(own_desk: Path) -> None:
    driver, processes = _halfway(own_desk)
    raylet = next(pid for pid in processes if "raylet/raylet" in command(pid).partition(" ")[0])
    os.kill(raylet, signal.SIGKILL)
    output, errors = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, errors
    assert "stopped: Ray's process raylet has died" in errors
    assert "failed: " not in errors
    assert "Traceback" not in errors
    assert "1 of 3" in output
    assert "2; go on with the same command and --resume" in output
    assert _logged(own_desk) == ["fifo"]
    report = _resumed(own_desk)
    assert (report["resumed"], report["missing"]) == (1, 0)
    _end_agents_after_runs(processes)


@pytest.mark.long
def test_a_driver_that_ray_ends_says_how_to_go_on(own_desk: Path) -> None:
    """Without its agent the raylet ends itself and its store, and Ray's core ends the driver from C++."""
    driver, processes = _halfway(own_desk)
    agent = next(pid for pid in processes if "RuntimeEnvAgent" in command(pid))
    os.kill(agent, signal.SIGKILL)
    output, errors = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 1, errors
    assert "go on with the same command and --resume" in output + errors
    assert "Traceback" not in errors
    report = _resumed(own_desk)
    assert (report["resumed"], report["missing"]) == (1, 0)
    _end_agents_after_runs(processes)


@pytest.mark.long
def test_a_second_ctrl_c_ends_at_once(own_desk: Path) -> None:
    driver, processes = _halfway(own_desk)
    os.killpg(driver.pid, signal.SIGINT)
    assert driver.stderr is not None
    while "again to end at once" not in driver.stderr.readline():
        pass
    os.killpg(driver.pid, signal.SIGINT)
    output, _ = driver.communicate(timeout=PATIENCE_S)
    assert (driver.returncode, output) == (130, "")
    _end_agents_after_runs(processes)


DISK = """
import subprocess, sys
from pathlib import Path
from ray_sim.cli import main

def mount(options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", "store"], check=True)

Path("store").mkdir()
mount("size=400k")
arguments = ["sweep", "sweep.yaml", "-o", "store/results"]
first = main(arguments)
print("KEPT", *sorted(path.name for path in Path("store/results/runs").iterdir()), flush=True)
mount("remount,size=100m")
second = main([*arguments, "--resume", "--json"])
print("CODES", first, second)
"""


@pytest.mark.long
def test_a_full_disk_stops_the_sweep_with_all_results_whole_and_resume_completes_it(own_desk: Path) -> None:
    isolated = ["unshare", "--mount", "--map-root-user"]
    probe = [*isolated, "mount", "-t", "tmpfs", "tmpfs", str(own_desk)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let a user mount a small disk")
    resampled = {"path": "week.parquet", "resample": "days"}
    _write_sweep(own_desk, policies=["fifo", "sjf"], workloads=[resampled], seeds={"count": 12})
    done = subprocess.run(
        [*isolated, sys.executable, "-c", DISK],
        cwd=own_desk,
        # MLflow elsewhere: else it may be what the disk is too small for, and the results fit.
        env=_environment() | {"MLFLOW_TRACKING_URI": f"sqlite:///{own_desk / 'runs.db'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CODES 1 0" in done.stdout, done.stderr
    assert "stopped: " in done.stderr
    assert "No space left on device; make room" in done.stderr
    kept = next(line for line in done.stdout.splitlines() if line.startswith("KEPT")).split()[1:]
    assert 0 < len(kept) < 24
    assert not any(name.startswith(".") for name in kept)
    report = json.loads(done.stdout[done.stdout.index("\n{") : done.stdout.index("\n}") + 2])
    assert (report["resumed"], report["damaged"], report["missing"]) == (len(kept), [], 0)
    assert sum(row["seeds"] for row in report["table"]) == 24


@pytest.mark.long
@pytest.mark.usefixtures("ray_cluster", "at_desk")
def test_what_a_server_missed_is_logged_later_and_once(
    own_desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    _write_sweep(own_desk, policies=["fifo", "sjf"])
    report = run_sweep(own_desk / "sweep.yaml", own_desk / "store")
    assert report.table.height == 2
    assert f"http://127.0.0.1:{port}" in (report.tracking_error or "")
    with mlflow_server(f"sqlite:///{own_desk / 'central.db'}", own_desk / "artifacts", port):
        first, second = log_stores([own_desk / "store"]), log_stores([own_desk / "store"])
    assert (first.created, first.present) == (2, 0)
    assert (second.created, second.present) == (0, 2)


@pytest.mark.long
def test_a_sweep_killed_at_a_random_moment_and_resumed_is_like_one_left_alone(tmp_path: Path) -> None:
    sweep = {
        "name": "crash",
        "workloads": [{"synth": {"profile": "philly", "jobs": 300}}],
        "clusters": ["edge-cloud", "pool-368"],
        "policies": ["fifo", "las"],
        "seeds": {"count": 4},
    }
    alone = undisturbed(tmp_path, sweep)
    assert alone["configurations"] == 16
    results = int(np.random.default_rng(3).integers(16))
    assert set(wrong_after_kill(tmp_path, results, alone).values()) == {0}


@pytest.mark.long
def test_workers_that_outlive_their_driver_leave_a_sound_store(own_desk: Path) -> None:
    driver, processes = _halfway(own_desk)
    driver.kill()
    driver.communicate()
    report = _resumed(own_desk)
    assert (report["damaged"], report["missing"]) == ([], 0)
    assert ResultStore(own_desk / "store").damaged(ResultStore(own_desk / "store").read_plan()[1]) == []
    assert _logged(own_desk) == ["fifo", "mine:Waiting", "sjf"]
    _end_agents_after_runs(processes)
