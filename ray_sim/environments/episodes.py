"""Episodes of an environment: worlds to run, given as objects or described by a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ray_sim.agents.arguments import whole_number
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.run import read_base, realise
from ray_sim.experiments.run_identity import Inputs
from ray_sim.experiments.scenario import parse_scenario, read_scenario
from ray_sim.experiments.server_files import split_world
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.streams import SEEDS

ScenarioSource = Mapping[str, object] | str | Path
"""Content of a scenario file, or its path."""


class Episode(NamedTuple):
    """One run of an environment."""

    world: World
    seed: int | None = None
    """Seed of what the world draws in the run; drawn anew at each reset where None."""


Episodes = World | Episode | Sequence[World | Episode]
"""What an environment runs."""


def scenario_episodes(scenario: ScenarioSource, seeds: Iterable[int] | None = None) -> list[Episode]:
    """Episodes of a scenario, one per seed, each with the jobs and draws of ``ray-sim run`` with this seed.

    Parameters
    ----------
    scenario : workload, cluster, world and partition as in a scenario file (docs/running.md); its policy does
        not matter
    seeds : the scenario's own seed where None

    Raises
    ------
    InvalidInputError : a part of the scenario is not possible, or there is no seed
    """
    if isinstance(scenario, Mapping):
        parsed = parse_scenario(dict(scenario), "scenario")
    else:
        parsed = read_scenario(scenario)
    cluster = Inputs().servers(parsed.cluster, parsed.world)
    base, (values, _) = read_base(parsed.workload), split_world(parsed.world)
    chosen = [parsed.seed] if seeds is None else [whole_number("seeds", s, 0, SEEDS - 1) for s in seeds]
    if not chosen:
        raise InvalidInputError("seeds: there must be at least one")
    worlds: dict[int, World] = {}
    for seed in chosen:
        if worlds and not parsed.workload.uses_seed:
            worlds[seed] = next(iter(worlds.values()))
        elif seed not in worlds:
            table = realise(parsed.workload, seed, base, cluster.resources).table
            worlds[seed] = build_world(table, cluster, partition=parsed.partition, params=values)
    return [Episode(worlds[seed], seed) for seed in chosen]


def episodes_of(
    episodes: Episodes | None, scenario: ScenarioSource | None, seeds: Iterable[int] | None
) -> list[Episode]:
    """The episodes of an environment, from exactly one of ``episodes`` and ``scenario``.

    Raises
    ------
    InvalidInputError : neither or both are given, there is none, or their servers differ
    """
    if (episodes is None) == (scenario is None):
        raise InvalidInputError("give the environment either `episodes`, or a `scenario` and perhaps `seeds`")
    if scenario is not None:
        return scenario_episodes(scenario, seeds)
    if seeds is not None:
        raise InvalidInputError("seeds: only with a `scenario`; an Episode has its own")
    assert episodes is not None
    given = [episodes] if isinstance(episodes, (World, Episode)) else list(episodes)
    found = [Episode(each) if isinstance(each, World) else each for each in given]
    if not found:
        raise InvalidInputError("episodes: there must be at least one")
    for i, each in enumerate(found):
        if not isinstance(each, Episode):
            raise InvalidInputError(f"episodes: number {i} must be a World or an Episode, got {each!r}")
        _check_same_servers(found[0].world, each.world, i)
    return found


def _check_same_servers(first: World, other: World, number: int) -> None:
    """Observations and actions of all episodes have one form."""
    same = (
        first.cluster.resources == other.cluster.resources
        and first.cluster.server_names == other.cluster.server_names
        and np.array_equal(first.arrays.capacity, other.arrays.capacity)
    )
    if not same:
        raise InvalidScenarioError(
            f"episodes: number {number} is on cluster {other.cluster.name}, whose servers are not those of "
            f"cluster {first.cluster.name} of number 0; make one environment for each cluster"
        )
