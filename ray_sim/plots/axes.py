"""Axes of pictures: a new figure where none is given, names of lines, and the unit of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray_sim.model.arguments import expect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS_S = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}


def axes_of(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    if ax is not None:
        expect("ax", ax, Axes, "the axes of one picture, such as `pyplot.subplots()[1]`")
        return ax

    return pyplot.subplots()[1]


def draw_names(ax: Axes) -> None:
    """Draw a legend of the labels in the axes, unless there is one name only."""
    if len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend(fontsize="small", frameon=False)


def time_unit(largest_s: float) -> tuple[str, float]:
    """Name and seconds of the largest unit of which a time has at least two."""
    for name, seconds in _UNITS_S.items():
        if largest_s >= 2 * seconds:
            return name, seconds
    return "seconds", 1.0
