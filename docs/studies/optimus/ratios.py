"""Ratios of means over Optimus with 95 % intervals, as tables and as a picture.

    ray-sim reproduce optimus -o results
    python docs/studies/optimus/ratios.py results docs/pictures/optimus_ratios.svg

Prints mean JCT and makespan of every series over those of the figure's first series, under our choices and
mean JCT under each alternative, and draws the ratios of mean JCT of the figures main, overhead and load.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from ray_sim.experiments.figures.cells import Cell
from ray_sim.experiments.figures.file import Figure, find_figures, places_of, read_figure
from ray_sim.experiments.figures.reproduce import figure_samples
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.units import FloatArray
from ray_sim.reports.shape_samples import X
from ray_sim.reports.statistics import ratio_interval, ratio_of_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = {"jct_s.mean": "mean JCT", "makespan_s": "makespan"}
DRAWN = ("optimus/main", "optimus/overhead", "optimus/load")


class Ratios:
    """Ratios of the series of a figure over the first one, from finished runs.

    The runs are those of ``cells``, by default of the figure under our choices.
    """

    def __init__(
        self, figure: Figure, metric: str, store: ResultStore, cells: Sequence[Cell] | None = None
    ) -> None:
        self.xs = places_of(figure.cells)
        self.series = figure.series[1:]
        self._first = figure.series[0]
        self._values = figure_samples(cells or figure.cells, self.xs, metric, store).values

    def of(self, series: str, x: X) -> tuple[float, float, float, int] | None:
        """Ratio of the means, the ends of its interval, and the number of seeds; None without runs."""
        one, other = self._values.get((series, x), {}), self._values.get((self._first, x), {})
        seeds = sorted(one.keys() & other.keys(), key=str)
        sample, baseline = (np.array([by[seed] for seed in seeds]) for by in (one, other))
        interval, ratio = ratio_interval(sample, baseline), ratio_of_means(sample, baseline)
        return None if ratio is None or interval is None else (ratio, interval.low, interval.high, len(seeds))


def print_table(title: str, ratios: Ratios) -> None:
    """Print a Markdown table with a row for each series, and the numbers of seeds."""
    print(f"\n{title}\n\n| | {' | '.join(map(str, ratios.xs))} |\n|---|{'---|' * len(ratios.xs)}")
    seeds = set()
    for series in ratios.series:
        found = [ratios.of(series, x) for x in ratios.xs]
        seeds |= {each[3] for each in found if each is not None}
        cells = ["" if each is None else f"{each[0]:.2f} [{each[1]:.2f}, {each[2]:.2f}]" for each in found]
        print(f"| {series} | {' | '.join(cells)} |")
    print(f"\nseeds: {', '.join(map(str, sorted(seeds)))}")


def draw(axes: Axes, figure: Figure, ratios: Ratios) -> None:
    """Draw one panel: a line or a group of points for each series."""
    numeric = all(isinstance(x, int | float) for x in ratios.xs)
    places: FloatArray = np.array(ratios.xs if numeric else range(len(ratios.xs)), dtype=np.float64)
    for index, series in enumerate(ratios.series):
        found = np.array([ratios.of(series, x) or (np.nan,) * 4 for x in ratios.xs])
        shift = 0.0 if numeric else 0.12 * (index - (len(ratios.series) - 1) / 2)
        spread = [found[:, 0] - found[:, 1], found[:, 2] - found[:, 0]]
        style = {"marker": "os^Dv<>"[index], "linestyle": "-" if numeric else "none", "capsize": 2}
        axes.errorbar(places + shift, found[:, 0], spread, label=series, **style)
    if not numeric:
        axes.set_xticks(places, [str(x) for x in ratios.xs])
    axes.axhline(1.0, color="black", lw=0.8)
    axes.axhline(2.39, color="grey", ls=":", lw=0.8)
    axes.set_xlabel(f"{figure.spec.x.label}{f' ({figure.spec.x.unit})' if figure.spec.x.unit else ''}")
    axes.set_ylim(0.5, 3.5)
    axes.legend(fontsize=7)


def read_figures(system: str, data: Path | None) -> list[Figure]:
    """The bundled figures of a system, without those whose data is missing."""
    inputs = HashedInputs()
    found = [read_figure(name, path, inputs, data) for name, path in find_figures([system]).items()]
    return [figure for figure in found if not figure.missing]


def main() -> None:
    """Print the tables and draw the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--data", type=Path, help="folder of google-arrivals.parquet")
    given = parser.parse_args()
    store, figures = ResultStore(given.results), read_figures("optimus", given.data)
    for figure in figures:
        if figure.series[0] in ("Optimus", "PAA") and figure.spec.metric == "jct_s.mean":
            for metric, title in METRICS.items():
                heading = f"{figure.name}: {title} over that of {figure.series[0]}"
                print_table(heading, Ratios(figure, metric, store))
            for each in figure.alternatives:
                heading = (
                    f"{figure.name}, {each.choice} {each.name}: mean JCT over that of {figure.series[0]}"
                )
                print_table(heading, Ratios(figure, "jct_s.mean", store, each.cells))
    mpl.rcParams.update({"svg.hashsalt": "ray_sim", "font.size": 8})
    picture, panels = plt.subplots(1, len(DRAWN), figsize=(11, 3.4), layout="constrained", sharey=True)
    panels[0].set_ylabel("mean JCT over that of Optimus")
    for axes, name in zip(panels, DRAWN, strict=True):
        figure = next(each for each in figures if each.name == name)
        draw(axes, figure, Ratios(figure, "jct_s.mean", store))
    picture.savefig(given.picture, metadata={"Date": None})
    text = given.picture.read_text(encoding="utf-8")
    given.picture.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
