"""Print the figures of `ray-sim synth google`, measured on converted parts of the trace.

    python google_2011_figures.py runs.parquet sizes.parquet

Both are conversions with ``--rows job --censored cut``: runs.parquet of the job events, sizes.parquet of the
job events with part 0 of the task events. google-2011.md has the commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import numpy as np
import polars as pl
from ray_sim.workloads.synthetic.trace_profile import GOOGLE, MOST_TASKS

TRACE_BEGINS_S = 600
"""Trace time of the first second that is recorded."""


def of_runs(jobs: pl.DataFrame) -> dict[str, object]:
    """Gaps and counts by hour of the jobs that come after time 0; run times of all jobs that ended."""
    submit_s = live(jobs)["submit_s"].sort()
    hour = ((submit_s - TRACE_BEGINS_S) // 3600).cast(pl.Int64).to_numpy()
    by_hour = np.bincount(hour)[:-1]  # the last hour is cut
    ended = jobs.filter(pl.col("status").is_not_null())["duration_s"]
    quantiles_s = {q: ended.quantile(q) for q in GOOGLE.probabilities}
    published_s = GOOGLE.durations[1]
    return {
        "mean_gap_s": submit_s.diff().mean(),
        "jobs_by_hour": {
            "least": int(by_hour.min()),
            "most": int(by_hour.max()),
            "variance_over_mean": by_hour.var(ddof=1) / by_hour.mean(),
        },
        "jobs_ended": len(ended),
        "duration_s": quantiles_s,
        "mean_s": ended.mean(),
        "mean_s_of_quantiles": interpolated_mean([max(value or 0, 1) for value in quantiles_s.values()]),
        "mean_s_of_profile": interpolated_mean(published_s),
        "share_at_most_profile": {
            q: (ended <= value).mean() for q, value in zip(GOOGLE.probabilities, published_s, strict=True)
        },
    }


def of_sizes(jobs: pl.DataFrame) -> dict[str, object]:
    """Jobs by number of tasks, of the jobs that come after time 0, and what the limit leaves out."""
    come = live(jobs)
    kept = come.filter(pl.col("num_tasks") <= MOST_TASKS)
    return {
        "jobs": come.height,
        "kept": kept.height,
        "tasks": dict(kept["num_tasks"].value_counts().sort("num_tasks").iter_rows()),
        "mean_tasks": kept["num_tasks"].mean(),
        "left_out": {
            "jobs": 1 - kept.height / come.height,
            "tasks": 1 - float(kept["num_tasks"].sum()) / float(come["num_tasks"].sum()),
            "task_seconds": 1 - task_seconds(kept) / task_seconds(come),
        },
        "median_s_of_one_task": kept.filter(pl.col("num_tasks") == 1)["duration_s"].median(),
        "median_s_of_more": kept.filter(pl.col("num_tasks") > 1)["duration_s"].median(),
        "task_seconds_over_independent": task_seconds(kept)
        / (float(kept["num_tasks"].sum()) * float(kept["duration_s"].sum()) / kept.height),
    }


def live(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs that come after time 0, which stands for all of the past."""
    return jobs.filter(pl.col("submit_s") > 0)


def task_seconds(jobs: pl.DataFrame) -> float:
    """Tasks times run time, over all jobs."""
    return float((jobs["num_tasks"] * jobs["duration_s"]).sum())


def interpolated_mean(quantiles_s: Sequence[float]) -> float:
    """Mean of the distribution that is log-linear between these quantiles, as drawn; in seconds."""
    low, high = np.array(quantiles_s[:-1]), np.array(quantiles_s[1:])
    return float(np.diff(GOOGLE.probabilities) @ ((high - low) / np.log(high / low)))


if __name__ == "__main__":
    runs, sizes = map(pl.read_parquet, sys.argv[1:])
    print(json.dumps({"runs": of_runs(runs), "sizes": of_sizes(sizes)}, indent=1))
