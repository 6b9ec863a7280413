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
    """Date of a submission in UTC to the minute; None where the workload has none.

    Parameters
    ----------
    epoch_utc : instant of second 0 of the workload
    """
    if epoch_utc is None:
        return None
    try:
        return f"{epoch_utc + timedelta(seconds=submit_s):%Y-%m-%d %H:%M}"
    except OverflowError:  # beyond the year 9999
        return None
