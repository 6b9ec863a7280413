"""Connection to Ray: join a cluster, or start one and end it after use."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ray_sim.experiments.fanout.tasks import in_a_line, ready, root_cause
from ray_sim.model.errors import InvalidInputError, RunFailedError

_ONE_THREAD = {
    f"{library}_THREADS": "1" for library in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX")
}
"""Environment of a worker: one thread, since a run is one task on one core."""

NO_RAY = "none"
"""Address with which runs happen in this process, one after the other."""

_CLIENT_PORT = 10001
"""Default port on which Ray listens for clients."""

_KNOCK_S = 5.0
"""Limit on the seconds that a machine takes to accept a connection."""

_READY_S = 180.0
"""Limit on the seconds that the first worker takes to fetch the code, start and import it."""

_CLIENT_SERVER_GONE = "Starting Ray client server failed"
"""Ray's message if its process for a client ended before it listened, e.g. because its port was taken."""

_ESSENTIAL = {"raylet", "gcs_server"}
"""Processes that Ray needs to run any task, by Ray's names."""

_VERSIONS = re.compile(
    r"started with:\s+Ray: (?P<ray>\S+)\s+Python: (?P<python>\S+)"
    r".*started with:\s+Ray: (?P<own_ray>\S+)\s+Python: (?P<own_python>\S+)",
    re.DOTALL,
)
"""Pattern of Ray's message about different versions of cluster and driver."""


def check_address(address: str, *, or_none: bool = False) -> None:
    """Raise `InvalidInputError` unless it can be the address of a Ray cluster, or is an allowed `NO_RAY`."""
    if address in ("local", "auto", *([NO_RAY] if or_none else [])):
        return
    if not re.match(r"ray://|[^/]+:\d+$", address) or _server(address) is None:
        none = ", or none" if or_none else ""
        raise InvalidInputError(
            f"--address {address}: must be local, auto, ray://HOST:PORT or HOST:PORT{none}"
        )


def _server(address: str) -> tuple[str, int] | None:
    """Host and port of ``ray://HOST:PORT`` or ``HOST:PORT``; None where the text has none."""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        port = parts.port or _CLIENT_PORT
    except ValueError:  # the port is not a number, or too large
        return None
    return (parts.hostname, port) if parts.hostname else None


class RayLostError(RunFailedError):
    """The Ray that this process started has died and runs no more tasks."""


@contextmanager
def cluster(address: str, announce: Callable[[str], None] = lambda text: None) -> Iterator[int]:
    """Join or start Ray, yield the number of cores, and shut down only a Ray that was started here.

    Ray's messages on stdout go to stderr, because stdout is for results.

    Parameters
    ----------
    announce : receives a line of text before Ray is started or joined, which takes seconds; with ``auto``
        also the address that was joined

    Raises
    ------
    InvalidInputError : no cluster at the address, or one that this process cannot use
    RunFailedError : Ray did not start on this machine
    """
    if address == NO_RAY:
        yield 1
        return
    announce("starting Ray" if address == "local" else f"joining Ray at {address}")
    # Ray lets every user of the machine write into its own directory, which has sockets and code.
    private = partial(tempfile.TemporaryDirectory, prefix="ray-", ignore_cleanup_errors=True)
    place = private(dir=os.environ.get("RAY_TMPDIR")) if address == "local" else nullcontext("")
    with redirect_stdout(sys.stderr), place as directory, _connected(address, directory, announce) as number:
        yield number


def dead_process() -> str | None:
    """Name of an essential process of the Ray started here that has ended; None while all run.

    Ray ends the driver without a message some 30 s after its raylet has died, so a driver must check earlier.
    """
    from ray._private import worker  # Ray has no public name for the processes that it has started

    node: Any = worker._global_node
    ended = [] if node is None else [name for name, _ in node.dead_processes()]
    return next((name for name in ended if name in _ESSENTIAL), None)


