"""Reader of arena files: policies that meet in several places, as one sweep.

A place is a workload, a cluster and a world. Each place is read as a sweep file of its own, so the same rules
and messages hold; the sweep of the arena has the runs of all places, each run once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ray_sim.experiments.inputs.cluster_file import Label
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Spec, Value, parsed, read_document
from ray_sim.experiments.sweep_entries import Configuration, PolicySpec, Sweep
from ray_sim.experiments.sweep_file import parse_sweep, with_jobs
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError

BUNDLED = Path(__file__).parent / "arena.yaml"
"""The arena of all systems."""

QUICK_JOBS = 20
"""Jobs of a quick arena, which has one seed, tests that everything runs, and has no verdicts."""


class Contestant(Spec):
    """A policy of the arena; its key in the file is its name in tables."""

    name: str | None = None
    """Registered name or ``module:Class``; None is the key."""
    params: dict[str, Value] = Field(default_factory=dict)
    world: dict[str, Value] = Field(default_factory=dict)
    """Entries of the world of its own, as in a sweep file."""


class PlaceSpec(Spec):
    """A workload, a cluster and a world in which policies meet."""

    name: Label
    workload: object
    cluster: str
    world: dict[str, Value] = Field(default_factory=dict)
    """Entries that replace or extend those of the arena."""
    policies: dict[Label, Contestant | None] = Field(default_factory=dict)
    """Contestants that differ here, or take part here only; null leaves one out."""
    seeds: object = None
    changes: str | None = None
    """Place of which this one changes one thing, for the sensitivity of conclusions."""


class KnowledgeSpec(Spec):
    """Two contestants that differ in what they are told."""

    blind: str
    told: str
    what: Label


def _two_or_more(contestants: dict[str, Contestant]) -> dict[str, Contestant]:
    if len(contestants) < 2:
        raise ValueError("must hold two contestants or more")
    return contestants


class ArenaFile(Spec):
    """Structure of an arena file."""

    name: str
    seeds: object
    world: dict[str, Value] = Field(default_factory=dict)
    policies: Annotated[dict[Label, Contestant], AfterValidator(_two_or_more)]
    places: Annotated[list[PlaceSpec], Field(min_length=1)]
    knowledge: list[KnowledgeSpec] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run of the arena."""

    policy: str
    """Key of the contestant."""
    seed: int
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Place:
    """A place with all of its runs; a run of another place may be the same."""

    name: str
    changes: str | None
    runs: tuple[PlacedRun, ...]


@dataclass(frozen=True, slots=True)
class Arena:
    """A checked arena."""

    places: tuple[Place, ...]
    knowledge: tuple[KnowledgeSpec, ...]
    sweep: Sweep
    """All runs, each once, labelled by place and contestant."""


def read_arena(path: Path = BUNDLED, *, quick: bool = False) -> Arena:
    """Read and check an arena file."""
    file = parsed(ArenaFile, read_document(path), str(path), (PlaceSpec, Contestant))
    _check_names(file, path)
    inputs = HashedInputs()
    specs = _few_places(file.places) if quick else file.places
    places = tuple(_place(file, spec, inputs, path, quick=quick) for spec in specs)
    configurations = {
        run.configuration.entry.content_hash: run.configuration
        for place in reversed(places)  # the first place of a run gives its labels
        for run in reversed(place.runs)
    }
    sweep = Sweep(file.name, tuple(reversed(configurations.values())), 0, inputs, "numbers")
    return Arena(places, tuple(file.knowledge), sweep)


def _check_names(file: ArenaFile, path: Path) -> None:
    names = [place.name for place in file.places]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidScenarioError(f"{path}: places: '{twice}' is the name of two places; rename one")
    for index, place in enumerate(file.places):
        where = f"{path}: places[{index}]"
        if place.changes is not None:
            _known("place", place.changes, names, f"{where}.changes")
            _check_changes(place, file.places, f"{where}.changes")
        for label, contestant in place.policies.items():
            if contestant is None:
                _known("contestant", label, file.policies, f"{where}.policies")
    for index, pair in enumerate(file.knowledge):
        where = f"{path}: knowledge[{index}]"
        _known("contestant", pair.blind, file.policies, f"{where}.blind")
        _known("contestant", pair.told, file.policies, f"{where}.told")
        if pair.blind == pair.told:
            raise InvalidScenarioError(
                f"{where}: blind and told are both '{pair.told}'; name two contestants"
            )


def _known(kind: str, name: str, known: Collection[str], where: str) -> None:
    if name not in known:
        raise InvalidScenarioError(f"{where}: {UnknownNameError(kind, name, known)}")


def _check_changes(place: PlaceSpec, places: Sequence[PlaceSpec], where: str) -> None:
    """Refuse a place of which the changed place, or one further back, is the place itself."""
    changed = {each.name: each.changes for each in places}
    way: list[str] = []
    name = place.changes
    while name is not None and name != place.name and name not in way:
        way.append(name)
        name = changed.get(name)
    if name == place.name:
        by_way = "".join(f", by way of '{each}'" for each in way)
        raise InvalidScenarioError(f"{where}: '{place.name}' changes itself{by_way}; name another place")


def _place(file: ArenaFile, spec: PlaceSpec, inputs: HashedInputs, path: Path, *, quick: bool) -> Place:
    specs = {
        label: PolicySpec(name=each.name or label, params=each.params, world=each.world)
        for label, each in {**file.policies, **spec.policies}.items()
        if each is not None
    }
    world = {**file.world, **spec.world}
    labels = {
        _key(policy.name, policy.params, {**world, **policy.world}): label for label, policy in specs.items()
    }
    where = f"{path}, place '{spec.name}'"
    content = {
        "name": file.name,
        "workloads": [with_jobs(spec.workload, QUICK_JOBS) if quick else spec.workload],
        "clusters": [spec.cluster],
        "world": world,
        "policies": [policy.model_dump() for policy in specs.values()],
        "seeds": file.seeds if spec.seeds is None else spec.seeds,
        "log": "numbers",
    }
    found = parse_sweep(content, where, inputs)
    placed: dict[tuple[str, int], PlacedRun] = {}
    odd: list[str] = []
    for each in found.configurations:
        scenario = each.identity.scenario
        label, seed = labels.get(_key(scenario.policy, scenario.params, scenario.world)), scenario.seed
        if label is None or (label, seed) in placed:
            odd.append(each.entry.label)
        else:
            entry = replace(each.entry, workload=spec.name, setting="", policy=label)
            placed[label, seed] = PlacedRun(label, seed, replace(each, entry=entry))
    if odd or found.repeated:
        raise InvalidScenarioError(
            f"{where}: a contestant is one configuration with each seed, and a list is an axis of several: "
            + (odd[0] if odd else "two contestants are the same run")
        )
    runs = list(placed.values())
    if quick:
        runs = [run for run in runs if run.seed == runs[0].seed]
    return Place(spec.name, spec.changes, tuple(runs))


def _key(policy: str, params: Mapping[str, Value], world: Mapping[str, Value]) -> str:
    return json.dumps([policy, params, world], sort_keys=True)


def _few_places(places: Sequence[PlaceSpec]) -> list[PlaceSpec]:
    """The first place of each cluster, world and set of contestants."""
    first: dict[str, PlaceSpec] = {}
    for place in places:
        first.setdefault(place.model_dump_json(include={"cluster", "world", "policies"}), place)
    return list(first.values())
