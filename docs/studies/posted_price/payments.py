"""Print what jobs pay for a GPU hour under posted prices, by the GPUs of the job: means over the seeds.

python payments.py results/posted-price-philly
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.reports.statistics import mean_interval
from runs import read_runs

CLASSES = ((1, 1), (2, 4), (5, 8), (9, 2**20))
"""Fewest and most GPUs."""


def main(arguments: Sequence[str]) -> None:
    """Print a table for each setting."""
    rates: dict[tuple[str, tuple[int, int]], list[tuple[float, float]]] = defaultdict(list)
    for run in read_runs(arguments):
        if not run.label[2].startswith("posted_price"):
            continue
        done = run.jobs.filter(pl.col("fate") == "completed")
        hours = pl.col("num_gpus") * pl.col("duration_s") / 3600
        for few, most in CLASSES:
            own = done.filter(pl.col("num_gpus").is_between(few, most))
            if len(own):
                sums = own.select(pl.col("payment").sum(), hours.sum().alias("hours")).row(0)
                rates[run.label[1], (few, most)].append((sums[0] / sums[1], len(own)))
    print("| setting | GPUs | seeds | jobs | payment per GPU hour |\n|---|---|---|---|---|")
    for (setting, (few, most)), rows in rates.items():
        rate, jobs = np.array(rows).T
        span = mean_interval(rate)
        between = "" if span is None else f" [{span.low:.3g}, {span.high:.3g}]"
        print(
            f"| {setting} | {few} to {most} | {len(rows)} | {jobs.mean():.0f} | {rate.mean():.3g}{between} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
