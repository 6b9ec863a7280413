"""Columns of a workload file: the only list of them."""

from __future__ import annotations

import polars as pl

from ray_sim.model.units import MAX_TIME_S
from workloads.column import MAX_COUNT, MAX_GIB, MAX_NORM, MAX_WHOLE
from workloads.column import Column as Column
from workloads.column import ColumnOrigin as ColumnOrigin
from workloads.statement_columns import STATEMENT_COLUMNS
from workloads.training_columns import TRAINING_COLUMNS

SCHEMA_VERSION = "4"
"""Changes when a column appears, goes, or changes its meaning."""

COLUMNS: tuple[Column, ...] = (
    Column("job_id", pl.String(), "Name of the job, unique in the workload."),
    Column(
        "trace_order",
        pl.Int64(),
        "Position in the trace, unique within a vc; orders jobs submitted at one instant.",
        minimum=0,
        maximum=MAX_WHOLE,
    ),
    Column(
        "submit_s",
        pl.Float64(),
        "Submission, in the trace's own time.",
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
    ),
    Column("user", pl.String(), "User who submitted the job.", null="unknown"),
    Column("vc", pl.String(), "Virtual cluster that the job was submitted to.", null="the trace has none"),
    Column("status", pl.String(), "How the job ended in the trace, in the trace's words.", null="unknown"),
    Column(
        "num_gpus",
        pl.Float64(),
        "GPUs of the whole job; may be fractional.",
        unit="GPU",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "duration_s",
        pl.Float64(),
        "Run time in the trace, with all GPUs held.",
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
    ),
    Column(
        "attempts",
        pl.Int64(),
        "Number of times that the trace started the job.",
        null="unknown",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "priority",
        pl.Int64(),
        "Priority in the trace, higher is more urgent; no built-in policy reads it.",
        null="counts as 0",
        minimum=-MAX_WHOLE,
        maximum=MAX_WHOLE,
    ),
    Column(
        "num_tasks",
        pl.Int64(),
        "Number of identical tasks in the gang.",
        null="num_gpus tasks of 1 GPU where num_gpus is whole and at least 1, else one task",
        minimum=1,
        maximum=MAX_COUNT,
    ),
    Column(
        "cpu_per_task",
        pl.Float64(),
        "CPU cores of one task.",
        null="0",
        unit="core",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "memory_gib_per_task",
        pl.Float64(),
        "Memory of one task.",
        null="0",
        unit="GiB",
        minimum=0,
        maximum=MAX_GIB,
    ),
    Column(
        "disk_gib_per_task",
        pl.Float64(),
        "Disk of one task.",
        null="0",
        unit="GiB",
        minimum=0,
        maximum=MAX_GIB,
    ),
    Column(
        "group_id", pl.String(), "Job of the trace that this row is a part of.", null="the row is a whole job"
    ),
    *(
        Column(
            f"{resource}_norm_per_task",
            pl.Float64(),
            f"{what} of one task, as a part of the largest machine's in the trace.",
            null="0",
            unit="machine",
            minimum=0,
            maximum=MAX_NORM,
        )
        for resource, what in (("cpu", "CPU"), ("memory", "Memory"), ("disk", "Disk"))
    ),
    Column(
        "scheduling_class",
        pl.Int64(),
        "Sensitivity of the job to latency; Google's 0 to 3, higher is more sensitive.",
        null="the trace has none",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "different_machines",
        pl.Int64(),
        "1 where the trace requires that no two tasks of the job share a machine; not simulated.",
        null="unknown",
        minimum=0,
        maximum=1,
    ),
    Column(
        "wait_s",
        pl.Float64(),
        "From the submission to the first start in the trace.",
        null="unknown",
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
    ),
    Column(
        "span_s",
        pl.Float64(),
        "From the first start to the last end in the trace, pauses included.",
        null="unknown",
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
    ),
    *TRAINING_COLUMNS,
    *STATEMENT_COLUMNS,
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

SCHEMA: dict[str, pl.DataType] = {column.name: column.dtype for column in COLUMNS}
"""Polars dtype by column name, in file order."""

DEMAND_COLUMNS: tuple[str, ...] = tuple(
    name for name in SCHEMA if name in ("num_gpus", "num_tasks") or name.endswith("_per_task")
)
"""Columns of a job's demand."""

SORT_KEY: tuple[str, ...] = ("submit_s", "trace_order", "vc")
"""Sort key of the rows; equal submission and trace_order are ordered by vc name."""


def gang_tasks() -> pl.Expr:
    """Tasks of each row by docs/workloads.md#the-gang-rule: `num_tasks`, else one per whole GPU, or one."""
    gpus = pl.col("num_gpus")
    whole = (gpus >= 1) & (gpus == gpus.floor())
    by_rule = pl.when(whole).then(gpus.cast(pl.Int64, strict=False)).otherwise(1)
    return pl.coalesce("num_tasks", by_rule)


def with_all_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the schema's columns, in order; missing columns are null."""
    present = set(frame.columns)
    return frame.select(pl.col(name) if name in present else absent for name, absent in _ABSENT.items())


_ABSENT = {name: pl.lit(None, dtype=dtype).alias(name) for name, dtype in SCHEMA.items()}
"""A column of nulls by name."""
