"""Reader of sweep files: expands all combinations of the axes, and reports every problem before any run."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError

from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.experiments.rehearsal import Rehearsal
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import (
    AuditSpec,
    FleetKind,
    Partition,
    Scenario,
    Seed,
    Spec,
    SynthSpec,
    TrimSpec,
    Value,
    Workload,
    WorkloadSpec,
    audit_switch,
    read_document,
    setting_label,
)
from ray_sim.experiments.sweep_entries import Configuration, Detail, PolicySpec, Sweep, entry_of
from ray_sim.model.errors import InvalidScenarioError, RaySimError, problems_text
from ray_sim.model.parameters import resolve
from ray_sim.model.readable import first_and_others
from ray_sim.policies.registry import create_policy
from workloads.documents import dotted_problems
from workloads.sources import Source
from workloads.synthetic.drawn_jobs import check_whole

MAX_CONFIGURATIONS = 100_000
"""Largest number of configurations; a larger one is taken for an error in an axis."""

FIGURE_BLOCKS = ("figure", "shape", "choices")
"""Keys with which a sweep file is also a figure file, see docs/reproduce.md."""

_Parsed = TypeVar("_Parsed")


def _directory_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError("must be letters, digits, '.', '_' or '-', as it names a directory")
    return name


def _seed_list(given: object) -> object:
    if type(given) is int:
        raise ValueError(f"must be a list, as [0, 1], or {{count: N}}, N from 1 to {MAX_CONFIGURATIONS:,}")
    if not isinstance(given, dict):
        return given
    count = given.get("count")
    if set(given) != {"count"} or type(count) is not int or not 1 <= count <= MAX_CONFIGURATIONS:
        raise ValueError(f"expected a list of seeds or {{count: N}}, N from 1 to {MAX_CONFIGURATIONS:,}")
    return list(range(count))


def _each_once(seeds: list[int]) -> list[int]:
    seen: dict[int, int] = {}
    for index, seed in enumerate(seeds):
        if seen.setdefault(seed, index) != index:
            raise ValueError(f"must be given once each; [{index}] repeats [{seen[seed]}]")
    return seeds


class SweepFile(Spec):
    """Structure of a sweep file. The reader first expands its entries, then checks them one by one."""

    name: Annotated[str, AfterValidator(_directory_name)]
    workloads: Annotated[list[object], Field(min_length=1)]
    clusters: Annotated[list[str], Field(min_length=1)]
    policies: Annotated[list[object], Field(min_length=1)]
    world: dict[str, object] = Field(default_factory=dict)
    partition: Annotated[
        list[Partition],
        BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
        Field(min_length=1),
    ] = Field(default=["none"])
    trim: dict[str, object] | None = None
    audit: Annotated[AuditSpec | None, BeforeValidator(audit_switch)] = None
    sites: Annotated[int, Field(ge=1)] = 1
    fleet: FleetKind = "local"
    seeds: Annotated[
        list[Seed], BeforeValidator(_seed_list), Field(min_length=1), AfterValidator(_each_once)
    ] = Field(default=[0])
    log: Detail = "full"


def read_sweep(path: Source, inputs: HashedInputs | None = None) -> Sweep:
    """Read a sweep from a YAML file, by path or URL; the error lists every problem of the file.

    The blocks of a figure are left out, see `FIGURE_BLOCKS`.
    """
    return parse_sweep(without_figure(read_document(path)), str(path), inputs or HashedInputs())


def has_figure(content: object) -> bool:
    """Whether the content of a sweep file has a block of a figure."""
    return isinstance(content, dict) and not content.keys().isdisjoint(FIGURE_BLOCKS)


def without_figure(content: object) -> object:
    """The content of a sweep file without the blocks of a figure."""
    if not isinstance(content, dict):
        return content
    return {key: value for key, value in content.items() if key not in FIGURE_BLOCKS}


def with_jobs(workload: object, jobs: int) -> object:
    """The workload of a sweep file with this number of jobs where it is synthetic."""
    if not isinstance(workload, dict) or not isinstance(workload.get("synth"), dict):
        return workload
    return {**workload, "synth": {**workload["synth"], "jobs": jobs}}


def parse_sweep(content: object, source: str, inputs: HashedInputs) -> Sweep:
    """Parse the content of a sweep file; `source` names it in the error."""
    shape, combined = _expand(content, source, inputs)
    configurations: dict[str, Configuration] = {}
    for configuration in combined:
        configurations.setdefault(configuration.entry.content_hash, configuration)
    repeated = len(combined) - len(configurations)
    return Sweep(shape.name, tuple(configurations.values()), repeated, inputs, shape.log)


def combinations(content: object, source: str, inputs: HashedInputs) -> list[Configuration]:
    """All combinations of a sweep file's content in order; several may be the same run."""
    return _expand(content, source, inputs)[1]


