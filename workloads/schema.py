"""Columns of a workload file: the only list of them, with what each may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.outlook import OUTLOOK_FORM, outlook_faults, parse_outlook
from ray_sim.model.parameter_blocks import BLOCKS_FORM, parse_blocks
from ray_sim.model.units import MAX_TIME_S
from ray_sim.model.value_function import VALUE_FORM, parse_value, value_faults

MAX_COUNT = 2**20
"""The most GPUs, cores, tasks or attempts a row may have; more is a broken trace."""

MAX_GIB = 2**30
"""The most memory or disk a task may have."""

MAX_NORM = 2**10
"""The most of a resource measured in the trace's largest machines that a task may have."""

MAX_MB = 2**30
"""Largest model in MB; also the largest bandwidth in Mbit/s."""

MAX_WHOLE = 2**52
"""The largest order or priority; whole numbers up to here survive a floating-point reader."""


class ColumnOrigin(StrEnum):
    """Origin of a column's values."""

    TRACE = "trace"
    """Measured: the trace has it, or it is null."""
    OPERATION = "operation"
    """Set or seen by the trace's operator; a file has these columns where they have values."""
    PROFILE = "profile"
    """Training of the job, measured or drawn; a file has these columns where they have values."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Required form of the texts of a column."""

    wanted: str
    parse: Callable[[str], object]
    """Raises ValueError for another text."""
    faults_of_all: Callable[[pl.Series], Mapping[int, str]] | None = None
    """Errors of `parse` for many texts at once, by index; None where parsing one by one is fast enough."""

    def fault(self, text: str) -> str | None:
        """What is wrong with the text; None where it has the form."""
        try:
            self.parse(text)
        except ValueError as error:
            return str(error)
        return None

    def allows(self, text: str) -> bool:
        """Whether the text has the form."""
        return self.fault(text) is None

    def wrong(self, texts: pl.Series) -> list[str]:
        """Those of the texts that lack the form."""
        if self.faults_of_all is None:
            return [text for text in texts if not self.allows(text)]
        return texts.gather(sorted(self.faults_of_all(texts))).to_list()


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, dtype, meaning, allowed values."""

    name: str
    dtype: pl.DataType
    meaning: str
    null: str | None = None
    """Meaning of a null; None where nulls are not allowed."""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    layer: ColumnOrigin = ColumnOrigin.TRACE
    choices: tuple[str, ...] = ()
    """Allowed texts; empty where any text is allowed."""
    form: TextForm | None = None
    """Required form of the texts; None for any text."""

    def holds(self, text: str) -> bool:
        """Whether a column of texts may hold this one."""
        if self.choices:
            return text in self.choices
        return self.form is None or self.form.allows(text)

    @property
    def wanted_text(self) -> str:
        """Description of the allowed texts, for error messages."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "a text" if self.form is None else self.form.wanted

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, within `minimum` and `maximum`."""
        return self.dtype != pl.String()

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.dtype == pl.Int64()


ATTEMPTS_FORM = "at most 1,000 run times in seconds with blanks between, each LENGTH or LENGTH:REASON"

MAX_ATTEMPTS = 1000


def parse_attempts(text: str) -> tuple[tuple[float, str], ...]:
    """Length in seconds and reason (empty for none) of each attempt of an `attempt_log`.

    Raises
    ------
    ValueError : a length is no number in 0 .. 2^36, or there are more than `MAX_ATTEMPTS`
    """
    attempts = []
    for part in text.split():
        length, _, reason = part.partition(":")
        if not re.fullmatch(r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", length) or float(length) > MAX_TIME_S:
            raise ValueError(f"'{part[:40]}' has no length in 0 .. 2^36 s")
        attempts.append((float(length), reason))
    if not 0 < len(attempts) <= MAX_ATTEMPTS:
        raise ValueError(f"has {len(attempts):,} attempts")
    return tuple(attempts)


EXCHANGES: dict[str, Exchange] = {exchange.name.lower(): exchange for exchange in Exchange}
"""Allowed texts of the column `exchange`."""

LEAST = 2**-40
"""The smallest positive number of a column that must not hold zero."""

SCHEMA_VERSION = "4"
"""Changes when a column changes its meaning; a column that a file lacks is null."""


def _text(name: str, meaning: str, null: str | None = None, form: TextForm | None = None) -> Column:
    return Column(name, pl.String(), meaning, null, form=form)


def _whole(
    name: str, meaning: str, null: str | None = None, minimum: int = 0, maximum: int = MAX_COUNT
) -> Column:
    return Column(name, pl.Int64(), meaning, null, "", minimum, maximum)


def _count(name: str, meaning: str, null: str | None = None, *, maximum: int = MAX_COUNT) -> Column:
    return _whole(name, meaning, null, 1, maximum)


def _real(
    name: str,
    meaning: str,
    unit: str = "",
    null: str | None = None,
    *,
    minimum: float = 0,
    maximum: float = MAX_COUNT,
) -> Column:
    return Column(name, pl.Float64(), meaning, null, unit, minimum, maximum)


def _seconds(name: str, meaning: str, null: str | None = None, *, minimum: float = 0) -> Column:
    return _real(name, meaning, "s", null, minimum=minimum, maximum=MAX_TIME_S)


def _mbps(name: str, meaning: str, null: str | None = None) -> Column:
    return _real(name, meaning, "Mbps", null, minimum=2**-10, maximum=MAX_MB)


def _demands(role: str, who: str, gpu_null: str | None = None) -> tuple[Column, ...]:
    return (
        _real(f"{role}_gpu", f"GPUs of one {who}.", "GPU", gpu_null),
        _real(f"{role}_cpu", f"CPU cores of one {who}.", "core", "0"),
        _real(f"{role}_memory_gib", f"Memory of one {who}.", "GiB", "0", maximum=MAX_GIB),
        _real(f"{role}_disk_gib", f"Disk of one {who}.", "GiB", "0", maximum=MAX_GIB),
    )


def _of_layer(layer: ColumnOrigin, *columns: Column) -> tuple[Column, ...]:
    """The columns in a layer, where a null without a meaning is an unknown value."""
    unknown = "the workload does not say"
    return tuple(replace(column, layer=layer, null=column.null or unknown) for column in columns)


_NOT_CHUNKED = "the job is not chunked"

TRAINING_COLUMNS: tuple[Column, ...] = _of_layer(
    ColumnOrigin.PROFILE,
    _count("chunks", "Equal parts of the job's data, each trained by one worker.", _NOT_CHUNKED),
    _count("epochs", "Number of passes over the job's data, or over each of its chunks."),
    _count("minibatches_per_chunk", "Mini-batches of one chunk.", _NOT_CHUNKED),
    _seconds(
        "minibatch_s",
        "Time of a worker of speed 1 to train one mini-batch, without communication.",
        _NOT_CHUNKED,
    ),
    _real("gradient_mb", "Size of the gradients, which is that of the parameters.", "MB", maximum=MAX_MB),
    _mbps("bandwidth_mbps", "Bandwidth of the job between a worker and its parameter server."),
    _seconds(
        "upload_edge_s", "Time to send a chunk to a worker on an edge server or a plain server.", _NOT_CHUNKED
    ),
    _seconds("upload_cloud_s", "Time to send a chunk to a worker in the cloud.", _NOT_CHUNKED),
    _text("model", "Name of the model's family.", "unknown"),
    _text(
        "blocks",
        "Parameters in each block of the model, in the order of layers, such as 9408 2*64 3*(4096 64).",
        form=TextForm(BLOCKS_FORM, parse_blocks),
    ),
    Column(
        "exchange",
        pl.String(),
        "Exchange of gradients: sync or async through parameter servers, or all_reduce in a ring.",
        choices=tuple(EXCHANGES),
    ),
    _real("samples", "Samples of an epoch; where solved for, not whole.", maximum=MAX_WHOLE),
    _count(
        "batch",
        "Samples of a step: of all workers together, or of each worker where `exchange` is async; of a "
        "mini-batch of one GPU where jobs have `steps`.",
    ),
    _seconds("sample_s", "Time of a worker of speed 1 to train one sample.", minimum=LEAST),
    _mbps("internal_bandwidth_mbps", "Bandwidth between a worker and a parameter server on the same server."),
    _mbps(
        "pair_bandwidth_mbps",
        "With truth=pd_ors, of a pair of a worker and a parameter server in place of `bandwidth_mbps`.",
        "`bandwidth_mbps`",
    ),
    _mbps(
        "internal_pair_bandwidth_mbps",
        "The same within a server, in place of `internal_bandwidth_mbps`.",
        "`internal_bandwidth_mbps`",
    ),
    _mbps(
        "chunk_bandwidth_mbps",
        "With truth=a_online, of a worker in place of `bandwidth_mbps`.",
        "`bandwidth_mbps`",
    ),
    _count("steps", "Mini-batches of the job, counted over all GPUs.", maximum=MAX_WHOLE),
    _seconds("step_s", "Fixed time of each step, besides training and exchange.", "0"),
    _seconds("step_s_per_worker", "Time that each worker adds to `step_s`.", "0"),
    _seconds("step_s_per_ps", "Time that each parameter server adds to `step_s`.", "0"),
    _count("workers_per_ps", "Number of workers that one parameter server serves."),
    _count("num_workers", "Number of workers requested."),
    _whole("num_ps", "Number of parameter servers requested; 0 only where `exchange` is all_reduce."),
    *_demands("worker", "worker"),
    *_demands("ps", "parameter server", "0"),
    _real("utility_max", "Utility of the job if it is done at once.", maximum=MAX_WHOLE),
    _real("utility_decay_per_s", "Steepness of the fall of the utility at `utility_due_s`.", "1/s"),
    _seconds(
        "utility_due_s", "Time after submission at which the job is due, and half of its utility is left."
    ),
    _real("loss_b0", "The loss after k epochs is 1 / (b0 k + b1) + b2.", minimum=LEAST),
    _real("loss_b1", "See `loss_b0`.", minimum=LEAST),
    _real("loss_b2", "See `loss_b0`."),
    _real("loss_noise", "Standard deviation of an observed loss."),
    _real(
        "loss_threshold",
        "Fall of the loss in an epoch below which the job counts as converged.",
        minimum=LEAST,
    ),
    _count("loss_patience", "Epochs in a row below the threshold after which the job ends."),
    _real(
        "loss_drop",
        "Fraction of the loss above `loss_b2` that is lost at once, as when the learning rate is lowered.",
        null="0",
        maximum=1 - LEAST,
    ),
    _count("loss_drop_epoch", "Epoch of this drop.", "1"),
    _real(
        "trained_share",
        "Fraction of the epochs to convergence after which the job ends, as if killed.",
        null="1",
        minimum=LEAST,
        maximum=1,
    ),
)
"""Optional columns: how the jobs train."""

_VALUE = TextForm(VALUE_FORM, parse_value, value_faults)
_OUTLOOK = TextForm(OUTLOOK_FORM, parse_outlook, outlook_faults)

STATEMENT_COLUMNS: tuple[Column, ...] = _of_layer(
    ColumnOrigin.PROFILE,
    _seconds(
        "birth_s",
        "Announcement of the job, in the trace's own time; at most `submit_s`, at which it arrives.",
        "announced at submission",
        minimum=-MAX_TIME_S,
    ),
    _text(
        "value",
        "Worth of a completion by seconds after `birth_s`, such as deadline 40 3600; see below.",
        form=_VALUE,
    ),
    _text(
        "outlook",
        "Distribution of arrival and run time at `birth_s`, such as 0:60:0.5 0:600:0.5; see below.",
        form=_OUTLOOK,
    ),
    _text("reported_value", "What the owner reports in place of `value`.", "the truth", _VALUE),
    _text("reported_outlook", "What the owner reports in place of `outlook`.", "the truth", _OUTLOOK),
    _real("reported_gpus", "What the owner reports in place of `num_gpus`.", "GPU", "the truth"),
)
"""Optional columns: statements of work of the jobs, true and reported."""

OPERATION_COLUMNS: tuple[Column, ...] = _of_layer(
    ColumnOrigin.OPERATION,
    _text(
        "gpu_types",
        "GPU types of servers that tasks with GPUs accept, such as V100 or V100|A100; parts are names, and "
        "empty ones count for nothing.",
        "any",
    ),
    _seconds("time_limit_s", "Run time after which the cluster ends the job, see -w limits.", "no limit"),
    _real("weight", "Weight of the job in shares of the cluster, more is higher.", null="1", minimum=LEAST),
    _text(
        "attempt_log",
        "Run times of the attempts in turn, each with the reason of its end, such as 3600:oom 600 7200; see "
        "-w attempts.",
        "unknown",
        TextForm(ATTEMPTS_FORM, parse_attempts),
    ),
)
"""Optional columns: what the cluster's operator set or saw."""

