"""Look up plans of jobs that come or complete; O(points of a job) each."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64
from ray_sim.policies.posted_price.planner_kernels import Launch, PlannedJob


class PlannedPoints(NamedTuple):
    """Reports of J jobs and their plans. Point k of job j is ``ptr[j] + k``, and ``of_row[row[j]] + k``."""

    birth: I64
    """(J,) rounds."""
    row: I64
    """(J,) distribution of each job."""
    of_row: I64
    """(O + 1,) first point of each distribution."""
    arrival: I64
    """(n,) rounds after the birth, by point of a distribution, as the next two."""
    duration: I64
    signal: I64
    ptr: I64
    """(J + 1,) first point of each job."""
    start: I64
    """By point of a job, as the next: absolute round, `NEVER_ROUND` where it is not launched."""
    price: I64
    """Nano."""


@kernel
def find_starts(
    points: PlannedPoints, jobs: I64, now: int, signals: I64, never: int, start: I64, until: I64
) -> None:
    """Look up starts of jobs, (k,), that come now with these signals.

    ``start``, (J,), gets the start of each, ``never`` if it has none; ``until``, (J,), the round in which the
    longest duration ends that it reported for this arrival and signal.
    """
    for i in range(len(jobs)):
        job = jobs[i]
        start[job] = never
        until[job] = 0
        first = points.of_row[points.row[job]]
        for k in range(points.of_row[points.row[job] + 1] - first):
            here = points.arrival[first + k] == now - points.birth[job]
            if here and points.signal[first + k] == signals[i] and points.start[points.ptr[job] + k] != never:
                start[job] = points.start[points.ptr[job] + k]
                until[job] = max(until[job], start[job] + points.duration[first + k])


@kernel
def find_prices(
    points: PlannedPoints, jobs: I64, now: int, arrival: I64, signal: I64, start: I64, price: I64
) -> None:
    """Look up prices of jobs, (k,), that complete now; -1 where the job did not report this duration.

    Parameters
    ----------
    arrival, signal, start : (J,) as they came and started
    price : (k,) nano, written
    """
    for i in range(len(jobs)):
        job = jobs[i]
        price[i] = -1
        first = points.of_row[points.row[job]]
        for k in range(points.of_row[points.row[job] + 1] - first):
            here = points.arrival[first + k] == arrival[job] - points.birth[job]
            same_signal = points.signal[first + k] == signal[job]
            if here and same_signal and points.duration[first + k] == now - start[job]:
                price[i] = points.price[points.ptr[job] + k]


@kernel
def value_plan(job: PlannedJob, made: Launch, horizon: int) -> tuple[float, bool]:
    """Return the expected value of a plan in nano, and whether it pays more than the value of a point."""
    worth, below = 0.0, False
    for k in range(len(made.start)):
        if made.start[k] <= horizon - job.duration[k]:
            delay = made.start[k] + job.duration[k] - job.birth
            value = job.values[delay] if delay < len(job.values) else 0
            worth += job.probability[k] * value
            below = below or value < made.price[k]
    return worth, below
