"""Posteriors of announced jobs, and failure estimates from the loads that these jobs may cause.

The failure estimate E(t', d) of a job born in round b is the probability of a round tau in [b, t' + d) with
load(tau) + c [t' <= tau] > C, where load(tau) is the sum over earlier jobs, evicted or not.
`ray_sim.policies.posted_price.failure` says why evictions of the earlier jobs can be left out.

Source of the criterion: Babaioff et al., WWW 2022, lemma on LIFO evictions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I32, I64
from ray_sim.kernels.planning.random_bits import substate, uniform
from ray_sim.model.statement import NEVER_ROUND


class JobRows(NamedTuple):
    """Active jobs in order of birth, (n,) each; ``points`` are rows of `PointRows`.

    What is known of a job leaves a range of its points, as they are sorted by (arrival, signal, duration):
    before the arrival the last points, after it the last points of its (arrival, signal).
    """

    job: I64
    """Increasing."""
    concurrency: I64
    """Nodes, >= 1."""
    first: I64
    """First point of the job."""
    last: I64
    """End of its points, exclusive; the last one is of the job once it has outlasted its report."""
    low: I64
    """First point that agrees with the history,"""
    high: I64
    """and the end of these points, exclusive; equal to ``low`` for a job that has no load any more."""
    arrived: I64
    """0 or 1."""
    next_observation: I64
    """First round in which the job must arrive or end, or points are ruled out."""
    narrowings: I64
    """How often points have been ruled out."""


class PointRows(NamedTuple):
    """Points of the supports of active jobs, (m,) each; sorted by (arrival, signal, duration)."""

    arrival: I64
    duration: I64
    signal: I64
    start: I64
    probability: F64


class SamplePaths(NamedTuple):
    """N sample paths: a point of every active job, and the loads that they cause."""

    chosen: I32
    """(n, N) point of each job in each path, counted from its first; -1 for none."""
    load: I32
    """(W, N) nodes, < 2^31, by round modulo W, a power of two; rounds before the current one are 0."""
    peak: I32
    """(N,) at least the largest load of the path."""
    cumulative: F64
    """(m,) work space: sums of the probabilities of one job."""
    runs: I32
    """(4, N) work space: start and end of the run of one job by its new point and by its old one, counted
    from the current round."""
    column: I64
    """(W,) work space: loads of one path."""


def ring_size(rounds: int) -> int:
    """Smallest power of two, at least 64, that is not below a number of rounds."""
    return max(64, 1 << int(max(rounds - 1, 0)).bit_length())  # NumPy number without compilation


@kernel
def settle(jobs: JobRows, points: PointRows, slot: int) -> None:
    """Note in which round the job's remaining points say something; a job that will not start has none."""
    at = jobs.low[slot]
    if at < jobs.high[slot] and jobs.arrived[slot] == 1 and points.start[at] == NEVER_ROUND:
        jobs.high[slot] = at
    if at == jobs.high[slot]:
        jobs.next_observation[slot] = NEVER_ROUND
    elif jobs.arrived[slot] == 1:
        jobs.next_observation[slot] = points.start[at] + points.duration[at]
    else:
        jobs.next_observation[slot] = points.arrival[at]


@kernel
def _keep_arrival(jobs: JobRows, points: PointRows, slot: int, round_: int, signal: int) -> None:
    """Keep the points with this arrival and signal; none if the job did not report them."""
    low, end = jobs.low[slot], jobs.high[slot]
    while low < end and (points.arrival[low] != round_ or points.signal[low] != signal):
        low += 1
    high = low
    while high < end and points.arrival[high] == round_ and points.signal[high] == signal:
        high += 1
    jobs.low[slot], jobs.high[slot] = low, high
    jobs.arrived[slot] = 1


