"""Joining a Ray cluster, or starting one for as long as it is needed."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ray_sim.experiments.fanout.tasks import first_line
from ray_sim.model.errors import InvalidInputError

_ONE_THREAD = {
    f"{library}_THREADS": "1" for library in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX")
}
"""A run is one task on one core; more threads than cores only get in each other's way."""

_VERSIONS = re.compile(
    r"started with:\s+Ray: (?P<ray>\S+)\s+Python: (?P<python>\S+)"
    r".*started with:\s+Ray: (?P<own_ray>\S+)\s+Python: (?P<own_python>\S+)",
    re.DOTALL,
)
"""In what Ray says where the versions of cluster and driver differ."""


def check_address(address: str) -> None:
    """Raise `InvalidInputError` unless the text can be the address of a Ray cluster."""
    if address not in ("local", "auto") and not address.startswith("ray://"):
        raise InvalidInputError(f"--address {address}: must be local, auto or ray://HOST:PORT")


@contextmanager
def cluster(address: str) -> Iterator[int]:
    """Join or start Ray, and shut down only what was started here. Yields the number of cores.

    Raises
    ------
    InvalidInputError : no cluster at the address, or none that this process can use
    """
    if address == "local" and "ray" not in sys.modules:  # Ray reads these when it is imported
        # A private token: nobody else on this machine can hand our workers code, and Ray leaves
        # no token file in the home directory, which would change how later `ray start`s behave.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield cores()
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        _init(address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"--address {address}: {refusal(error)}") from error
    except SystemExit as ended:  # Ray's answer to SIGTERM while it starts
        if not callable(on_sigterm):
            raise
        on_sigterm(signal.SIGTERM, None)
        raise KeyboardInterrupt from ended
    finally:
        # Ray takes SIGTERM for itself; whoever handled it before still does.
        if callable(on_sigterm) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield cores()
    finally:
        ray.shutdown()


def _init(address: str) -> None:
    import ray

    init = partial(ray.init, address=address, logging_level=logging.ERROR, log_to_driver=False)
    if address != "local":
        init(runtime_env={"env_vars": _ONE_THREAD})
        return
    # Workers here find the modules that this process finds, a user's own policies included.
    modules = {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
    # Ray replaces 127.0.0.1 by the machine's outward address, but not another loopback address.
    init(
        include_dashboard=False,
        _node_ip_address="127.0.0.2",
        runtime_env={"env_vars": _ONE_THREAD | modules},
    )


def refusal(error: Exception) -> str:
    """Why a cluster cannot be joined and what to do, in one line, from what Ray says of it."""
    versions = _VERSIONS.search(str(error))
    if versions is None:
        return f"no Ray cluster there: {first_line(error)}"
    there = f"Ray {versions['ray']} on Python {versions['python']}"
    here = f"Ray {versions['own_ray']} on Python {versions['own_python']}"
    return (
        f"the cluster runs {there}, this process {here}; they must be alike: use an environment with "
        f"the cluster's versions here, or start the cluster from one with these"
    )


def cores() -> int:
    """Cores of all machines that are in the cluster now."""
    import ray

    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray ships it untyped
    return max(1, int(resources.get("CPU", 1)))
