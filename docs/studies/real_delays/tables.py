"""Rank correlations with the real delays, of every run of the given sweeps and of the sizes of jobs.

python tables.py results/real-delays-policies
"""

import sys

import polars as pl

from ray_sim.experiments.real_delays import jobs_with_real_delays
from ray_sim.experiments.results.stored_runs import find_runs
from ray_sim.reports.delays import delay_pairs, delay_part, estimate_text, group_means

HALF_S = 3092
"""Middle of the submissions, in seconds of the trace."""

HEADINGS = ("world", "policy", "waited", "mean s", "tasks", "jobs", "first half", "second half")


def pairs_of(run):
    """Delays of the tasks submitted after second 0."""
    return delay_pairs(jobs_with_real_delays(run.directory)).filter(pl.col("submit_s") > 0)


def parts_of(pairs):
    """Comparisons over all tasks, over jobs by their means, and over the tasks of each half of the time."""
    early = pl.col("submit_s") < HALF_S
    frames = (pairs, group_means(pairs), pairs.filter(early), pairs.filter(~early))
    return [
        delay_part(label, frame)
        for label, frame in zip(("all", "jobs", "first", "second"), frames, strict=True)
    ]


def print_line(*cells):
    """A line of a table in Markdown."""
    print(f"| {' | '.join(cells)} |", flush=True)


def print_runs(runs):
    """A line per run: share of tasks that waited, their mean delay, and differences to the constant."""
    print_line(*HEADINGS)
    print_line(*["---"] * len(HEADINGS))
    for run in sorted(runs, key=lambda run: (run.entry.setting, run.entry.policy)):
        pairs = pairs_of(run)
        parts = parts_of(pairs)
        found = (
            f"{part.ranks.simulated.value:.2f}; {estimate_text(part.ranks.difference)}" for part in parts
        )
        waited = f"{100 * (pairs['simulated_s'] > 0).mean():.0f} %"
        mean = f"{parts[0].simulated_s.mean:,.1f}"
        print_line(run.entry.setting, run.entry.policy, waited, mean, *found)


def print_references(pairs):
    """A line for the constant per priority, and one for the number of tasks of each job."""
    parts = parts_of(pairs)
    print_line("", "constant per priority", "", "", *(estimate_text(part.ranks.constant) for part in parts))
    by_size = parts_of(pairs.with_columns(simulated_s=pl.len().over("group").cast(pl.Float64)))
    found = (f"{part.ranks.simulated.value:.2f}; {estimate_text(part.ranks.difference)}" for part in by_size)
    print_line("", "tasks of the job", "", "", *found)


if __name__ == "__main__":
    found_runs, _ = find_runs(sys.argv[1:])
    print_runs(found_runs)
    print_references(pairs_of(found_runs[0]))
