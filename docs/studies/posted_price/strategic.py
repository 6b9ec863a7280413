"""What users gain who misreport, and what the others lose: a table and a figure.

    python strategic.py results/posted-price-honest results/posted-price-strategic figure.svg

Each run is compared with the honest run of the same seed. `gain` is the change of the utility (true value
minus payment) of those who misreport, in per cent of what the same users have when all are honest; `others`
is that of the other users.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure

from ray_sim.reports.statistics import ratio_interval
from runs import Run, read_runs

RULES = ("value", "deadline", "collapsed", "gpus")
POLICIES = ("posted_price", "announced_fifo", "value_density", "reservation")
Key = tuple[str, str, float, str]
"""Signal, rule, share and policy."""


def utilities(run: Run) -> pl.DataFrame:
    """Utility of each job, and whether its user misreports."""
    return run.jobs.select("job_id", "misreports", utility=pl.col("value") - pl.col("payment"))


def sums(run: Run, honest: Run) -> tuple[float, float, float, float]:
    """Utilities of those who misreport, with all honest; and of the others likewise."""
    both = utilities(run).join(utilities(honest), on="job_id", suffix="_honest")
    lying, others = both.filter("misreports"), both.filter(~pl.col("misreports"))
    return (
        float(lying["utility"].sum()),
        float(lying["utility_honest"].sum()),
        float(others["utility"].sum()),
        float(others["utility_honest"].sum()),
    )


def changes(sources: Sequence[str]) -> dict[Key, np.ndarray]:
    """(seeds, 4) sums of each setting."""
    runs = list(read_runs(sources))
    honest = {
        (str(run.scenario.world["signal"]), run.label[2], run.seed): run
        for run in runs
        if "misreport" not in run.scenario.world
    }
    found: dict[Key, list[tuple[float, float, float, float]]] = defaultdict(list)
    for run in runs:
        world = run.scenario.world
        if "misreport" in world:
            signal, policy = str(world["signal"]), run.label[2]
            key = (signal, str(world["misreport"]), float(str(world["misreport_share"])), policy)
            found[key].append(sums(run, honest[signal, policy, run.seed]))
    return {key: np.array(rows) for key, rows in found.items()}


def percent(now: np.ndarray, before: np.ndarray) -> tuple[float, float, float]:
    """Change of the means in per cent, with its interval; nan where it has no bounds."""
    span = ratio_interval(now, before)
    low, high = (np.nan, np.nan) if span is None else (span.low, span.high)
    ratio = float(now.mean() / before.mean())
    return 100 * (ratio - 1), 100 * (low - 1), 100 * (high - 1)


def table(found: dict[Key, np.ndarray]) -> str:
    """Markdown: a row for each signal, rule and share; gain and loss under each policy."""
    columns = [f"{policy}: gain | others" for policy in POLICIES]
    lines = [f"| signal | misreport | share | {' | '.join(columns)} |"]
    lines.append("|---" * (3 + 2 * len(POLICIES)) + "|")
    for signal, rule, share in sorted({key[:3] for key in found}):
        cells = []
        for policy in POLICIES:
            rows = found[signal, rule, share, policy]
            for now, before in ((0, 1), (2, 3)):
                change, low, high = percent(rows[:, now], rows[:, before])
                cells.append(f"{change:+.0f} [{low:.0f}, {high:.0f}]")
        lines.append(f"| {signal} | {rule} | {share:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(found: dict[Key, np.ndarray], path: Path) -> None:
    """Bars: gain of those who misreport, by rule and policy; a panel for each signal, the least share."""
    mpl.rcParams.update({"svg.hashsalt": "ray_sim", "font.size": 9})
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    share = min(key[2] for key in found)
    panels = drawn.subplots(1, 2, sharey=True)
    for panel, signal in zip(panels, ("none", "full"), strict=True):
        for index, policy in enumerate(POLICIES):
            rows = [found[signal, rule, share, policy] for rule in RULES]
            points = np.array([percent(each[:, 0], each[:, 1]) for each in rows])
            at = np.arange(len(RULES)) + 0.2 * (index - 1.5)
            ends = np.abs(points[:, 1:].T - points[:, 0])
            panel.bar(at, points[:, 0], width=0.18, label=policy, yerr=ends, error_kw={"linewidth": 0.8})
        panel.axhline(0, color="black", linewidth=0.8)
        panel.set_xticks(np.arange(len(RULES)), RULES)
        panel.set_title(f"signal {signal}, {share:.0%} of the users misreport")
    panels[0].set_ylabel("change of their utility, %")
    panels[1].legend(frameon=False)
    drawn.savefig(path, metadata={"Date": None})
    path.write_text(re.sub(r"[ \t]+\n", "\n", path.read_text(encoding="utf-8")), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Print the table and draw the figure."""
    *sources, path = arguments
    found = changes(sources)
    print(table(found))
    figure(found, Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])
