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


def _whole(name: str, meaning: str, null: str | None = None, maximum: int = MAX_COUNT) -> Column:
    return Column(name, pl.Int64(), meaning, null, minimum=0, maximum=maximum)


def _real(name: str, meaning: str, unit: str, maximum: float, null: str | None = None) -> Column:
    return Column(name, pl.Float64(), meaning, null, unit, 0, maximum)


def _seconds(name: str, meaning: str, null: str | None = None) -> Column:
    return _real(name, meaning, "s", MAX_TIME_S, null)


COLUMNS: tuple[Column, ...] = (
    Column("job_id", pl.String(), "Name of the job, unique in the workload."),
    _whole(
        "trace_order",
        "Position in the trace, unique within a vc; orders jobs submitted at one instant.",
        maximum=MAX_WHOLE,
    ),
    _seconds("submit_s", "Submission, in the trace's own time."),
    Column("user", pl.String(), "User who submitted the job.", "unknown"),
    Column("vc", pl.String(), "Virtual cluster that the job was submitted to.", "the trace has none"),
    Column("status", pl.String(), "How the job ended in the trace, in the trace's words.", "unknown"),
    _real("num_gpus", "GPUs of the whole job; may be fractional.", "GPU", MAX_COUNT),
    _seconds("duration_s", "Run time in the trace, with all GPUs held."),
    _whole("attempts", "Number of times that the trace started the job.", "unknown"),
    Column(
        "priority",
        pl.Int64(),
        "Priority in the trace, higher is more urgent; no built-in policy reads it.",
        "counts as 0",
        minimum=-MAX_WHOLE,
        maximum=MAX_WHOLE,
    ),
    Column(
        "num_tasks",
        pl.Int64(),
        "Number of identical tasks in the gang.",
        "num_gpus tasks of 1 GPU where num_gpus is whole and at least 1, else one task",
        minimum=1,
        maximum=MAX_COUNT,
    ),
    _real("cpu_per_task", "CPU cores of one task.", "core", MAX_COUNT, "0"),
    _real("memory_gib_per_task", "Memory of one task.", "GiB", MAX_GIB, "0"),
    _real("disk_gib_per_task", "Disk of one task.", "GiB", MAX_GIB, "0"),
    Column("group_id", pl.String(), "Job of the trace that this row is a part of.", "the row is a whole job"),
    *(
        _real(
            f"{resource}_norm_per_task",
            f"{what} of one task, as a part of the largest machine's in the trace.",
            "machine",
            MAX_NORM,
            "0",
        )
        for resource, what in (("cpu", "CPU"), ("memory", "Memory"), ("disk", "Disk"))
    ),
    _whole(
        "scheduling_class",
        "Sensitivity of the job to latency; Google's 0 to 3, higher is more sensitive.",
        "the trace has none",
    ),
    _whole(
        "different_machines",
        "1 where the trace requires that no two tasks of the job share a machine; not simulated.",
        "unknown",
        maximum=1,
    ),
    _seconds("wait_s", "From the submission to the first start in the trace.", "unknown"),
    _seconds("span_s", "From the first start to the last end in the trace, pauses included.", "unknown"),
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
