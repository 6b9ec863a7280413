"""Ray's cluster launcher with jobs/cluster.yaml, over a real ssh server on a loopback address."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.job import PROJECT
from tests.patience import until
from tests.ray_nodes import REPOSITORY, environment, free_ports, kernel_cache, ray_command

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.long]

IP = "127.0.0.7"
SSH_PORT = 22
"""Ray's launcher knows no other."""

MARK = "RAY_SIM_LAUNCHED_BY"
WORKLOAD = {"synth": {"profile": "philly", "jobs": 20}}

SSHD = """
Port {port}
ListenAddress {ip}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv HOME={home}
"""


@contextmanager
def _ssh_server(keys: Path, home: Path) -> Iterator[None]:
    """Lets the holder of `keys`/user in, into a home directory of its own."""
    server = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if server is None or shutil.which("rsync") is None or shutil.which("ssh") is None:
        pytest.skip("no ssh server, ssh or rsync (Debian: openssh-server, rsync)")
    if os.geteuid() != 0:
        pytest.skip(f"only root may listen on port {SSH_PORT}, and Ray's launcher knows no other")
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(key, check=True)
    (keys / "sshd_config").write_text(SSHD.format(port=SSH_PORT, ip=IP, keys=keys, home=home))
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks in what it has not yet let in
    log = keys / "sshd.log"
    with log.open("w") as output:
        options = ["-D", "-e", "-f", str(keys / "sshd_config")]
        process = subprocess.Popen([server, *options], stderr=output, stdin=subprocess.DEVNULL)
    try:
        until(lambda: "Server listening" in log.read_text() or process.poll() is not None, "sshd listens")
        if process.poll() is not None:
            pytest.skip(f"no ssh server on {IP}: {log.read_text()}")
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _ending(mark: str) -> Iterator[None]:
    """End what the launcher starts, which are processes of nobody: they bear a mark in their environment."""
    try:
        yield
    finally:
        for path in Path("/proc").iterdir():
            with suppress(OSError):  # it has ended
                if path.name.isdigit() and f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)


def _project(directory: Path, key: Path, temporary: Path, port: int) -> None:
    """The project in a directory, with a sweep, and jobs/cluster.yaml filled in for this machine."""
    for folder in ("ray_sim", "workloads", "cluster_specs", "jobs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / folder, directory / folder, ignore=ignored)
    content = {"name": "launched", "workloads": [WORKLOAD], "clusters": ["edge-cloud"]}
    (directory / "sweep.yaml").write_text(yaml.safe_dump({**content, "policies": ["fifo", "sjf"]}))
    launcher = yaml.safe_load((directory / "jobs" / "cluster.yaml").read_text())
    launcher["cluster_name"] = f"ray-sim-{os.getpid()}"
    launcher["provider"]["head_ip"] = IP
    launcher["auth"] = {"ssh_user": "root", "ssh_private_key": str(key)}
    launcher["setup_commands"] = []  # they install packages, which are here
    (start,) = launcher["head_start_ray_commands"]
    assert start.count("--port=6379") == 1
    (client_port,) = free_ports(IP, 1)
    agents = ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent")
    chosen = " ".join(f"--{agent}-port=0" for agent in agents) + f" --ray-client-server-port={client_port}"
    apart = f"--node-ip-address={IP} --num-cpus=2 --include-dashboard=false --temp-dir={temporary} {chosen}"
    launcher["head_start_ray_commands"] = [f"{start.replace('6379', str(port))} {apart}"]
    (directory / "jobs" / "cluster.yaml").write_text(yaml.safe_dump(launcher))


def test_a_sweep_is_submitted_to_a_launched_cluster(tmp_path: Path) -> None:
    here, there, keys, project, mark = (tmp_path / name for name in ("here", "there", "keys", "project", "m"))
    for directory in (here / ".ray", there, keys, project):
        directory.mkdir(parents=True)
    (here / ".ray" / "auth_token").write_text(secrets.token_hex(32))
    (port,) = free_ports(IP, 1)
    (there / ".bashrc").write_text(
        f"export PATH={Path(sys.executable).parent}:$PATH PYTHONPATH={there / PROJECT} {MARK}={mark}\n"
        f"export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 RAY_ADDRESS={IP}:{port}\n"
        f"export NUMBA_CACHE_DIR={kernel_cache()}\n"
    )
    temporary = Path("/tmp") / f"rl-{os.getpid()}"  # short: it becomes part of socket names
    _project(project, keys / "user", temporary, port)
    variables = environment(here / ".ray" / "auth_token", HOME=str(here))

    def ray(*arguments: str) -> str:
        command = [*ray_command(), *arguments]
        ended = subprocess.run(
            command, cwd=project, env=variables, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    try:
        with _ssh_server(keys, there), _ending(str(mark)):
            ray("up", "jobs/cluster.yaml", "--yes", "--no-config-cache")
            said = ray("submit", "--no-config-cache", "jobs/cluster.yaml", "jobs/sweep.py", "sweep.yaml")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    assert "2 of 2" in said
    store = ResultStore(there / PROJECT / "results" / "launched")
    for entry in store.read_plan()[1]:
        alone = {"workload": WORKLOAD, "cluster": "edge-cloud", "policy": entry.policy}
        expected = prepare(parse_scenario(alone, "alone")).run().result.jobs
        assert read_result(store.run_directory(entry.content_hash)).jobs.equals(expected)
