"""Columns of a training profile: drawn, derived from the row and its draws, or solved for.

A draw is keyed by seed, column and job_id (or number of the job), so that it depends on no other row.
`enrich.py` fills the rows of a trace, `drawn_jobs.py` of the generators draws whole jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.loss import last_epoch_with_drop
from ray_sim.model.step_time import BITS_PER_BYTE
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.units import FloatArray, IntArray
from workloads.job_table import SMOOTH
from workloads.schema import BY_NAME, MAX_COUNT, MAX_MB, SCHEMA
from workloads.training.bundles import TracedRates
from workloads.training.draws import Draw, Multiple, Uniform, choose, draw_range, numbers, texts
from workloads.training.profile import BY_ROW, GIVEN, Family, TrainingDraws, derives_step_columns


@dataclass(frozen=True, slots=True)
class FamilyColumns:
    """Values of the same jobs by column."""

    numbers: dict[str, FloatArray]
    texts: dict[str, list[str]]


Fill = Callable[[Family, IntArray, Mapping[str, FloatArray]], FamilyColumns]
"""Computes the columns of one family, `num_workers` included. Arguments: the family, the indices of its jobs,
and by column a uniform number in [0, 1) for each of them."""


def columns_by_family(
    draws: TrainingDraws, streams: Streams, purpose: str, entity: tuple[IntArray, ...], fill: Fill
) -> pl.DataFrame:
    """Columns that ``fill`` returns for each family, and those derived from them, in job order.

    Parameters
    ----------
    purpose : key of the random streams, together with the column
    entity : (J,) each, key of a job's draws
    """
    weights = [family.weight for family in draws.families]
    of_job, _ = choose(weights, streams.uniforms(f"{purpose}-model", *entity))
    parts = []
    for index, family in enumerate(draws.families):
        rows = np.flatnonzero(of_job == index)
        keys = tuple(part[rows] for part in entity)
        uniform = {name: streams.uniforms(f"{purpose}-{name}", *keys) for name in family.columns}
        columns = _with_following(fill(family, rows, uniform), family, len(rows))
        ordered = {name: columns[name] for name in SCHEMA if name in columns}
        parts.append(pl.DataFrame({"row": rows, **ordered}))
    return pl.concat(parts).sort("row").drop("row")


def plain_columns(family: Family, names: Iterable[str], uniform: Mapping[str, FloatArray]) -> FamilyColumns:
    """Values of columns that depend on their own draw only (or are a multiple of another column)."""
    values: dict[str, FloatArray] = {}
    words: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: isinstance(family.columns[name], Multiple)):
        draw = family.columns[name]
        if BY_NAME[name].is_number:
            values[name] = numbers(draw, uniform[name], values)
        else:
            words[name] = texts(draw, uniform[name])
    return FamilyColumns(values, words)


def _with_following(columns: FamilyColumns, family: Family, jobs: int) -> dict[str, pl.Series]:
    """Drawn and derived columns of a family with the dtypes of the schema."""
    if derives_step_columns(family.columns):
        columns = _with_steps(columns)
    values = dict(columns.numbers)
    values["num_ps"] = _parameter_servers(columns)
    if "loss_b0" in values:
        values["epochs"] = _epochs(values)
    found = {name: pl.Series(each).cast(SCHEMA[name]) for name, each in values.items()}
    found.update({name: pl.Series(each, dtype=pl.String) for name, each in columns.texts.items()})
    if family.name is not None:
        found["model"] = pl.repeat(family.name, jobs, dtype=pl.String(), eager=True)
    return found


def _with_steps(columns: FamilyColumns) -> FamilyColumns:
    """Add step columns to chunked jobs; the step form is equally fast with one worker per chunk.

    A step trains a mini-batch of each chunk, which counts as a sample. There is one parameter server, and
    each worker has the job's bandwidth to it, wherever they stand.
    """
    chunks = columns.numbers["chunks"]
    steps = {
        "samples": chunks * columns.numbers["minibatches_per_chunk"],
        "batch": chunks,
        "sample_s": columns.numbers["minibatch_s"],
        "internal_bandwidth_mbps": columns.numbers["bandwidth_mbps"],
        "workers_per_ps": chunks,
    }
    exchange = [Exchange.SYNC.name.lower()] * len(chunks)
    return FamilyColumns({**steps, **columns.numbers}, {"exchange": exchange, **columns.texts})


def _parameter_servers(columns: FamilyColumns) -> FloatArray:
    """(J,) parameter servers by the ratio `workers_per_ps`; 0 in a ring or without a ratio."""
    workers = columns.numbers["num_workers"]
    if "workers_per_ps" not in columns.numbers:
        return np.zeros(len(workers))
    servers = np.ceil(workers / columns.numbers["workers_per_ps"])
    ring = np.array(columns.texts["exchange"], dtype=np.str_) == Exchange.ALL_REDUCE.name.lower()
    return np.where(ring, 0.0, servers)


def _epochs(values: Mapping[str, FloatArray]) -> FloatArray:
    """(J,) epochs to convergence times `trained_share`, rounded up; at least 1."""
    curve = [values[name] for name in ("loss_b0", "loss_b1", "loss_threshold", "loss_patience")]
    nothing = np.zeros(len(curve[0]))
    converged = last_epoch_with_drop(*curve, *(values.get(name, nothing) for name in SMOOTH))
    return np.ceil(converged * values.get("trained_share", 1.0))


def drawn_columns(frame: pl.DataFrame, draws: TrainingDraws, streams: Streams) -> pl.DataFrame:
    """The columns to fill, `samples` apart, in the order of the frame's rows."""

    def fill(family: Family, rows: IntArray, uniform: Mapping[str, FloatArray]) -> FamilyColumns:
        return _family_columns(frame[rows], family, uniform)

    return columns_by_family(draws, streams, "enrich", (text_entities(frame["job_id"]),), fill)


