"""Breakdown of a difference: the same jobs under two policies, by class of job and one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from ray_sim.model.readable import number
from ray_sim.model.result import JobStatus
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.reports.compare import JCT, paired_rows
from ray_sim.reports.statistics import ConfidenceInterval, ratio_interval, ratio_of_means

JOB_COLUMNS = ("job_id", "vc", "user", "num_gpus", "duration_s", "submit_s", "jct_s", "queue_s", "status")
"""Columns read from jobs.parquet."""

SPLIT = {JCT: "jct_s", "queue_s.mean": "queue_s"}
"""Metrics with a value for each class of jobs, means over its completed jobs, and their column."""

_MOST_CHANGED = 5
"""Number of jobs shown with the largest changes, in each direction."""


class By(StrEnum):
    """Classifications of jobs."""

    ALL = "all"
    SIZE = "size"
    VC = "vc"
    TEAM = "team"
    USER = "user"
    LOAD = "load"
    DURATION = "duration"

    @property
    def heading(self) -> str:
        """Heading of the column of class labels."""
        names = {"all": "class", "size": "GPUs", "load": "jobs in system", "duration": "run time"}
        return names.get(self, str(self))


@dataclass(frozen=True, slots=True)
class ClassRatio:
    """Ratio for one class of jobs, policy over baseline, over all pairs of runs."""

    label: str
    run_times_s: tuple[float, float]
    """Least and largest run time of the baseline's jobs of the class."""
    jobs: int
    """Number of jobs completed under both, over all pairs."""
    pairs: int
    """Number of pairs of runs with a job of the class."""
    mean: float
    """Mean of the metric's column over the jobs, in s."""
    baseline_mean: float
    ratio: float | None
    """Mean divided by the baseline's; null if that is 0."""
    interval: ConfidenceInterval | None
    """Interval of the ratio over the pairs; null for too few pairs, see `ratio_interval`."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Comparison of a policy with the baseline by class of job."""

    by: By
    policy: str
    classes: tuple[ClassRatio, ...]
    left_out: int
    """Number of jobs that completed under one of the two only."""
    metric: str
    """A key of `SPLIT`."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job under both policies."""

    job_id: str
    jct_s: float
    baseline_jct_s: float


@dataclass(frozen=True, slots=True)
class JobComparison:
    """Two runs of the same jobs, job by job, without an interval, since jobs of one run are dependent."""

    policy: str
    jobs: int
    """Number of jobs completed under both."""
    left_out: int
    faster: int
    """Number of jobs with a shorter JCT than under the baseline."""
    slower: int
    same: int
    mean_difference_s: float | None
    median_difference_s: float | None
    most_faster: tuple[JobChange, ...]
    most_slower: tuple[JobChange, ...]


def jobs_in_system(submit_s: FloatArray, timeline: pl.DataFrame) -> IntArray:
    """Number of jobs waiting or running when each job arrived, without those of the same instant."""
    present = (timeline["waiting"] + timeline["running"]).to_numpy().astype(np.int64)
    before = np.searchsorted(timeline["time_s"].to_numpy(), submit_s, side="left")
    return np.concatenate([np.zeros(1, np.int64), present])[before]


def classify(by: By, baseline: pl.DataFrame) -> pl.DataFrame:
    """Add ``class``, an index from 0, and its ``label`` to the baseline's jobs.

    Sizes are 1, 2-4, 5-8 and more GPUs, a fraction counting up. Load is in thirds and run time in
    quarters of all jobs; jobs at a limit are in the lower class.

    Parameters
    ----------
    baseline : columns vc, user, num_gpus, duration_s, in_system (see `jobs_in_system`) and team (see
        `ray_sim.reports.teams.team_of`), of which the classification reads its own
    """
    match by:
        case By.ALL:
            index, labels = np.zeros(baseline.height, np.int64), ["completed under both"]
        case By.SIZE:
            index = np.searchsorted([1.0, 4.0, 8.0], baseline["num_gpus"].to_numpy(), side="left")
            labels = ["1", "2-4", "5-8", "> 8"]
        case By.VC | By.TEAM | By.USER:
            names = baseline[by].fill_null(f"no {by}")
            labels = names.unique().sort().to_list()
            index = names.rank("dense").to_numpy().astype(np.int64) - 1
        case By.LOAD:
            index, labels = quantile_classes(baseline["in_system"], 3)
        case By.DURATION:
            index, labels = quantile_classes(baseline["duration_s"], 4)
    return baseline.with_columns(
        pl.Series("class", index, dtype=pl.Int64),
        pl.Series("label", np.array(labels, dtype=object)[index], dtype=pl.String),
    )


