"""Published statistics of a trace as a job model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray, IntArray
from workloads.synthetic.arrivals import DAY_S, WEEK_S, PeriodicPoisson
from workloads.synthetic.job_model import Factor, JobModel, RunTimes

_STEP_S = 60
"""The arrival rate's integral is exact at each minute and linear in between."""


@dataclass(frozen=True, slots=True)
class DurationClass:
    """Run times of the jobs with at least `from_gpus` GPUs (and less than the next class)."""

    from_gpus: int
    quantiles_s: tuple[float, ...]
    """At the profile's probabilities, rising, > 0; log-linear in between."""


@dataclass(frozen=True, slots=True)
class WeekShape:
    """How the arrival rate varies over the week."""

    weekend_rate: float
    """Rate of a Saturday or Sunday over that of another day."""
    daily_amplitude: float
    """The rate within a day is 1 + amplitude x cos(2 pi (hour - peak) / 24); in [0, 1]."""
    daily_peak_h: float

    def arrivals(self, arrivals_per_s: float) -> PeriodicPoisson:
        """Arrivals of this shape and mean rate, from Monday 0:00 on."""
        week_s = np.arange(0, WEEK_S + _STEP_S, _STEP_S)
        return PeriodicPoisson(arrivals_per_s, week_s.astype(np.float64), self._integral(week_s))

    def _integral(self, time_s: IntArray) -> FloatArray:
        """Share of a week's arrivals before each time, from 0 to 1; `time_s` ends at the week's end."""
        day = time_s // DAY_S
        day_share = np.where(np.arange(8) % 7 >= 5, self.weekend_rate, 1.0)
        before = np.concatenate([[0.0], np.cumsum(day_share)])
        turn = 2 * math.pi / DAY_S
        peak_s = self.daily_peak_h * 3600
        in_day_s = time_s - day * DAY_S
        wave = (np.sin(turn * (in_day_s - peak_s)) + math.sin(turn * peak_s)) / turn
        within = (in_day_s + self.daily_amplitude * wave) / DAY_S
        integral: FloatArray = before[day] + day_share[day] * within
        integral /= integral[-1]
        return integral


@dataclass(frozen=True, slots=True)
class Profile:
    """The statistics of a trace."""

    name: str
    monday_utc: datetime
    """Local midnight of a Monday: submit_s 0."""
    arrivals_per_s: float
    """Mean over a week."""
    week: WeekShape | None
    """None where the rate by hour and day is unknown; arrivals are then Poisson at a constant rate."""
    sizes: dict[int, int]
    """Jobs by number of GPUs; only the shares matter."""
    vcs: dict[str, int] | None
    """Jobs by virtual cluster; only the shares matter. None where the trace has no virtual clusters."""
    probabilities: tuple[float, ...]
    """Probabilities of the quantiles of all classes, rising from 0 to 1."""
    durations: tuple[DurationClass, ...]
    """Classes in order of `from_gpus`, the first 1."""

    def model(self) -> JobModel:
        """Size and VC of a job are independent, and its run time depends on its size; whole seconds."""
        gpus, of_gpus = _shares({float(size): jobs for size, jobs in self.sizes.items()})
        factors = [Factor("synth-sizes", gpus.to_frame("num_gpus"), of_gpus)]
        if self.vcs is not None:
            vcs, of_vcs = _shares(self.vcs)
            factors.append(Factor("synth-vcs", vcs.to_frame("vc"), of_vcs))
        return JobModel(
            factors=tuple(factors),
            run_times=tuple(
                RunTimes(members.from_gpus, np.array(self.probabilities), np.array(members.quantiles_s))
                for members in self.durations
            ),
            arrivals_per_s=self.arrivals_per_s,
            diurnal=None if self.week is None else self.week.arrivals(self.arrivals_per_s),
            days=None,
            whole_seconds=True,
        )


def _shares(jobs: Mapping[float, int] | Mapping[str, int]) -> tuple[pl.Series, IntArray]:
    return pl.Series(list(jobs)), np.fromiter(jobs.values(), np.int64)
