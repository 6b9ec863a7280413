"""Many runs side by side on Ray: a task per configuration, workloads shared, failures kept apart."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ray_sim.experiments.availability_file import split_world
from ray_sim.experiments.content import Content, Inputs
from ray_sim.experiments.result_files import StoreFullError
from ray_sim.experiments.run import Replayed, base_frame, carry_out, realise
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.experiments.store import Outcome, ResultStore
from ray_sim.experiments.sweep_file import Configuration
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, RaySimError

if TYPE_CHECKING:
    import polars as pl
    from ray import ObjectRef

_ONE_THREAD = {
    f"{library}_THREADS": "1" for library in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX")
}
"""A run is one task on one core; more threads than cores only get in each other's way."""


MAX_ATTEMPTS = 3
"""Times a configuration is tried whose process dies: killed, out of memory, its machine lost."""

_POLL_S = 0.5
"""Between looks at whether to stop."""


@dataclass(frozen=True, slots=True)
class _Failed:
    text: str
    store_full: bool = False


class _AttemptLostError(Exception):
    """A task ended without a word from the run: another attempt may well succeed."""


def fan_out(
    configurations: Sequence[Configuration],
    inputs: Inputs,
    store: ResultStore,
    address: str = "local",
    max_in_flight: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Outcome, None, None]:
    """Run configurations on Ray, and yield each as it ends.

    Workers write results into the store where they see it, else the driver does. Closing the
    iterator early leaves what has ended in the store.

    Parameters
    ----------
    address : ``local`` starts Ray here and ends it afterwards, ``auto`` and ``ray://host:port`` join one
    max_in_flight : configurations handed to Ray at a time; by default one per core and one in reserve
    stop : asked twice a second; once it says so, nothing more is yielded

    Raises
    ------
    StoreFullError : there is no room for a result
    """
    if not configurations:
        return  # Ray takes seconds to start
    with cluster(address) as cores:
        yield from _run_all(configurations, inputs, store, max_in_flight or cores + 1, stop)


def check_address(address: str) -> None:
    """Raise `InvalidInputError` unless the text can be the address of a Ray cluster."""
    if address not in ("local", "auto") and not address.startswith("ray://"):
        raise InvalidInputError(f"--address {address}: must be local, auto or ray://HOST:PORT")


@contextmanager
def cluster(address: str) -> Iterator[int]:
    """Join or start Ray, and shut down only what was started here. Yields the number of cores."""
    if address == "local" and "ray" not in sys.modules:  # Ray reads these when it is imported
        # A private token: nobody else on this machine can hand our workers code, and Ray leaves
        # no token file in the home directory, which would change how later `ray start`s behave.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield _cores()
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    init = partial(ray.init, address=address, logging_level=logging.ERROR, log_to_driver=False)
    try:
        if address == "local":
            # Workers here find the modules that this process finds, a user's own policies included.
            modules = {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
            # Ray replaces 127.0.0.1 by the machine's outward address, but not another loopback address.
            init(
                include_dashboard=False,
                _node_ip_address="127.0.0.2",
                runtime_env={"env_vars": _ONE_THREAD | modules},
            )
        else:
            init(runtime_env={"env_vars": _ONE_THREAD})
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"--address {address}: no Ray cluster there: {_first_line(error)}") from error
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
        yield _cores()
    finally:
        ray.shutdown()


def _cores() -> int:
    import ray

    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray ships it untyped
    return max(1, int(resources.get("CPU", 1)))


def _run_all(
    configurations: Sequence[Configuration],
    inputs: Inputs,
    store: ResultStore,
    max_in_flight: int,
    stop: Callable[[], bool],
) -> Iterator[Outcome]:
    import ray

    run = ray.remote(num_cpus=1, max_retries=0)(_run)  # attempts are counted here, with their reasons
    shared = _Shared(configurations, inputs)
    todo = deque(configurations)
    pending: dict[ObjectRef[_Failed | dict[str, bytes] | None], Configuration] = {}
    lost: defaultdict[str, list[str]] = defaultdict(list)
    while (todo or pending) and not stop():
        while todo and len(pending) < max_in_flight:
            configuration = todo.popleft()
            jobs, servers = shared.arguments(configuration)
            pending[run.remote(configuration.content, jobs, servers, store)] = configuration
        ended, _ = ray.wait(list(pending), num_returns=1, timeout=_POLL_S)
        for task in ended:
            configuration = pending.pop(task)
            reasons = lost[configuration.entry.content_hash]
            try:
                error = _receive(task, configuration, store)
            except _AttemptLostError as reason:
                reasons.append(str(reason))
                if len(reasons) < MAX_ATTEMPTS:
                    shared.renew(configuration)
                    todo.append(configuration)  # behind the others: it may be what kills the workers
                    continue
                error = f"its process died in each of {MAX_ATTEMPTS} attempts; the last time: {reason}"
            shared.release(configuration)
            yield Outcome(configuration.entry, error, tuple(reasons))


