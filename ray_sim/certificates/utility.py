"""Certificate of utility: the gap between the utility of a run and upper bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ray_sim.model.job import UtilityProfile
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import NEVER_US, FloatArray, IntArray
from ray_sim.model.utility import CLOCK_US, delay_s, utility
from ray_sim.solvers.utility_bounds import BucketProblem, UtilityBounds, utility_bounds
from ray_sim.solvers.utility_optimum import Optimum

LONGEST_US = NEVER_US / 8
"""Longest run; a job that would take longer never ends."""

_MOST_BUCKETS = 128
_MOST_CELLS = 200_000
"""Largest number of jobs x buckets; U2 sorts an array of this length for each bucket."""


@dataclass(frozen=True, slots=True)
class HopefulJobs:
    """Jobs that could complete by the horizon if each were alone from its submission on."""

    job: IntArray
    submit: IntArray
    shortest: FloatArray
    """Microseconds."""
    resource_time: FloatArray
    """(n, R) quanta x microseconds."""

    @property
    def end(self) -> IntArray:
        """Earliest completions."""
        earliest: IntArray = self.submit + np.ceil(self.shortest).astype(np.int64)
        return earliest


@dataclass(frozen=True, slots=True)
class UtilityLimits:
    """Limits that a kind of jobs states about the jobs whose utility is bounded."""

    jobs: int
    """Number of jobs, including those that cannot complete."""
    pools: Sequence[tuple[HopefulJobs, FloatArray]]
    """Jobs that can complete and capacity, (R,) quanta, of each partition, or of each family in it."""
    profile: UtilityProfile
    slot_us: int | None
    """Slot length; None where delays are not counted in slots."""
    horizon_us: int | None
    """None where the run has no end of its own."""


def certify_utility(divisions: Sequence[UtilityLimits], earned: float) -> UtilityCertificate:
    """Bound the total utility of all jobs by the division with the least bound, the first of equals."""
    return min((_certified(limits, earned) for limits in divisions), key=lambda found: found.bound)


def _certified(limits: UtilityLimits, earned: float) -> UtilityCertificate:
    bounds = [utility_bounds(_problem(limits, hopes, capacity)) for hopes, capacity in limits.pools]
    hopeful = sum(len(hopes.job) for hopes, _ in limits.pools)
    return _certificate(bounds, earned, hopeful, limits.jobs)


def with_optimum(certificate: UtilityCertificate, optimum: Optimum, earned: float) -> UtilityCertificate:
    """Add the exact optimum in whole slots to a certificate."""
    return replace(
        certificate,
        optimum=optimum.utility,
        optimum_bound=optimum.bound,
        optimum_ratio=optimum.utility / earned if earned > 0 else None,
        optimum_proven=optimum.proven,
    )


def _certificate(bounds: list[UtilityBounds], earned: float, hopes: int, jobs: int) -> UtilityCertificate:
    """Add up the bounds of all partitions."""
    u3 = [each.u3 for each in bounds if each.u3 is not None]
    bound = float(sum(each.bound for each in bounds))
    return UtilityCertificate(
        u1=float(sum(each.u1 for each in bounds)),
        u2=float(sum(each.u2 for each in bounds)),
        u3=float(sum(u3)) if len(u3) == len(bounds) else None,
        bound=bound,
        gap=bound / earned - 1.0 if earned > 0 else None,
        hopeful=hopes,
        hopeless=jobs - hopes,
        no_u3=next((each.left_out for each in bounds if each.left_out), None),
    )


def _problem(limits: UtilityLimits, hopes: HopefulJobs, capacity: FloatArray) -> BucketProblem:
    """Relaxed problem of the jobs of one pool, in buckets of whole slots.

    A completion is known only to the microsecond of the clock: a job that completed in a bucket has done all
    its work by then, except what it did in the last microsecond.
    """
    edges = _edges(limits, hopes, capacity)
    begin, end = edges[:-1], edges[1:]
    share = np.maximum(hopes.shortest - CLOCK_US, 0.0)
    done_by = hopes.submit + share
    own = np.searchsorted(begin, hopes.submit, side="right") - 1
    first = np.maximum(np.searchsorted(edges, done_by, side="left") - 1, own)
    available = np.maximum(end - np.maximum(begin, hopes.submit[:, None]), 0).astype(np.float64)
    most = np.minimum(available / np.maximum(share, 1.0)[:, None], 1.0)
    rest = np.divide(share, hopes.shortest, out=np.zeros_like(share), where=share > 0)
    late = np.arange(len(begin)) > first[:, None]
    ends = np.where(late, np.maximum(hopes.end[:, None], begin + 2 * CLOCK_US), hopes.end[:, None])
    delays = delay_s(ends, hopes.submit[:, None], limits.slot_us)
    span = np.where(end < NEVER_US, end - begin, np.inf)
    return BucketProblem(
        worth=utility(limits.profile, hopes.job[:, None], delays),
        first=first,
        most=most,
        resource_time=hopes.resource_time * rest[:, None],
        offer=np.where(np.isfinite(span)[:, None], capacity * np.minimum(span, NEVER_US)[:, None], np.inf),
    )


def _edges(limits: UtilityLimits, hopes: HopefulJobs, capacity: FloatArray) -> IntArray:
    """(K + 1,) bounds of the buckets; they are slot boundaries where there are slots.

    The horizon is the last bound. Without a horizon the last bucket has no end: it begins when all work could
    have been done one job after another.
    """
    if limits.horizon_us is not None:
        until = limits.horizon_us
    else:
        total = hopes.resource_time.sum(axis=0)
        drain = np.divide(total, capacity, out=np.zeros_like(total), where=capacity > 0)
        longest = float(hopes.shortest.max(initial=0.0)) + float(drain.max(initial=0.0))
        until = int(hopes.submit.max(initial=0)) + int(min(longest, 2 * LONGEST_US)) + 1
    step = limits.slot_us or 1
    slots = -(-until // step)
    buckets = max(2, min(_MOST_BUCKETS, _MOST_CELLS // max(1, len(hopes.job)), slots))
    width = -(-slots // buckets) * step
    edges = np.arange(0, until, width, dtype=np.int64)
    last = [edges[-1] + width, NEVER_US] if limits.horizon_us is None else until
    return np.append(edges, last).astype(np.int64)
