"""Ray task: run configurations and report their results."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ray_sim.experiments.content import Content
from ray_sim.experiments.result_files import StoreFullError
from ray_sim.experiments.run import Base, Replayed, carry_out, realise
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.experiments.store import ResultStore
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import RaySimError

TASK_S = 1.0
"""Wanted seconds of a task: dispatch costs milliseconds, and at the end cores wait for the last one."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a configuration has no result."""

    text: str
    store_full: bool = False


Answer = Failed | dict[str, bytes] | None
"""Answer for a configuration: an error, its files where the worker cannot reach the store, None if stored."""

Drawn = Replayed | Failed
"""The jobs of a configuration, or why there are none."""

Object: TypeAlias = Drawn | Base | Cluster
"""Inputs that items share: jobs, a source to draw jobs from, a cluster."""


@dataclass(frozen=True, slots=True)
class Item:
    """A configuration in a task. Its jobs and servers stand beside it, as several share them."""

    content: Content
    jobs_key: str
    """Items with the same one run on the same jobs."""
    jobs: int
    """Index of the jobs, or of what to draw them from, among the task's objects."""
    servers: int
    """Index of the cluster among the task's objects."""


@dataclass(frozen=True, slots=True)
class Done:
    """How far a task came."""

    answers: list[Answer]
    """Of as many items as there was time for, at least one, in their order."""
    wall_s: float


def ready() -> None:
    """Does nothing: who can call it has imported all that runs need."""


def run_items(items: Sequence[Item], store: ResultStore, *objects: Object) -> Done:
    """Run configurations one after the other, until all are done or twice `TASK_S` have passed."""
    began = time.perf_counter()
    answers: list[Answer] = []
    drawn: Drawn | None = None
    key = ""
    for item in items:
        cluster = objects[item.servers]
        assert isinstance(cluster, Cluster)
        if drawn is None or item.jobs_key != key:
            drawn, key = _jobs(item.content, objects[item.jobs], cluster), item.jobs_key
        answers.append(_run(item.content, drawn, cluster, store))
        if time.perf_counter() - began > 2 * TASK_S:
            break
    return Done(answers, time.perf_counter() - began)


def draw(spec: WorkloadSpec, seed: int, base: Base, resources: tuple[str, ...]) -> Drawn:
    """The jobs of one seed, see `realise`."""
    with _failures() as failed:
        return realise(spec, seed, base, resources)
    return failed[0]


def _jobs(content: Content, given: Object, cluster: Cluster) -> Drawn:
    if isinstance(given, Replayed | Failed):
        return given
    assert not isinstance(given, Cluster)
    return draw(content.scenario.workload, content.scenario.seed, given, cluster.resources)


def _run(content: Content, jobs: Drawn, cluster: Cluster, store: ResultStore) -> Answer:
    if isinstance(jobs, Failed):
        return jobs
    with _failures() as failed:
        files = carry_out(content, jobs, cluster).files()
        if not store.in_reach():
            return files
        store.put(content.content_hash, files)
        return None
    return failed[0]


@contextmanager
def _failures() -> Iterator[list[Failed]]:
    """Turn whatever goes wrong in one configuration into a text, so that the others go on."""
    failed: list[Failed] = []
    try:
        yield failed
    except RaySimError as error:
        failed.append(Failed(str(error), store_full=isinstance(error, StoreFullError)))
    except (Exception, SystemExit) as error:  # a bug, perhaps in a user's own policy: say where
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}, in {place.name}"
        failed.append(Failed(f"{type(error).__name__}: {error} ({where})"))


def root_cause(error: Exception) -> Exception:
    """What is behind an error of Ray's: of a task whose input died, for one, what befell the input."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else error


def in_a_line(error: BaseException) -> str:
    """The line of an error's text that says what is wrong; the text may be a whole traceback, or empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return next((line for line in lines if not line.endswith(":")), type(error).__name__)
