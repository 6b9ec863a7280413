"""End of a run, from its jobs."""

from __future__ import annotations

import polars as pl


def last_end_s(jobs: pl.DataFrame) -> float | None:
    """Last time at which a job waited or held servers, such as a horizon; None if none did.

    A job that is submitted after the horizon has neither, and its submission counts for nothing.

    Parameters
    ----------
    jobs : as in `RunResult`
    """
    there = pl.col("queue_s").fill_null(0.0) + pl.col("run_s").fill_null(0.0)
    ends = jobs.select(there=there, end=pl.col("submit_s") + there).filter(pl.col("there") > 0)["end"]
    return None if ends.is_empty() else float(ends.to_numpy().max())
