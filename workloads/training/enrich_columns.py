"""Columns of an enrichment that are drawn or derived from the row and its draws (all but `samples`).

A draw is keyed by seed, column and job_id, so that it depends on no other row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.units import FloatArray, IntArray
from workloads.training.draws import Draw, Uniform, draw_range, numbers
from workloads.training.family_columns import FamilyColumns, columns_by_family, plain_columns
from workloads.training.profile import BY_ROW, GIVEN, Family, TrainingDraws


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
