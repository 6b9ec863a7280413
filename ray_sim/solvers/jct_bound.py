"""Lower bounds on the mean JCT that any policy can reach on the same jobs and servers.

Each bound is the optimum of an easier problem, so no feasible schedule can beat it. Meaning, proofs and
sources: docs/certificates.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.core.srpt_relaxation import serve_smallest_first
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.jct_programme import PoolJobs, programme_bound

_ROUND_DOWN = 1.0 - 1e-9
"""Factor on every bound. A run books progress and this module sums times in floating point: relative errors
of 1e-16 per step, about 1e-12 for a million jobs. Such an error must not lift a bound above the optimum."""

_CLOCK_BITS = 62
"""The clock of the squashed machine stays below two to this power, in ticks."""


Parts = Sequence[tuple[IntArray, FloatArray]]
Nested = Sequence[Parts]


class PoolBound(NamedTuple):
    """Largest lower bound of one partition."""

    partition: int
    jobs: int
    name: str
    """B1, B2, B3, B4, or LP for the given bound."""
    resource: int | None
    """Resource whose capacity gives the bound; None where no capacity does."""
    mean: float
    """Mean over the jobs of the partition."""


@dataclass(frozen=True, slots=True)
class JctBounds:
    """Lower bounds on the mean JCT, in the time unit of the releases; means over partitions by jobs."""

    b1: float
    """Mean shortest run, without any waiting."""
    b2: float
    """Mean flow time of shortest-remaining-time-first on one machine as fast as the whole partition."""
    b3: float
    """Mean of busy time plus half the shortest run on that machine."""
    other: float
    """Mean of the bounds that are given."""
    b4: float | None
    """Mean of B4, the linear programme on all resources at a time; None where it is not asked for."""
    bound: float
    """Mean over partitions of the largest bound."""
    pools: tuple[PoolBound, ...]
    """Largest bound of each partition with jobs."""
    no_b4: str | None = None
    """Reason why B4 was not found in at least one partition."""

    @property
    def binding(self) -> PoolBound:
        """The bound of the partition that contributes most to the mean; the first of several."""
        return self.pools[_first_largest([pool.jobs * pool.mean for pool in self.pools])]


def jct_bounds(
    release: IntArray,
    shortest: FloatArray,
    area: FloatArray,
    capacity: FloatArray,
    partition: IntArray,
    *,
    busy: FloatArray | None = None,
    other: FloatArray | None = None,
    cells: int | None = None,
    nested: Nested = (),
) -> JctBounds | None:
    """Compute bounds on the mean of completion minus release over the given jobs; None without jobs.

    Complexity: O(R J log J) time, a few arrays of length J.

    Parameters
    ----------
    release : (J,) earliest starts, non-decreasing
    shortest : (J,) least time a job runs under any allocation and placement, >= 0
    area : (J, R) least resource x time a job takes, >= 0
    capacity : (P, R) capacity of each partition, may be infinite
    partition : (J,) in [0, P)
    busy : (J,) a job's work over its largest rate, at most ``shortest``, which is the default: a job cannot
        always run at that rate from start to end
    other : (P,) a given lower bound on each partition's mean, >= 0; 0 by default
    cells : largest number of variables of B4's programme in a partition; no B4 by default
    nested : of each partition the jobs, by position, that may use a part of it only, with the (R,) capacity
        of that part, which B4 counts as further resources

    Raises
    ------
    ValueError : releases decrease, jobs need a resource their partition lacks, or times exceed 2**62
    """
    n = len(release)
    if n == 0:
        return None
    if (np.diff(release) < 0).any():
        raise ValueError("releases must not decrease")
    total = np.zeros(len(_NAMES))
    largest, pools, no_b4 = 0.0, [], None
    known = np.zeros(len(capacity)) if other is None else other
    by_partition = np.argsort(partition, kind="stable")
    ends = np.cumsum(np.bincount(partition, minlength=len(capacity)))
    for p, jobs in enumerate(np.split(by_partition, ends[:-1])):
        if not len(jobs):
            continue
        spans = shortest[jobs], (shortest if busy is None else busy)[jobs]
        pool = PoolJobs(release[jobs], *spans, _sizes(area[jobs], capacity[p]))
        found = [*_bounds_of_pool(pool), _Found(float(known[p]))]
        if cells is not None:
            b4, why = programme_bound(_with_parts(pool, jobs, area, nested[p] if nested else ()), cells)
            found.append(_Found(b4.mean, None if b4.resource is None else b4.resource % area.shape[1]))
            no_b4 = no_b4 or why
        total[: len(found)] += [len(jobs) * bound.mean for bound in found]
        best = _first_largest([bound.mean for bound in found])
        mean = max(bound.mean for bound in found)
        largest += len(jobs) * mean
        pools.append(PoolBound(p, len(jobs), _NAMES[best], found[best].resource, mean * _ROUND_DOWN))
    b1, b2, b3, given, b4_mean = (float(value) for value in total / n * _ROUND_DOWN)
    return JctBounds(
        b1,
        b2,
        b3,
        given,
        None if cells is None else b4_mean,
        largest / n * _ROUND_DOWN,
        tuple(pools),
        no_b4,
    )


def _with_parts(pool: PoolJobs, jobs: IntArray, area: FloatArray, parts: Parts) -> PoolJobs:
    """Add the resources of each part of the servers, on which other jobs than its own take no time."""
    sizes = [pool.size]
    for members, capacity in parts:
        of_part = np.where(np.isin(jobs, members)[:, None], area[jobs], 0.0)
        sizes.append(_sizes(of_part, capacity))
    return pool._replace(size=np.hstack(sizes))


_NAMES = ("B1", "B2", "B3", "LP", "B4")


class _Found(NamedTuple):
    """Mean flow time of a bound, and the resource that gives it."""

    mean: float
    resource: int | None = None


def _sizes(area: FloatArray, capacity: FloatArray) -> FloatArray:
    """(J, R) times that the jobs take on squashed machines."""
    for r, amount in enumerate(capacity):
        if amount == 0 and area[:, r].any():
            raise ValueError(f"jobs need resource {r}, but their partition has none")
    return np.divide(area, capacity, out=np.zeros_like(area), where=area > 0)


def _bounds_of_pool(pool: PoolJobs) -> tuple[_Found, _Found, _Found]:
    """Compute B1, B2 and B3; B2 and B3 are the largest over resources."""
    each = [
        _squashed_bounds(pool.release, pool.shortest, pool.busy, pool.size[:, r])
        for r in range(pool.size.shape[1])
    ]
    b2, b3 = (_Found(max(means), _first_largest(means)) for means in zip(*each, strict=True))
    return _Found(float(pool.shortest.mean())), b2, b3


def _first_largest(means: Sequence[float]) -> int:
    """First of the largest numbers; rounding errors do not tell which it is."""
    return int(np.argmax(np.asarray(means) >= max(means) * _ROUND_DOWN))


def _squashed_bounds(
    release: IntArray, shortest: FloatArray, busy: FloatArray, size: FloatArray
) -> tuple[float, float]:
    """B2 and B3 on one machine on which each job takes ``size`` time.

    The machine runs in integer ticks, the finest power of two for which its clock fits. Sizes are rounded
    down: smaller sizes only lower both bounds, while rounded completion times could raise them. A job below
    one tick is left off the machine; its bound is its shortest run.
    """
    n = len(release)
    bits = _tick_bits(release, size)
    ticks = np.ldexp(size * (1.0 - 2.0**-50), bits).astype(np.int64)
    served = ticks > 0
    start, work = (release[served] - release[0]) << bits, ticks[served]
    remaining = work.copy()
    flow, _ = _serve(start, key=remaining, left=remaining)
    _, moment = _serve(start, key=work, left=work.copy())
    b2 = np.ldexp(float(flow.sum(dtype=np.float64)), -bits)
    averaged = np.ldexp(float((moment / work).sum()), -bits)
    b3 = averaged + 0.5 * float(busy[served].sum()) + float(shortest[~served].sum())
    return float(b2) / n, b3 / n


def _tick_bits(release: IntArray, size: FloatArray) -> int:
    """Binary digits of a time unit after the point, so that no clock overflows."""
    _, exponent = np.frexp(float(release[-1] - release[0]) + float(size.sum()) + 1.0)
    if exponent > _CLOCK_BITS:
        raise ValueError("releases and sizes span 2**62 time units or more")
    return _CLOCK_BITS - int(exponent)


def _serve(release: IntArray, key: IntArray, left: IntArray) -> tuple[IntArray, FloatArray]:
    """Flow times and moments by `serve_smallest_first`."""
    n = len(release)
    heap, position = np.empty(n, np.int64), np.empty(n, np.int64)
    flow, moment = np.empty(n, np.int64), np.zeros(n)
    serve_smallest_first(release, key, left, heap, position, flow, moment)
    return flow, moment