@kernel
def _keep_later(jobs: JobRows, points: PointRows, slot: int, round_: int, longest: int) -> None:
    """Keep the points with an arrival after the round, or, if the job has arrived, with an end after it.

    A job that runs and has no such point is taken to run for ``longest`` rounds.
    """
    low = jobs.low[slot]
    while low < jobs.high[slot]:
        until = points.arrival[low]
        if jobs.arrived[slot] == 1:
            until = points.start[low] + points.duration[low]
        if until > round_:
            break
        low += 1
    jobs.low[slot] = low
    more = jobs.last[slot] - 1
    if jobs.arrived[slot] == 1 and low == jobs.high[slot] and low <= more:
        points.start[more], points.duration[more] = points.start[low - 1], longest
        points.probability[more] = 1.0
        jobs.low[slot], jobs.high[slot] = more, more + 1


@outlined
def narrow(
    jobs: JobRows,
    points: PointRows,
    count: int,
    round_: int,
    longest: int,
    arrived: I64,
    signals: I64,
    changed: I64,
) -> int:
    """Rule out the points that disagree with the observations of a round, and with their lack until it.

    ``arrived`` are the rows of jobs that arrived in the round, with their ``signals``; ``longest`` is D_m. It
    fills ``changed``, (count,), with the rows of jobs whose points changed, and returns their number.
    O(count + points ruled out).
    """
    n = 0
    for i in range(len(arrived)):
        slot = arrived[i]
        if jobs.low[slot] < jobs.high[slot]:
            _keep_arrival(jobs, points, slot, round_, signals[i])
            settle(jobs, points, slot)
            jobs.narrowings[slot] += 1
            changed[n] = slot
            n += 1
    for slot in range(count):
        if jobs.next_observation[slot] <= round_:
            _keep_later(jobs, points, slot, round_, longest)
            settle(jobs, points, slot)
            jobs.narrowings[slot] += 1
            changed[n] = slot
            n += 1
    return n


@kernel
def add_load(load: I64, points: PointRows, point: int, since: int, nodes: int) -> None:
    """Add nodes in the rounds from ``since`` on in which a point runs, by round modulo a power of two."""
    start = points.start[point]
    if start < NEVER_ROUND:
        for round_ in range(max(start, since), start + points.duration[point]):
            load[round_ & (len(load) - 1)] += nodes


@kernel
def tally(load: I64, birth: int, concurrency: int, capacity: int, weight: float, failures: F64) -> None:
    """Add a weight where a job fails under these loads, at its smallest failing duration for each start.

    The job fails for all d if a load alone exceeds the capacity before t', else for d > g - t', where g >= t'
    is the first round with too little room for it. Rounds are scanned backwards, so that g is known for all
    starts in O(rounds + D). Loads, (W,), are by round modulo W, a power of two >= rounds - 1 + D; failures,
    (rounds, D + 1), by start after the birth and duration.
    """
    rounds, longest, mask = failures.shape[0], failures.shape[1] - 1, len(load) - 1
    alone = birth
    while alone < birth + rounds - 1 and load[alone & mask] <= capacity:
        alone += 1
    for k in range(alone - birth + 1, rounds):
        failures[k, 1] += weight
    first = alone + longest
    for round_ in range(alone + longest - 1, birth - 1, -1):
        if load[round_ & mask] + concurrency > capacity:
            first = round_
        if round_ <= alone and first - round_ < longest:
            failures[round_ - birth, first - round_ + 1] += weight


@kernel
def accumulate(failures: F64, scale: float) -> None:
    """Sum over durations: a job that fails within d rounds fails within d + 1; at most 1 after scaling."""
    for k in range(failures.shape[0]):
        total = 0.0
        for d in range(failures.shape[1]):
            total += failures[k, d]
            failures[k, d] = min(1.0, total * scale)


@outlined
def sampled_failures(paths: SamplePaths, birth: int, concurrency: int, capacity: int, failures: F64) -> None:
    """Write the share of paths in which the job fails; O(W + D) for each path with a high load."""
    for n in range(len(paths.peak)):
        if paths.peak[n] + concurrency > capacity:
            for at in range(len(paths.column)):
                paths.column[at] = paths.load[at, n]
            tally(paths.column, birth, concurrency, capacity, 1.0, failures)
    accumulate(failures, 1.0 / len(paths.peak))


