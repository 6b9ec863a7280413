"""Writer of synthetic jobs in the raw form of philly-csv, with the oddities of the published file."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.streams import Streams
from workloads.files import replacing
from workloads.formats.philly.csv import TIME_FORMAT, TIME_ZONE
from workloads.synthetic.trace_profile import PHILLY

REPEAT_EVERY = 500
"""Rows whose number is a multiple of this are written twice; the published file repeats 65 rows."""


def philly_csv_text(frame: pl.DataFrame, seed: int = 0) -> str:
    """Jobs of `synth` in the form of the published file, and their users.

    Times are naive local times (across the end of summer time on 2017-11-05), rows are shuffled, some rows
    appear twice, and the last row has no values.

    Parameters
    ----------
    frame : columns of `SCHEMA`; submit_s 0 is the Philly profile's Monday
    seed : draws the order of the rows

    Raises
    ------
    InvalidWorkloadError : a job has a fraction of a GPU, which the form cannot hold
    """
    if (frame["num_gpus"] % 1 != 0).any():
        raise InvalidWorkloadError("num_gpus: the philly-csv form holds whole GPUs only; write another form")
    instant = pl.lit(PHILLY.monday_utc) + pl.duration(microseconds=(pl.col("submit_s") * 1_000_000).round())
    rows = frame.select(
        timestamp=instant.dt.convert_time_zone(TIME_ZONE).dt.strftime(TIME_FORMAT),
        duration="duration_s",
        num_gpus=pl.col("num_gpus").cast(pl.Int64),
        gpu_time=pl.col("duration_s") * pl.col("num_gpus"),
        cluster="vc",
        user="user",
    )
    rows = pl.concat([rows, rows.gather_every(REPEAT_EVERY, offset=REPEAT_EVERY - 1)])
    order = Streams(seed).generator("philly-csv-order").permutation(rows.height)
    return rows[order].write_csv() + "," * (rows.width - 1) + "\n"


def write_philly_csv(frame: pl.DataFrame, path: Path, seed: int = 0) -> None:
    """Write `philly_csv_text` to a file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(philly_csv_text(frame, seed), encoding="utf-8", newline="\n")
