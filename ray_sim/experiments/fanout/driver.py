"""Driver of a fan-out: shares inputs, submits tasks of a second, counts attempts and yields outcomes."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ray_sim.experiments.fanout.connection import NO_RAY, RayLostError, cluster, cores, dead_process
from ray_sim.experiments.fanout.tasks import (
    TASK_S,
    Answer,
    Done,
    Drawn,
    Failed,
    Item,
    draw,
    in_a_line,
    root_cause,
    run_items,
)
from ray_sim.experiments.fanout.witness import last_words
from ray_sim.experiments.inputs.server_files import split_world
from ray_sim.experiments.prepare import offer_of
from ray_sim.experiments.results.result_directories import StoreFullError
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore, Stamp
from ray_sim.experiments.run_identity import Base, HashedInputs
from ray_sim.experiments.sweep_entries import Configuration
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError

if TYPE_CHECKING:
    from ray import ObjectRef


Reference: TypeAlias = "ObjectRef[Drawn] | ObjectRef[Base] | ObjectRef[Cluster]"
"""References to shared objects that a task receives with its items."""


class Shared:
    """Shared objects, each stored once and released after the last configuration that needs it."""

    def __init__(self, configurations: Iterable[Configuration], inputs: HashedInputs) -> None:
        import ray

        self._draw = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(draw)
        self._inputs = inputs
        self._uses = Counter(key for each in configurations for key in _keys(each, inputs))
        self._frames: dict[str, ObjectRef[Base]] = {}
        self._jobs: dict[str, ObjectRef[Drawn]] = {}
        self._servers: dict[str, ObjectRef[Cluster]] = {}

    def task(self, configurations: Sequence[Configuration]) -> tuple[list[Item], list[Reference]]:
        """Items to run in one task, and the objects they need."""
        objects: dict[Reference, int] = {}
        here = Counter(_keys(each, self._inputs)[1] for each in configurations)
        items = []
        for each in configurations:
            key = _keys(each, self._inputs)[1]
            jobs = objects.setdefault(
                self._jobs_of(each, only_here=here[key] == self._uses[key]), len(objects)
            )
            servers = objects.setdefault(self._servers_of(each), len(objects))
            items.append(Item(each.identity, key, jobs, servers))
        return items, list(objects)

    def renew(self, configuration: Configuration) -> None:
        """Draw the jobs again for another attempt, since they may be lost with the machine that held them."""
        self._jobs.pop(_keys(configuration, self._inputs)[1], None)

    def release(self, configuration: Configuration) -> None:
        """Release the objects that no later configuration needs."""
        for key in _keys(configuration, self._inputs):
            self._uses[key] -= 1
            if not self._uses[key]:
                for refs in (self._frames, self._jobs, self._servers):
                    refs.pop(key, None)

    def _jobs_of(self, configuration: Configuration, only_here: bool) -> Reference:
        """Jobs drawn for all tasks; or the frame, if a single task needs the jobs and draws them itself."""
        import ray

        scenario = configuration.identity.scenario
        frame, jobs, _ = _keys(configuration, self._inputs)
        if frame not in self._frames:
            self._frames[frame] = ray.put(self._inputs.base(scenario.workload))
        if jobs not in self._jobs:
            if only_here:
                return self._frames[frame]
            offer = offer_of(scenario.workload, self._inputs.cluster(scenario.cluster))
            draw = self._draw.options(name=f"draw {configuration.entry.workload}, seed {scenario.seed}")
            self._jobs[jobs] = draw.remote(scenario.workload, scenario.seed, self._frames[frame], offer)
        return self._jobs[jobs]

    def _servers_of(self, configuration: Configuration) -> Reference:
        import ray

        scenario = configuration.identity.scenario
        key = _keys(configuration, self._inputs)[2]
        if key not in self._servers:
            self._servers[key] = ray.put(self._inputs.servers(scenario.cluster, scenario.world))
        return self._servers[key]


def _keys(configuration: Configuration, inputs: HashedInputs) -> tuple[str, str, str]:
    """Keys of the frame, the jobs and the cluster of a configuration."""
    scenario = configuration.identity.scenario
    workload = scenario.workload
    seed = scenario.seed if workload.uses_seed else "any"
    offer = offer_of(workload, inputs.cluster(scenario.cluster))
    return (
        f"frame {workload.file}, {workload.profiles}, {workload.stream}",
        f"jobs {workload.model_dump_json()} seed {seed} for {offer}",
        f"cluster {scenario.cluster}, {split_world(scenario.world)[1]}",
    )


def _by_jobs(configurations: Sequence[Configuration], inputs: HashedInputs) -> list[Configuration]:
    """Sort configurations by their jobs, so that few drawn workloads are in memory at a time."""
    first: dict[str, int] = {}
    places = [first.setdefault(_keys(each, inputs)[1], index) for index, each in enumerate(configurations)]
    order = sorted(range(len(configurations)), key=places.__getitem__)
    return [configurations[index] for index in order]


MAX_ATTEMPTS = 3
"""Attempts at a configuration whose process dies: killed, out of memory, or its machine lost."""

MAX_ITEMS = 256
"""Largest number of configurations in a task."""

_POLL_S = 0.5
"""Seconds between two checks of `stop`."""

_COUNT_CORES_S = 5.0
"""Seconds between two counts of the cores; machines join and leave a cluster."""


def fan_out(
    configurations: Sequence[Configuration],
    inputs: HashedInputs,
    store: ResultStore,
    address: str = "local",
    max_in_flight: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
    stop_after_s: float | None = None,
    under_way: Callable[[int], None] = lambda count: None,
) -> Generator[ConfigurationOutcome, None, None]:
    """Run configurations on Ray, and yield each outcome when it is known.

    Configurations on the same jobs run one after the other, otherwise in the order given. Short ones share
    a task. Workers write results into the store if they can access it, else the driver writes them. Closing
    the iterator early leaves the finished results in the store.

    Parameters
    ----------
    address : ``local`` starts Ray here and ends it afterwards, ``auto`` and ``ray://host:port`` join one;
        ``none`` runs all in this process, one after the other, where a run that kills its process ends all
    max_in_flight : configurations submitted to Ray at a time; by default about a second of work per core,
        and the work of one more core in reserve
    stop : called twice a second; once it returns True, no further task starts
    announce : receives one line of text before each wait of seconds
    stop_after_s : wall-clock seconds after which a configuration under way fails
    under_way : receives the number of configurations that Ray has, whenever it gets some, and twice a second

    Raises
    ------
    RayLostError : the Ray that was started here died; the configurations under way have no outcome
    RunFailedError : Ray did not start
    StoreFullError : there is no room for a result
    """
    if not configurations:
        return  # starting Ray takes seconds
    if address == NO_RAY:
        yield from _in_this_process(configurations, inputs, store, stop, stop_after_s, under_way)
        return
    words = (
        "error: this process was ended from outside, or by Ray, whose processes have died; results so far "
        f"are in {store.root}: go on with the same command and --resume"
    )

    def announce_unless_stopped(text: str) -> None:  # before each start of Ray, which may take a minute
        if stop():
            raise _StoppedError
        announce(text)

    with suppress(_StoppedError), last_words(words), cluster(address, announce_unless_stopped) as count:
        runs = _FanOut(configurations, inputs, store, max_in_flight, count, stop_after_s)
        yield from runs.outcomes(stop, under_way)


def _in_this_process(
    configurations: Sequence[Configuration],
    inputs: HashedInputs,
    store: ResultStore,
    stop: Callable[[], bool],
    stop_after_s: float | None,
    under_way: Callable[[int], None],
) -> Iterator[ConfigurationOutcome]:
    if any(each.identity.scenario.fleet == "actors" for each in configurations):
        raise InvalidInputError("--address none: fleet=actors needs Ray; leave out one of them")
    jobs, drawn = "", None
    for each in _by_jobs(configurations, inputs):
        if stop():
            return
        under_way(1)
        scenario, key = each.identity.scenario, _keys(each, inputs)[1]
        if drawn is None or key != jobs:
            offer = offer_of(scenario.workload, inputs.cluster(scenario.cluster))
            drawn, jobs = draw(scenario.workload, scenario.seed, inputs.base(scenario.workload), offer), key
        servers = inputs.servers(scenario.cluster, scenario.world)
        done = run_items([Item(each.identity, key, 0, 1)], store, stop_after_s, drawn, servers)
        yield ConfigurationOutcome(each.entry, _kept(store, each, done.answers[0]))


def _kept(store: ResultStore, configuration: Configuration, answer: Answer) -> str | None:
    """Store the result of a configuration; returns its error, or None once the result is stored."""
    if isinstance(answer, Failed):
        if answer.store_full:
            raise StoreFullError(answer.text)
        return answer.text
    try:
        if answer is not None:
            store.put(_hash(configuration), answer)
    except InvalidInputError as error:
        return str(error)
    return None


class _StoppedError(Exception):
    """A stop was asked for before Ray ran."""


@dataclass(frozen=True, slots=True)
class _Task:
    configurations: list[Configuration]
    stamps: list[Stamp | None]
    """Stamps of the results that the store already had."""


class _FanOut:
    def __init__(
        self,
        configurations: Sequence[Configuration],
        inputs: HashedInputs,
        store: ResultStore,
        max_in_flight: int | None,
        count: int,
        stop_after_s: float | None,
    ) -> None:
        import ray

        # This driver counts attempts, with their reasons.
        self._run = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(run_items)
        self._store = store
        self._shared = Shared(configurations, inputs)
        self._todo = deque(_by_jobs(configurations, inputs))
        self._pending: dict[ObjectRef[Done], _Task] = {}
        self._lost: defaultdict[str, list[str]] = defaultdict(list)
        self._alone: set[str] = set()
        """Hashes of configurations that run in separate tasks, since a task with them was lost."""
        self._max_in_flight = max_in_flight
        self._stop_after_s = stop_after_s
        self._cores = count
        self._counted_at = time.monotonic()
        self._mean_s = math.inf
        """Recent wall seconds per configuration."""

    def outcomes(
        self, stop: Callable[[], bool], under_way: Callable[[int], None]
    ) -> Iterator[ConfigurationOutcome]:
        import ray

        died = None
        while (self._todo or self._pending) and not stop():
            self._hand_out()
            under_way(self._in_flight())
            ended, _ = ray.wait(list(self._pending), num_returns=1, timeout=_POLL_S)
            # Check before reading an outcome: if Ray dies, its tasks fail without a fault of their own.
            if (died := dead_process()) is not None:
                break
            for task in ended:
                yield from self._ended(task)
        for cut_short in self._pending.values():
            yield from map(self._outcome, self._stored(cut_short))
        if died is not None:
            raise RayLostError(f"Ray's process {died} has died: killed, or out of memory")

    def _hand_out(self) -> None:
        if time.monotonic() - self._counted_at > _COUNT_CORES_S:
            self._cores, self._counted_at = cores(), time.monotonic()
        tasks = self._max_in_flight or self._cores + 1
        while self._todo and len(self._pending) < tasks:
            room = math.inf if self._max_in_flight is None else self._max_in_flight - self._in_flight()
            if room < 1:
                return
            task = self._next_task(min(room, self._fair_size()))
            items, objects = self._shared.task(task.configurations)
            more = f", and {len(items) - 1} more" if items[1:] else ""
            run = self._run.options(name=f"{task.configurations[0].entry.label}{more}")
            self._pending[run.remote(items, self._store, self._stop_after_s, *objects)] = task

    def _in_flight(self) -> int:
        return sum(len(task.configurations) for task in self._pending.values())

    def _fair_size(self) -> int:
        """Number of configurations for one task: about a second of work, less when few are left to share."""
        tasks = self._cores + 1
        in_time = TASK_S / self._mean_s if self._mean_s > 0 else MAX_ITEMS
        share = (self._max_in_flight or MAX_ITEMS * tasks) // tasks
        return max(1, min(int(in_time), share, MAX_ITEMS, math.ceil(len(self._todo) / tasks)))

    def _next_task(self, size: float) -> _Task:
        taken = [self._todo.popleft()]
        while self._todo and len(taken) < size and not self._alone & {_hash(taken[0]), _hash(self._todo[0])}:
            taken.append(self._todo.popleft())
        return _Task(taken, [self._store.stamp(_hash(each)) for each in taken])

    def _ended(self, reference: ObjectRef[Done]) -> Iterator[ConfigurationOutcome]:
        import ray
        from ray.exceptions import (
            NodeDiedError,
            ObjectLostError,
            OutOfMemoryError,
            RayError,
            WorkerCrashedError,
        )

        task = self._pending.pop(reference)
        try:
            done = ray.get(reference)
        except (WorkerCrashedError, OutOfMemoryError, NodeDiedError, ObjectLostError) as error:
            yield from self._after_loss(task, _ray_error(error))
        except RayError as error:
            yield from (self._outcome(each, _ray_error(error)) for each in task.configurations)
        else:
            spent_s = done.wall_s / len(done.answers)
            self._mean_s = spent_s if math.isinf(self._mean_s) else (self._mean_s + spent_s) / 2
            self._todo.extendleft(reversed(task.configurations[len(done.answers) :]))
            for configuration, answer in zip(task.configurations, done.answers, strict=False):
                yield self._outcome(configuration, _kept(self._store, configuration, answer))

    def _after_loss(self, task: _Task, reason: str) -> Iterator[ConfigurationOutcome]:
        """Keep the results that the lost task had stored, and retry the rest in separate tasks.

        The first configuration without a result was running, so the attempt counts as its own.
        """
        stored = self._stored(task)
        yield from map(self._outcome, stored)
        done = set(map(_hash, stored))
        rest = [each for each in task.configurations if _hash(each) not in done]
        if not rest:
            return
        for each in rest:
            self._shared.renew(each)
        self._alone.update(map(_hash, rest))
        self._todo.extendleft(reversed(rest[1:]))
        reasons = self._lost[_hash(rest[0])]
        reasons.append(reason)
        if len(reasons) < MAX_ATTEMPTS:
            self._todo.append(rest[0])  # last in the queue: it may be the one that kills the workers
        else:
            error = f"its process died in each of {MAX_ATTEMPTS} attempts; the last time: {reason}"
            yield self._outcome(rest[0], error)

    def _stored(self, task: _Task) -> list[Configuration]:
        """Configurations of an unfinished task whose results its worker has stored."""
        before = zip(task.configurations, task.stamps, strict=True)
        new = [each for each, stamp in before if self._store.stamp(_hash(each)) not in (None, stamp)]
        damaged = {found.entry.content_hash for found in self._store.damaged(each.entry for each in new)}
        return [each for each in new if _hash(each) not in damaged]

    def _outcome(self, configuration: Configuration, error: str | None = None) -> ConfigurationOutcome:
        self._shared.release(configuration)
        return ConfigurationOutcome(configuration.entry, error, tuple(self._lost[_hash(configuration)]))


def _hash(configuration: Configuration) -> str:
    return configuration.entry.content_hash


def _ray_error(error: Exception) -> str:
    cause = root_cause(error)
    return f"{type(cause).__name__}: {in_a_line(cause)}"
