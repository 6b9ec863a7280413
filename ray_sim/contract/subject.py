"""A policy under test and the worlds that it is tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ray_sim.contract.announced_worlds import (
    announced_edge_cases,
    busy_announced,
    misreporting,
    with_longer_durations,
)
from ray_sim.contract.books import CheckedSimulation, checked_run
from ray_sim.contract.chunked_worlds import (
    busy_chunks,
    chunk_edge_cases,
    failing_chunks,
    with_longer_chunks,
)
from ray_sim.contract.elastic_worlds import (
    bounded_edge_cases,
    busy_bounded,
    busy_elastic,
    elastic_edge_cases,
    failing_bounded,
    failing_elastic,
    with_more_samples,
)
from ray_sim.contract.measured_worlds import (
    busy_measured,
    failing_measured,
    measured_edge_cases,
    with_more_steps,
)
from ray_sim.contract.rigid_worlds import (
    EdgeCase,
    busy_world,
    edge_cases,
    failing_world,
    with_longer_runs,
)
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.announced.jobs import ANNOUNCED
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.kinds.measured.jobs import MEASURED
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.result import RunResult
from ray_sim.model.units import BoolArray

NewPolicy = Callable[[], Policy]


class Busy(Protocol):
    """Maker of crowded worlds."""

    def __call__(self, *, seed: int, partition: Partition) -> World:
        """A crowded world."""


@dataclass(frozen=True, slots=True)
class Worlds:
    """Worlds of one kind of job, on which its policies are tested."""

    busy: Busy
    disturbed: Callable[[int], World]
    """Maker of worlds with a disturbance."""
    edge_cases: Callable[[], dict[str, EdgeCase]]
    with_longer_run_times: Callable[[World, BoolArray], World]
    """Makes the same world with longer run times of the given jobs."""
    disturbance: str = "failing servers"
    """What disturbs the disturbed worlds, after the word "with"."""


_JOBS = 40
"""Jobs of a busy or disturbed world: enough that they queue, and few enough for a check of seconds."""

_WHOLE = Worlds(
    busy=partial(busy_world, _JOBS),
    disturbed=partial(failing_world, _JOBS),
    edge_cases=lambda: {name: (world, True) for name, world in edge_cases().items()},
    with_longer_run_times=with_longer_runs,
)
_CHUNKED = Worlds(
    busy=partial(busy_chunks, _JOBS),
    disturbed=partial(failing_chunks, _JOBS),
    edge_cases=chunk_edge_cases,
    with_longer_run_times=with_longer_chunks,
)
_ELASTIC = Worlds(
    busy=partial(busy_elastic, _JOBS),
    disturbed=partial(failing_elastic, _JOBS),
    edge_cases=lambda: {name: (world, True) for name, world in elastic_edge_cases().items()},
    with_longer_run_times=with_more_samples,
)
_BOUNDED = Worlds(
    busy=busy_bounded,
    disturbed=lambda seed: failing_bounded(seed=seed),
    edge_cases=lambda: {name: (world, False) for name, world in bounded_edge_cases().items()},
    with_longer_run_times=with_more_samples,
)
_ANNOUNCED = Worlds(
    busy=busy_announced,
    disturbed=misreporting,
    edge_cases=announced_edge_cases,
    with_longer_run_times=with_longer_durations,
    disturbance="users who misreport",
)
_MEASURED = Worlds(
    busy=partial(busy_measured, _JOBS),
    disturbed=partial(failing_measured, _JOBS),
    edge_cases=measured_edge_cases,
    with_longer_run_times=with_more_steps,
)
_BY_SCHEDULES = {
    GANGS: _WHOLE,
    ELASTIC: _ELASTIC,
    CHUNKED: _CHUNKED,
    ANNOUNCED: _ANNOUNCED,
    MEASURED: _MEASURED,
}


class Subject:
    """A policy under test, and the worlds it is tested on; what it does there by itself is run once."""

    def __init__(self, new: NewPolicy, worlds: Worlds | None = None) -> None:
        self.new = new
        self._of_kind = worlds
        self.endless = False
        """Whether a clause found that its runs do not come to an end."""
        self.failed: dict[str, str] = {}
        """First clause that failed at each line of the policy, or with each text where no line is known."""
        self._worlds: dict[tuple[object, ...], World] = {}
        self._results: dict[int, RunResult] = {}

    @property
    def kind(self) -> Worlds:
        """The kind of jobs that the policy is for."""
        if self._of_kind is not None:
            return self._of_kind
        policy = self.new()
        if policy.schedules == ELASTIC and policy.bounded:
            return _BOUNDED
        return _BY_SCHEDULES[policy.schedules]

    def busy(self, seed: int = 0, *, partition: Partition = "none") -> World:
        """A crowded world."""
        key = ("busy", seed, partition)
        if key not in self._worlds:
            self._worlds[key] = self.kind.busy(seed=seed, partition=partition)
        return self._worlds[key]

    def disturbed(self, seed: int = 0) -> World:
        """A world with a disturbance, see `Worlds`."""
        key = ("disturbed", seed)
        if key not in self._worlds:
            self._worlds[key] = self.kind.disturbed(seed)
        return self._worlds[key]

    def result(self, world: World) -> RunResult:
        """Run the policy in one of these worlds on one site, once."""
        if id(world) not in self._results:
            self._results[id(world)] = self.run(world)
        return self._results[id(world)]

    def run(self, world: World, *, sites: int = 1, books: bool = True) -> RunResult:
        """Run it anew, with books that are checked unless another run in this world does it."""
        return checked_run(world, self.new(), sites=sites, loop=CheckedSimulation if books else Simulation)
