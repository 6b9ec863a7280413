"""Families of jobs and the servers that only they use: what certificates of rigid and elastic jobs sum over.

The jobs of a family may be on certain servers only, so they need at least the time and resources that they
would need there alone; other jobs can only take. A partition's jobs are divided by the pools of their roles,
see docs/certificates.md#gpu-types. Certificates call it when a run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes, NestedJobs
from ray_sim.certificates.utility import LONGEST_US, HopefulJobs, UtilityLimits
from ray_sim.engine.world import World
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.solvers.gpu_prices import gpu_prices
from ray_sim.solvers.jct_bound import jct_bounds
from ray_sim.solvers.jct_families import best_division

_SURELY = 1.0 - 1e-9
"""Factor on least times: a run books progress in floating point."""

_MOST_MERGED = 3_000_000
"""Jobs x pairs of families up to which families are merged; a pair of 10,000 jobs takes about 10 ms."""


class Family(NamedTuple):
    """Some jobs of one partition, and where they may be."""

    partition: int
    jobs: IntArray
    """Positions, sorted, in the jobs that were divided."""
    may: BoolArray
    """(R, S) servers on which these jobs may take each resource."""

    @property
    def servers(self) -> BoolArray:
        """(S,) servers that these jobs may use."""
        may: BoolArray = np.any(self.may, axis=0)
        return may


def _merged(families: Sequence[Family]) -> Family:
    """Families of one partition in one."""
    jobs = np.sort(np.concatenate([family.jobs for family in families]))
    return Family(families[0].partition, jobs, np.any([family.may for family in families], axis=0))


def partition_servers(world: World) -> list[IntArray]:
    """Servers of each partition."""
    arrays = world.arrays
    return np.split(arrays.pool_servers, arrays.pool_ptr[1:])[: len(arrays.part_class_ptr) - 1]


def partition_names(world: World) -> tuple[str, ...] | None:
    """Names of the partitions; None where all servers are one pool."""
    if world.partition == "none":
        return None
    return tuple(str(world.cluster.vc[int(servers[0])]) for servers in partition_servers(world))


def families_by_pool(world: World, jobs: IntArray) -> list[list[Family]]:
    """Jobs of each partition, by the pools of their roles; one family where there are no GPU types."""
    arrays, found = world.arrays, []
    if len(arrays.pool_ptr) == len(arrays.part_class_ptr):
        return [[family] for family in _partitions(world, jobs)]
    pool = arrays.class_pool[arrays.job_class[jobs]]
    member = np.zeros((len(arrays.pool_ptr) - 1, len(arrays.capacity)), dtype=np.bool_)
    number = np.repeat(np.arange(len(member)), np.diff(arrays.pool_ptr))
    member[number, arrays.pool_servers] = True
    for p in range(len(arrays.part_class_ptr) - 1):
        mine = np.flatnonzero(arrays.job_part[jobs] == p)
        of_roles, which = np.unique(pool[mine], axis=0, return_inverse=True)
        groups = [mine[which.reshape(-1) == i] for i in range(len(of_roles))] or [mine]
        pools = of_roles if len(of_roles) else np.array([[p]])
        found.append(
            [
                Family(p, group, _may_take(member[row], arrays.demand[jobs[group]]))
                for group, row in zip(groups, pools, strict=True)
            ]
        )
    return found


def _partitions(world: World, jobs: IntArray) -> list[Family]:
    """Jobs of each partition, where it is the pool of all."""
    arrays, resources = world.arrays, world.arrays.capacity.shape[1]
    return [
        Family(
            p, np.flatnonzero(arrays.job_part[jobs] == p), np.tile(arrays.server_part == p, (resources, 1))
        )
        for p in range(len(arrays.part_class_ptr) - 1)
    ]


def _may_take(member: BoolArray, demand: IntArray) -> BoolArray:
    """(R, S) servers of the roles that demand a resource, of all roles where none does."""
    demanded: BoolArray = np.any(demand > 0, axis=0)  # (roles, R)
    may: BoolArray = np.any(demanded[..., None] & member[:, None], axis=0)
    return np.where(np.any(demanded, axis=0)[:, None], may, np.any(member, axis=0))


def most_capacity(world: World, may: BoolArray) -> FloatArray:
    """(R,) quanta: the most that the servers that ``may`` be used, (R, S), offer at any time."""
    capacity, outages = world.arrays.capacity, world.outages
    sign = np.where(outages.up, 1, -1)[:, None]
    time = np.concatenate([[0], outages.time])
    lasts = np.append(np.diff(time) > 0, True)  # after the last change of an instant
    changes = np.where(may.T[outages.server], sign * capacity[outages.server], 0)
    first = np.where(may.T, world.first_capacity, 0).sum(axis=0)
    most: FloatArray = np.cumsum(np.vstack([first, changes]), axis=0)[lasts].max(axis=0).astype(np.float64)
    return most


class LeastUse(NamedTuple):
    """Least time and resources of n jobs of a family."""

    shortest_us: FloatArray
    """(n,); infinite for a job that can never complete there."""
    resource_time: FloatArray
    """(n, R) quanta x microseconds; any finite number for a job that can never complete there."""


LeastUseOn = Callable[[IntArray, BoolArray], LeastUse | None]
"""Least use of jobs, (n,), on servers from which they may take each resource, (R, S); None if unknown."""


class TypeSpeeds(NamedTuple):
    """Speeds of n jobs on T types of GPUs, for priced GPUs: docs/certificates.md#priced-gpus."""

    of_server: IntArray
    """(S,) type of each server; -1 for none."""
    speed: FloatArray
    """(n, T) largest share of its work that a job does in a microsecond on a type; 0 where it cannot run."""
    gpus: FloatArray
    """(n,) quanta of GPU that each job holds."""
    known: FloatArray | None = None
    """(T,) prices; those of `gpu_prices` where None."""

    def prices(self, world: World, jobs: IntArray, may: BoolArray) -> FloatArray:
        """(T,) prices for jobs of a family, by position; see `gpu_prices`."""
        if self.known is not None:
            return self.known
        number = self.number(world, may)
        gpus = self.gpus[jobs]
        fits = (self.speed[jobs] > 0) & (gpus[:, None] <= number)
        counted = fits.any(axis=1) & (gpus > 0)
        if not counted.any():
            return np.ones(len(number))
        return gpu_prices(np.where(fits, self.speed[jobs], 0.0)[counted], gpus[counted], number)

    def number(self, world: World, may: BoolArray) -> FloatArray:
        """(T,) quanta of GPU of each type: the most that the servers of ``may``, (R, S), offer."""
        gpu, types = world.cluster.resources.index("gpu"), self.speed.shape[1]
        return np.array([most_capacity(world, may & (self.of_server == t))[gpu] for t in range(types)])

    def least_paid(self, jobs: IntArray, prices: FloatArray) -> FloatArray:
        """(n,) least price x quanta x microseconds that jobs, by position, pay for all their work."""
        speed = self.speed[jobs]
        paid = np.full(speed.shape, np.inf)
        np.divide(prices * self.gpus[jobs][:, None], speed, out=paid, where=speed > 0)
        return np.where(speed.any(axis=1), paid.min(axis=1, initial=np.inf), 0.0)