@contextmanager
def _connected(address: str, directory: str, announce: Callable[[str], None]) -> Iterator[int]:
    if address == "local" and "ray" not in sys.modules:  # Ray reads these when it is imported
        # A private token: no other user of this machine can send code to our workers, and Ray leaves
        # no token file in the home directory, which would change how later `ray start`s behave.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        # Ray would give metrics of its tasks to anyone who asks, on all interfaces and without a token.
        os.environ.setdefault("RAY_enable_metrics_collection", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # In a notebook Ray's import advises to install widgets, which nothing here shows.
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
    import ray

    if ray.is_initialized():
        yield cores()
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        _start(directory, announce) if address == "local" else _join(address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"--address {address}: {refusal(error)}") from error
    except SystemExit as ended:  # Ray's answer to SIGTERM while it starts
        if not callable(on_sigterm):
            raise
        on_sigterm(signal.SIGTERM, None)
        raise KeyboardInterrupt from ended
    finally:
        # Ray replaces the handler of SIGTERM; restore the previous one.
        if callable(on_sigterm) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
    try:
        if address == "auto":
            announce(f"joined Ray at {ray.get_runtime_context().gcs_address}")
        if address != "local":
            _check_workers(address)
        yield cores()
    finally:
        ray.shutdown()


def _start(directory: str, announce: Callable[[str], None]) -> None:
    import ray

    # Local workers find the modules that this process finds, including a user's own policies.
    modules = {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    for last in (False, True):
        try:
            # Ray replaces 127.0.0.1 by the machine's outward address, but not another loopback address.
            ray.init(
                address="local",
                include_dashboard=False,
                _node_ip_address="127.0.0.2",
                _temp_dir=f"{directory}/r",  # sockets have paths of at most 107 bytes
                runtime_env={"env_vars": _ONE_THREAD | modules},
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
            return
        except Exception as error:  # Ray raises a bare Exception where its node does not come up in time
            if last or "timed out" not in str(error).lower():
                reason = in_a_line(error).rstrip(".")
                raise RunFailedError(
                    f"Ray did not start on this machine: {reason}; check its free memory and the space in "
                    "its temporary directory (RAY_TMPDIR, default /tmp), try again when it is less busy, or "
                    "run a sweep without Ray by --address none"
                ) from error
            _end_node(error)
        announce("Ray did not start in time: trying once more")


def _end_node(error: Exception) -> None:
    """End the processes of the node whose start raised the error; Ray would keep them until we end."""
    from ray._private.node import Node

    for frame, _ in traceback.walk_tb(error.__traceback__):
        if isinstance(node := frame.f_locals.get("self"), Node):
            node.kill_all_processes(check_alive=False)


def _join(address: str) -> None:
    import ray

    at = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if at.startswith("http"):
        raise InvalidInputError(
            f"--address auto: RAY_ADDRESS={at} is a dashboard; name the head there, HOST:6379, and the "
            "dashboard by RAY_API_SERVER_ADDRESS"
        )
    server = _server(at)
    if server is not None:
        _knock(*server)
    # If this process is a job, its environment is kept, apart from the number of threads.
    os.environ.setdefault("RAY_OVERRIDE_JOB_RUNTIME_ENV", "1")
    # The workers run the code of this process, even if another version is installed there. Bytecode, which
    # other processes write meanwhile, would change the digest by which Ray knows the code.
    root = Path(__file__).parents[3]
    packages = [str(root / package) for package in ("ray_sim", "workloads", "cluster_specs")]
    code = {"py_modules": packages, "excludes": ["__pycache__"]}
    join = partial(
        ray.init,
        address=address,
        runtime_env={"env_vars": _ONE_THREAD, **code},
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the error contains their messages
        try:
            join()
        except (ConnectionError, RuntimeError) as error:
            if _CLIENT_SERVER_GONE not in str(error):
                raise
            join()


def _knock(host: str, port: int) -> None:
    """Raise `ConnectionError` if no process listens; Ray would retry for minutes without a reason."""
    try:
        socket.create_connection((host, port), timeout=_KNOCK_S).close()
    except OSError as error:
        raise ConnectionError(error.strerror or str(error)) from error


def _check_workers(address: str) -> None:
    """Raise `InvalidInputError` unless a worker can import the code and packages of a run."""
    import ray
    from ray.exceptions import RayError

    try:
        ray.get(ray.remote(num_cpus=0)(ready).remote(), timeout=_READY_S)
    except (RayError, ImportError) as error:
        reason = in_a_line(root_cause(error))
        raise InvalidInputError(
            f"--address {address}: its workers cannot run ray_sim: {reason}; install the packages of "
            "requirements.lock on every machine of the cluster"
        ) from error


def refusal(error: Exception) -> str:
    """One line for a Ray error: the reason why a cluster cannot be joined, and the remedy."""
    versions = _VERSIONS.search(str(error))
    if versions is None:
        return (
            f"no Ray cluster there: {in_a_line(error)}; check the address, and that RAY_AUTH_MODE and the "
            "token are the cluster's"
        )
    there = f"Ray {versions['ray']} on Python {versions['python']}"
    here = f"Ray {versions['own_ray']} on Python {versions['own_python']}"
    return (
        f"the cluster runs {there}, this process {here}; they must be equal: use an environment with "
        "the cluster's versions here, or start the cluster from one with these"
    )


def cores() -> int:
    """Current number of cores of the cluster."""
    import ray

    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray ships it untyped
    return max(1, int(resources.get("CPU", 1)))