@kernel
def _cumulate(jobs: JobRows, points: PointRows, slot: int, cumulative: F64) -> float:
    """Sum the probabilities of the remaining points of a job; returns the total."""
    total = 0.0
    for point in range(jobs.low[slot], jobs.high[slot]):
        total += points.probability[point]
        cumulative[point - jobs.low[slot]] = total
    return total


@kernel
def _drawn(cumulative: F64, size: int, level: float) -> int:
    """Return the first of ``size`` sums above the level, else the last; binary search."""
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > level:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _set_run(points: PointRows, point: int, since: int, runs: I32, n: int) -> None:
    """Write from when to when a point runs, counted from ``since`` on; stays 0 to 0 if it does not."""
    if points.start[point] < NEVER_ROUND:
        start = max(points.start[point] - since, 0)
        end = points.start[point] + points.duration[point] - since
        if end > 0:
            runs[0, n], runs[1, n] = start, end


@kernel
def _draw_points(
    jobs: JobRows, points: PointRows, paths: SamplePaths, slot: int, since: int, state: np.uint64
) -> None:
    """Draw the point of one job where the old one disagrees with the history, and note both runs."""
    first, low, size = jobs.first[slot], jobs.low[slot], jobs.high[slot] - jobs.low[slot]
    total = _cumulate(jobs, points, slot, paths.cumulative)
    of_job = substate(substate(state, jobs.job[slot]), jobs.narrowings[slot])
    paths.runs[:] = 0
    for n in range(len(paths.peak)):
        point = first + paths.chosen[slot, n]
        if point >= low and point < low + size:
            continue
        if point >= first:
            _set_run(points, point, since, paths.runs[2:], n)
        if size == 0:
            paths.chosen[slot, n] = -1
            continue
        point = low + _drawn(paths.cumulative, size, uniform(substate(of_job, n)) * total)
        paths.chosen[slot, n] = point - first
        _set_run(points, point, since, paths.runs[:2], n)


@kernel
def _move_load(paths: SamplePaths, nodes: np.int32, since: int, first: int, until: int) -> None:
    """Move the load of one job in all paths from its old run to its new one, in rounds of [first, until).

    All paths of a round lie next to each other and numbers have 32 bits, so that the compiler uses vector
    instructions: three times as fast as with 64 bits.
    """
    start, end, old_start, old_end = paths.runs[0], paths.runs[1], paths.runs[2], paths.runs[3]
    peak, none = paths.peak, np.int32(0)
    for round_ in range(first, until):
        load = paths.load[round_ & (paths.load.shape[0] - 1)]
        at = np.int32(round_ - since)
        for n in range(len(load)):
            more = nodes if (start[n] <= at) & (at < end[n]) else none
            less = nodes if (old_start[n] <= at) & (at < old_end[n]) else none
            moved = np.int32(load[n] + more - less)
            load[n] = moved
            peak[n] = max(peak[n], moved)


@outlined
def redraw(
    jobs: JobRows, points: PointRows, paths: SamplePaths, slots: I64, since: int, state: np.uint64
) -> None:
    """Draw the points of jobs anew in the paths whose points disagree with the history.

    A point that agrees stays: it has the distribution of the prior given that it agrees, the posterior. The
    number of a draw is keyed by (job, number of narrowings, path), so draws depend on no order, and on no
    other job but by the rounds that are observed: points that two rounds rule out are one narrowing if the
    first round is left out. Loads before round ``since`` are not kept. O(N) per job and round of its possible
    runs.
    """
    for i in range(len(slots)):
        slot = slots[i]
        _draw_points(jobs, points, paths, slot, since, state)
        from_, until = NEVER_ROUND, since
        for point in range(jobs.first[slot], jobs.last[slot]):
            if points.start[point] < NEVER_ROUND:
                from_ = min(from_, max(points.start[point], since))
                until = max(until, points.start[point] + points.duration[point])
        _move_load(paths, np.int32(jobs.concurrency[slot]), since, from_, until)


@outlined
def find_peaks(paths: SamplePaths) -> None:
    """Set the largest load of each path; O(N W)."""
    paths.peak[:] = 0
    for at in range(paths.load.shape[0]):
        for n in range(len(paths.peak)):
            paths.peak[n] = max(paths.peak[n], paths.load[at, n])
