"""Columns solved for such that the traced run takes its time with truth=pd_ors and truth=a_online too.

`samples` are solved for by the placement form. The other forms have exchanges of their own: PD-ORS counts
the bandwidth of one pair of a worker and a parameter server, A_online that of one worker. Here these
bandwidths follow from the exchange of the traced run. docs/training.md, "One record, all systems".
J is the number of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange
from ray_sim.model.step_time import BITS_PER_BYTE
from ray_sim.model.units import FloatArray
from workloads.column import MAX_COUNT, MAX_MB
from workloads.schema import SCHEMA
from workloads.training.profile import TrainingDraws
from workloads.training.reference_servers import TracedRates


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Columns of J jobs, (J,) each."""

    workers: FloatArray
    batch: FloatArray
    sample_s: FloatArray
    workers_per_ps: FloatArray
    gradient_mb: FloatArray
    epochs: FloatArray
    samples: FloatArray
    duration_s: FloatArray


def with_view_columns(frame: pl.DataFrame, draws: TrainingDraws, rates: TracedRates) -> pl.DataFrame:
    """Fill the columns of the views that the profile solves for.

    Parameters
    ----------
    frame : with all columns of a step time, `samples` included
    rates : of the jobs, see `traced_rates`
    """
    names = ("batch", "sample_s", "workers_per_ps", "gradient_mb", "epochs", "samples", "duration_s")
    columns = {name: frame[name].cast(pl.Float64).to_numpy() for name in names}
    jobs = _Jobs(workers=frame["num_workers"].cast(pl.Float64).to_numpy(), **columns)
    solved: dict[str, FloatArray] = {}
    if "pd_ors" in draws.traced_time_in:
        solved |= _pair_columns(jobs, rates)
    if "a_online" in draws.traced_time_in:
        by_itself = (frame["exchange"] == Exchange.ASYNC.name.lower()).to_numpy()
        solved |= _chunk_columns(jobs, rates, np.where(by_itself, jobs.batch * jobs.workers, jobs.batch))
    return frame.with_columns(pl.Series(name, each).cast(SCHEMA[name]) for name, each in solved.items())


def _pair_columns(jobs: _Jobs, rates: TracedRates) -> dict[str, FloatArray]:
    """Bandwidths x for which w / (tau + (gamma / F) 2 g / x) is the rate of the placement form.

    The rate within a server is that of all tasks on one server. The rate between servers is that of the
    traced run where it needs several, else that of tasks that all stand apart; the bandwidth between servers
    is at most that within one.
    """
    near_s = _pair_transfer_s(jobs, rates.near)
    far_s = _pair_transfer_s(jobs, np.where(rates.on_one, rates.far, rates.traced))
    far_s = np.where(rates.on_one, np.maximum(far_s, near_s), far_s)
    near_s = np.where(rates.on_one, near_s, np.minimum(near_s, far_s))
    megabits = BITS_PER_BYTE * jobs.gradient_mb
    return {
        "pair_bandwidth_mbps": np.minimum(megabits / far_s, MAX_MB),
        "internal_pair_bandwidth_mbps": np.minimum(megabits / near_s, MAX_MB),
    }


def _pair_transfer_s(jobs: _Jobs, rate: FloatArray) -> FloatArray:
    """(J,) seconds g / x of one transfer, from samples per second of the bundle."""
    exchange_s = jobs.workers / rate - jobs.sample_s
    seconds: FloatArray = exchange_s * jobs.batch / (2.0 * jobs.workers_per_ps)
    return seconds


def _chunk_columns(jobs: _Jobs, rates: TracedRates, step_samples: FloatArray) -> dict[str, FloatArray]:
    """A chunk per worker, which trains for the traced run time: T = E M (m + 2 q / b).

    A chunk has as many mini-batches M as the job has steps in an epoch, at least 1. The training m and the
    exchange 2 q / b share the time as they do in a step of the traced run.

    Parameters
    ----------
    step_samples : (J,) samples of one step of all workers
    """
    minibatches = np.clip(np.rint(jobs.samples / step_samples), 1, MAX_COUNT)
    each_s = jobs.duration_s / (jobs.epochs * minibatches)
    exchange_s = each_s * (1.0 - jobs.sample_s * rates.traced / jobs.workers)
    megabits = 2.0 * BITS_PER_BYTE * jobs.gradient_mb
    exchange_s = np.maximum(
        exchange_s, megabits / MAX_MB
    )  # only runs of milliseconds, which take longer then
    return {
        "chunks": jobs.workers,
        "minibatches_per_chunk": minibatches,
        "minibatch_s": np.maximum(each_s - exchange_s, 0.0),
        "chunk_bandwidth_mbps": megabits / exchange_s,
    }
