"""Axis of a sweep: the number that varies among its places, and the lines of configurations over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ray_sim.experiments.axis import Settings, varying
from ray_sim.experiments.scenario import setting_label
from ray_sim.experiments.tracking.views import SeedGroup
from ray_sim.reports.across import is_number
from ray_sim.reports.tables import Place


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


def find_axis(groups: Sequence[SeedGroup], places: Mapping[Place, Settings]) -> SweepAxis | None:
    """Find the number that takes the most values while all other settings stay.

    Of several such numbers the first counts, in the order of the settings. None if no number varies while the
    others stay.
    """
    names = varying(places.values())
    shown = [group for group in groups if group.place in places]
    axes = [
        _axis(name, [each for each in names if each != name], shown, places)
        for name in names
        if all(is_number(settings.get(name)) for settings in places.values())
    ]
    longest = max(axes, key=lambda axis: axis.most_points, default=None)
    return longest if longest is not None and longest.most_points > 1 else None


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
