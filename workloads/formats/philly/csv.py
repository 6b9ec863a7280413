"""Conversion of the Philly trace as one CSV: ``timestamp,duration,num_gpus,gpu_time,cluster``.

The Sia artifact (SOSP 2023) published a part of the Philly trace in this form (Jeon et al.,
Analysis of Large-Scale Multi-Tenant GPU Clusters, ATC 2019). Times are naive US Pacific: the hour
01:00 .. 02:00 of 2017-11-05 happened twice, and is read as its first pass. Rows are unsorted and have
no job id; equal rows may be different jobs, so they are kept. The published file names no users; a column
``user`` is read where a file has one, as the bundled sample does.

`FORMAT` is listed in `workloads/formats/registry.py`, by which `ray-sim convert philly-csv` calls `read`. A
change of the rows kept, or of a reason, belongs on docs/traces/philly.md too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from workloads.checks import date_reason, instants, number, number_reason
from workloads.formats.text import TableSource, open_text, read_rows, reject_frame
from workloads.progress import Meter
from workloads.rows import height, repeats
from workloads.schema import BY_NAME
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

HEADER = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
USER = "user"
"""Optional column."""
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
TIME_ZONE = "America/Los_Angeles"

_GPU_TIME_TOLERANCE = 1e-6
"""Relative; the column is printed with fewer digits than it was computed with."""


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
    """Parse Philly CSV files; jobs are named by the position of their row over all files.

    Raises
    ------
    InvalidWorkloadError : a file is missing, unreadable, or without one of the columns `HEADER`
    """
    sources = [open_text(path, ",") for path in paths]
    for source in sources:
        source.require(HEADER)
    meter.expect(meter.all_bytes)  # rows are compared after they are read
    rows = read_rows(sources, _query, folder, meter)
    compared = meter.step(meter.all_bytes, "comparing rows")
    kept = rows.filter(pl.col("reason").is_null())
    facts = kept.select(
        zero_s=pl.col("epoch_s").min().fill_null(0),
        ambiguous=pl.col("ambiguous").sum(),
        gpu_time_off=pl.col("gpu_time_off").sum(),
    )
    zero_s, ambiguous, off = facts.collect(engine="streaming").row(0)
    jobs = kept.select(
        job_id=pl.col("row").cast(pl.String),
        trace_order="row",
        submit_s=pl.col("epoch_s") - zero_s,
        user=USER,
        vc="cluster",
        num_gpus="num_gpus",
        duration_s="duration_s",
    )
    return Parsed(
        jobs=jobs,
        rejects=reject_frame(sources, rows).lazy(),
        read=height(rows),
        notes={
            "epoch_utc": datetime.fromtimestamp(zero_s, UTC).isoformat(),
            "time_zone": TIME_ZONE,
            "ambiguous_local_times": ambiguous,
            "ambiguous_local_times_read_as": "earliest",
            "duplicate_rows_kept": len(
                repeats(kept, ["epoch_s", "duration_s", "num_gpus", "cluster", USER], folder, compared)
            ),
        },
        warnings=_warnings(sources, off),
    )


def _query(source: TableSource) -> pl.LazyFrame:
    """Parsed columns of one file, and why a row is rejected."""
    naive = pl.col("timestamp").str.to_datetime(TIME_FORMAT, time_unit="us", strict=False)
    numbers = {"duration_s": "duration", "gpus": "num_gpus", "gpu_s": "gpu_time"}
    # Separate steps, or polars would compute a value again for each use.
    parsed = (
        source.rows({name: name for name in (*HEADER, USER) if name in source.header})
        .with_columns(naive=naive, **{name: number(pl.col(theirs)) for name, theirs in numbers.items()})
        .with_columns(**instants(pl.col("naive"), pl.lit(value=True), TIME_ZONE))
    )
    work = pl.col("duration_s") * pl.col("gpus")
    off = (pl.col("gpu_s") - work).abs() > _GPU_TIME_TOLERANCE * work.abs()
    reason = pl.coalesce(
        "fault",
        date_reason(pl.col("timestamp"), pl.col("naive"), pl.col("first_s"), pl.col("outside")),
        number_reason(BY_NAME["num_gpus"], pl.col("num_gpus"), pl.col("gpus")),
        number_reason(BY_NAME["duration_s"], pl.col("duration"), pl.col("duration_s")),
        pl.when(pl.col("cluster").is_null()).then(pl.lit("missing_vc")),
    )
    return parsed.select(
        "line",
        "cluster",
        user=USER if USER in source.header else pl.lit(None, pl.String()),
        duration_s="duration_s",
        num_gpus="gpus",
        epoch_s="first_s",
        ambiguous=pl.col("first_s") != pl.col("second_s"),
        gpu_time_off=off.fill_null(True),
        reason=reason,
    )


def _warnings(sources: Sequence[TableSource], off: int) -> tuple[str, ...]:
    found = []
    if off:
        found.append(
            f"gpu_time is not duration x num_gpus on {off} kept rows; duration and num_gpus are used"
        )
    if ignored := sorted({name for source in sources for name in source.header} - {*HEADER, USER}):
        found.append(f"ignored columns: {', '.join(ignored)}")
    return tuple(found)


FORMAT = TraceFormat(
    name="philly-csv",
    version="2",
    source="Microsoft Philly, in the form of the Sia artifact",
    files="one CSV: timestamp, duration, num_gpus, gpu_time, cluster, and user if known",
    page="docs/workloads.md#format-philly-csv",
    read=read,
)
