"""Distributions that synthetic jobs are drawn from, and their fit to a workload, with its goodness.

`ray-sim synth --like` fits. A demand is a combination of values of `KIND_COLUMNS`, a size a number of GPUs.
A change of the fit draws other jobs from the same seed: raise `VERSION` of `synth.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from workloads.schema import DEMAND_COLUMNS, SCHEMA
from workloads.synthetic.arrivals import (
    ArrivalKind,
    Arrivals,
    PeriodicPoisson,
    ResampledDays,
    alternating,
    fit_days,
    fit_diurnal,
    poisson,
)

KIND_COLUMNS: tuple[str, ...] = (*DEMAND_COLUMNS, "vc", "user")
"""Columns of a job's demand, its vc and user; a drawn job takes all of them from one job of the source.

Kinds are sorted by these columns, so the last one only divides a kind: it leaves the draws of the others.
"""

DRAWN = frozenset((*KIND_COLUMNS, "job_id", "trace_order", "submit_s", "duration_s"))
"""Columns of a workload drawn from a fitted model; the others are null."""

MIN_CLASS_JOBS = 100
"""Fewest jobs of a size with run times of its own.

A rarer size shares those of the next smaller common size, or of the smallest common one if it is below all of
them. If no size is common, all jobs share one class.
"""

_ALMOST_ZERO_S = 1e-7
"""Replaces a run time of 0, which has no logarithm; rounding to microseconds gives 0 again."""


@dataclass(frozen=True, slots=True)
class Factor:
    """Columns that are drawn together, and independently of all others."""

    purpose: str
    """Name of the random stream."""
    kinds: pl.DataFrame
    """(K) rows of columns of `SCHEMA`."""
    weights: IntArray
    """(K,) weight of each kind; only the shares matter."""
    within: str | None = None
    """Column whose value precedes each drawn text, as in ``vc-7``: no two of its values share a text."""

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
        frame = pl.concat(columns, how="horizontal").with_columns(
            pl.format("{}-{}", factor.within, name).alias(name)
            for factor in self.factors
            if factor.within is not None
            for name in factor.kinds.columns
        )
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


def fit(source: pl.DataFrame) -> JobModel:
    """Fit the distributions of a workload.

    Demands are those of the source's jobs: demand per task, tasks, vc and user of one job. A run time is
    drawn given the size, from the source's run times of that size class, log-linear between neighbours, and
    so not a copy of one of them. The rate is the source's mean.

    Parameters
    ----------
    source : columns of `SCHEMA`, with valid values; rows in any order

    Raises
    ------
    InvalidWorkloadError : fewer than two instants of submission, so that there is no rate
    """
    submit_s = source["submit_s"].sort().to_numpy()
    span_s = float(submit_s[-1] - submit_s[0])
    if span_s == 0:
        raise InvalidWorkloadError(
            f"every job (of {source.height:,}) is submitted at one instant, so there is no rate to draw"
            " arrivals at; take a workload that spans some time"
        )
    kinds = source.group_by(KIND_COLUMNS).len("jobs").sort(KIND_COLUMNS)
    times = source.select("submit_s", "duration_s").to_numpy()
    return JobModel(
        factors=(Factor("synth-sizes", kinds.drop("jobs"), kinds["jobs"].cast(pl.Int64).to_numpy()),),
        run_times=_run_times(source["num_gpus"].to_numpy(), source["duration_s"].to_numpy()),
        arrivals_per_s=(source.height - 1) / span_s,
        diurnal=fit_diurnal(submit_s),
        days=fit_days(submit_s),
        whole_seconds=bool((times == np.floor(times)).all()),
    )


def left_out(source: pl.DataFrame) -> list[str]:
    """Columns with values that jobs drawn from a fitted model do not have."""
    return [name for name in SCHEMA if name not in DRAWN and source[name].null_count() < source.height]


def ks_distances(source: pl.DataFrame, sample: pl.DataFrame, load_scale: float = 1.0) -> dict[str, float]:
    """Kolmogorov-Smirnov distances between two workloads, or one and jobs like it, in [0, 1].

    By column: the demands, the run times, and ``inter_arrival_s``, the gaps between submissions, those of the
    sample times ``load_scale``. Rows without a value do not count; columns without any are left out.
    """
    columns = (*DEMAND_COLUMNS, "duration_s")
    pairs = {name: (source[name].drop_nulls(), sample[name].drop_nulls()) for name in columns}
    distances = {
        name: _distance(of_source.to_numpy(), of_sample.to_numpy())
        for name, (of_source, of_sample) in pairs.items()
        if len(of_source) and len(of_sample)
    }
    if min(source.height, sample.height) > 1:
        distances["inter_arrival_s"] = _distance(_gaps_s(source), load_scale * _gaps_s(sample))
    return distances


def _distance(one: FloatArray, other: FloatArray) -> float:
    """Largest difference between the shares of two samples at or below a value."""
    at = np.concatenate([one, other])
    below = (np.searchsorted(np.sort(each), at, side="right") / len(each) for each in (one, other))
    return float(np.abs(np.subtract(*below)).max())


def chance_distance(jobs: int, others: int) -> float:
    """95 % quantile of the Kolmogorov-Smirnov distance between two samples of one continuous distribution.

    Source: Smirnov 1948, the limit law for large samples.
    """
    return float(np.sqrt(-np.log(0.05 / 2) / 2 * (1 / jobs + 1 / others)))


def ks_rows(distances: Mapping[str, float], by_chance: float) -> list[tuple[str, float]]:
    """Label and value of each line that shows `ks_distances` and the `chance_distance`."""
    rows = [(f"KS distance, {name}", distance) for name, distance in distances.items()]
    return [*rows, ("KS distance of chance, 95 %", by_chance)]


def _gaps_s(frame: pl.DataFrame) -> FloatArray:
    gaps_s: FloatArray = np.diff(frame["submit_s"].sort().to_numpy())
    return gaps_s


def _run_times(num_gpus: FloatArray, duration_s: FloatArray) -> tuple[RunTimes, ...]:
    """Run times by size class, see `MIN_CLASS_JOBS`."""
    sizes, counts = np.unique(num_gpus, return_counts=True)
    common = sizes[counts >= MIN_CLASS_JOBS]
    starts = common if len(common) else sizes[:1]
    size_class = np.searchsorted(starts[1:], num_gpus, side="right")
    by_class = np.argsort(size_class, kind="stable")
    ends = np.cumsum(np.bincount(size_class, minlength=len(starts)))
    classes = np.split(np.maximum(duration_s, _ALMOST_ZERO_S)[by_class], ends[:-1])
    return tuple(
        RunTimes(float(start), np.linspace(0.0, 1.0, len(members)), np.sort(members))
        for start, members in zip(starts, classes, strict=True)
    )
