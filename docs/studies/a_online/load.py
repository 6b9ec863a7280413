"""Mean JCT by offered load, with a cloud and without, as a picture.

    ray-sim reproduce a_online/load a_online/load_alone -o results/a_online
    python docs/studies/a_online/load.py results/a_online docs/pictures/a-online-load.svg

Draws the runs of the first seed and the lower bound on any schedule of the same jobs.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from ray_sim.experiments.figures.file import Figure, find_figures, places_of, read_figure
from ray_sim.experiments.figures.values import figure_samples
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.reports.plots import COLOURS
from ray_sim.reports.shape_samples import X

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {"a_online/load": "with a cloud", "a_online/load_alone": "without a cloud"}
HOUR_S = 3600.0
MARKERS = "os^vDx"


def hours(figure: Figure, metric: str, store: ResultStore) -> dict[str, dict[X, float]]:
    """A metric of the runs of the first seed, by series and x, in hours."""
    values = figure_samples(figure.cells, places_of(figure.cells), metric, store).values
    first = min(seed for seeds in values.values() for seed in seeds if seed is not None)
    drawn: dict[str, dict[X, float]] = {}
    for (series, x), seeds in values.items():
        if first in seeds:
            drawn.setdefault(series, {})[x] = seeds[first] / HOUR_S
    return drawn


def draw(axes: Axes, figure: Figure, store: ResultStore) -> None:
    """Draw one panel: a line for each series, and the bound of the jobs, which no policy changes."""
    means, bounds = (hours(figure, metric, store) for metric in ("jct_s.mean", "certificate.bound_s"))
    for series, marker in zip(figure.series, MARKERS, strict=True):
        axes.plot(
            list(means[series]), list(means[series].values()), label=series, marker=marker, markersize=4
        )
    loads = [x for x in places_of(figure.cells) if any(x in line for line in bounds.values())]
    lower = [max(line[x] for line in bounds.values() if x in line) for x in loads]
    axes.plot(loads, lower, label="lower bound", color="black", linestyle="--", linewidth=1)
    axes.set_xlabel("offered load of the edge")
    axes.set_title(PANELS[figure.name])
    axes.legend(fontsize=7)


def main() -> None:
    """Draw the picture."""
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
        draw(axes, read_figure(name, path, inputs, None), store)
    picture.savefig(given.picture, metadata={"Date": None})
    text = given.picture.read_text(encoding="utf-8")
    given.picture.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
