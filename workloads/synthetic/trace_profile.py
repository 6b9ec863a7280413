"""Published statistics of a trace as a job model; the statistics of the Philly trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

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
class Profile:
    """The statistics of a trace."""

    name: str
    monday_utc: datetime
    """Local midnight of a Monday: submit_s 0."""
    arrivals_per_s: float
    """Mean over a week."""
    weekend_rate: float
    """Rate of a Saturday or Sunday over that of another day."""
    daily_amplitude: float
    """The rate within a day is 1 + amplitude x cos(2 pi (hour - peak) / 24); in [0, 1]."""
    daily_peak_h: float
    sizes: dict[int, int]
    """Jobs by number of GPUs; only the shares matter."""
    vcs: dict[str, int]
    """Jobs by virtual cluster; only the shares matter."""
    probabilities: tuple[float, ...]
    """Probabilities of the quantiles of all classes, rising from 0 to 1."""
    durations: tuple[DurationClass, ...]
    """Classes in order of `from_gpus`, the first 1."""

    def model(self) -> JobModel:
        """Size and VC of a job are independent, and its run time depends on its size; whole seconds."""
        gpus, of_gpus = _shares({float(size): jobs for size, jobs in self.sizes.items()})
        vcs, of_vcs = _shares(self.vcs)
        week_s = np.arange(0, WEEK_S + _STEP_S, _STEP_S)
        return JobModel(
            factors=(
                Factor("synth-sizes", gpus.to_frame("num_gpus"), of_gpus),
                Factor("synth-vcs", vcs.to_frame("vc"), of_vcs),
            ),
            run_times=tuple(
                RunTimes(members.from_gpus, np.array(self.probabilities), np.array(members.quantiles_s))
                for members in self.durations
            ),
            arrivals_per_s=self.arrivals_per_s,
            diurnal=PeriodicPoisson(
                self.arrivals_per_s, week_s.astype(np.float64), _week_integral(self, week_s)
            ),
            days=None,
            whole_seconds=True,
        )


def _shares(jobs: Mapping[float, int] | Mapping[str, int]) -> tuple[pl.Series, IntArray]:
    return pl.Series(list(jobs)), np.fromiter(jobs.values(), np.int64)


def _week_integral(profile: Profile, time_s: IntArray) -> FloatArray:
    """Share of a week's arrivals before each time, from 0 to 1; `time_s` ends at the week's end."""
    day = time_s // DAY_S
    day_share = np.where(np.arange(8) % 7 >= 5, profile.weekend_rate, 1.0)
    before = np.concatenate([[0.0], np.cumsum(day_share)])
    turn = 2 * math.pi / DAY_S
    peak_s = profile.daily_peak_h * 3600
    in_day_s = time_s - day * DAY_S
    wave = (np.sin(turn * (in_day_s - peak_s)) + math.sin(turn * peak_s)) / turn
    within = (in_day_s + profile.daily_amplitude * wave) / DAY_S
    integral: FloatArray = before[day] + day_share[day] * within
    integral /= integral[-1]
    return integral


PHILLY = Profile(
    name="philly",
    # Midnight of Monday 2017-10-30 in Los Angeles; summer time ends on the Sunday of that week.
    monday_utc=datetime(2017, 10, 30, 7, tzinfo=UTC),
    arrivals_per_s=109_532 / 11_178_853,
    weekend_rate=0.47,
    daily_amplitude=0.3,
    daily_peak_h=3.4,
    sizes={
        1: 95_462,
        2: 2_469,
        4: 5_227,
        6: 1,
        7: 2,
        8: 5_353,
        12: 12,
        16: 775,
        20: 1,
        24: 34,
        32: 194,
        48: 2,
    },
    vcs={
        "6214e9": 51_258,
        "11cb48": 19_048,
        "6c71a0": 14_783,
        "b436b2": 9_031,
        "ee9e8c": 5_452,
        "103959": 2_677,
        "0e4a51": 2_465,
        "7f04ca": 1_461,
        "ed69ec": 1_400,
        "2869ce": 956,
        "e13805": 938,
        "51b7ef": 63,
    },
    probabilities=(0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1),
    durations=(
        DurationClass(1, (1, 6, 30, 62, 122, 1_117, 2_716, 8_512, 135_404, 863_786, 3_256_045)),
        DurationClass(2, (2, 2, 5, 11, 16, 21, 76, 72_361, 526_030, 1_463_703, 2_582_803)),
        DurationClass(4, (3, 5, 36, 138, 772, 17_431, 89_422, 184_426, 906_798, 2_416_865, 2_750_674)),
        DurationClass(8, (1, 2, 33, 216, 1_881, 23_683, 173_288, 352_409, 1_066_894, 2_655_194, 4_628_226)),
        DurationClass(16, (1, 1, 4, 69, 608, 28_475, 110_052, 252_560, 891_298, 1_710_643, 1_710_643)),
    ),
)
"""Microsoft's Philly cluster, late 2017: https://github.com/msr-fiddle/philly-traces (CC-BY 4.0),
Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, ATC 2019.

Rate, sizes, VCs, and the shape of day and week (in US Pacific local time): the 109,532 jobs of 129
days that the PCS artifact (NSDI 2024) published. Run times: quantiles over the 82,247 jobs that the
Sia artifact (SOSP 2023) published, by number of GPUs. Size, VC and run time given size are drawn
independently, and the trace's bursts are not modelled.
"""
