"""Streams: the jobs of a workload arrive one per second in another order, and stay until all have come.

The experiments of Q. Weng et al., Beware of Fragmentation, USENIX ATC 2023, fill a cluster so. The order of
arrival is drawn with the seed, or read from a file (`ray_sim.experiments.inputs.order_file`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.streams import Streams
from ray_sim.model.units import QUANTA_PER_UNIT, IntArray, demand_quanta


class ArrivalOrder(NamedTuple):
    """Jobs in the order of arrival, and servers in the order that breaks ties."""

    jobs: IntArray
    """(n,) rows of the workload; of an order from a file, its numbers in the trace, from 0."""
    servers: IntArray
    """(S,) the numbers of all servers."""


def draw_order(frame: pl.DataFrame, load: float, gpu_milli: int, servers: int, seed: int) -> ArrivalOrder:
    """Shuffle jobs and servers; jobs that arrive again, or are left out, make up the load.

    As published: jobs drawn uniformly with replacement are appended, up to the first one whose demand per GPU
    exceeds what is left of the target; or jobs are left out, drawn uniformly, until the rest is within it.

    Parameters
    ----------
    frame : columns of `SCHEMA`; the jobs are shuffled as sorted by name
    load : target as a multiple of ``gpu_milli``, > 0
    gpu_milli : GPU capacity of the cluster in thousandths of a device
    """
    asked = demand_quanta(frame["num_gpus"].to_numpy(), "gpu")
    target, total = load * gpu_milli, int(asked.sum())
    if total == 0:
        raise InvalidWorkloadError("stream: no job asks for a GPU, so no number of jobs reaches a load")
    draws = Streams(seed).generator("stream")
    by_name = frame["job_id"].arg_sort().to_numpy().astype(np.int64)
    order = by_name[draws.permutation(len(by_name))]
    if total > target:
        exceeds = total - np.cumsum(asked[order]) > target  # without the jobs up to each one
        return ArrivalOrder(order[exceeds.argmin() + 1 :], draws.permutation(servers))
    per_gpu, again = np.minimum(asked, QUANTA_PER_UNIT["gpu"]), []
    while total + per_gpu[row := by_name[draws.integers(len(by_name))]] <= target:
        total += int(asked[row])
        again.append(row)
    return ArrivalOrder(np.append(order, again).astype(np.int64), draws.permutation(servers))


def rows_of_order(frame: pl.DataFrame, numbers: IntArray) -> IntArray:
    """Rows of the jobs with these numbers in the trace (`trace_order`).

    Raises
    ------
    InvalidWorkloadError : a number is of no job or of several, or jobs arrive again though others never do
    """
    of_trace = frame["trace_order"].to_numpy()
    by_number = np.argsort(of_trace)
    first, after = (np.searchsorted(of_trace, numbers, side, by_number) for side in ("left", "right"))
    if (wrong := np.flatnonzero(after - first != 1)).size:
        raise InvalidWorkloadError(
            f"stream: number {numbers[wrong[0]]} of the order is of {(after - first)[wrong[0]]} among the "
            f"{frame.height:,} jobs; name the order of this list, and keep all its rows (--keep-pending)"
        )
    never = frame.height - len(np.unique(numbers))
    if never and len(numbers) > frame.height - never:
        raise InvalidWorkloadError(
            f"stream: jobs of the order arrive again and {never:,} of {frame.height:,} never, so it is of "
            "another list; name the order of this one"
        )
    return by_number[first]


def stream_jobs(frame: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
    """These rows in order, n jobs at seconds 0 to n - 1, each with a run time of n seconds.

    A job that arrives again, at second t, has the suffix ``@t``.
    """
    at = pl.int_range(pl.len(), dtype=pl.Int64)
    return frame[rows].with_columns(
        job_id=pl.when(pl.col("job_id").is_first_distinct())
        .then("job_id")
        .otherwise(pl.format("{}@{}", "job_id", at)),
        trace_order=at,
        submit_s=at.cast(pl.Float64),
        duration_s=pl.lit(float(len(rows))),
        birth_s=pl.lit(None, pl.Float64),
        wait_s=pl.lit(None, pl.Float64),
    )
