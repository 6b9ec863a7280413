"""Count of the jobs that missed their deadline, for the figures of kinds of jobs."""

from __future__ import annotations

from ray_sim.model.figures import DeadlineMisses
from ray_sim.model.units import NEVER_US, BoolArray, IntArray


def count_misses(
    due_us: IntArray, end_us: IntArray, completed: BoolArray, horizon_us: int, counted: BoolArray | None
) -> DeadlineMisses:
    """Jobs that were not done when they were due.

    A job that has not ended at the horizon counts only if it was due by then.

    Parameters
    ----------
    due_us, end_us, completed : (J,); ``end_us`` is NEVER_US for jobs that are still there
    counted : (J,) jobs to look at, all if None
    """
    known = (end_us < NEVER_US) | (due_us <= horizon_us)
    if counted is not None:
        known = known & counted
    late = int((known & completed & (end_us > due_us)).sum())
    never = int((known & ~completed).sum())
    n = int(known.sum())
    return DeadlineMisses(late=late, never=never, share=(late + never) / n if n else None)
