"""Figures of chunked jobs."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.figures.base import KindFigures


@dataclass(frozen=True, slots=True)
class DeadlineMisses:
    """Jobs that missed their deadline."""

    late: int
    """Completed after the deadline."""
    never: int
    """Rejected, evicted or unfinished."""
    share: float | None
    """`late` + `never` over the jobs whose outcome is known at the horizon; null where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedFigures(KindFigures):
    """Time without a parameter server, rounding up to whole slots, preemptions and deadlines."""

    stalled_s: float
    """Total time in which jobs had a worker but no parameter server and made no progress."""
    ceil_share: float | None = None
    """Share of the training time of completed chunks that is due to rounding up to whole slots; null where no
    chunk took any time."""
    upload_ceil_share: float | None = None
    """Share of the upload time of all dispatched chunks that is due to rounding up; null as `ceil_share`."""
    preemption_cost_s: float
    """Total worker time that preemptions of chunks cost."""
    deadlines: DeadlineMisses | None = None
    """Null where jobs have no deadlines."""
