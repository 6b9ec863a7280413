"""Speeds of running jobs in a batch of episodes: the protocol of their models, and the true speeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ray_sim.engine.kinds.elastic.colocation import ColocationFacts
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.rules import PlacementRule
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.elastic.step_time import StepCoefficients
from ray_sim.kernels.handle import handle
from ray_sim.learning.speed_kernels import SpeedFacts, true_rates
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameter_blocks import EVEN
from ray_sim.model.training_progress import PlacementProgress, steps_of


class Running(NamedTuple):
    """Running jobs of n episodes, at most K each; those of one episode share the servers."""

    job: I64
    """(n, K) number of each job among all jobs of the world, -1 after the last one of an episode."""
    tasks: I64
    """(n, K, 2, S) its workers and parameter servers on each server."""


class SpeedModel(Protocol):
    """Says how fast jobs train."""

    def rates(self, running: Running) -> F64:
        """(n, K) samples per microsecond; 0 where there is no job. The array may be used again."""


class TrueSpeeds:
    """The exact speeds of the engine."""

    def __init__(self, facts: SpeedFacts) -> None:
        """See `true_speeds`."""
        self._facts = handle(facts)
        self._rates = np.empty((0, 0))

    def rates(self, running: Running) -> F64:
        """(n, K) samples per microsecond, to the last bit those of a run with these placements."""
        n, most = running.job.shape
        if self._rates.shape[0] < n or self._rates.shape[1] != most:
            self._rates = np.empty((n, most))
        rates = self._rates[:n]
        true_rates(self._facts, running.job, running.tasks, rates)
        return rates


def true_speeds(worlds: Sequence[World]) -> TrueSpeeds:
    """True speeds of the jobs of worlds on the same servers, numbered one world after the other.

    Raises
    ------
    InvalidScenarioError : a world with a fact that a placement and its neighbours do not determine
    """
    for world in worlds:
        refuse_unknown_facts(world)
    facts = [ElasticFacts.in_world(world) for world in worlds]
    progress = [each.progress(np.ones(len(each.profile.samples)), None) for each in facts]
    rules = [rule for rule in progress if isinstance(rule, PlacementProgress)]
    servers = len(worlds[0].cluster)
    steps = (steps_of(each.profile, rules[0].speed, None) for each in facts)
    columns = zip(*steps, strict=True)
    work_rows = (np.empty(2 * servers, dtype=np.int64) for _ in range(3))
    channels = _channels(facts[0].colocation, servers)
    speed_facts = SpeedFacts(
        steps=StepCoefficients(*(np.concatenate(column) for column in columns)),
        speed=rules[0].speed,
        links=rules[0].links,
        nic=np.array([int(rules[0].nic)]),
        request_s=np.array([rules[0].request_s]),
        job_type=np.concatenate([_types(each) for each in facts]),
        worker_load=channels.worker_load,
        ps_load=channels.ps_load,
        sensitivity=channels.sensitivity,
        own_tasks=channels.own_tasks,
        present=channels.present,
        load=np.zeros(channels.present.shape, dtype=np.int64),
        rows=Rows(np.zeros(2, dtype=np.int64), *work_rows),
    )
    return TrueSpeeds(speed_facts)


class _Channels(NamedTuple):
    """Tables of types and channels; without columns where jobs do not slow each other."""

    worker_load: I64
    ps_load: I64
    sensitivity: F64
    own_tasks: I64
    present: Bool


def _channels(colocation: ColocationFacts | None, servers: int) -> _Channels:
    profile = None if colocation is None else colocation.profile
    if colocation is None or profile is None:
        none = np.zeros((1, 0), dtype=np.int64)
        return _Channels(none, none, none.astype(np.float64), none[0], np.zeros((servers, 0), dtype=np.bool_))
    own = np.array([profile.own_tasks])
    return _Channels(profile.worker_load, profile.ps_load, profile.sensitivity, own, colocation.channels)


def _types(facts: ElasticFacts) -> I64:
    """(J,) row of each job in the tables of types."""
    if facts.colocation is None:
        return np.zeros(len(facts.profile.samples), dtype=np.int64)
    return facts.colocation.job_type


def refuse_unknown_facts(world: World) -> None:
    """Refuse a world whose speeds follow from more than placements, or whose servers come and go.

    Raises
    ------
    InvalidScenarioError : it names the parameter
    """
    facts = world.facts
    if not isinstance(facts, ElasticFacts) or facts.rule.truth != PlacementRule.truth:
        raise InvalidScenarioError(
            f"batched world: jobs must train by truth=placement, not {world.params.get('truth', 'rigid')}"
        )
    colocation = facts.colocation
    unknown = {
        "availability": len(world.outages.time) > 0 or not world.there.all(),
        "partition": world.partition != "none",
        "straggler_probability": facts.stragglers is not None,
        "parameter_blocks": facts.values["parameter_blocks"] != EVEN,
        "links": colocation is not None and colocation.changes is not None,
        "nic=per_server": colocation is not None and colocation.shares_interfaces,
    }
    for name, there in unknown.items():
        if there:
            raise InvalidScenarioError(f"batched world: it has no {name}; set up a scenario without")
