"""Axis of a sweep: the number that varies among its places, and the lines of configurations over it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ray_sim.experiments.figures.cells import flat_entries
from ray_sim.experiments.inputs.cluster_file import split_counts
from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.experiments.scenario import Scenario, setting_label
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.tracking.views import SeedGroup
from ray_sim.model.parameters import resolve
from ray_sim.reports.tables import Place

Settings = Mapping[str, object]
"""Settings of a place by dotted name, such as ``workload.load_scale`` or ``cluster.server.count``."""


@dataclass(frozen=True, slots=True)
class AxisLine:
    """Configurations of one policy that differ in the axis only."""

    name: str
    """The policy, and the settings beside the axis that vary in the sweep."""
    points: Mapping[float, SeedGroup]
    """Configuration by value of the axis, ascending."""


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """The axis of a sweep and the lines over it."""

    name: str
    """Dotted name of the setting."""
    lines: tuple[AxisLine, ...]

    @property
    def most_points(self) -> int:
        """Number of points of the longest line."""
        return max(len(line.points) for line in self.lines)


def place_settings(entry: Entry, scenario: Scenario) -> Settings:
    """Settings that the policies of a place share; those that are not given have their defaults."""
    world = scenario.world if entry.shared_world is None else json.loads(entry.shared_world)
    file, counts = split_counts(scenario.cluster)
    return {
        **flat_entries("workload", scenario.workload.model_dump()),
        "cluster": str(file),
        **{f"cluster.{name}.count": count for name, count in counts.items()},
        **flat_entries("world", resolve("the world", WORLD, world)),
        "partition": scenario.partition,
        **flat_entries("trim", scenario.trim and scenario.trim.model_dump()),
    }


def find_axis(groups: Sequence[SeedGroup], places: Mapping[Place, Settings]) -> SweepAxis | None:
    """Find the number that takes the most values while all other settings stay.

    Of several such numbers the first counts, in the order of the settings. None if no number varies while the
    others stay.
    """
    varying = _varying(places.values())
    shown = [group for group in groups if group.place in places]
    axes = [
        _axis(name, [each for each in varying if each != name], shown, places)
        for name in varying
        if all(_is_number(settings.get(name)) for settings in places.values())
    ]
    longest = max(axes, key=lambda axis: axis.most_points, default=None)
    return longest if longest is not None and longest.most_points > 1 else None


def _varying(places: Iterable[Settings]) -> list[str]:
    """Names of the settings that differ among the places, in order."""
    values: dict[str, list[object]] = {}
    for settings in places:
        for name, value in settings.items():
            values.setdefault(name, []).append(value)
    return [name for name, found in values.items() if any(value != found[0] for value in found)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _axis(
    name: str, others: Sequence[str], groups: Iterable[SeedGroup], places: Mapping[Place, Settings]
) -> SweepAxis:
    lines: dict[str, dict[float, SeedGroup]] = {}
    for group in groups:
        settings = places[group.place]
        rest = setting_label({other: str(settings[other]) for other in others if other in settings})
        label = ", ".join(filter(None, [group.entries[0].policy, rest]))
        lines.setdefault(label, {})[float(str(settings[name]))] = group
    found = (AxisLine(label, dict(sorted(points.items()))) for label, points in lines.items())
    return SweepAxis(name, tuple(found))
