"""Upper bounds on failure estimates, from the distribution of the load of each round."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.policies.posted_price.failure_kernels import JobRows, PointRows


class LoadLaws(NamedTuple):
    """Distribution of the load of each round from the current one on."""

    mass: F64
    """(W, C + 2) probability of each load by round modulo W, a power of two; the last column is for > C."""
    known: I64
    """(W,) 1 where ``mass`` is that of all active jobs, else 0."""


@kernel
def _running(jobs: JobRows, points: PointRows, slot: int, round_: int) -> float:
    """Return the probability that a job runs in a round if nothing evicts it."""
    total, running = 0.0, 0.0
    for point in range(jobs.low[slot], jobs.high[slot]):
        total += points.probability[point]
        start = points.start[point]
        if start <= round_ and round_ < start + points.duration[point]:
            running += points.probability[point]
    return running / total if total > 0 else 0.0


@kernel
def _convolve(mass: F64, nodes: int, probability: float) -> None:
    """Add an independent load of ``nodes`` with this probability, from the largest load down; O(C)."""
    over = len(mass) - 1
    for k in range(max(over - nodes, 0), over):
        mass[over] += probability * mass[k]
    for k in range(over - 1, -1, -1):
        mass[k] *= 1.0 - probability
        if k >= nodes:
            mass[k] += probability * mass[k - nodes]


@outlined
def add_law(jobs: JobRows, points: PointRows, laws: LoadLaws, slot: int, since: int, until: int) -> None:
    """Add a job to the distributions that are known, in rounds ``since`` to ``until`` - 1."""
    for round_ in range(since, until):
        at = round_ & (len(laws.known) - 1)
        probability = _running(jobs, points, slot, round_)
        if laws.known[at] == 1 and probability > 0:
            _convolve(laws.mass[at], jobs.concurrency[slot], probability)


@outlined
def forget_laws(jobs: JobRows, points: PointRows, laws: LoadLaws, slots: I64, since: int) -> None:
    """Mark as unknown all rounds from ``since`` on in which one of the jobs might have run."""
    for i in range(len(slots)):
        for point in range(jobs.first[slots[i]], jobs.last[slots[i]]):
            start = points.start[point]
            if start < NEVER_ROUND:
                for round_ in range(max(start, since), start + points.duration[point]):
                    laws.known[round_ & (len(laws.known) - 1)] = 0


@outlined
def find_laws(jobs: JobRows, points: PointRows, laws: LoadLaws, count: int, since: int, until: int) -> None:
    """Convolve the loads of all jobs anew in the unknown rounds of [since, until); O(count C) per round.

    Jobs are added in order of birth, as by `add_law`, so that both give the same floating-point numbers.
    """
    for round_ in range(since, until):
        at = round_ & (len(laws.known) - 1)
        if laws.known[at] == 1:
            continue
        mass = laws.mass[at]
        mass[:] = 0.0
        mass[0] = 1.0
        for slot in range(count):
            probability = _running(jobs, points, slot, round_)
            if probability > 0:
                _convolve(mass, jobs.concurrency[slot], probability)
        laws.known[at] = 1


@outlined
def bounded_failures(laws: LoadLaws, birth: int, concurrency: int, capacity: int, failures: F64) -> None:
    """Write the sum over rounds of the probability of too high a load, at most 1.

    Rounds from the birth to the start count where the load alone exceeds the capacity, rounds of the run
    where it leaves too little room. O(rounds D c).
    """
    mask = len(laws.known) - 1
    before = 0.0
    for k in range(failures.shape[0]):
        total = before
        for d in range(1, failures.shape[1]):
            total += _no_room(laws.mass[(birth + k + d - 1) & mask], concurrency, capacity)
            failures[k, d] = min(1.0, total)
        before += laws.mass[(birth + k) & mask, capacity + 1]


@kernel
def _no_room(mass: F64, concurrency: int, capacity: int) -> float:
    """Return the probability of a load above the capacity less the nodes of a job."""
    total = mass[capacity + 1]
    for k in range(max(capacity + 1 - concurrency, 0), capacity + 1):
        total += mass[k]
    return total
