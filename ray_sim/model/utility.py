"""Utility of a completion: the one definition for runs, bounds and plans.

See docs/engine.md, "Utility".
"""

from __future__ import annotations

import numpy as np

from ray_sim.model.errors import InvalidInputError, problems_text
from ray_sim.model.job import UtilityProfile
from ray_sim.model.units import US_PER_S, FloatArray, IntArray
from ray_sim.model.value_function import remaining_share

CLOCK_US = 1
"""Completions are rounded up to whole microseconds, so they may be this much later than computed."""


def utility(profile: UtilityProfile, jobs: IntArray, delay_s: FloatArray) -> FloatArray:
    """Utility of jobs at these delays after their arrival, max / (1 + exp(decay (d - due))).

    It never overflows; long after ``due`` it is 0.

    Parameters
    ----------
    jobs, delay_s : shapes that broadcast

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, 2021;
    docs/models/pd_ors.md#problem.
    """
    late = profile.utility_decay_per_s[jobs] * (delay_s - profile.utility_due_s[jobs])
    values: FloatArray = profile.utility_max[jobs] * remaining_share(late)
    return values


def arrival_slot(submit_us: IntArray, slot_us: int) -> IntArray:
    """First slot a that begins at or after the submission; slot t is from t to t + 1 slot lengths."""
    return -(-submit_us // slot_us)


def last_slot(end_us: IntArray, slot_us: int) -> IntArray:
    """Last slot t~ in which a job trained that ended at this time; the end at t + 1 is in slot t."""
    return -(-(end_us - CLOCK_US) // slot_us) - 1


def delay_s(end_us: IntArray, submit_us: IntArray, slot_us: int | None) -> FloatArray:
    """Delay that determines the utility of a completed job: slots from its arrival slot to its last slot.

    A job that completes before its arrival slot, under a policy that does not wait for slots, has no delay.
    Without slots, as in the limit of short ones, it is the time from submission to completion.
    """
    if slot_us is None:
        return (end_us - submit_us) / US_PER_S
    slots = np.maximum(last_slot(end_us, slot_us) - arrival_slot(submit_us, slot_us), 0)
    seconds: FloatArray = slots * (slot_us / US_PER_S)
    return seconds


def check_utility(profile: UtilityProfile) -> None:
    """Reject utilities that are negative, not numbers, or increase with time.

    Raises
    ------
    InvalidInputError : naming the columns and the first such row of each
    """
    problems = []
    for name in ("utility_max", "utility_decay_per_s", "utility_due_s"):
        values = getattr(profile, name)
        fine = np.isfinite(values) & (values >= 0)
        if not fine.all():
            row = int(np.argmin(fine))
            grows = "; a utility must not increase with time" if name == "utility_decay_per_s" else ""
            wrong = len(fine) - int(fine.sum())
            problems.append(
                f"{name}: row {row} must be at least 0, is {values[row]:g}{grows} ({wrong} such rows)"
            )
    if problems:
        raise InvalidInputError(problems_text("utilities", problems))
