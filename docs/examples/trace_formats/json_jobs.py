"""A trace format of one's own: a JSON object per line, with times in milliseconds."""

import polars as pl


def jobs(path):
    """Table of a file: a row per job, with the columns of a workload."""
    trace = pl.read_ndjson(path)
    return trace.select(
        job_id="id",
        vc="team",
        submit_s=pl.col("created_ms") / 1000,
        duration_s=(pl.col("ended_ms") - pl.col("started_ms")) / 1000,
        num_gpus="gpus",
    )
