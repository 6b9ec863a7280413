"""Draw the columns of a training profile: choose a family for each job, then its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.loss import last_epoch_with_drop
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from workloads.job_profiles import SMOOTH
from workloads.schema import BY_NAME, SCHEMA
from workloads.training.draws import Multiple, choose, numbers, texts
from workloads.training.profile import Family, TrainingDraws, derives_step_columns


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