PRICED_GPUS = "priced GPUs"
"""Name of the resource of `TypeSpeeds` in certificates."""


def family_limits(
    world: World,
    jobs: IntArray,
    least_use: LeastUseOn,
    cells: int | None,
    speeds: TypeSpeeds | None = None,
) -> JctLimits | None:
    """Limits of the mean JCT of jobs that complete, by the families that bound it best; None without limits.

    Parameters
    ----------
    cells : see `JctLimits`
    speeds : of the same jobs, where GPUs differ in speed
    """
    groups = families_by_pool(world, jobs)
    use = _use_of_all(world, jobs, [group for of_part in groups for group in of_part], least_use)
    if use is None:
        return None
    times = LeastTimes(world.table.submit_us[jobs], use.shortest_us, use.shortest_us, use.resource_time)
    best = [_best_families(world, times, of_part) for of_part in groups]
    limits = _limits(world, times, groups, best, cells, speeds)
    if cells is None or all(len(each) == 1 for each in best):
        return limits
    whole = [[_merged(of_part)] for of_part in groups]  # B4 may know more of it
    return max(
        limits, _limits(world, times, groups, whole, cells, speeds), key=lambda each: each.bounds().bound
    )


def _use_of_all(
    world: World, jobs: IntArray, groups: Sequence[Family], least_use: LeastUseOn
) -> LeastUse | None:
    """Least use of all jobs, each on the servers of its group; None if that of a group is unknown."""
    found = LeastUse(np.zeros(len(jobs)), np.zeros((len(jobs), world.arrays.capacity.shape[1])))
    for group in groups:
        use = least_use(jobs[group.jobs], group.may)
        if use is None:
            return None
        found.shortest_us[group.jobs], found.resource_time[group.jobs] = use
    return found


def _best_families(world: World, times: LeastTimes, groups: Sequence[Family]) -> list[Family]:
    """The division of a partition's jobs with the largest bound on the sum of their flow times."""
    if len(groups) == 1:
        return list(groups)

    jobs = _merged(groups).jobs
    order = jobs[np.argsort(times.release[jobs], kind="stable")]
    group_of = np.empty(len(times.release), dtype=np.int64)
    for i, group in enumerate(groups):
        group_of[group.jobs] = i
    group_of = group_of[order]

    def bound(numbers: frozenset[int]) -> float:
        chosen = list(numbers)
        some = order[np.isin(group_of, chosen)]
        may = np.any([groups[i].may for i in chosen], axis=0)
        found = jct_bounds(
            times.release[some],
            times.shortest[some],
            times.area[some],
            most_capacity(world, may)[None],
            np.zeros(len(some), dtype=np.int64),
        )
        assert found is not None, "a group has jobs"
        return found.bound * len(some)

    servers = np.array([group.servers for group in groups], dtype=np.float32)
    pairs = len(groups) * (len(groups) - 1) // 2
    few = pairs * sum(len(group.jobs) for group in groups) <= _MOST_MERGED
    meets = (servers @ servers.T > 0) if few else np.zeros((len(groups), len(groups)), dtype=np.bool_)
    return [_merged([groups[i] for i in sorted(numbers)]) for numbers in best_division(meets, bound)]


