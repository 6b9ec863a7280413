"""Convert the jobs of a workload, with the profile records of their training columns, to a `JobTable`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import FAILED, KILLED
from ray_sim.model.job import (
    CHUNK_MEMORY,
    AttemptLog,
    BlockProfile,
    ChunkProfile,
    Exchange,
    JobTable,
    LossProfile,
    MeasuredProfile,
    PairProfile,
    StatementProfile,
    TrainingProfile,
    UtilityProfile,
)
from ray_sim.model.outlook import parse_outlooks
from ray_sim.model.parameter_blocks import parse_blocks
from ray_sim.model.units import NEVER_US, FloatArray, IntArray, demand_quanta, seconds_to_us
from ray_sim.model.value_function import parse_value
from workloads.schema import BY_NAME, EXCHANGES, SCHEMA, SORT_KEY, gang_tasks, parse_attempts
from workloads.status import Ending, endings

CHUNK = tuple(field.name for field in fields(ChunkProfile) if field.name not in CHUNK_MEMORY)
UTILITY = tuple(field.name for field in fields(UtilityProfile))
CURVE = tuple(field.name for field in fields(LossProfile))
SMOOTH = ("loss_drop", "loss_drop_epoch")
"""Optional columns of a loss curve; null means no drop."""
LOSS = tuple(name for name in CURVE if name not in SMOOTH)
TRAINING = (
    *("exchange", "epochs", "samples", "batch", "sample_s", "gradient_mb", "bandwidth_mbps"),
    *("internal_bandwidth_mbps", "workers_per_ps", "num_workers", "num_ps", "worker_gpu"),
)
"""Columns that a step time needs of every job; the others of `TrainingProfile` are 0 where null."""
STATEMENTS = ("value", "outlook")
"""Columns that an announcement needs of every job."""
_NEEDED = {"training": TRAINING, "utility": UTILITY, "loss": LOSS, "statements": STATEMENTS}
"""Columns that a record needs of every job, by its name in `JobTable.gaps`."""


_PER_TASK = {name.removesuffix("_per_task"): name for name in SCHEMA if name.endswith("_per_task")}
"""The column of each resource but GPUs."""


def frame_to_table(frame: pl.DataFrame, resources: Sequence[str] = ("gpu",)) -> JobTable:
    """Jobs with the columns of `SCHEMA`, assumed sound and in any order, as a `JobTable`.

    Times count from the first submission. A job is a gang of ``num_tasks`` identical tasks; where that
    is null, n >= 1 whole GPUs are n tasks of one GPU, and any other job is one task. The demand for a
    resource without a column is 0.
    """
    ordered = _in_order(frame)
    tasks: IntArray = ordered.select(gang_tasks()).to_series().to_numpy(writable=True)
    submit_us = seconds_to_us(ordered["submit_s"].to_numpy())
    origin_us = int(submit_us[0]) if len(submit_us) else 0
    vc_names, vc = _numbered(ordered["vc"])
    blocks, block_row = _numbered(ordered["blocks"])
    priority, gaps = _or_none(ordered["priority"]), _all_gaps(ordered)
    ending, killed_s = _ends(ordered)
    return JobTable(
        job_id=ordered["job_id"],
        submit_us=submit_us - origin_us,
        work_us=seconds_to_us(ordered["duration_s"].to_numpy()),
        tasks=tasks,
        demand=np.column_stack([_demand(ordered, tasks, resource) for resource in resources]),
        resources=tuple(resources),
        num_gpus=ordered["num_gpus"].to_numpy(writable=True),
        vc=vc,
        vc_names=vc_names,
        user=_or_none(ordered["user"]),
        priority=None if priority is None else priority.fill_null(0).to_numpy(writable=True),
        model=_or_none(ordered["model"]),
        gpu_types=_or_none(ordered["gpu_types"]),
        time_limit_us=_us_or_never(ordered["time_limit_s"]),
        attempt_log=_attempt_log(ordered["attempt_log"]),
        endings=ending if ending.any() else None,
        killed_us=_us_or_never(killed_s),
        group=_or_none(ordered["group_id"]),
        trace_order=ordered["trace_order"].to_numpy(writable=True),
        origin_us=origin_us,
        chunk_profile=_chunk_profile(ordered),
        training=None if "training" in gaps else training_profile(ordered, resources),
        pairs=None if "training" in gaps else pair_profile(ordered),
        measured=_measured_profile(ordered),
        utility=None if "utility" in gaps else UtilityProfile(**_floats(ordered, UTILITY)),
        loss=None if "loss" in gaps else LossProfile(**_floats(ordered, CURVE)),
        blocks=None if "blocks" in gaps else BlockProfile(tuple(map(parse_blocks, blocks)), block_row),
        statements=None if "statements" in gaps else _statement_profile(ordered, origin_us),
        gaps=gaps,
    )


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Jobs sorted by `SORT_KEY`; those of a file are, and to copy them would take as much memory again."""
    order = frame.select(pl.arg_sort_by(*SORT_KEY, maintain_order=True)).to_series()
    return frame if order.is_sorted() else frame[order]


