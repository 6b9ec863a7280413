"""Cells of a figure: the series and the x to which each run of its sweep belongs.

A run has coordinates: `policy` (its name), `label` (as in the tables of a sweep), `policy.KEY` for each
parameter given, `world.KEY`, `workload` (its label), `workload.KEY` for each entry given, such as
`workload.synth.jobs`, `cluster`, `partition` and `trim.KEY`. Each run has all arrived loads that the figure
lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ray_sim.experiments.sweep_entries import Configuration, PolicySpec
from ray_sim.reports.shape_samples import X

Coordinates = Mapping[str, object]

ARRIVED_LOAD = "arrived_load"
"""Axis of figures of a stream: GPU capacity that jobs have asked for, % of the cluster's."""

_START = r"(?:^|(?<=[(\[=:+])|(?<=, )|(?<=synth:like-)|(?<=/)(?=/))"
"""Where a path may start: a text, or a value in a label; elsewhere a folder's name is part of another."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A run of a figure."""

    series: str
    x: X
    everywhere: bool
    """Whether the run has no such coordinate, so that it counts at every x; `x` is then None."""
    seed: int | None
    """None if the run depends on none."""
    configuration: Configuration = field(repr=False)
    coordinates: Coordinates = field(repr=False)

    def differs_in(self, other: Cell) -> str:
        """Names of the coordinates that differ."""
        keys = sorted({*self.coordinates, *other.coordinates})
        return ", ".join(key for key in keys if self.coordinates.get(key) != other.coordinates.get(key))


def cells_of(
    configurations: Iterable[Configuration],
    axis: str,
    values: Mapping[X, X],
    series: Mapping[str, Mapping[str, object]],
    folders: Sequence[str],
) -> Iterator[Cell]:
    """Yield the cells of a figure; a run belongs to every series that it fits, perhaps to none.

    Parameters
    ----------
    axis : coordinate of x
    values : value of x to show by value of the coordinate; of `ARRIVED_LOAD` all values, each a cell of a run
    series : coordinates of each series; empty for one series per policy
    folders : with a slash at the end; names of files in them are shown without
    """
    for each in configurations:
        own = coordinates(each, folders)
        for found in [{**own, axis: load} for load in values] if axis == ARRIVED_LOAD else [own]:
            named = place(found, axis)
            shown = values.get(named, named)
            for label in _matching(found, series) if series else [_own_series(each, axis, found)]:
                yield Cell(label, shown, axis not in found, each.entry.seed, each, found)


def place(found: Coordinates, axis: str) -> X:
    """Coordinate of x, before it is shown as another value; lists as text."""
    x = found.get(axis)
    return x if x is None or isinstance(x, bool | int | float | str) else str(x)


def coordinates(configuration: Configuration, folders: Sequence[str]) -> dict[str, object]:
    """Coordinates of a run, see above; names of files in these folders are shown without."""
    scenario = configuration.identity.scenario
    found: dict[str, object] = {
        "policy": scenario.policy,
        "label": configuration.entry.labelled or configuration.entry.policy,
        "workload": scenario.workload.label,
        "cluster": scenario.cluster,
        "partition": scenario.partition,
    }
    parts = {
        "policy": scenario.params,
        "world": scenario.world,
        "workload": scenario.workload.plain(),
        "trim": scenario.trim.model_dump() if scenario.trim else {},
    }
    for name, part in parts.items():
        found |= flat_entries(name, part)
    return {key: without_folders(value, folders) for key, value in found.items()}


def flat_entries(prefix: str, part: object) -> dict[str, object]:
    """Entries of nested mappings under dotted keys."""
    if not isinstance(part, Mapping):
        return {prefix: part}
    found: dict[str, object] = {}
    for key, value in part.items():
        found |= flat_entries(f"{prefix}.{key}", value)
    return found


def without_folders(value: object, folders: Sequence[str]) -> object:
    """The value without these folders before the names of files in its texts."""
    if isinstance(value, Mapping):
        return {key: without_folders(each, folders) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(each, folders) for each in value]
    if isinstance(value, str) and folders:
        longest_first = sorted(folders, key=len, reverse=True)
        return re.sub(f"{_START}(?:{'|'.join(map(re.escape, longest_first))})", "", value)
    return value


def _matching(found: Coordinates, series: Mapping[str, Mapping[str, object]]) -> list[str]:
    return [
        name
        for name, wanted in series.items()
        if all(
            key in found and (found[key] == value or (isinstance(value, list) and found[key] in value))
            for key, value in wanted.items()
        )
    ]


def _own_series(configuration: Configuration, axis: str, found: Coordinates) -> str:
    """Label of the policy, without the parameter that is x."""
    name, _, key = axis.partition(".")
    scenario = configuration.identity.scenario
    if name != "policy" or key not in scenario.params:
        return str(found["label"])
    given = {each: found[f"policy.{each}"] for each in scenario.params if each != key}
    return PolicySpec.model_validate({"name": scenario.policy, "params": given}).configuration
