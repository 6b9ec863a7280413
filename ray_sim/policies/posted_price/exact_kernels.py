"""Failure estimates by enumeration of all that may still happen to earlier jobs."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.policies.posted_price.failure_kernels import JobRows, PointRows, accumulate, add_load, tally


class Enumeration(NamedTuple):
    """Work space of `enumerated_failures` for n jobs."""

    slots: I64
    """(n,) jobs with load, by row."""
    chosen: I64
    """(n,) point of each job."""
    weight: F64
    """(n + 1,) probability of the points of the first jobs; the first element is 1."""
    load: I64
    """(W,) zeros, by round modulo W; holds all rounds asked for and all in which a job may run."""
    total: F64
    """(n,) prior probability of the remaining points of each job."""


@outlined
def enumerated_failures(
    jobs: JobRows,
    points: PointRows,
    work: Enumeration,
    birth: int,
    concurrency: int,
    capacity: int,
    failures: F64,
) -> None:
    """Write the probability that a job fails, by depth-first enumeration of the points of earlier jobs.

    O(product of the numbers of points) times O(rounds + D).
    """
    depth, deepest = 0, len(work.slots) - 1
    if deepest < 0:
        tally(work.load, birth, concurrency, capacity, 1.0, failures)
        depth = -1
    else:
        work.chosen[0] = jobs.low[work.slots[0]] - 1
    while depth >= 0:
        slot, point = work.slots[depth], work.chosen[depth]
        nodes = jobs.concurrency[slot]
        if point >= jobs.low[slot]:
            add_load(work.load, points, point, birth, -nodes)
        point += 1
        if point == jobs.high[slot]:
            depth -= 1
            continue
        work.chosen[depth] = point
        add_load(work.load, points, point, birth, nodes)
        work.weight[depth + 1] = work.weight[depth] * points.probability[point] / work.total[depth]
        if depth == deepest:
            tally(work.load, birth, concurrency, capacity, work.weight[depth + 1], failures)
        else:
            depth += 1
            work.chosen[depth] = jobs.low[work.slots[depth]] - 1
    accumulate(failures, 1.0)