def _receive(
    task: ObjectRef[_Failed | dict[str, bytes] | None], configuration: Configuration, store: ResultStore
) -> str | None:
    """Error of an ended task; None once its result is in the store."""
    import ray
    from ray.exceptions import NodeDiedError, ObjectLostError, OutOfMemoryError, RayError, WorkerCrashedError

    try:
        answer = ray.get(task)
    except (WorkerCrashedError, OutOfMemoryError, NodeDiedError, ObjectLostError) as error:
        raise _AttemptLostError(_ray_error(error)) from error
    except RayError as error:
        return _ray_error(error)
    if isinstance(answer, _Failed):
        if answer.store_full:
            raise StoreFullError(answer.text)
        return answer.text
    try:
        if answer is not None:
            store.put(configuration.entry.content_hash, answer)
    except InvalidInputError as error:
        return str(error)
    return None


def _ray_error(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error  # of a task whose input died, what befell the input
    return f"{type(cause).__name__}: {_first_line(cause)}"


class _Shared:
    """Workloads and clusters in Ray's object store: each once, and no longer than it is needed."""

    def __init__(self, configurations: Iterable[Configuration], inputs: Inputs) -> None:
        import ray

        self._realise = ray.remote(num_cpus=1, max_retries=0)(_realise)
        self._inputs = inputs
        self._uses = Counter(key for each in configurations for key in self._keys(each))
        self._bases: dict[str, ObjectRef[pl.DataFrame | None]] = {}
        self._jobs: dict[str, ObjectRef[Replayed | _Failed]] = {}
        self._servers: dict[str, ObjectRef[Cluster]] = {}

    def arguments(
        self, configuration: Configuration
    ) -> tuple[ObjectRef[Replayed | _Failed], ObjectRef[Cluster]]:
        """References to the jobs and the servers of a configuration."""
        import ray

        scenario = configuration.content.scenario
        base, jobs, servers = self._keys(configuration)
        cluster = self._inputs.servers(scenario.cluster, scenario.world)
        if servers not in self._servers:
            self._servers[servers] = ray.put(cluster)
        if base not in self._bases:
            self._bases[base] = ray.put(base_frame(scenario.workload))
        if jobs not in self._jobs:
            self._jobs[jobs] = self._realise.remote(
                scenario.workload, scenario.seed, self._bases[base], cluster.resources
            )
        return self._jobs[jobs], self._servers[servers]

    def renew(self, configuration: Configuration) -> None:
        """Draw the jobs anew for another attempt: their process may be the one that died."""
        self._jobs.pop(self._keys(configuration)[1], None)

    def release(self, configuration: Configuration) -> None:
        """Let go of what no later configuration needs."""
        for key in self._keys(configuration):
            self._uses[key] -= 1
            if not self._uses[key]:
                for refs in (self._bases, self._jobs, self._servers):
                    refs.pop(key, None)

    def _keys(self, configuration: Configuration) -> tuple[str, str, str]:
        """What the frame, the jobs and the cluster of a configuration are known by."""
        scenario = configuration.content.scenario
        workload = scenario.workload
        seed = scenario.seed if workload.uses_seed else "any"
        resources = ",".join(self._inputs.cluster(scenario.cluster).resources)
        return (
            f"frame {workload.path}",
            f"jobs {workload.model_dump_json()} seed {seed} for {resources}",
            f"cluster {scenario.cluster}, {split_world(scenario.world)[1]}",
        )


def _realise(
    spec: WorkloadSpec, seed: int, base: pl.DataFrame | None, resources: tuple[str, ...]
) -> Replayed | _Failed:
    with _failures() as failed:
        return realise(spec, seed, base, resources)
    return failed[0]


def _run(
    content: Content, jobs: Replayed | _Failed, cluster: Cluster, store: ResultStore
) -> _Failed | dict[str, bytes] | None:
    """One configuration on a worker; its files come back only where the store is out of reach."""
    if isinstance(jobs, _Failed):
        return jobs
    with _failures() as failed:
        files = carry_out(content, jobs, cluster).files()
        if not store.in_reach():
            return files
        store.put(content.content_hash, files)
        return None
    return failed[0]


@contextmanager
def _failures() -> Iterator[list[_Failed]]:
    """Turn whatever goes wrong in one configuration into a text, so that the others go on."""
    failed: list[_Failed] = []
    try:
        yield failed
    except RaySimError as error:
        failed.append(_Failed(str(error), store_full=isinstance(error, StoreFullError)))
    except (Exception, SystemExit) as error:  # a bug, perhaps in a user's own policy: say where
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}, in {place.name}"
        failed.append(_Failed(f"{type(error).__name__}: {error} ({where})"))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
