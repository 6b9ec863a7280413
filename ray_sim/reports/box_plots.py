"""Box plots of completion times by class and policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.model.units import FloatArray
from ray_sim.reports.plots import TICKS_S, colour, literal_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_BOX_IN, _CLASS_IN = 0.13, 0.3
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def policy_patches(policies: Sequence[str]) -> list[Patch]:
    """Entries of a legend that name policies by the colours of their boxes."""
    from matplotlib.patches import Patch

    return [Patch(color=colour(index), label=literal_text(name)) for index, name in enumerate(policies)]


def draw_boxes(axes: Axes, groups: Mapping[str, Mapping[str, FloatArray]], policies: Sequence[str]) -> None:
    """Draw boxes of completion times into axes, a block per class and a box per policy, without a legend.

    A box spans the middle half, its line is the median, and the whiskers end at 5 and 95 %. Groups are JCTs
    in seconds by class and policy; times below 1 s are drawn at 1 s, and an empty array has no box.
    """
    block_in = _CLASS_IN + _BOX_IN * len(policies)
    ends: list[float] = []
    for block, (label, by_policy) in enumerate(groups.items()):
        first = block * block_in + _CLASS_IN
        across = axes.get_yaxis_transform()
        axes.text(0, first - 0.03, literal_text(label), va="bottom", fontsize="small", transform=across)
        for index, policy in enumerate(policies):
            jct_s = by_policy.get(policy, np.zeros(0))
            if len(jct_s):
                ends += _box(axes, jct_s, first + (index + 0.5) * _BOX_IN, colour(index))
    axes.set_xscale("log")
    axes.set_xticks(list(TICKS_S.values()), list(TICKS_S), fontsize="small")
    axes.set_xticks([], minor=True)
    axes.set_xlim(min(ends, default=1.0) / 1.3, max(ends, default=10.0) * 1.3)
    axes.set_ylim(block_in * max(len(groups), 1), 0)
    axes.yaxis.set_visible(False)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.set_xlabel("job completion time; box: middle half, whiskers: 5 and 95 %", fontsize="small")


def _box(axes: Axes, jct_s: FloatArray, y: float, paint: str) -> tuple[float, float]:
    """Draw a box at a height, in inches; returns the ends of its whiskers."""
    low, lower, middle, upper, high = np.maximum(np.quantile(jct_s, _QUANTILES), 1.0).tolist()
    axes.plot([low, high], [y, y], color=paint, linewidth=1)
    axes.barh(y, upper - lower, left=lower, height=0.7 * _BOX_IN, color=paint)
    half = 0.45 * _BOX_IN
    axes.plot([middle, middle], [y - half, y + half], color="black", linewidth=1.6)
    return low, high
