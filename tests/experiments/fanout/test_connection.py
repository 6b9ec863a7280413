"""A Ray that a sweep starts: closed to other users, and tried once more where its start takes too long.

Ray itself delays the registration of its node, as on a busy machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.fanout.connection import check_address
from ray_sim.model.errors import InvalidInputError
from tests.command_line import RAY_SIM
from tests.ray_nodes import REPOSITORY, without_clusters

pytestmark = [pytest.mark.ray]

IN_RAY = """
from pathlib import Path
from ray_sim.experiments.fanout.connection import cluster
with cluster("local"):
    from ray._private.worker import _global_node
    session = Path(_global_node.get_session_dir_path())
    place = session.parents[1]
    mode, sockets = oct(place.stat().st_mode & 0o777), len(list((session / "sockets").iterdir()))
    [metrics] = [path.read_text() for path in session.glob("metrics_export_port_*")]
print(place.parent, mode, sockets, metrics, place.exists())
"""


@pytest.mark.slow
def test_no_other_user_reaches_its_directories_nor_its_metrics_of_tasks(tmp_path: Path) -> None:
    """Ray makes its own directories writable for everyone, so they stand in one that is not."""
    place = os.environ.get("RAY_TMPDIR", tempfile.gettempdir())
    command = [sys.executable, "-c", IN_RAY]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [place, "0o700", "2", "-1", "False"]  # -1: no port for metrics


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


@pytest.mark.long
def test_a_start_that_times_out_is_tried_once_more_and_leaves_no_process() -> None:
    ended = _with_slow_ray(sys.executable, "-c", ONE_SLOW_START)
    assert ended.stderr.splitlines().count("Ray did not start in time: trying once more") == 1
    assert ended.stdout.splitlines()[-1] == "a task ran 1", ended.stderr


def _write_sweep(folder: Path) -> None:
    workload = {"synth": {"profile": "philly", "jobs": 20}}
    content = {"name": "s", "workloads": [workload], "clusters": ["edge-cloud"], "policies": ["fifo"]}
    (folder / "sweep.yaml").write_text(yaml.safe_dump({**content, "seeds": [0]}))


@pytest.mark.long
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


@pytest.mark.long
def test_a_second_start_that_times_out_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    _write_sweep(tmp_path)
    ended = _with_slow_ray(*RAY_SIM, "sweep", "sweep.yaml", folder=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines().count("Ray did not start in time: trying once more") == 1
    assert "Ray did not start on this machine: The current node timed out during startup" in ended.stderr
    assert "overloaded; check its free memory and the space in its temporary directory" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_address_of_a_dashboard_is_no_address_of_a_cluster(tmp_path: Path) -> None:
    code = "from ray_sim.experiments.fanout.connection import cluster\nwith cluster('auto'): pass"
    command = [sys.executable, "-c", code]
    here = os.environ | {"RAY_ADDRESS": "http://127.0.0.1:8265"}
    ended = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert "--address auto: RAY_ADDRESS=http://127.0.0.1:8265 is a dashboard; name the head" in ended.stderr


def test_a_head_may_be_named_by_host_and_port() -> None:
    check_address("10.0.0.1:6379")
    for text in ("10.0.0.1", "10.0.0.1:", "10.0.0.1:70000", "http://10.0.0.1:6379"):
        with pytest.raises(InvalidInputError, match="must be local, auto, ray://HOST:PORT or HOST:PORT"):
            check_address(text)
