"""Starts of Ray that take too long, as on a busy machine: Ray itself delays the registration of its node."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.command_line import RAY_SIM
from tests.ray_nodes import REPOSITORY, without_clusters

pytestmark = [pytest.mark.ray, pytest.mark.long]

DELAY = "RAY_testing_asio_delay_us"
SLOW = {DELAY: "NodeInfoGcsService.grpc_server.RegisterNode=100000000:100000000"}
ONE_SLOW_START = f"""
import os
from ray_sim.experiments.fanout.connection import cluster

def announce(text):
    print(text)
    if "once more" in text:
        del os.environ["{DELAY}"]

with cluster("local", announce) as cores:
    import psutil, ray
    task = ray.get(ray.remote(lambda: "a task ran").remote())
    raylets = sum(child.name() == "raylet" for child in psutil.Process().children())
print(task, raylets)
"""


def _with_slow_ray(*command: str, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run a command whose Ray registers a node after 100 s, and gives it up after some 30 s."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**without_clusters(), "PYTHONPATH": str(REPOSITORY), **SLOW},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_start_that_times_out_is_tried_once_more_and_leaves_no_process() -> None:
    ended = _with_slow_ray(sys.executable, "-c", ONE_SLOW_START)
    assert ended.stderr.splitlines().count("Ray did not start in time: trying once more") == 1
    assert ended.stdout.splitlines()[-1] == "a task ran 1", ended.stderr


def _write_sweep(folder: Path) -> None:
    workload = {"synth": {"profile": "philly", "jobs": 20}}
    content = {"name": "s", "workloads": [workload], "clusters": ["edge-cloud"], "policies": ["fifo"]}
    (folder / "sweep.yaml").write_text(yaml.safe_dump({**content, "seeds": [0]}))


def test_a_sweep_interrupted_while_ray_starts_does_not_start_it_again(tmp_path: Path) -> None:
    _write_sweep(tmp_path)
    driver = subprocess.Popen(
        [*RAY_SIM, "sweep", "sweep.yaml"],
        cwd=tmp_path,
        env={**without_clusters(), "PYTHONPATH": str(REPOSITORY), **SLOW},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stderr is not None
    said = next(line for line in driver.stderr if "starting Ray" in line)
    driver.send_signal(signal.SIGINT)
    said += driver.stderr.read()
    assert driver.wait() == 130
    assert "once more" not in said
    assert "Traceback" not in said
    assert "stopped: interrupted" in said


def test_a_second_start_that_times_out_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    _write_sweep(tmp_path)
    ended = _with_slow_ray(*RAY_SIM, "sweep", "sweep.yaml", folder=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines().count("Ray did not start in time: trying once more") == 1
    assert "Ray did not start on this machine: The current node timed out during startup" in ended.stderr
    assert "overloaded; check its free memory and the space in its temporary directory" in ended.stderr
    assert "Traceback" not in ended.stderr
