"""Submissions of a run as readers count them: from its first submission, and as dates where known."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from ray_sim.model.readable import duration


def first_submission_s(jobs: pl.DataFrame) -> float:
    """Earliest submission of jobs.parquet, in seconds of the workload's own time; 0 without jobs."""
    return float(str(jobs["submit_s"].min() or 0.0))


def after_first_text(seconds: float) -> str:
    """Time after the first submission, with a plus sign as in charts: ``+3 h``."""
    return f"+{duration(seconds)}"


def utc_text(epoch_utc: datetime | None, submit_s: float) -> str | None:
    """Date of a submission in UTC to the minute, from the instant of second 0; None where there is none."""
    if epoch_utc is None:
        return None
    try:
        return f"{epoch_utc + timedelta(seconds=submit_s):%Y-%m-%d %H:%M}"
    except OverflowError:  # beyond the year 9999
        return None


def last_end_s(jobs: pl.DataFrame) -> float | None:
    """Last time at which a job waited or held servers, such as a horizon; None if none did.

    A job that is submitted after the horizon has neither, and its submission counts for nothing.
    """
    there = pl.col("queue_s").fill_null(0.0) + pl.col("run_s").fill_null(0.0)
    ends = jobs.select(there=there, end=pl.col("submit_s") + there).filter(pl.col("there") > 0)["end"]
    return None if ends.is_empty() else float(ends.to_numpy().max())