def _expand(content: object, source: str, inputs: HashedInputs) -> tuple[SweepFile, list[Configuration]]:
    """The structure of a sweep file and all of its combinations; the error lists every problem."""
    problems: list[str] = []
    shape = _collect(problems, "", lambda: SweepFile.model_validate(content))
    raw = content if isinstance(content, dict) else {}
    axes = _Axes(
        workloads=_entries(raw, "workloads", lambda entry: _workload(entry, inputs), problems),
        clusters=_entries(raw, "clusters", lambda entry: _cluster(entry, inputs), problems),
        worlds=_alternatives(raw.get("world", {}), "world", _world, problems),
        trims=_alternatives(raw["trim"], "trim", _trim, problems)
        if raw.get("trim") is not None
        else [_Placed("trim", None)],
        policies=_entries(raw, "policies", _policy, problems),
    )
    problems += _repeated_labels(axes.policies)
    for cluster, world in itertools.product(axes.clusters, axes.worlds):
        _collect(problems, "world.availability", partial(inputs.servers, cluster.value, world.value))
        for policy in axes.policies:
            if "availability" in policy.value.world:
                servers = partial(inputs.servers, cluster.value, {**world.value, **policy.value.world})
                _collect(problems, f"{policy.place}.world.availability", servers)
    if shape is not None and not problems and axes.combinations <= MAX_CONFIGURATIONS:
        _rehearse(axes, shape, inputs, problems)
    if problems or shape is None:
        raise InvalidScenarioError(problems_text(source, list(dict.fromkeys(problems))))
    count = axes.combinations * len(shape.partition) * len(shape.seeds)
    if count > MAX_CONFIGURATIONS:
        raise InvalidScenarioError(
            f"{source}: {count:,} combinations; at most {MAX_CONFIGURATIONS:,}, shorten an axis"
        )
    return shape, list(_combine(axes, shape, inputs))


@dataclass(frozen=True, slots=True)
class _Placed(Generic[_Parsed]):
    """One value of an axis, and the dotted path of its entry."""

    place: str
    value: _Parsed


@dataclass(frozen=True, slots=True)
class _Axes:
    workloads: list[_Placed[WorkloadSpec]]
    clusters: list[_Placed[str]]
    worlds: list[_Placed[dict[str, Value]]]
    trims: list[_Placed[TrimSpec | None]]
    policies: list[_Placed[PolicySpec]]

    @property
    def combinations(self) -> int:
        axes: list[Sequence[object]] = [
            self.workloads,
            self.clusters,
            self.worlds,
            self.trims,
            self.policies,
        ]
        return math.prod(map(len, axes))


def _combine(axes: _Axes, shape: SweepFile, inputs: HashedInputs) -> Iterator[Configuration]:
    for workload, cluster, world, partition, trim, policy in itertools.product(
        axes.workloads, axes.clusters, axes.worlds, shape.partition, axes.trims, axes.policies
    ):
        scenario = Scenario(
            workload=workload.value,
            cluster=cluster.value,
            policy=policy.value.name,
            params=policy.value.params,
            label=policy.value.label,
            world={**world.value, **policy.value.world},
            partition=partition,
            trim=trim.value,
            audit=shape.audit,
            sites=shape.sites,
            fleet=shape.fleet,
        )
        yield from seed_configurations(scenario, shape.seeds, inputs, world.value)


def seed_configurations(
    scenario: Scenario,
    seeds: Iterable[int],
    inputs: HashedInputs,
    shared_world: Mapping[str, Value] | None = None,
) -> Iterator[Configuration]:
    """Yield the configuration of a scenario for each seed; one for all if nothing is drawn."""
    for seed in seeds:
        identity = inputs.identify(scenario.model_copy(update={"seed": seed}))
        yield Configuration(entry_of(identity, shared_world), identity)
        if identity.seed_free:
            return


def _rehearse(axes: _Axes, shape: SweepFile, inputs: HashedInputs, problems: list[str]) -> None:
    """Set up every policy in every world with every workload; report each problem once, with its entries."""
    rehearsal, several = Rehearsal(inputs), len(axes.worlds) > 1
    found: dict[tuple[str, str], dict[str, None]] = {}  # where each problem of an entry occurs, in order

    def tried(entry: str, where: str, step: Callable[[], _Parsed]) -> _Parsed | None:
        here: list[str] = []
        result = _collect(here, "", step)
        for problem in here:
            found.setdefault((entry, problem), {})[where] = None
        return result

    for workload, cluster, world, partition in itertools.product(
        axes.workloads, axes.clusters, axes.worlds, shape.partition
    ):
        setting = Scenario(
            workload=workload.value,
            cluster=cluster.value,
            world=world.value,
            partition=partition,
            audit=shape.audit,
            seed=shape.seeds[0],
            sites=shape.sites,
        )
        where = workload.place + (f", {setting_label(world.value)}" if several else "")
        for own, policies in _by_own_world(axes.policies):
            named = f"{policies[0].place}.world" if own else "world"
            here = setting.model_copy(update={"world": {**world.value, **own}})
            facts = tried(named, where, partial(rehearsal.world, here))
            if facts is None:
                continue
            for policy in policies:
                scenario = here.model_copy(
                    update={"policy": policy.value.name, "params": policy.value.params}
                )
                tried(policy.place, where, partial(rehearsal.set_up, scenario, facts))
    problems += [
        f"{entry} with {first_and_others(list(where))}: {text}" for (entry, text), where in found.items()
    ]


