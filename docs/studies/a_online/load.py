"""Mean JCT by offered load, with a cloud and without, as tables and as a picture.

    ray-sim reproduce a_online/load a_online/load_alone -o results/a_online
    python docs/studies/a_online/load.py results/a_online docs/pictures/a-online-load.svg

Prints means over seeds, and the differences of the other policies from A_online in per cent with 95 %
intervals. Draws the means, their 95 % intervals, and the lower bound on any schedule of the same jobs.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from ray_sim.experiments.figures.file import Figure, find_figures, places_of, read_figure
from ray_sim.experiments.figures.reproduce import figure_samples
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.units import FloatArray
from ray_sim.reports.plots import COLOURS
from ray_sim.reports.shape_samples import Samples, X
from ray_sim.reports.statistics import mean_interval, ratio_interval, ratio_of_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {"a_online/load": "with a cloud", "a_online/load_alone": "without a cloud"}
HOUR_S = 3600.0
MARKERS = "os^vDx"
OURS = "A_online"


class Load:
    """Mean JCT and its lower bound in hours, by series, load and seed."""

    def __init__(self, figure: Figure, store: ResultStore) -> None:
        self.loads = places_of(figure.cells)
        self.series = [name for name in figure.series if self._has(name, figure)]
        self._jct, self._bound = (
            figure_samples(figure.cells, self.loads, metric, store)
            for metric in ("jct_s.mean", "certificate.bound_s")
        )

    @staticmethod
    def _has(series: str, figure: Figure) -> bool:
        return any(cell.series == series for cell in figure.cells)

    def hours(self, series: str, load: X) -> FloatArray:
        """Mean JCT by seed."""
        return _hours(self._jct, series, load)

    def bound(self, load: X) -> float:
        """Mean over seeds of the largest bound, which no policy changes."""
        found = np.array([_hours(self._bound, name, load) for name in self.series])
        return float(found.max(axis=0).mean())

    def difference(self, series: str, load: X) -> str:
        """Text such as ``-7 [-14, -1]``: mean JCT over that of A_online, minus 1, in per cent."""
        sample, baseline = self.hours(series, load), self.hours(OURS, load)
        ratio, interval = ratio_of_means(sample, baseline), ratio_interval(sample, baseline)
        ends = [] if interval is None else [interval.low, interval.high]
        value, *around = (f"{100 * (each - 1):+.0f}" for each in [ratio or np.nan, *ends])
        return f"{value} [{', '.join(end.removeprefix('+') for end in around)}]"


def _hours(samples: Samples, series: str, load: X) -> FloatArray:
    (found,) = samples.paired((series, (load,)))
    return found / HOUR_S


def print_tables(load: Load, title: str) -> None:
    """Print means of every series, then differences from A_online, as Markdown."""
    others = [name for name in load.series if name != OURS]
    for heading, names, cell in (
        ("mean JCT, h", load.series, lambda name, x: f"{load.hours(name, x).mean():.1f}"),
        ("over A_online, %", others, load.difference),
    ):
        print(f"\n{title}: {heading}\n\n| load | bound | {' | '.join(names)} | seeds |")
        print(f"|---|---|{'---|' * len(names)}---|")
        for x in load.loads:
            cells = [
                f"{load.bound(x):.1f}",
                *(cell(name, x) for name in names),
                str(len(load.hours(OURS, x))),
            ]
            print(f"| {x} | {' | '.join(cells)} |")


def draw(axes: Axes, load: Load, title: str) -> None:
    """Draw one panel: a line with intervals for each series, and the bound."""
    xs = np.array(load.loads, dtype=float)
    for series, marker in zip(load.series, MARKERS, strict=True):
        samples = [load.hours(series, x) for x in load.loads]
        centre = np.array([sample.mean() for sample in samples])
        intervals = [mean_interval(sample) for sample in samples]
        half = [0.0 if each is None else (each.high - each.low) / 2 for each in intervals]
        axes.errorbar(xs, centre, half, label=series, marker=marker, markersize=4, capsize=2, linewidth=1)
    bounds = [load.bound(x) for x in load.loads]
    axes.plot(xs, bounds, label="lower bound", color="black", linestyle="--", linewidth=1)
    axes.set_xlabel("offered load of the edge")
    axes.set_title(title)
    axes.legend(fontsize=7)


def main() -> None:
    """Print the tables and draw the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    inputs, store = HashedInputs(), ResultStore(given.results)
    mpl.rcParams.update(
        {"svg.hashsalt": "ray_sim", "font.size": 8, "axes.prop_cycle": mpl.cycler(color=COLOURS)}
    )
    picture, panels = plt.subplots(1, len(PANELS), figsize=(9, 3.6), layout="constrained", sharey=True)
    panels[0].set_ylabel("mean JCT, h")
    for axes, (name, path) in zip(panels, find_figures(list(PANELS)).items(), strict=True):
        load = Load(read_figure(name, path, inputs, None), store)
        print_tables(load, PANELS[name])
        draw(axes, load, PANELS[name])
    picture.savefig(given.picture, metadata={"Date": None})
    text = given.picture.read_text(encoding="utf-8")
    given.picture.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
