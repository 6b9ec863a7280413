"""Nodes of real Ray clusters for tests: started by `ray start`, ended by their ids, nothing shared."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import descendants, still_running
from tests.patience import until

REPOSITORY = Path(__file__).parents[1]
QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 10_000,
    "health_check_failure_threshold": 5,
}
"""Ray's settings for a cluster that gives up a node that refuses connections after 2.5 s instead of 15.

A node that is silent on an open connection has 50 s: a busy machine must not give up nodes that are alive."""

KEEP_ALIVE = {
    f"RAY_grpc_{side}keepalive_{what}_ms": str(milliseconds)
    for side in ("", "client_")
    for what, milliseconds in (("time", 1000), ("timeout", 5000))
}
"""Variables with which Ray gives up a silent connection after seconds instead of minutes."""


def ray_command() -> list[str]:
    """`ray` of this environment."""
    return [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]


@dataclass(frozen=True)
class Cluster:
    """Where the parts of a cluster listen, and the environment in which others join it."""

    ip: str
    port: int
    client_port: int
    dashboard_port: int
    directory: Path
    """Of all that Ray keeps on this machine while the cluster runs."""
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """For RAY_ADDRESS."""
        return f"{self.ip}:{self.port}"

    @property
    def client(self) -> str:
        """For --address."""
        return f"ray://{self.ip}:{self.client_port}"

    @property
    def dashboard(self) -> str:
        """For `ray job submit`."""
        return f"http://{self.ip}:{self.dashboard_port}"


def kernel_cache() -> Path:
    """For NUMBA_CACHE_DIR, where a process has another home directory: where this machine's kernels are."""
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path.home() / ".cache"


def free_ports(ip: str, count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with_ports = [socket.create_server((ip, 0)) for _ in range(count)]
    ports = [int(server.getsockname()[1]) for server in with_ports]
    for server in with_ports:
        server.close()
    return ports


def without_clusters() -> dict[str, str]:
    """This process's environment without what tells of Ray clusters and MLflow's servers."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "MLFLOW_"))}


def environment(token: Path, **variables: str) -> dict[str, str]:
    """This process's environment with a token of the cluster's own and without other clusters."""
    own = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "NO_COLOR": "1",
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ["PATH"]]
        ),  # `python` is this one
    }
    return {**without_clusters(), **own, **variables}


@contextmanager
def head(
    directory: Path,
    ip: str,
    *,
    ray: Sequence[str] | None = None,
    inside: Sequence[str] = (),
    dashboard: bool = False,
    system_config: Mapping[str, int] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A head node with two logical cores.

    Parameters
    ----------
    directory : for its token and what it prints
    ip : its own address
    ray : command that starts it, by default `ray`
    inside : command before the command, such as one that enters a network namespace
    variables : of its environment
    """
    token = directory / "token"
    token.write_text(secrets.token_hex(32))
    port, client_port, dashboard_port = free_ports("127.0.0.1" if inside else ip, 3)
    temporary = Path(tempfile.mkdtemp(prefix="rs-", dir="/tmp"))  # short: it becomes part of socket names
    cluster = Cluster(
        ip, port, client_port, dashboard_port, temporary, environment(token, **(variables or {}))
    )
    options = [
        *("--head", "--port", str(cluster.port), "--ray-client-server-port", str(cluster.client_port)),
        *("--include-dashboard", str(dashboard).lower(), "--dashboard-host", ip),
        *("--dashboard-port", str(cluster.dashboard_port), "--temp-dir", str(temporary)),
        *(["--system-config", json.dumps(system_config)] if system_config else []),
    ]
    command = [*inside, *(ray or ray_command())]
    try:
        with _node(directory / "head.log", command, ip, options, cluster.environment):
            if dashboard:
                until(lambda: _answers(f"{cluster.dashboard}/api/version"), "the dashboard answers")
            yield cluster
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def worker(cluster: Cluster, directory: Path, ip: str, inside: Sequence[str] = ()) -> Iterator[int]:
    """A node with two logical cores that joins a cluster; yields the id of its first process."""
    options = ["--address", cluster.address]
    command = [*inside, *ray_command()]
    with _node(directory / "worker.log", command, ip, options, cluster.environment) as pid:
        yield pid


@contextmanager
def _node(
    log: Path, command: Sequence[str], ip: str, options: Sequence[str], variables: Mapping[str, str]
) -> Iterator[int]:
    own = ["--block", "--node-ip-address", ip, "--num-cpus", "2", "--object-store-memory", "100000000"]
    names = ("--dashboard-agent-listen-port", "--dashboard-agent-grpc-port", "--metrics-export-port")
    own += [text for name in (*names, "--runtime-env-agent-port") for text in (name, "0")]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "start", *options, *own],
            env=dict(variables),
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(
            lambda: "will now block forever" in log.read_text() or process.poll() is not None,
            "the node has started",
        )
        assert process.poll() is None, log.read_text()
        yield process.pid
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a node's first process and all below it by force: there is nothing that they should keep."""
    below = descendants(process.pid)
    process.kill()
    process.wait()
    kill(below)


def kill(processes: Mapping[int, int]) -> None:
    """End processes by force, by their ids; see `descendants`."""
    for pid in still_running(dict(processes)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address):
            return True
    except urllib.error.HTTPError:
        return True  # it wants a token
    except OSError:
        return False