def _repeated_labels(policies: Iterable[_Placed[PolicySpec]]) -> Iterator[str]:
    """Yield a problem for each label that another policy has as its label or name."""
    named: dict[str, str] = {}
    for policy in policies:
        ours = policy.value.configuration
        name = policy.value.label or ours
        if (other := named.setdefault(name, ours)) != ours:
            yield f"{policy.place}.label: '{name}' names {other} and {ours}; give each policy another label"


def _by_own_world(
    policies: Iterable[_Placed[PolicySpec]],
) -> list[tuple[dict[str, Value], list[_Placed[PolicySpec]]]]:
    """The policies that share a world, in order of appearance, with their entries of it."""
    found: dict[str, tuple[dict[str, Value], list[_Placed[PolicySpec]]]] = {}
    for policy in policies:
        own = policy.value.world
        found.setdefault(json.dumps(own, sort_keys=True), (own, []))[1].append(policy)
    return list(found.values())


def _entries(
    raw: dict[str, object], key: str, parse: Callable[[object], _Parsed | None], problems: list[str]
) -> list[_Placed[_Parsed]]:
    given = raw.get(key)
    if not isinstance(given, list):
        return []  # checked by `SweepFile`
    return [
        parsed
        for index, entry in enumerate(given)
        for parsed in _alternatives(entry, f"{key}[{index}]", parse, problems)
    ]


def _alternatives(
    given: object, place: str, parse: Callable[[object], _Parsed | None], problems: list[str]
) -> list[_Placed[_Parsed]]:
    """Expand the axes of an entry and parse each combination."""
    found = _collect(problems, "", lambda: variants(given, place))
    parsed = [_collect(problems, place, partial(parse, variant)) for variant in found or []]
    return [_Placed(place, one) for one in parsed if one is not None]


def variants(given: object, place: str) -> list[object]:
    """All combinations of one value per list inside `given`; the list written last varies fastest."""
    if isinstance(given, list):
        if not given:
            raise InvalidScenarioError(f"{place}: an axis needs at least one value, got []")
        return given
    if isinstance(given, dict):
        axes = [variants(value, f"{place}.{key}") for key, value in given.items()]
        if math.prod(map(len, axes)) > MAX_CONFIGURATIONS:
            raise InvalidScenarioError(f"{place}: more than {MAX_CONFIGURATIONS:,} combinations")
        return [dict(zip(given, chosen, strict=True)) for chosen in itertools.product(*axes)]
    return [given]


def _collect(problems: list[str], place: str, parse: Callable[[], _Parsed | None]) -> _Parsed | None:
    """Result of `parse`; on errors None, and the problems are added with their place."""
    try:
        return parse()
    except ValidationError as error:
        models = (SweepFile, PolicySpec, WorkloadSpec, SynthSpec, TrimSpec, AuditSpec)
        keys = {model.__name__: list(model.model_fields) for model in models}
        prefix = f"{place}." if place else ""
        problems.extend(dotted_problems(error, itertools.chain(*keys.values()), prefix, keys))
    except RaySimError as error:
        text = str(error).replace("\n", "\n  ")
        problems.append(f"{place}: {text}" if place else text)
    return None


_WORKLOAD: TypeAdapter[WorkloadSpec] = TypeAdapter(Workload)


def _workload(entry: object, inputs: HashedInputs) -> WorkloadSpec:
    spec = _WORKLOAD.validate_python(entry)
    if spec.file is not None:
        inputs.workload_sha256(spec.file)
    if (draws := inputs.whole_draws(spec)) is not None:
        check_whole(draws)
    inputs.layers(spec)
    return spec


def _cluster(entry: object, inputs: HashedInputs) -> str | None:
    if not isinstance(entry, str):
        return None  # checked by `SweepFile`
    inputs.cluster(entry)
    return entry


def _world(entry: object) -> dict[str, Value] | None:
    if not isinstance(entry, dict):
        return None  # checked by `SweepFile`
    resolve("the world", WORLD, entry)
    return entry


def _trim(entry: object) -> TrimSpec | None:
    if not isinstance(entry, dict):
        return None  # checked by `SweepFile`
    return TrimSpec.model_validate(entry)


def _policy(entry: object) -> PolicySpec:
    spec = PolicySpec.model_validate({"name": entry} if isinstance(entry, str) else entry)
    create_policy(spec.name, spec.params)
    resolve("the world", WORLD, spec.world)
    return spec
