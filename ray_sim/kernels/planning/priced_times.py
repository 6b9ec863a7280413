"""Least cost of jobs that buy time at prices: the dual value behind the bound B4 on the mean JCT.

docs/certificates.md#b4 has the programme and the proof.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.core.heap import push, remove

_HALVINGS = 40
"""Steps of the search for the level of a job; any level gives a valid bound."""


class PricedPieces(NamedTuple):
    """Prices on K pieces of time that follow each other, linear in each; free before and after them."""

    edge: F64
    """(K + 1,) ends of the pieces, increasing."""
    left: F64
    """(K, R) prices at the beginning of each piece, >= 0, per unit of time on the squashed machine."""
    right: F64
    """(K, R) prices at its end, >= 0."""


@kernel
def priced_flows(release: F64, busy: F64, size: F64, pieces: PricedPieces, work: F64, flow: F64) -> None:
    """Set ``flow``, (J,), to the least average of (time since release + payment) over the work of each job.

    A job does at most 1 / busy of its work per unit of time and pays size x price for a unit of work. So it
    works while its cost per unit, time + size . price, is below a level that gives it ``busy`` time units:
    the minimum is level - (integral of the level's excess over the cost) / busy. The search finds the level
    up to rounding; by duality every level gives a lower bound. O(J K (R + `_HALVINGS`)).

    Parameters
    ----------
    release : (J,) in [edge[0], edge[-1]]
    busy : (J,) > 0
    size : (J, R) >= 0
    work : (3, K) work space
    """
    count = len(pieces.edge) - 1
    span, low_cost, high_cost = work[0], work[1], work[2]
    end = pieces.edge[count]
    for job in range(len(release)):
        first, begin, busy_time = 0, release[job], busy[job]
        while first < count and pieces.edge[first + 1] <= begin:
            first += 1
        low, high = end - begin, end - begin + busy_time
        for k in range(first, count):
            since, until = max(pieces.edge[k], begin), pieces.edge[k + 1]
            whole = until - pieces.edge[k]
            skipped = (since - pieces.edge[k]) / whole
            at_left, at_right = since - begin, until - begin
            for r in range(size.shape[1]):
                left, right = pieces.left[k, r], pieces.right[k, r]
                at_left += size[job, r] * (left + skipped * (right - left))
                at_right += size[job, r] * right
            span[k] = until - since
            low_cost[k], high_cost[k] = min(at_left, at_right), max(at_left, at_right)
            low = min(low, low_cost[k])
        # At `high` the time after the last piece alone is enough.
        for _ in range(_HALVINGS):
            level = 0.5 * (low + high)
            bought = max(0.0, level - (end - begin))
            for k in range(first, count):
                if level >= high_cost[k]:
                    bought += span[k]
                elif level > low_cost[k]:
                    bought += span[k] * (level - low_cost[k]) / (high_cost[k] - low_cost[k])
            if bought < busy_time:
                low = level
            else:
                high = level
        level = low
        excess = 0.5 * max(0.0, level - (end - begin)) ** 2
        for k in range(first, count):
            if level >= high_cost[k]:
                excess += span[k] * (level - 0.5 * (low_cost[k] + high_cost[k]))
            elif level > low_cost[k]:
                excess += 0.5 * span[k] * (level - low_cost[k]) ** 2 / (high_cost[k] - low_cost[k])
        flow[job] = level - excess / busy_time


class Segments(NamedTuple):
    """Times in which one machine serves one job, in order; 3 J of them are enough."""

    job: I64
    """-1 where it serves none for no time."""
    begin: F64
    end: F64
    left: F64
    """Price at the beginning, see `smallest_first_prices`."""
    right: F64
    """Price at the end."""


@kernel
def smallest_first_prices(
    release: F64, size: F64, rank: I64, left: F64, heap: I64, position: I64, segments: Segments
) -> int:
    """Serve the smallest released job at all times, and price the machine; returns the number of segments.

    The schedule minimises the sum of mean busy times (Goemans et al. 2002). Its optimal prices: while a job
    is served, its cost, time + size x price, is constant, its level. The level follows from the price at
    which the next job begins when this one ends, 0 if the machine is then idle. So segments are priced from
    the last to the first. O(J log J).

    Parameters
    ----------
    release : (J,) non-decreasing
    size : (J,) > 0
    rank : (J,) place of each job by size
    left : (J,) copy of the sizes; overwritten, with the levels of the jobs at last
    heap, position : (J,) work space
    """
    arrived, waiting, count, now = 0, 0, 0, 0.0
    while arrived < len(release) or waiting > 0:
        if waiting == 0:
            now = max(now, release[arrived])
        while arrived < len(release) and release[arrived] <= now:
            waiting = push(heap, 0, waiting, position, rank, arrived)
            arrived += 1
        job = heap[0]
        until = now + left[job]
        ends = arrived == len(release) or until <= release[arrived]
        if not ends:
            until = release[arrived]
        segments.job[count], segments.begin[count], segments.end[count] = job, now, until
        segments.right[count] = 1.0 if ends else 0.0
        count += 1
        left[job] -= until - now
        now = until
        if ends:
            waiting = remove(heap, 0, waiting, position, rank, job)
            if arrived < len(release) and release[arrived] <= now:
                # The price just before a release follows from who is there without it.
                segments.job[count] = heap[0] if waiting > 0 else -1
                segments.begin[count], segments.end[count], segments.right[count] = now, now, 0.0
                count += 1
    for i in range(count - 1, -1, -1):
        job, end = segments.job[i], segments.end[i]
        if job < 0:
            segments.left[i] = 0.0
            continue
        if segments.right[i] == 1.0:
            busy = i + 1 < count and segments.begin[i + 1] <= end
            left[job] = end + (size[job] * segments.left[i + 1] if busy else 0.0)
        segments.left[i] = max(0.0, (left[job] - segments.begin[i]) / size[job])
        segments.right[i] = max(0.0, (left[job] - end) / size[job])
    return count
