"""Ray tasks: run configurations and report their results.

`driver.py` submits `run_items` and `draw`, and `connection.py` warms workers with `ready`.
Driver and learners shorten errors by `root_cause` and `in_a_line`. Grouping and `TASK_S` change only the
speed: a result depends on its `RunIdentity` alone. An error of one configuration becomes a `Failed` and
leaves no task.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ray_sim.experiments.prepare import Offer, Replayed, offer_of, prepare, realise
from ray_sim.experiments.results.result_directories import StoreFullError
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import Base, RunIdentity
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.experiments.sweep_entries import entry_of
from ray_sim.interruption import time_limit
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import RaySimError, failure_text

TASK_S = 1.0
"""Target seconds of a task: dispatch costs milliseconds, and at the end cores wait for the last task."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Error of a configuration without a result."""

    text: str
    store_full: bool = False


Answer = Failed | dict[str, bytes] | None
"""Outcome of a configuration: an error; its files if the worker cannot access the store; None if stored."""

Drawn = Replayed | Failed
"""Jobs of a configuration, or the error that prevents them."""

Object: TypeAlias = Drawn | Base | Cluster
"""Shared input of items: jobs, a source to draw jobs from, or a cluster."""


@dataclass(frozen=True, slots=True)
class Item:
    """A configuration in a task, with the indices of its jobs and servers, which several items share."""

    identity: RunIdentity
    jobs_key: str
    """Key of the jobs; items with the same key run on the same jobs."""
    jobs: int
    """Index of the jobs, or of their source, among the task's objects."""
    servers: int
    """Index of the cluster among the task's objects."""


@dataclass(frozen=True, slots=True)
class Done:
    """Results of a task, which may end before its last item."""

    answers: list[Answer]
    """Outcomes of items[0], items[1], ...: at least one, and fewer than the items if time ran out."""
    wall_s: float


def ready() -> None:
    """Empty task; a worker that executes it has imported everything that runs need."""


def run_items(
    items: Sequence[Item], store: ResultStore, stop_after_s: float | None, *objects: Object
) -> Done:
    """Run configurations one after the other, until all are done or 2 x `TASK_S` seconds have passed."""
    began = time.perf_counter()
    answers: list[Answer] = []
    drawn: Drawn | None = None
    key = ""
    for item in items:
        cluster = objects[item.servers]
        assert isinstance(cluster, Cluster)
        if drawn is None or item.jobs_key != key:
            drawn, key = _jobs(item.identity, objects[item.jobs], cluster), item.jobs_key
        answers.append(_run(item.identity, drawn, cluster, store, stop_after_s))
        if time.perf_counter() - began > 2 * TASK_S:
            break
    return Done(answers, time.perf_counter() - began)


def draw(spec: WorkloadSpec, seed: int, base: Base, offer: Offer) -> Drawn:
    """Draw the jobs of one seed, see `realise`."""
    with _failures() as failed:
        return realise(spec, seed, base, offer)
    return failed[0]


def _jobs(identity: RunIdentity, given: Object, cluster: Cluster) -> Drawn:
    if isinstance(given, Replayed | Failed):
        return given
    assert not isinstance(given, Cluster)
    spec = identity.scenario.workload
    return draw(spec, identity.scenario.seed, given, offer_of(spec, cluster))


def _run(
    identity: RunIdentity, jobs: Drawn, cluster: Cluster, store: ResultStore, stop_after_s: float | None
) -> Answer:
    if isinstance(jobs, Failed):
        return jobs
    with _failures() as failed:
        prepared = prepare(identity.scenario)
        prepared.identity, prepared.jobs, prepared.cluster = identity, jobs, cluster
        with time_limit(stop_after_s):
            files = prepared.run(label=entry_of(identity).label).files()
        if not store.in_reach():
            return files
        store.put(identity.content_hash, files)
        return None
    return failed[0]


@contextmanager
def _failures() -> Iterator[list[Failed]]:
    """Convert any exception of one configuration into a text, so that the others continue."""
    failed: list[Failed] = []
    try:
        yield failed
    except RaySimError as error:
        failed.append(Failed(str(error), store_full=isinstance(error, StoreFullError)))
    except (Exception, SystemExit) as error:  # a bug, perhaps in a user's own policy: name its place
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}, in {place.name}"
        failed.append(Failed(f"{failure_text(error)} ({where})"))


def root_cause(error: Exception) -> Exception:
    """Underlying exception of a Ray error, e.g. the failure of the input that a task waited for."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error


def in_a_line(error: BaseException) -> str:
    """The line of an error's text with the reason; the text may be a whole traceback, or empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return next((line for line in lines if not line.endswith(":")), type(error).__name__)