def _limits(
    world: World,
    times: LeastTimes,
    groups: Sequence[Sequence[Family]],
    divided: Sequence[Sequence[Family]],
    cells: int | None,
    speeds: TypeSpeeds | None,
) -> JctLimits:
    families = [family for of_part in divided for family in of_part]
    number = np.zeros(len(times.release), dtype=np.int64)
    paid = np.zeros((len(times.release), 0 if speeds is None else 1))
    offers: list[Callable[[BoolArray], FloatArray]] = []
    for i, family in enumerate(families):
        number[family.jobs] = i
        priced = None
        if speeds is not None:
            priced = speeds, speeds.prices(world, family.jobs, family.may)
            paid[family.jobs, 0] = speeds.least_paid(family.jobs, priced[1]) * _SURELY
        offers.append(partial(_offer, world, priced))
    names = partition_names(world)
    return JctLimits(
        times._replace(area=np.hstack([times.area, paid])),
        np.array([offer(family.may) for offer, family in zip(offers, families, strict=True)]),
        number,
        resources=(*world.facts.resources, PRICED_GPUS),
        partitions=None if names is None else tuple(names[family.partition] for family in families),
        types=tuple(_types(world, family) for family in families),
        nested=tuple(_nested(offer, family, groups) for offer, family in zip(offers, families, strict=True)),
        cells=cells,
    )


def _offer(world: World, priced: tuple[TypeSpeeds, FloatArray] | None, may: BoolArray) -> FloatArray:
    """(R,) the most that servers of ``may``, (R, S), offer; with prices of GPU types then priced GPUs."""
    most = most_capacity(world, may)
    return most if priced is None else np.append(most, priced[1] @ priced[0].number(world, may))


def _nested(
    offer: Callable[[BoolArray], FloatArray], family: Family, groups: Sequence[Sequence[Family]]
) -> tuple[NestedJobs, ...]:
    """Jobs within a family that may use a part of its servers only, for each such part that is a pool."""
    within = [group for group in groups[family.partition] if np.isin(group.jobs, family.jobs).all()]
    parts = {group.may.tobytes(): group.may for group in within if (group.may != family.may).any()}
    found = []
    for may in parts.values():
        mine = [group.jobs for group in within if (group.may <= may).all()]
        found.append(NestedJobs(np.sort(np.concatenate(mine)), offer(may)))
    return tuple(found)


def _types(world: World, family: Family) -> str | None:
    """GPU types of the servers of a family; None for all servers of its partition."""
    gpus = family.may[world.cluster.resources.index("gpu")]
    if (gpus == (world.arrays.server_part == family.partition)).all():
        return None
    return "|".join(sorted({str(world.cluster.gpu_type[s]) for s in np.flatnonzero(gpus).tolist()}))


def pooled_limits(
    world: World, counted: BoolArray | None, least_use: LeastUseOn
) -> list[UtilityLimits] | None:
    """Limits of the jobs that could complete by the horizon alone; None where there are none.

    Each division of the jobs into families bounds what they earn: by pools, and by whole partitions.

    Parameters
    ----------
    counted : (J,) the jobs whose utility is bounded; all without it. The others could only take resources.
    """
    profile, arrays = world.table.utility, world.arrays
    if profile is None:
        return None
    fits = world.beyond_capacity[arrays.job_class] == FITS
    fits &= arrays.job_part >= 0
    wanted = np.flatnonzero(fits if counted is None else fits & counted)
    by_pool = families_by_pool(world, wanted)
    divisions = [[group for of_part in by_pool for group in of_part]]
    if len(divisions[0]) > len(by_pool):
        divisions.append([_merged(of_part) for of_part in by_pool])
    use = _use_of_all(world, wanted, divisions[0], least_use)
    if use is None:
        return None
    return [
        UtilityLimits(
            jobs=len(world.table) if counted is None else int(counted.sum()),
            pools=[
                (_hopeful_jobs(world, wanted, use, family.jobs), most_capacity(world, family.may))
                for family in families
            ],
            profile=profile,
            slot_us=world.slot_us,
            horizon_us=world.horizon_us if world.bounded else None,
        )
        for families in divisions
    ]


def _hopeful_jobs(world: World, jobs: IntArray, use: LeastUse, mine: IntArray) -> HopefulJobs:
    """Jobs with the numbers ``mine`` that can complete before the horizon."""
    mine = mine[np.isfinite(use.shortest_us[mine])]
    jobs, resource_time = jobs[mine], use.resource_time[mine] * _SURELY
    shortest = np.minimum(use.shortest_us[mine] * _SURELY, LONGEST_US)
    submit = world.table.submit_us[jobs]
    soon = submit + shortest <= world.horizon_us
    return HopefulJobs(jobs[soon], submit[soon], shortest[soon], resource_time[soon])
