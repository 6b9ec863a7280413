"""Episodes of an environment: worlds to run, given as objects or described by a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ray_sim.agents.agent import Agent
from ray_sim.agents.arguments import whole_number
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.registry import kinds_for
from ray_sim.engine.world import World
from ray_sim.engine.world_parameters import kind_of
from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, parse_scenario, read_scenario
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.parameters import resolve
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
    source = "scenario" if isinstance(scenario, Mapping) else str(scenario)
    parsed = _parsed(scenario)
    with _named(source, "world"):
        _check_kind(kind_of(resolve("the world", WORLD, parsed.world)))
    inputs = HashedInputs()
    with _named(source, "cluster"):
        inputs.cluster(parsed.cluster)
    with _named(source, "world"):
        inputs.servers(parsed.cluster, parsed.world)
    with _named(source, "workload"):
        base = inputs.base(parsed.workload)
    chosen = [parsed.seed] if seeds is None else _checked(seeds)
    worlds: dict[int, World] = {}
    for seed in chosen:
        if worlds and not parsed.workload.uses_seed:
            worlds[seed] = next(iter(worlds.values()))
        elif seed not in worlds:
            prepared = prepare(parsed.model_copy(update={"seed": seed}), inputs, base)
            with _named(source, "workload"):
                _ = prepared.jobs
            with _named(source, "world"):
                worlds[seed] = prepared.world
    return [Episode(worlds[seed], seed) for seed in chosen]


def _parsed(scenario: ScenarioSource) -> Scenario:
    if isinstance(scenario, Mapping):
        return parse_scenario(dict(scenario), "scenario")
    if isinstance(scenario, str | Path):
        return read_scenario(scenario)
    raise InvalidInputError(f"scenario: must be a mapping, or the path of a file, got {scenario!r}")


@contextmanager
def _named(source: str, part: str) -> Iterator[None]:
    """Begin the text of errors with the part of the scenario that they are about."""
    try:
        yield
    except InvalidInputError as error:
        error.args = (f"{source}: {part}: {error}",)
        raise


def _checked(seeds: Iterable[int]) -> list[int]:
    if not isinstance(seeds, Iterable):
        raise InvalidInputError(f"seeds: must be whole numbers, such as range(16), got {seeds!r}")
    chosen = [whole_number("seeds", seed, 0, SEEDS - 1) for seed in seeds]
    if not chosen:
        raise InvalidInputError("seeds: there must be at least one")
    return chosen


def _check_kind(kind: JobKind) -> None:
    """Raise InvalidScenarioError unless agents schedule jobs of this kind."""
    fitting = [each for each in kinds_for(Agent.schedules) if each.task_by_task]
    if kind.truth in [each.truth for each in fitting]:
        return
    jobs = " and ".join(dict.fromkeys(each.jobs for each in fitting))
    raise InvalidScenarioError(
        f"truth={kind.truth} has {kind.jobs} jobs, and environments are for {jobs} jobs: "
        f"set truth={' or '.join(each.truth for each in fitting)}"
    )


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
    if isinstance(episodes, (World, Episode)):
        episodes = [episodes]
    if not isinstance(episodes, Iterable):
        raise InvalidInputError(f"episodes: must be a World, an Episode or a list of them, got {episodes!r}")
    found = [Episode(each) if isinstance(each, World) else each for each in episodes]
    if not found:
        raise InvalidInputError("episodes: there must be at least one")
    for i, each in enumerate(found):
        if not isinstance(each, Episode):
            raise InvalidInputError(f"episodes: number {i} must be a World or an Episode, got {each!r}")
        assert isinstance(each.world.kind, JobKind), "worlds are made by build_world"
        with _named("episodes", f"number {i}"):
            _check_kind(each.world.kind)
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


def check_slots(episodes: Sequence[Episode]) -> None:
    """Raise InvalidScenarioError for an episode without slots."""
    for number, (world, _) in enumerate(episodes):
        if world.slot_us is None:
            raise InvalidScenarioError(
                f"slot_s: the world of episode {number} has none, and jobs are placed at slot boundaries: "
                "give the length of a slot in seconds, in `world` of the scenario or `params` of "
                "build_world, e.g. {'slot_s': 600}"
            )


def check_untyped(episodes: Sequence[Episode], name: str) -> None:
    """Raise InvalidScenarioError for an episode with jobs that accept certain GPU types only."""
    for number, (world, _) in enumerate(episodes):
        if world.table.gpu_types is not None:
            raise InvalidScenarioError(
                f"gpu_types: jobs of episode {number} accept certain GPU types only, which {name}-v0 does "
                f"not know: make {name}-v1, whose mask heeds them, or set gpu_types=ignore in the world"
            )


def check_models(episodes: Sequence[Episode]) -> None:
    """Raise InvalidInputError for an episode whose jobs have other models than those of the first one.

    The columns of ``type`` would mean something else in each.
    """
    models = [_models_of(world) for world, _ in episodes]
    for number, names in enumerate(models):
        if names != models[0]:
            raise InvalidInputError(
                f"models: episode 0 has jobs of {_comma_list(models[0])}, and episode {number} of "
                f"{_comma_list(names)}: give those of all episodes, models={sorted(set().union(*models))}"
            )


def _models_of(world: World) -> tuple[str, ...]:
    facts = world.facts
    return tuple(facts.profile.model_names) if isinstance(facts, ElasticFacts) else ()


def _comma_list(names: Sequence[str]) -> str:
    return ", ".join(names) or "no model"
