"""Rates of jobs whose speed on each GPU type was measured."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.core.job_rows import Rows

ON_ONE, SPREAD = range(2)
"""A gang on one server, and one over several."""


class MeasuredRates(NamedTuple):
    """Rates of J jobs on T GPU types, relative to where each is fastest."""

    of_server: I64
    """(S,) type of each server, -1 for none."""
    alone: F64
    """(J, T, 2) rate `ON_ONE` server and `SPREAD`; 0 where a job cannot run."""
    key: I64
    """(J,) row of `shared`, -1 for jobs that share no GPU."""
    shared: F64
    """(K, K, T) steps per second of the first of two jobs that share a GPU; 0 where they cannot."""
    per_step: F64
    """(J,) rate for a step per second."""
    partner: I64
    """(J,) job with which each shares its GPU now, -1 for none; changes along a run."""


@kernel
def _rate(rates: MeasuredRates, mixed: bool, job: int, rows: Rows, first: int, end: int) -> float:
    """Return the rate of a job that holds the rows from ``first`` to ``end``."""
    partner = rates.partner[job]
    if partner >= 0:
        kind = rates.of_server[rows.server[first]]
        return rates.shared[rates.key[job], rates.key[partner], kind] * rates.per_step[job]
    slowest, one = -1.0, True
    for row in range(first + 1, end):
        one = one and rows.server[row] == rows.server[first]
    held = rates.of_server[rows.server[first]]
    for row in range(first, end):
        kind = rates.of_server[rows.server[row]]
        if kind < 0 or (kind != held and not mixed):
            return 0.0
        rate = rates.alone[job, kind, ON_ONE if one else SPREAD]
        if slowest < 0.0 or rate < slowest:
            slowest = rate
    return slowest


@kernel
def measured_rates(rates: MeasuredRates, mixed: bool, jobs: I64, rows: Rows, found: F64) -> None:
    """Set ``found``, (n,), to the rates of jobs with these placements; 0 without any.

    ``mixed`` says whether a gang over several types runs, at the least of its rates; else its rate is 0.
    """
    for i in range(len(jobs)):
        found[i] = 0.0
        if rows.ptr[i + 1] > rows.ptr[i]:
            found[i] = _rate(rates, mixed, jobs[i], rows, rows.ptr[i], rows.ptr[i + 1])
