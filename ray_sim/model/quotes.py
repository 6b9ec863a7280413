"""Prices that announced jobs were offered at their births, and reasons why they were not launched.

A policy with prices returns `Quotes`; `engine/kinds/announced/outcome.py` writes them to jobs.parquet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import FloatArray, IntArray


class Refusal(IntEnum):
    """Reason why a plan has no start for an arrival and signal."""

    NONE = 0
    """It has a start."""
    PRICE = 1
    """No open start is worth its price."""
    SOLD_OUT = 2
    """All starts that are worth something and may end by the horizon are sold out."""
    HORIZON = 3
    """All starts that are worth something end after the horizon."""
    UNREPORTED = 4
    """The arrival or the signal was not reported."""
    WORTHLESS = 5
    """It is worth nothing even at its earliest end."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """Best start at the birth of J jobs for the arrival and signal that come true, (J,) each.

    Price, value and failure are means over the durations that the job reported for them.
    """

    submitted: int
    """Jobs from this one on had not been submitted when the run ended."""
    refusal: IntArray
    """`Refusal`."""
    start: IntArray
    """Round of the highest expected utility, also where it is refused; `NEVER_ROUND` where none is open."""
    price: FloatArray
    """Units, of all nodes and rounds."""
    value: FloatArray
    """Units, by the report."""
    failure: FloatArray
    """Estimated probability of failure, as the plan used it."""
    utility: FloatArray
    """Expected utility of the whole plan, over all arrivals and signals, in units."""

    @classmethod
    def none(cls, jobs: int) -> Quotes:
        """No quotes: the policy has no prices."""
        zeros = np.zeros(jobs)
        refusal, start = np.zeros(jobs, dtype=np.int64), np.full(jobs, NEVER_ROUND)
        return cls(0, refusal, start, zeros, zeros, zeros, zeros)
