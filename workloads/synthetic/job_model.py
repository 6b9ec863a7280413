"""Distributions that synthetic jobs are drawn from: kinds of jobs, run times by size, arrivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from workloads.synthetic.arrivals import (
    ArrivalKind,
    Arrivals,
    PeriodicPoisson,
    ResampledDays,
    alternating,
    poisson,
)


@dataclass(frozen=True, slots=True)
class Factor:
    """Columns that are drawn together, and independently of all others."""

    purpose: str
    """Name of the random stream."""
    kinds: pl.DataFrame
    """(K) rows of columns of `SCHEMA`."""
    weights: IntArray
    """(K,) weight of each kind; only the shares matter."""

    def draw(self, jobs: int, streams: Streams) -> pl.DataFrame:
        """A kind for each job."""
        upper = np.cumsum(self.weights)
        uniform = streams.generator(self.purpose).random(jobs)
        chosen = np.searchsorted(upper, np.floor(uniform * upper[-1]), side="right")
        drawn: pl.DataFrame = self.kinds[chosen]
        return drawn


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Run times of the jobs with at least `from_gpus` GPUs (and less than the next class)."""

    from_gpus: float
    probabilities: FloatArray
    """(Q,) rising from 0 to 1."""
    quantiles_s: FloatArray
    """(Q,) at these probabilities, non-decreasing, > 0; log-linear in between."""


@dataclass(frozen=True, slots=True)
class JobModel:
    """The distributions that a workload is drawn from."""

    factors: tuple[Factor, ...]
    """Independent groups of columns; one of them holds ``num_gpus``."""
    run_times: tuple[RunTimes, ...]
    """Classes in order of `from_gpus`; the first also covers all smaller jobs."""
    arrivals_per_s: float
    """Mean rate, > 0."""
    diurnal: PeriodicPoisson | None
    """None where the source was observed for less than a day."""
    days: ResampledDays | None
    """None without a source, or if no whole day of it has a job."""
    whole_seconds: bool
    """Whether times are whole seconds, else microseconds."""

    @property
    def own_arrivals(self) -> ArrivalKind:
        """Default arrival process: diurnal, or poisson without a fitted daily rate."""
        return ArrivalKind.POISSON if self.diurnal is None else ArrivalKind.DIURNAL

    def arrivals(self, kind: ArrivalKind, slot_s: float) -> Arrivals:
        """The process of a kind at the model's rate.

        Raises
        ------
        InvalidInputError : the model does not know enough for this kind
        """
        if kind is ArrivalKind.ALTERNATING:
            return alternating(self.arrivals_per_s, slot_s)
        process = self.diurnal if kind is ArrivalKind.DIURNAL else self.days
        if kind is ArrivalKind.POISSON:
            process = poisson(self.arrivals_per_s)
        if process is None:
            raise InvalidInputError(
                f"arrivals: {kind} needs a workload to be like, of a day or more with jobs; take poisson"
            )
        return process

    def draw(self, arrivals: Arrivals, jobs: int, streams: Streams, load_scale: float) -> pl.DataFrame:
        """Jobs in order of submission, with the columns that the model has."""
        columns = [factor.draw(jobs, streams) for factor in self.factors]
        frame = pl.concat(columns, how="horizontal")
        submit_s = arrivals.submit_s(jobs, streams, load_scale)
        duration_s = self._durations_s(streams, frame["num_gpus"].to_numpy())
        return frame.with_columns(
            job_id=pl.int_range(jobs, eager=True).cast(pl.String),
            trace_order=pl.int_range(jobs, dtype=pl.Int64, eager=True),
            submit_s=np.floor(submit_s) if self.whole_seconds else _microseconds(submit_s),
            duration_s=np.rint(duration_s) if self.whole_seconds else _microseconds(duration_s),
        )

    def _durations_s(self, streams: Streams, num_gpus: FloatArray) -> FloatArray:
        """(J,) the inverse of each size class's distribution."""
        uniform = streams.generator("synth-durations").random(len(num_gpus))
        durations_s = np.empty(len(num_gpus))
        starts = [members.from_gpus for members in self.run_times[1:]]
        size_class = np.searchsorted(starts, num_gpus, side="right")
        for index, members in enumerate(self.run_times):
            of_class = size_class == index
            log_s = np.interp(uniform[of_class], members.probabilities, np.log(members.quantiles_s))
            durations_s[of_class] = np.exp(log_s)
        return durations_s


def _microseconds(time_s: FloatArray) -> FloatArray:
    rounded: FloatArray = np.rint(time_s * 1e6) / 1e6
    return rounded
