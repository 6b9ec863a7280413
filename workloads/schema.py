"""The columns of a workload: the only list of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from ray_sim.model.units import MAX_TIME_S

SCHEMA_VERSION = "3"
"""Changes when a column appears, goes, or changes its meaning."""

MAX_COUNT = 2**20
"""The most GPUs, cores, tasks or attempts a row may have; more is a broken trace."""

MAX_GIB = 2**30
"""The most memory or disk a task may have."""

MAX_NORM = 2**10
"""The most of a resource measured in the trace's largest machines that a task may have."""

MAX_MB = 2**30
"""The largest model; also the bandwidth, in Mbit/s, that nobody has."""

MAX_WHOLE = 2**52
"""The largest order or priority; whole numbers up to here survive a floating-point reader."""


class Layer(StrEnum):
    """Where a column's values come from."""

    TRACE = "trace"
    """Measured: the trace has it, or it is null."""
    PROFILE = "profile"
    """How the job trains, measured or drawn; a workload may lack these columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, its meaning and the values it may hold."""

    name: str
    dtype: pl.DataType
    meaning: str
    null: str | None = None
    """What a null means; None where the column has no nulls."""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    layer: Layer = Layer.TRACE

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, within `minimum` and `maximum`."""
        return self.dtype != pl.String()

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.dtype == pl.Int64()


NOT_CHUNKED = "the job is not chunked"

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
    Column("user", pl.String(), "Who submitted the job.", null="unknown"),
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
        "Times the trace started the job.",
        null="unknown",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "priority",
        pl.Int64(),
        "Higher goes first.",
        null="counts as 0",
        minimum=-MAX_WHOLE,
        maximum=MAX_WHOLE,
    ),
    Column(
        "num_tasks",
        pl.Int64(),
        "Alike tasks in the gang.",
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
        "How sensitive to latency the job is; Google's 0 to 3, the higher the more.",
        null="the trace has none",
        minimum=0,
        maximum=MAX_COUNT,
    ),
    Column(
        "different_machines",
        pl.Int64(),
        "1 where the trace demands that a job's tasks run on machines of their own.",
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
    Column(
        "chunks",
        pl.Int64(),
        "Equal parts of the job's data, each trained by one worker.",
        null=NOT_CHUNKED,
        minimum=1,
        maximum=MAX_COUNT,
        layer=Layer.PROFILE,
    ),
    Column(
        "epochs",
        pl.Int64(),
        "Times that each chunk is trained through.",
        null=NOT_CHUNKED,
        minimum=1,
        maximum=MAX_COUNT,
        layer=Layer.PROFILE,
    ),
    Column(
        "minibatches_per_chunk",
        pl.Int64(),
        "Mini-batches of one chunk.",
        null=NOT_CHUNKED,
        minimum=1,
        maximum=MAX_COUNT,
        layer=Layer.PROFILE,
    ),
    Column(
        "minibatch_s",
        pl.Float64(),
        "Time of a worker of speed 1 to train one mini-batch, without communication.",
        null=NOT_CHUNKED,
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
        layer=Layer.PROFILE,
    ),
    Column(
        "gradient_mb",
        pl.Float64(),
        "Size of the gradients, which is that of the parameters.",
        null=NOT_CHUNKED,
        unit="MB",
        minimum=0,
        maximum=MAX_MB,
        layer=Layer.PROFILE,
    ),
    Column(
        "bandwidth_mbps",
        pl.Float64(),
        "Bandwidth that is reserved for the job between a worker and its parameter server.",
        null=NOT_CHUNKED,
        unit="Mbps",
        minimum=2**-10,
        maximum=MAX_MB,
        layer=Layer.PROFILE,
    ),
    Column(
        "upload_edge_s",
        pl.Float64(),
        "Time until a chunk is at a worker of an edge or a plain server.",
        null=NOT_CHUNKED,
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
        layer=Layer.PROFILE,
    ),
    Column(
        "upload_cloud_s",
        pl.Float64(),
        "Time until a chunk is at a worker of the cloud.",
        null=NOT_CHUNKED,
        unit="s",
        minimum=0,
        maximum=MAX_TIME_S,
        layer=Layer.PROFILE,
    ),
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}

SCHEMA: dict[str, pl.DataType] = {column.name: column.dtype for column in COLUMNS}
"""What polars calls a schema: dtype by name, in file order."""

SORT_KEY: tuple[str, ...] = ("submit_s", "trace_order", "vc")
"""Order of the rows; ties between vcs go by the vc's name."""


def with_all_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with exactly the schema's columns, in order; those it lacks are null."""
    return frame.select(
        pl.col(name) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in SCHEMA.items()
    )


def columns_markdown() -> str:
    """The table of columns for the user guide."""
    lines = [
        "| column | type | unit | range | null means | meaning | layer |",
        "|---|---|---|---|---|---|---|",
    ]
    for column in COLUMNS:
        cells = (
            f"`{column.name}`",
            str(column.dtype),
            column.unit or "-",
            _range_text(column),
            column.null or "never null",
            column.meaning,
            column.layer,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _range_text(column: Column) -> str:
    if column.minimum is None or column.maximum is None:
        return "-"
    return f"{_power_text(column.minimum)} .. {_power_text(column.maximum)}"


def _power_text(value: float) -> str:
    if 0 < value < 1:
        return f"2^{math.frexp(value)[1] - 1}"
    whole = int(value)
    if abs(whole) < 1024:
        return str(whole)
    return f"{'-' if whole < 0 else ''}2^{abs(whole).bit_length() - 1}"
