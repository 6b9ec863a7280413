"""Synthetic workloads: as many jobs as wanted, from the published statistics of a real trace."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import MAX_TIME_S, FloatArray, IntArray
from workloads.profile import DAY_S, PHILLY, WEEK_S, Profile
from workloads.provenance import Counts, Provenance
from workloads.schema import with_all_columns

PROFILES: dict[str, Profile] = {PHILLY.name: PHILLY}
"""Every profile by its name."""

VERSION = "1"
"""Changes when the same arguments draw other jobs."""

_STEP_S = 60
"""The arrival rate's integral is exact at each minute and linear in between."""


def synth(profile: str, jobs: int, seed: int, load_scale: float = 1.0) -> tuple[pl.DataFrame, Provenance]:
    """Draw a workload with the columns of `SCHEMA`, and its provenance.

    Times are whole seconds; submit_s 0 is local midnight of a Monday. Arrivals, sizes, VCs and run
    times come from streams of their own: another ``load_scale`` moves the arrivals and nothing else,
    and more jobs begin with the same jobs.

    Parameters
    ----------
    profile : one of `PROFILES`
    jobs : >= 1
    seed : >= 0
    load_scale : > 0, factor on the arrival rate; 1 is the trace's own

    Raises
    ------
    UnknownNameError : no such profile
    InvalidInputError : a number out of range
    """
    if profile not in PROFILES:
        raise UnknownNameError("workload profile", profile, PROFILES)
    if jobs < 1:
        raise InvalidInputError(f"jobs: must be at least 1, is {jobs}")
    if seed < 0:
        raise InvalidInputError(f"seed: must be at least 0, is {seed}")
    if not (math.isfinite(load_scale) and load_scale > 0):
        raise InvalidInputError(f"load_scale: must be a number above 0, is {load_scale}")
    statistics, streams = PROFILES[profile], Streams(seed)
    rate = statistics.arrivals_per_s * load_scale
    if jobs / rate > MAX_TIME_S / 2:
        raise InvalidInputError(f"load_scale: {load_scale} spreads {jobs} jobs over too long a time")
    num_gpus = _sizes(statistics, streams, jobs)
    frame = pl.DataFrame(
        {
            "job_id": pl.int_range(jobs, eager=True).cast(pl.String),
            "trace_order": pl.int_range(jobs, dtype=pl.Int64, eager=True),
            "submit_s": _arrivals_s(statistics, rate, streams, jobs),
            "vc": _vcs(statistics, streams, jobs),
            "num_gpus": num_gpus.astype(np.float64),
            "duration_s": _durations_s(statistics, streams, num_gpus),
        }
    )
    provenance = Provenance(
        converter="synth",
        converter_version=VERSION,
        options={"profile": profile, "jobs": jobs, "load_scale": load_scale},
        seed=seed,
        counts=Counts(read=jobs, kept=jobs),
        notes={"epoch_utc": statistics.monday_utc.isoformat()},
    )
    return with_all_columns(frame), provenance


def _arrivals_s(profile: Profile, rate: float, streams: Streams, jobs: int) -> FloatArray:
    """Whole seconds of a Poisson process whose rate repeats every week, shape (J,), non-decreasing.

    Unit-rate arrivals are mapped through the inverse of the integrated rate.
    """
    expected = np.cumsum(streams.generator("synth-arrivals").standard_exponential(jobs))
    weeks, rest = np.divmod(expected, rate * WEEK_S)
    grid_s = np.arange(0, WEEK_S + _STEP_S, _STEP_S)
    within_s = np.interp(rest / (rate * WEEK_S), _week_integral(profile, grid_s), grid_s)
    return np.floor(weeks * WEEK_S + within_s)


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


def _sizes(profile: Profile, streams: Streams, jobs: int) -> IntArray:
    """GPUs of each job, shape (J,)."""
    chosen = _categories(profile.sizes.values(), streams.generator("synth-sizes").random(jobs))
    return np.array(list(profile.sizes), np.int64)[chosen]


def _vcs(profile: Profile, streams: Streams, jobs: int) -> pl.Series:
    """Virtual cluster of each job."""
    chosen = _categories(profile.vcs.values(), streams.generator("synth-vcs").random(jobs))
    return pl.Series(list(profile.vcs)).gather(chosen)


def _categories(weights: Collection[int], uniform: FloatArray) -> IntArray:
    """Index of a category for each uniform number, with probabilities in proportion to the weights."""
    upper = np.cumsum(np.fromiter(weights, np.int64))
    chosen: IntArray = np.searchsorted(upper, np.floor(uniform * upper[-1]), side="right")
    return chosen


def _durations_s(profile: Profile, streams: Streams, num_gpus: IntArray) -> FloatArray:
    """Run time of each job, shape (J,): the inverse of its size class's distribution; whole, >= 1."""
    uniform = streams.generator("synth-durations").random(len(num_gpus))
    durations_s = np.empty(len(num_gpus))
    size_class = np.searchsorted([c.from_gpus for c in profile.durations], num_gpus, side="right") - 1
    for index, members in enumerate(profile.durations):
        of_class = size_class == index
        log_s = np.interp(uniform[of_class], profile.probabilities, np.log(members.quantiles_s))
        durations_s[of_class] = np.exp(log_s)
    return np.maximum(1.0, np.rint(durations_s))
