"""Print mean JCTs of trained networks in sweeps, against a rule, with intervals over trainings and workloads.

    python tables.py results/harmony-main ... [--baseline lif_quad]

Run it in this folder, after the sweeps. Trainings with one name and several seeds are one row.

The interval is of the mean over trainings i and workloads j of 100 (JCT_ij / JCT_j of the baseline - 1),
with trainings and workloads drawn at random: variance s_i^2 / n_i + s_j^2 / n_j of the means of trainings and
of workloads, degrees of freedom by Satterthwaite (Biometrics Bulletin, 1946). A baseline of several trainings
is their mean JCT on each workload, and the variance of that mean is added. The variance counts chance that is
neither of a training nor of a workload twice, so the interval is rather too wide than too narrow.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict

import numpy as np
import polars as pl
from scipy import stats

from ray_sim.experiments.results.stored_runs import find_runs
from ray_sim.model.units import FloatArray

TRAINED = re.compile(r"trained/([\w-]+)-(\d+)/")


def mean_jcts(sources: list[str]) -> pl.DataFrame:
    """A row for each run: ``place``, ``name`` of policy or training, ``training``, ``seed``, ``jct_s``."""
    rows = []
    for run in find_runs(sources)[0]:
        trained = TRAINED.search(run.policy)
        name, training = (trained[1], int(trained[2])) if trained else (run.entry.policy, 0)
        place = (run.entry.workload, run.entry.cluster, run.entry.setting)
        jct_s = math.nan if run.summary.jct_s is None else run.summary.jct_s.mean
        rows.append((" ".join(place), name, training, run.entry.seed, run.summary.completed, jct_s))
    columns = ["place", "name", "training", "seed", "completed", "jct_s"]
    return pl.DataFrame(rows, schema=columns, orient="row").sort("place", "name", "training", "seed")


def crossed_interval(percent: FloatArray, base_percent: FloatArray) -> tuple[float, float]:
    """95 % interval of the mean of (trainings, workloads), all drawn at random; one training is given.

    ``base_percent`` holds the trainings of the baseline, in percent of their own mean on each workload.
    """
    groups = percent.mean(axis=1), percent.mean(axis=0), base_percent.mean(axis=1)
    parts = [(means.var(ddof=1) / len(means), len(means) - 1) for means in groups if len(means) > 1]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts) if variance else 1.0
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(variance)
    return float(percent.mean()) - half, float(percent.mean()) + half


def print_place(runs: pl.DataFrame, baseline: str) -> None:
    """Print a row for each policy or kind of training at one place."""
    rows: dict[str, list[FloatArray]] = defaultdict(list)
    for (name, _), part in runs.group_by("name", "training", maintain_order=True):
        rows[str(name)].append(part["jct_s"].to_numpy())
    matrices = {name: np.stack(found) for name, found in rows.items()}
    base = matrices[baseline].mean(axis=0)
    for name, jcts in matrices.items():
        percent = 100 * (jcts / base - 1)
        low, high = crossed_interval(percent, 100 * (matrices[baseline] / base - 1))
        told = "" if name == baseline else f"{percent.mean():+.0f} [{low:.0f}, {high:.0f}]"
        print(f"| {name} | {len(jcts)} | {jcts.mean():,.0f} | {told} |")


def main() -> None:
    """Print a table for each place of the sweeps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sources", nargs="+", help="directories of sweeps")
    parser.add_argument("--baseline", default="lif_quad", help="policy or training to compare with")
    options = parser.parse_args()
    for (place,), runs in mean_jcts(options.sources).group_by("place", maintain_order=True):
        print(f"\n{place}\n\n| | trainings | mean JCT, s | to {options.baseline}, % |\n|---|---|---|---|")
        print_place(runs, options.baseline)


if __name__ == "__main__":
    main()