COLUMNS: tuple[Column, ...] = (
    _text("job_id", "Name of the job, unique in the workload."),
    _whole(
        "trace_order",
        "Position in the trace, unique within a vc; orders jobs submitted at one instant.",
        maximum=MAX_WHOLE,
    ),
    _seconds("submit_s", "Submission, in the trace's own time."),
    _text("user", "User who submitted the job.", "unknown"),
    _text("vc", "Virtual cluster that the job was submitted to.", "the trace has none"),
    _text("status", "How the job ended in the trace, in the trace's words.", "unknown"),
    _real("num_gpus", "GPUs of the whole job; may be fractional.", "GPU"),
    _seconds("duration_s", "Run time in the trace, with all GPUs held."),
    _whole("attempts", "Number of times that the trace started the job.", "unknown"),
    _whole(
        "priority",
        "Priority in the trace, higher is more urgent; batch, and fifo and sjf with priority=true, read it.",
        "counts as 0",
        -MAX_WHOLE,
        MAX_WHOLE,
    ),
    _count(
        "num_tasks",
        "Number of identical tasks in the gang.",
        "num_gpus tasks of 1 GPU where num_gpus is whole and at least 1, else one task",
    ),
    _real("cpu_per_task", "CPU cores of one task.", "core", "0"),
    _real("memory_gib_per_task", "Memory of one task.", "GiB", "0", maximum=MAX_GIB),
    _real("disk_gib_per_task", "Disk of one task.", "GiB", "0", maximum=MAX_GIB),
    _text("group_id", "Job of the trace that this row is a part of.", "the row is a whole job"),
    *(
        _real(
            f"{what.lower()}_norm_per_task",
            f"{what} of one task, as a part of the largest machine's in the trace.",
            "machine",
            "0",
            maximum=MAX_NORM,
        )
        for what in ("CPU", "Memory", "Disk")
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
    *OPERATION_COLUMNS,
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
