"""Tables of a run's jobs: the slowest jobs, and completion times by size by virtual cluster and by user."""

from __future__ import annotations

import polars as pl

from ray_sim.model.result import JobStatus


def slowest_jobs(jobs: pl.DataFrame, count: int) -> pl.DataFrame:
    """The completed jobs of jobs.parquet with the longest JCT; ties by job order."""
    done = jobs.filter(pl.col("status") == JobStatus.COMPLETED)
    return done.sort("jct_s", descending=True, maintain_order=True).head(count)


def jct_by_size(jobs: pl.DataFrame) -> pl.DataFrame:
    """JCT by number of GPUs, in classes (0, 1], (1, 2], (2, 4] and so on, and 0 alone.

    Columns: ``gpus``, the class's upper end; jobs, completed; mean, median and p90 of jct_s, mean
    of queue_s, over completed jobs.
    """
    gpus = pl.col("num_gpus")
    # Rounded, since the computed logarithm of a power of two may exceed its exponent in the last digit.
    exponent = gpus.clip(lower_bound=1).log(2).round(9).ceil()
    upper = pl.when(gpus > 0).then(2.0**exponent).otherwise(0.0)
    return _jct_by(jobs, upper.alias("gpus")).sort("gpus")


def jct_by_owner(jobs: pl.DataFrame, owner: str) -> pl.DataFrame:
    """JCT by ``vc`` or ``user``, columns as in `jct_by_size`, most jobs first; empty if the column is."""
    if jobs[owner].null_count() == len(jobs):
        return _jct_by(jobs.clear(), pl.col(owner))
    return _jct_by(jobs, pl.col(owner)).sort("jobs", descending=True, maintain_order=True)


def _jct_by(jobs: pl.DataFrame, key: pl.Expr) -> pl.DataFrame:
    done = pl.col("status") == JobStatus.COMPLETED
    jct_s = pl.col("jct_s")  # null unless completed
    return jobs.group_by(key, maintain_order=True).agg(
        pl.len().alias("jobs"),
        done.sum().alias("completed"),
        jct_s.mean().alias("jct_s.mean"),
        jct_s.median().alias("jct_s.median"),
        jct_s.quantile(0.9, interpolation="linear").alias("jct_s.p90"),
        pl.col("queue_s").filter(done).mean().alias("queue_s.mean"),
    )
