"""The utility certificate of a finished run: what elastic jobs could earn at best, handed to the bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ray_sim.engine.kinds.elastic.world import TrainingWorld
from ray_sim.engine.utility_optimum import world_optimum
from ray_sim.engine.world import World
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.job import UtilityProfile
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.model.utility import CLOCK_US, delay_s, utility
from ray_sim.solvers.training_limits import pd_ors_limits, placement_limits, pool_of
from ray_sim.solvers.utility_bounds import Claims, UtilityBounds, utility_bounds
from ray_sim.solvers.utility_optimum import SearchLimits

_SURELY = 1.0 - 1e-9
"""Of a least time: a run books progress in floating point."""

_LONGEST_US = NEVER_US / 8
"""No run is longer; a job that would take longer never ends."""

_MOST_BUCKETS = 128
_MOST_CELLS = 200_000
"""Jobs times buckets: U2 sorts so many numbers for each bucket."""


@dataclass(frozen=True, slots=True)
class _Hopes:
    """Jobs that could complete by the horizon, were each alone from its submission on."""

    job: IntArray
    submit: IntArray
    shortest: FloatArray
    """Microseconds."""
    need: FloatArray
    """(n, R) quanta x microseconds."""

    @property
    def end(self) -> IntArray:
        """The earliest completions."""
        earliest: IntArray = self.submit + np.ceil(self.shortest).astype(np.int64)
        return earliest


def certify_utility(
    world: World, earned: float | None, counted: BoolArray | None = None
) -> UtilityCertificate | None:
    """Bound what all jobs together can earn; None unless they are elastic and have utilities.

    Where the world asks for it, the exact optimum in whole slots is found beside the bounds.

    Parameters
    ----------
    earned : by the jobs that are counted
    counted : (J,) the jobs whose utility it is; all without it. The others could only take resources.
    """
    training, profile = world.training, world.table.utility
    if training is None or profile is None or earned is None:
        return None
    fits = world.beyond_capacity[world.arrays.job_class] == FITS
    fits &= world.arrays.job_part >= 0
    wanted = np.flatnonzero(fits if counted is None else fits & counted)
    pools = np.split(world.arrays.part_servers, world.arrays.part_ptr[1:-1])
    hopes, bounds = 0, []
    for p, servers in enumerate(pools):
        mine = _hopes(world, training, wanted[world.arrays.job_part[wanted] == p], servers)
        hopes += len(mine.job)
        capacity = world.arrays.capacity[servers].sum(axis=0).astype(np.float64)
        bounds.append(utility_bounds(_claims(world, profile, mine, capacity)))
    jobs = len(world.table) if counted is None else int(counted.sum())
    certificate = _certificate(bounds, earned, hopes, jobs)
    if world.optimum_nodes is None:
        return certificate
    found = world_optimum(world, SearchLimits(nodes=world.optimum_nodes), counted)
    return replace(
        certificate,
        optimum=found.utility,
        optimum_bound=found.bound,
        optimum_ratio=found.utility / earned if earned > 0 else None,
        optimum_proven=found.proven,
    )


def _certificate(bounds: list[UtilityBounds], earned: float, hopes: int, jobs: int) -> UtilityCertificate:
    """Of all partitions together."""
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


def _hopes(world: World, training: TrainingWorld, jobs: IntArray, servers: IntArray) -> _Hopes:
    """Those of these jobs on these servers."""
    profile = training.profile
    pool = pool_of(world.arrays.capacity[servers], world.arrays.speed[servers])
    if training.form == "pd_ors":
        limits = pd_ors_limits(profile, jobs, pool)
    else:
        limits = placement_limits(profile, jobs, pool, training.nic)
    able = limits.samples_per_s > 0
    jobs, speed, need = jobs[able], limits.samples_per_s[able], limits.need[able]
    work = profile.work[jobs]
    shortest = np.minimum(work / speed * (US_PER_S * _SURELY), _LONGEST_US)
    submit = world.table.submit_us[jobs]
    soon = submit + shortest <= world.horizon_us
    need = (need * (work * (US_PER_S * _SURELY))[:, None])[soon]
    return _Hopes(jobs[soon], submit[soon], shortest[soon], need)


def _claims(world: World, profile: UtilityProfile, hopes: _Hopes, capacity: FloatArray) -> Claims:
    """The claims of jobs on one pool, in buckets of whole slots.

    Completions are known to the clock's microsecond only: a job that completed in a bucket has done all its
    work in it or before, but for what it did in the last microsecond.
    """
    edges = _edges(world, hopes, capacity)
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
    delays = delay_s(ends, hopes.submit[:, None], world.slot_us)
    span = np.where(end < NEVER_US, end - begin, np.inf)
    return Claims(
        worth=utility(profile, hopes.job[:, None], delays),
        first=first,
        most=most,
        need=hopes.need * rest[:, None],
        offer=np.where(np.isfinite(span)[:, None], capacity * np.minimum(span, NEVER_US)[:, None], np.inf),
    )


def _edges(world: World, hopes: _Hopes, capacity: FloatArray) -> IntArray:
    """(K + 1,) instants between which buckets lie, slot boundaries where there are slots.

    With a horizon it is the last. Without one a last bucket has no end: it begins when all work could have
    been done one job after another.
    """
    if world.bounded:
        until = world.horizon_us
    else:
        total = hopes.need.sum(axis=0)
        drain = np.divide(total, capacity, out=np.zeros_like(total), where=capacity > 0)
        longest = float(hopes.shortest.max(initial=0.0)) + float(drain.max(initial=0.0))
        until = int(hopes.submit.max(initial=0)) + int(min(longest, 2 * _LONGEST_US)) + 1
    step = world.slot_us or 1
    slots = -(-until // step)
    buckets = max(2, min(_MOST_BUCKETS, _MOST_CELLS // max(1, len(hopes.job)), slots))
    width = -(-slots // buckets) * step
    edges = np.arange(0, until, width, dtype=np.int64)
    return np.append(edges, until if world.bounded else [edges[-1] + width, NEVER_US]).astype(np.int64)
