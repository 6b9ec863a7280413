"""Other realisations of a real workload."""

from __future__ import annotations

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.streams import Streams
from workloads.schema import SCHEMA, SORT_KEY

DAY_S = 86_400


def resample_days(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Day-block bootstrap: as many days as the workload spans, drawn from its days with replacement.

    A day is 86,400 s from submit_s 0, empty days included; day k of the result holds the jobs of one
    drawn day at their time of day. Names get the suffix ``@k`` (so do the groups, which do not
    reach from one day into another), and trace_order is numbered anew.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, in any order

    Returns
    -------
    columns of `SCHEMA`, in order, first day 0

    Raises
    ------
    InvalidWorkloadError : no drawn day holds a job (a sparse workload and an unlucky seed)
    """
    of_day = (frame["submit_s"] // DAY_S).cast(pl.Int64)
    first, last = of_day.min(), of_day.max()
    if not isinstance(first, int) or not isinstance(last, int):
        raise InvalidWorkloadError(
            "a workload without jobs has no days to draw; convert a trace that has some"
        )
    days = last - first + 1
    drawn = Streams(seed).generator("resample-days").integers(first, last + 1, size=days)
    blocks = pl.DataFrame({"day": drawn, "slot": np.arange(days)})
    jobs = blocks.join(frame.with_columns(day=of_day), on="day")
    if jobs.is_empty():
        raise InvalidWorkloadError(f"none of the {days} drawn days holds a job; use another seed")
    return (
        jobs.sort("slot", *SORT_KEY)
        .with_columns(
            pl.format("{}@{}", "job_id", "slot").alias("job_id"),
            pl.format("{}@{}", "group_id", "slot").alias("group_id"),
            trace_order=pl.int_range(pl.len(), dtype=pl.Int64),
            submit_s=pl.col("submit_s") - pl.col("day") * DAY_S + pl.col("slot") * DAY_S,
        )
        .select(*SCHEMA)
    )
