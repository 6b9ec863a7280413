"""Check whether rounds are short enough for announced jobs to earn something."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.kinds.announced.rounds import RoundedJobs
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, FloatArray, us_to_seconds

MOST_LOST = 0.5
"""Share of the jobs that could earn something from which on a loss to rounding is a warning."""


def slot_warnings(
    jobs: RoundedJobs, table: JobTable, profile: StatementProfile, slot_us: int, horizon_us: int | None
) -> tuple[str, ...]:
    """Warn if at least `MOST_LOST` of the jobs could earn something, but cannot in whole rounds.

    A job can earn something if it is worth anything at its earliest end by its outlook and by what comes,
    were it alone, and ends by the horizon.

    Parameters
    ----------
    jobs : rounded to slots of ``slot_us`` microseconds
    table, profile : the same jobs, not rounded
    horizon_us : end of the run, None if it has none
    """
    end_us = NEVER_US if horizon_us is None else horizon_us
    vain = np.flatnonzero(~_earns_in_rounds(jobs, slot_us, end_us))
    if len(vain) < MOST_LOST * len(table):
        return ()
    lost = int(_could_earn(table, profile, end_us)[vain].sum())
    able = lost + len(table) - len(vain)
    if not lost or lost < MOST_LOST * able:
        return ()
    half_s = max(1.0, float(np.median(us_to_seconds(table.work_us))))
    return (
        f"rounds of {slot_us / US_PER_S:g} s (slot_s) are too long for {lost:,} of the {able:,} jobs that "
        "could earn something: arrivals and run times are rounded up, so they cannot end by the horizon "
        f"while they are worth anything. Half of the jobs run for at most {half_s:g} s: try -w "
        f"slot_s={_short(half_s)}",
    )


def _short(seconds: float) -> str:
    """A tenth, at least a second, with one significant digit."""
    return f"{float(f'{max(1.0, seconds / 10):.1g}'):g}"


def _earns_in_rounds(jobs: RoundedJobs, slot_us: int, end_us: int) -> BoolArray:
    """(J,) whether each job is worth anything at its earliest end."""
    true = jobs.true
    if not len(true):
        return np.zeros(0, dtype=np.bool_)
    points = true.outlooks
    expected = np.minimum.reduceat(points.arrival + points.duration, points.ptr[:-1])[true.outlook_row]
    after = np.minimum(expected, jobs.arrival - true.birth + jobs.duration)
    worth = true.values[true.value_row, np.minimum(after, true.values.shape[1] - 1)]
    earns: BoolArray = (worth > 0) & (true.birth + after <= end_us // slot_us)
    return earns


def _could_earn(table: JobTable, profile: StatementProfile, end_us: int) -> BoolArray:
    """(J,) the same without rounds."""
    first_s = np.array([np.min(each.arrival_after_s + each.duration_s) for each in profile.outlooks])
    came_s = us_to_seconds(profile.arrival_us - profile.birth_us + table.work_us)
    after_s: FloatArray = np.minimum(first_s[profile.outlook_row], came_s)
    in_time = us_to_seconds(profile.birth_us) + after_s <= end_us / US_PER_S
    worth = [profile.values[row].at(after_s[job]) for job, row in enumerate(profile.value_row.tolist())]
    earns: BoolArray = in_time & (np.array(worth) > 0)
    return earns
