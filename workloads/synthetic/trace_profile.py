"""Published statistics of traces as job models: Microsoft's Philly cluster, and Google's of May 2011.

`synth.py` draws the workloads of `ray-sim synth PROFILE` from them.
"""

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

USERS_PER_VC = 25
"""Users of each virtual cluster: 300 over Philly's twelve.

Our choice, as the files that the profile is measured on name no users. With so many, the most active has a
quarter of the jobs of a virtual cluster, and the least active 1 %.
"""

ZIPF_EXPONENT = 1.0
"""The k-th most active user of a virtual cluster has a share of its jobs proportional to k^-exponent.

Zipf's law. The most active of the 933 users of Google's trace of 2011 submits 14.6 % of the jobs; exponent 1
gives 13.5 %.
"""

_STEP_S = 60
"""The arrival rate's integral is exact at each minute and linear in between."""


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
    durations: dict[int, tuple[float, ...]]
    """Quantiles of run times, rising, > 0, by the fewest GPUs of a class; classes rising, the first 1."""

    def model(self) -> JobModel:
        """Size, VC and user's rank in the VC are independent; run times depend on sizes; whole seconds."""
        gpus, of_gpus = _shares({float(size): jobs for size, jobs in self.sizes.items()})
        factors = [Factor("synth-sizes", gpus.to_frame("num_gpus"), of_gpus)]
        if self.vcs is not None:
            vcs, of_vcs = _shares(self.vcs)
            factors.append(Factor("synth-vcs", vcs.to_frame("vc"), of_vcs))
            factors.append(_users("vc"))
        return JobModel(
            factors=tuple(factors),
            run_times=tuple(
                RunTimes(from_gpus, np.array(self.probabilities), np.array(quantiles_s))
                for from_gpus, quantiles_s in self.durations.items()
            ),
            arrivals_per_s=self.arrivals_per_s,
            diurnal=None if self.week is None else self.week.arrivals(self.arrivals_per_s),
            days=None,
            whole_seconds=True,
        )


def _shares(jobs: Mapping[float, int] | Mapping[str, int]) -> tuple[pl.Series, IntArray]:
    return pl.Series(list(jobs)), np.fromiter(jobs.values(), np.int64)


def _users(vc: str) -> Factor:
    """Users by their rank in the virtual cluster, see `ZIPF_EXPONENT`."""
    rank = np.arange(1, USERS_PER_VC + 1)
    weights = np.rint(1e9 * rank**-ZIPF_EXPONENT).astype(np.int64)
    return Factor("synth-users", pl.DataFrame({"user": rank}), weights, within=vc)


_PHILLY_SIZES = {
    1: 95_462, 2: 2_469, 4: 5_227, 6: 1, 7: 2, 8: 5_353, 12: 12, 16: 775, 20: 1, 24: 34, 32: 194, 48: 2,
}  # fmt: skip
_PHILLY_VCS = {
    "6214e9": 51_258, "11cb48": 19_048, "6c71a0": 14_783, "b436b2": 9_031, "ee9e8c": 5_452, "103959": 2_677,
    "0e4a51": 2_465, "7f04ca": 1_461, "ed69ec": 1_400, "2869ce": 956, "e13805": 938, "51b7ef": 63,
}  # fmt: skip
"""Jobs by GPUs, and by virtual cluster."""

PHILLY = Profile(
    name="philly",
    # Midnight of Monday 2017-10-30 in Los Angeles; summer time ends on the Sunday of that week.
    monday_utc=datetime(2017, 10, 30, 7, tzinfo=UTC),
    arrivals_per_s=109_532 / 11_178_853,
    week=WeekShape(weekend_rate=0.47, daily_amplitude=0.3, daily_peak_h=3.4),
    sizes=_PHILLY_SIZES,
    vcs=_PHILLY_VCS,
    probabilities=(0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1),
    durations={
        1: (1, 6, 30, 62, 122, 1_117, 2_716, 8_512, 135_404, 863_786, 3_256_045),
        2: (2, 2, 5, 11, 16, 21, 76, 72_361, 526_030, 1_463_703, 2_582_803),
        4: (3, 5, 36, 138, 772, 17_431, 89_422, 184_426, 906_798, 2_416_865, 2_750_674),
        8: (1, 2, 33, 216, 1_881, 23_683, 173_288, 352_409, 1_066_894, 2_655_194, 4_628_226),
        16: (1, 1, 4, 69, 608, 28_475, 110_052, 252_560, 891_298, 1_710_643, 1_710_643),
    },
)
"""Microsoft's Philly cluster, late 2017: https://github.com/msr-fiddle/philly-traces (CC-BY 4.0),
Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, ATC 2019.

Rate, sizes, VCs, and the shape of day and week (in US Pacific local time): the 109,532 jobs of 129
days that the PCS artifact (NSDI 2024) published. Run times: quantiles over the 82,247 jobs that the
Sia artifact (SOSP 2023) published, by number of GPUs. Size, VC and run time given size are drawn
independently, and the trace's bursts are not modelled.
"""


MOST_TASKS = 64
"""Jobs of more tasks are left out."""

_SUBMITTED = 914
"""Jobs that the window of the sizes submits, of any number of tasks."""

_SIZES = {
    1: 745, 2: 24, 3: 4, 4: 2, 5: 3, 7: 4, 9: 9, 10: 3, 11: 11, 12: 1, 13: 1, 14: 8, 16: 3, 18: 2, 20: 2,
    26: 1, 28: 1, 29: 1, 30: 1, 31: 4, 32: 2, 38: 6, 40: 2, 45: 1, 46: 1, 50: 14, 60: 2,
}  # fmt: skip
"""The 858 jobs of at most `MOST_TASKS` tasks."""

_GAP_S = 3.750
"""Mean time between submissions of jobs of any number of tasks."""

GOOGLE = Profile(
    name="google",
    # Midnight of Monday 2011-05-02 in New York; the trace begins on the evening before, at 19:00.
    monday_utc=datetime(2011, 5, 2, 4, tzinfo=UTC),
    arrivals_per_s=sum(_SIZES.values()) / _SUBMITTED / _GAP_S,
    week=None,
    sizes=_SIZES,
    vcs=None,
    probabilities=(0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1),
    durations={1: (1, 15.7, 26.4, 62.0, 176.5, 444.9, 1_698.6, 43_871, 931_616, 2_491_521)},
)
"""ClusterData2011-2, J. Wilkes and C. Reiss: https://github.com/google/cluster-data (CC-BY 4.0).

A task counts as a GPU. Sizes: the jobs that part 0 of the task events submits after time 0, 83 minutes.
Rate and run times: all 500 parts of the job events, 29 days; the rate is that of the jobs of at most
`MOST_TASKS` tasks, whose share is that of part 0. A run time is from a job's first start to its last end,
over the 668,085 jobs with an end; shorter ones than a second count as one. Run times are drawn independently
of sizes, the rate is constant, and jobs come without bursts. docs/traces/google-2011.md says what that
leaves out, and how the numbers are measured.
"""