def break_down(
    by: By, policy: str, jobs: pl.DataFrame, classes: pl.DataFrame, metric: str = JCT
) -> Breakdown:
    """Ratio of the mean of a metric to the baseline's, class by class, over the same jobs.

    A class's mean is over its jobs in all pairs of runs; the interval is over pairs, not over jobs.

    Parameters
    ----------
    jobs : jobs of the policy, columns seed, job_id, status and that of the metric, in order of seed
    classes : jobs of the baseline, from `classify`, with the same columns
    metric : a key of `SPLIT`
    """
    both, left_out = _completed_in_both(jobs, classes)
    seeds, pair = np.unique(both["seed"].fill_null(-1).to_numpy(), return_inverse=True)
    index = both["class"].to_numpy()
    run_times = pl.col("duration_s").min().alias("least"), pl.col("duration_s").max().alias("largest")
    ranges = classes.group_by("class", "label").agg(*run_times).sort("class")
    shape = (len(seeds), max(ranges["class"], default=-1) + 1)

    def per_pair(weights: FloatArray | None) -> FloatArray:
        sums = np.bincount(pair * shape[1] + index, weights, minlength=shape[0] * shape[1])
        return sums.astype(np.float64).reshape(shape)

    counts = per_pair(None)
    column = SPLIT[metric]
    sums, baseline_sums = (per_pair(both[name].to_numpy()) for name in (column, f"{column}_baseline"))
    ratios = tuple(
        _class_ratio(label, run_times_s, counts[:, each], sums[:, each], baseline_sums[:, each])
        for each, label, *run_times_s in ranges.iter_rows()
        if counts[:, each].any()
    )
    return Breakdown(by, policy, ratios, left_out, metric)


def compare_jobs(policy: str, jobs: pl.DataFrame, baseline: pl.DataFrame) -> JobComparison:
    """Compare two runs job by job; columns as for `break_down`."""
    both, left_out = _completed_in_both(jobs, baseline)
    both = both.with_columns(difference=pl.col("jct_s") - pl.col("jct_s_baseline")).sort(
        "difference", "job_id"
    )
    difference = both["difference"].to_numpy()
    faster, slower = both.filter(pl.col("difference") < 0), both.filter(pl.col("difference") > 0)
    return JobComparison(
        policy=policy,
        jobs=both.height,
        left_out=left_out,
        faster=faster.height,
        slower=slower.height,
        same=both.height - faster.height - slower.height,
        mean_difference_s=float(np.mean(difference)) if both.height else None,
        median_difference_s=float(np.median(difference)) if both.height else None,
        most_faster=_changes(faster.head(_MOST_CHANGED)),
        most_slower=_changes(slower.tail(_MOST_CHANGED).reverse()),
    )


def _completed_in_both(jobs: pl.DataFrame, baseline: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Jobs completed under both policies, and the number completed under one only."""
    pairs = paired_rows(jobs, baseline, ["seed", "job_id"])
    here, there = (pl.col(column) == JobStatus.COMPLETED for column in ("status", "status_baseline"))
    return pairs.filter(here & there), pairs.filter(here ^ there).height


def _class_ratio(
    label: str,
    run_times_s: Sequence[float],
    counts: FloatArray,
    sums: FloatArray,
    baseline_sums: FloatArray,
) -> ClassRatio:
    with_jobs = counts > 0
    jobs = int(counts.sum())
    sums, baseline_sums = sums[with_jobs], baseline_sums[with_jobs]
    return ClassRatio(
        label=label,
        run_times_s=(run_times_s[0], run_times_s[1]),
        jobs=jobs,
        pairs=int(with_jobs.sum()),
        mean=float(sums.sum()) / jobs,
        baseline_mean=float(baseline_sums.sum()) / jobs,
        ratio=ratio_of_means(sums, baseline_sums),
        interval=ratio_interval(sums, baseline_sums),
    )


def quantile_classes(values: pl.Series, parts: int) -> tuple[IntArray, list[str]]:
    """Class of each value from 0 to `parts` - 1, of about equal numbers, and a text of each class's range.

    A value at a limit is in the lower class; a class without values has an empty text.
    """
    sample = values.to_numpy().astype(np.float64)
    levels = np.arange(1, parts) / parts
    limits = np.quantile(sample, levels, method="inverted_cdf") if len(sample) else levels
    index = np.searchsorted(limits, sample, side="left").astype(np.int64)
    inside = [sample[index == each] for each in range(parts)]
    return index, [
        f"{number(float(part.min()))} to {number(float(part.max()))}" if len(part) else "" for part in inside
    ]


def _changes(rows: pl.DataFrame) -> tuple[JobChange, ...]:
    return tuple(JobChange(*row) for row in rows.select("job_id", "jct_s", "jct_s_baseline").iter_rows())