def _ends(frame: pl.DataFrame) -> tuple[IntArray, pl.Series]:
    """(J,) `FAILED` or `KILLED` of jobs that ended so, else 0; seconds from submission on of killed ones."""
    codes = {Ending.FAILED: FAILED, Ending.KILLED: KILLED}
    code = endings(pl.col("status")).replace_strict(codes, default=0, return_dtype=pl.Int64)
    ends = frame.select(code=code, wall_s=pl.when(code == KILLED).then(pl.col("wait_s") + pl.col("span_s")))
    return ends["code"].to_numpy(writable=True), ends["wall_s"]


def _us_or_never(seconds: pl.Series) -> IntArray | None:
    """Microseconds, `NEVER_US` for null; None where all are null."""
    if _or_none(seconds) is None:
        return None
    us: IntArray = np.full(len(seconds), NEVER_US)
    us[seconds.is_not_null().to_numpy()] = seconds_to_us(seconds.drop_nulls().to_numpy())
    return us


def _attempt_log(logs: pl.Series) -> AttemptLog | None:
    if _or_none(logs) is None:
        return None
    attempts = [parse_attempts(text) if text is not None else () for text in logs]
    ptr = np.cumsum([0, *map(len, attempts)])
    lengths = np.array([length for each in attempts for length, _ in each], dtype=np.float64)
    return AttemptLog(ptr, seconds_to_us(lengths), tuple(word for each in attempts for _, word in each))


def _demand(frame: pl.DataFrame, tasks: IntArray, resource: str) -> IntArray:
    """Quanta of a resource per task, shape (J,)."""
    if resource == "gpu":
        amount: FloatArray = frame["num_gpus"].to_numpy() / tasks
    elif resource in _PER_TASK:
        amount = frame[_PER_TASK[resource]].fill_null(0).to_numpy()
    else:
        return np.zeros(frame.height, np.int64)
    return demand_quanta(amount, resource)


def _or_none(column: pl.Series) -> pl.Series | None:
    return None if column.null_count() == len(column) else column


