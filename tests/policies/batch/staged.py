"""States of a cluster as they are described: who runs since when, who asks, and whom `batch` stops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ray_sim.engine.build_world import build_world
from ray_sim.engine.simulation import Simulation
from ray_sim.model.teams import Quota, Team
from ray_sim.policies.batch.policy import Batch
from ray_sim.policy_api import Decision, View
from tests.worlds import Job, cluster_of, job_table

AT_US = 100_000_000


class Held(NamedTuple):
    """A job: virtual cluster, GPUs, priority. Jobs are submitted, and start, a second apart."""

    vc: str
    gpus: int
    priority: int = 0


def team(
    name: str, gpus: float, *, borrow: float | None = None, lend: float | None = None, **other: Any
) -> Team:
    """A team with a quota of GPUs."""
    milli = None if borrow is None else int(1000 * borrow)
    lent = gpus if lend is None else lend
    return Team(name, (Quota("gpu", int(1000 * gpus), milli, int(1000 * lent)),), **other)


def teams(**changed: Mapping[str, Any]) -> tuple[Team, ...]:
    """Quotas of 16 (vision), 8 (speech) and 8 GPUs (text), but for what is changed."""
    nominal = {"vision": 16, "speech": 8, "text": 8}
    return tuple(team(name, gpus, **changed.get(name, {})) for name, gpus in nominal.items())


class Staged(Batch):
    """Jobs that hold something start when they come; then `batch` decides once."""

    def __init__(self, asks: set[int], **params: Any) -> None:
        super().__init__(**params)
        self._asks = frozenset(asks)

    def decide(self, view: View) -> Decision:
        if view.now_us >= AT_US:
            return super().decide(view)
        rows = {
            job: [(0, 0, int(view.jobs.tasks[job]))] for job in view.arrived.tolist() if job not in self._asks
        }
        return Decision.of(rows, review_us=AT_US)


class Outcome(NamedTuple):
    """Names of jobs that started and that were stopped."""

    started: list[str]
    stopped: list[str]


def decision(
    jobs: Mapping[str, Held], asks: Sequence[str], declared: Sequence[Team] = teams(), **params: Any
) -> Outcome:
    """What `batch` decides on 32 GPUs, where ``asks`` wait and the others hold what they say."""
    names = list(jobs)
    table = job_table(
        [Job(i, each.gpus, 1000.0, each.vc) for i, each in enumerate(jobs.values())],
        columns={"priority": [each.priority for each in jobs.values()]},
    )
    world = build_world(table, replace(cluster_of([32]), teams=tuple(declared)))
    chosen = {"placement": "pooled", "reserve": 0, **params}
    policy = Staged({names.index(name) for name in asks}, **chosen)
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    while (view := simulation.advance()) is not None:
        before = set(view.running.tolist())
        simulation.apply(policy.decide(view))
        if view.now_us >= AT_US:
            after = set(view.running.tolist())
            return Outcome(
                [names[job] for job in sorted(after - before)], [names[job] for job in sorted(before - after)]
            )
    raise AssertionError("nobody asked")