def _family_columns(frame: pl.DataFrame, family: Family, uniform: Mapping[str, FloatArray]) -> FamilyColumns:
    """The columns of the jobs of one family."""
    columns = plain_columns(family, [name for name in family.columns if name not in BY_ROW], uniform)
    workers, worker_gpu = _workers(frame, family.columns["worker_gpu"], uniform["worker_gpu"])
    columns.numbers.update({"worker_gpu": worker_gpu, "num_workers": workers})
    if "batch" in family.columns:
        columns.numbers["batch"] = _batch(family, uniform["batch"], workers)
    columns.numbers.update({name: workers for name in GIVEN if name in family.columns})
    return columns


def _workers(frame: pl.DataFrame, draw: Draw, uniform: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Number of workers and GPUs of each, (J,) each, whose product is the row's GPUs, or 0 if the draw is.

    If the trace has the tasks of a gang, they are the workers. Otherwise n whole GPUs are divided among
    workers with equal numbers, drawn from the divisors of n, or one each if no divisor is in the range. Any
    other job is one worker.
    """
    gpus, tasks = frame["num_gpus"].to_numpy(), frame["num_tasks"].fill_null(0).to_numpy()
    workers = np.where(tasks > 0, tasks, 1).astype(np.float64)
    low, high = draw_range(draw)
    shared = (tasks == 0) & (gpus >= 1) & (gpus == np.floor(gpus))
    for n in np.unique(gpus[shared]):
        of_size = np.flatnonzero(shared & (gpus == n))
        each = np.arange(max(1, low), min(n, high) + 1)
        each = each[n % each == 0] if len(each) else np.array([])
        divisors = each if len(each) else np.array([1.0])
        workers[of_size] = n / divisors[np.floor(uniform[of_size] * len(divisors)).astype(np.int64)]
    return workers, gpus / workers if high > 0 else np.zeros(len(gpus))


def _batch(family: Family, uniform: FloatArray, workers: FloatArray) -> FloatArray:
    """Samples of a step, at least one for each worker."""
    draw = family.columns["batch"]
    if isinstance(draw, Uniform):
        drawn = draw.at(uniform, np.clip(workers, draw.low, draw.high))
    else:
        drawn = numbers(draw, uniform, {})
    return np.maximum(drawn, workers)


def with_view_columns(frame: pl.DataFrame, draws: TrainingDraws, rates: TracedRates) -> pl.DataFrame:
    """Fill the columns of the views that the profile solves for.

    Parameters
    ----------
    frame : with all columns of a step time, `samples` included
    rates : of the jobs, see `traced_rates`
    """
    names = (
        *("num_workers", "batch", "sample_s", "workers_per_ps", "gradient_mb", "epochs", "samples"),
        "duration_s",
    )
    jobs = {name: frame[name].cast(pl.Float64).to_numpy() for name in names}
    solved: dict[str, FloatArray] = {}
    if "pd_ors" in draws.traced_time_in:
        solved |= _pair_columns(jobs, rates)
    if "a_online" in draws.traced_time_in:
        by_itself = (frame["exchange"] == Exchange.ASYNC.name.lower()).to_numpy()
        solved |= _chunk_columns(
            jobs, rates, np.where(by_itself, jobs["batch"] * jobs["num_workers"], jobs["batch"])
        )
    return frame.with_columns(pl.Series(name, each).cast(SCHEMA[name]) for name, each in solved.items())


def _pair_columns(jobs: Mapping[str, FloatArray], rates: TracedRates) -> dict[str, FloatArray]:
    """Bandwidths x for which w / (tau + (gamma / F) 2 g / x) is the rate of the placement form.

    The rate within a server is that of all tasks on one server. The rate between servers is that of the
    traced run where it needs several, else that of tasks that all stand apart; the bandwidth between servers
    is at most that within one.
    """
    near_s = _pair_transfer_s(jobs, rates.near)
    far_s = _pair_transfer_s(jobs, np.where(rates.on_one, rates.far, rates.traced))
    far_s = np.where(rates.on_one, np.maximum(far_s, near_s), far_s)
    near_s = np.where(rates.on_one, near_s, np.minimum(near_s, far_s))
    megabits = BITS_PER_BYTE * jobs["gradient_mb"]
    return {
        "pair_bandwidth_mbps": np.minimum(megabits / far_s, MAX_MB),
        "internal_pair_bandwidth_mbps": np.minimum(megabits / near_s, MAX_MB),
    }


def _pair_transfer_s(jobs: Mapping[str, FloatArray], rate: FloatArray) -> FloatArray:
    """(J,) seconds g / x of one transfer, from samples per second of the bundle."""
    exchange_s = jobs["num_workers"] / rate - jobs["sample_s"]
    seconds: FloatArray = exchange_s * jobs["batch"] / (2.0 * jobs["workers_per_ps"])
    return seconds


def _chunk_columns(
    jobs: Mapping[str, FloatArray], rates: TracedRates, step_samples: FloatArray
) -> dict[str, FloatArray]:
    """A chunk per worker, which trains for the traced run time: T = E M (m + 2 q / b).

    A chunk has as many mini-batches M as the job has steps in an epoch, at least 1. The training m and the
    exchange 2 q / b share the time as they do in a step of the traced run.

    Parameters
    ----------
    step_samples : (J,) samples of one step of all workers
    """
    minibatches = np.clip(np.rint(jobs["samples"] / step_samples), 1, MAX_COUNT)
    each_s = jobs["duration_s"] / (jobs["epochs"] * minibatches)
    exchange_s = each_s * (1.0 - jobs["sample_s"] * rates.traced / jobs["num_workers"])
    megabits = 2.0 * BITS_PER_BYTE * jobs["gradient_mb"]
    # Only runs of milliseconds have more, which take longer then.
    exchange_s = np.maximum(exchange_s, megabits / MAX_MB)
    return {
        "chunks": jobs["num_workers"],
        "minibatches_per_chunk": minibatches,
        "minibatch_s": np.maximum(each_s - exchange_s, 0.0),
        "chunk_bandwidth_mbps": megabits / exchange_s,
    }