def _all_gaps(frame: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    """Missing columns by the record that needs them; see `JobTable.gaps`."""
    gaps = {name: missing for name, columns in _NEEDED.items() if (missing := tuple(_gaps(frame, columns)))}
    with_servers = frame.filter(pl.col("exchange").ne_missing(Exchange.ALL_REDUCE.name.lower()))
    if with_servers.height and (missing := tuple(_gaps(with_servers, ("blocks",)))):
        gaps["blocks"] = missing
    return gaps


def _gaps(frame: pl.DataFrame, columns: Iterable[str]) -> Iterable[str]:
    """A line for each column that some job has no value of."""
    for name in columns:
        nulls = frame[name].null_count()
        if nulls == frame.height:
            yield f"{name}: is missing"
        elif nulls:
            first = frame["job_id"][int(frame[name].is_null().arg_max() or 0)]
            yield f"{name}: is null for {nulls} of {frame.height} jobs, first for {first}"


def _chunk_profile(frame: pl.DataFrame) -> ChunkProfile | None:
    """Chunk profile of the jobs; None where no job has a value in its columns."""
    if all(frame[name].null_count() == frame.height for name in CHUNK):
        return None
    own = pl.coalesce("chunk_bandwidth_mbps", "bandwidth_mbps").alias("bandwidth_mbps")
    floats = frame.with_columns(own).select(CHUNK).cast(pl.Float64).fill_null(float("nan"))
    memory = _floats(frame, CHUNK_MEMORY)
    return ChunkProfile(**{series.name: series.to_numpy(writable=True) for series in floats}, **memory)


def training_profile(frame: pl.DataFrame, resources: Sequence[str]) -> TrainingProfile:
    """Training profile of jobs that all have the columns `TRAINING`."""
    names, model = _numbered(frame["model"])
    exchange = frame["exchange"].replace_strict(EXCHANGES, return_dtype=pl.Int64)
    of_steps = [field.name for field in fields(TrainingProfile) if field.name in BY_NAME]
    whole = ("exchange", "model", "num_workers", "num_ps")
    return TrainingProfile(
        **_floats(frame, [name for name in of_steps if name not in whole]),
        exchange=exchange.to_numpy(writable=True),
        num_workers=frame["num_workers"].to_numpy(writable=True),
        num_ps=frame["num_ps"].to_numpy(writable=True),
        worker_demand=role_demand(frame, "worker", resources),
        ps_demand=role_demand(frame, "ps", resources),
        model=model,
        model_names=names,
    )


def pair_profile(frame: pl.DataFrame) -> PairProfile | None:
    """Bandwidths of pairs, those of tasks where a job has none of its own; None where no job has."""
    names = tuple(field.name for field in fields(PairProfile))
    if all(frame[name].null_count() == frame.height for name in names):
        return None
    own = [pl.coalesce(name, name.replace("pair_", "")).alias(name) for name in names]
    return PairProfile(**_floats(frame.select(own), names))


def _measured_profile(frame: pl.DataFrame) -> MeasuredProfile | None:
    """Measured profile of the jobs; None where no job has a model and steps."""
    if frame.select((pl.col("model").is_null() | pl.col("steps").is_null()).all()).item():
        return None
    absent = {"batch": np.nan, "steps": np.nan, "weight": 1.0, "utility_due_s": np.inf}
    batch, steps, weight, deadline_s = (
        frame[name].cast(pl.Float64).fill_null(value).to_numpy(writable=True)
        for name, value in absent.items()
    )
    return MeasuredProfile(batch, steps, weight, deadline_s)


def _statement_profile(frame: pl.DataFrame, origin_us: int) -> StatementProfile:
    values, value_row, reported_value_row = _shared_rows(frame["value"], frame["reported_value"])
    outlooks, outlook_row, reported_outlook_row = _shared_rows(frame["outlook"], frame["reported_outlook"])
    birth_s, gpus = frame.select(
        pl.coalesce("birth_s", "submit_s"), pl.coalesce("reported_gpus", "num_gpus").alias("gpus")
    )
    return StatementProfile(
        birth_us=seconds_to_us(birth_s.to_numpy()) - origin_us,
        arrival_us=seconds_to_us(frame["submit_s"].to_numpy()) - origin_us,
        values=tuple(map(parse_value, values)),
        value_row=value_row,
        outlooks=parse_outlooks(outlooks),
        outlook_row=outlook_row,
        reported_value_row=reported_value_row,
        reported_outlook_row=reported_outlook_row,
        reported_gpus=gpus.to_numpy(writable=True),
    )


def _shared_rows(true: pl.Series, reported: pl.Series) -> tuple[pl.Series, IntArray, IntArray]:
    """Distinct texts of two columns, sorted, and (J,) which of them each job has; null reports are true."""
    if reported.null_count() == len(reported):
        rows = _sorted_rows(true)
        return true.unique().sort(), rows, rows.copy()
    both = pl.concat([true, reported.zip_with(reported.is_not_null(), true).rename(true.name)])
    rows = _sorted_rows(both)
    return both.unique().sort(), rows[: len(true)], rows[len(true) :]


def _sorted_rows(texts: pl.Series) -> IntArray:
    """Position of each text among the distinct ones, sorted; no object of Python for each."""
    return texts.rank("dense").cast(pl.Int64).to_numpy(writable=True) - 1


def _numbered(column: pl.Series) -> tuple[tuple[str, ...], IntArray]:
    """The texts of a column in order, and (J,) which of them each job has; -1 where null."""
    texts = tuple(column.drop_nulls().unique().sort())
    of_job = column.cast(pl.Enum(texts)).to_physical().cast(pl.Int64).fill_null(-1)
    return texts, of_job.to_numpy(writable=True)


def role_demand(frame: pl.DataFrame, role: str, resources: Sequence[str]) -> IntArray:
    """(J, R) quanta that one task of a role holds; 0 of resources for which workloads have no column."""
    amounts = [
        demand_quanta(frame[f"{role}_{resource}"].fill_null(0).to_numpy(), resource)
        if f"{role}_{resource}" in frame.columns
        else np.zeros(frame.height, np.int64)
        for resource in resources
    ]
    return np.stack(amounts, axis=1) if amounts else np.zeros((frame.height, 0), np.int64)


def _floats(frame: pl.DataFrame, columns: Iterable[str]) -> dict[str, FloatArray]:
    """Columns without nulls, or in which a null means 0."""
    return {name: frame[name].cast(pl.Float64).fill_null(0.0).to_numpy(writable=True) for name in columns}
