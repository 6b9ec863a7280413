"""Start of each job with the largest value after costs, at given prices of rounds."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64


class StartChoices(NamedTuple):
    """Starts from which n jobs choose."""

    first: I64
    """(n,) first start."""
    last: I64
    """(n,) last start, >= ``first``."""
    duration: I64
    concurrency: I64
    birth: I64
    value_row: I64
    """(n,) row of ``values``."""
    values: F64
    """(V, S + 1) value of a finish k rounds after the birth, non-increasing in k."""


@kernel
def total_surplus(choices: StartChoices, price_before: F64, load_change: F64) -> float:
    """Sum over jobs of the largest value less cost, or 0 if none is above 0.

    The cost of a start is the price of the rounds that it holds, times the nodes. A scan ends at the first
    value that is no larger than the best surplus so far: values never rise and prices are not negative.
    Ties go to the earliest start. Complexity: O(starts), and O(1) for a job whose first start costs
    nothing.

    Parameters
    ----------
    price_before : (T + 1,) total price of a node in the rounds before each round, non-decreasing
    load_change : (T + 1,) changed in place: nodes that chosen starts begin to hold in each round are added,
        and nodes that they release are subtracted
    """
    total = 0.0
    for job in range(len(choices.first)):
        row, after = choices.value_row[job], choices.duration[job] - choices.birth[job]
        best, chosen = 0.0, -1
        for start in range(choices.first[job], choices.last[job] + 1):
            value = choices.values[row, start + after]
            if value <= best:
                break
            paid = price_before[start + choices.duration[job]] - price_before[start]
            surplus = value - choices.concurrency[job] * paid
            if surplus > best:
                best, chosen = surplus, start
        if chosen >= 0:
            total += best
            load_change[chosen] += choices.concurrency[job]
            load_change[chosen + choices.duration[job]] -= choices.concurrency[job]
    return total
