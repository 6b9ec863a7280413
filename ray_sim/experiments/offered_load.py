"""Offered load of a workload on a cluster per resource, vc and period, and the least unfinished work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.type_loads import TypeLoads, type_loads
from ray_sim.kernels.core.arrays import WORKER
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.solvers.fluid import PoolRate, backlog_at, fluid_backlog

DAY_US = 86_400 * US_PER_S
HOUR_US = 3_600 * US_PER_S

_NOTHING = 1e-12
"""Tolerance: a smaller share of all servers counts as no server."""

_ROUNDING = 1e-9
"""Tolerance: an offered load that exceeds 1 by less may be 1."""

_ENDLESS = 2**62
"""Room for tasks that ask for nothing of a resource."""

MAX_PERIODS = 1_000
"""Largest number of periods; days of a longer workload are merged."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Least unfinished work of a resource under any policy, in its unit x hours (`fluid_backlog`).

    Valid for rigid jobs under every policy that rejects none, without overcommit.
    """

    at_last_submission_h: float
    drain_h: float | None
    """Least hours in which the servers finish it; null if the servers available then never do."""
    most_h: float
    most_at_s: float
    """Instant, since the first submission."""
    by_period_h: list[float]
    """Value at the end of each period; the last period ends at the last submission."""


@dataclass(frozen=True, slots=True)
class ResourceLoad:
    """Demand of the jobs that fit for one resource, and the capacity of the servers.

    A server of speed v does the work of v traced seconds in a second, and none while it is unavailable. A
    load is work divided by what the servers can do in the time: the whole span, a period, or an hour. It
    is null if they can do nothing in that time.
    """

    capacity: float
    """Capacity of all servers times speed, in the resource's unit."""
    mean_capacity: float
    """Available capacity, averaged over the span; without a span, that at the first submission."""
    work_h: float
    """Demand x traced run time, in the unit x hours."""
    offered_load: float | None
    """Work that jobs can do from their submission to the last one, without a wait, over the whole span.

    A job counts at the slowest speed at which it may run. Above 1, some job waits under every policy that
    rejects none: otherwise each job would have held its demand until it ended, or until the last submission.
    """
    by_period: list[float | None]
    """Load of the whole work of the jobs submitted in each period."""
    peak_hour_load: float | None
    """Load of the whole work of the jobs submitted in the hour with the most of it."""
    peak_hour_s: float
    """Start of the hour with the most submitted work, since the first submission."""
    backlog: Backlog | None
    """Null where jobs train in chunks or with other numbers of workers, for which the bound does not hold."""

    @property
    def jobs_must_wait(self) -> bool:
        """Whether some job waits under every policy that rejects none."""
        return self.backlog is not None and (self.offered_load or 0.0) > 1 + _ROUNDING

    @property
    def overloaded(self) -> bool:
        """Whether some job waits or never ends under every policy that rejects none."""
        return self.jobs_must_wait or (self.backlog is not None and self.backlog.drain_h is None)


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """Load of the jobs of a partition on its servers."""

    servers: int
    jobs: int
    never_fit: int
    """Jobs that the empty partition cannot hold; a replay rejects them, and they add no load."""
    never_fit_by_resource: dict[str, int]
    """Those of them that ask for too much of one resource alone; a job may be in none and in several."""
    resources: dict[str, ResourceLoad]

    @property
    def worst(self) -> tuple[str, ResourceLoad] | None:
        """The resource with the highest offered load; None if none has a load."""
        loads = [(name, load) for name, load in self.resources.items() if load.offered_load is not None]
        return max(loads, key=lambda pair: pair[1].offered_load or 0.0, default=None)

    @property
    def overload(self) -> tuple[str, ResourceLoad] | None:
        """The first resource that is `overloaded`, in order of falling load."""
        loads = sorted(self.resources.items(), key=lambda pair: -(pair[1].offered_load or 0.0))
        return next((pair for pair in loads if pair[1].overloaded), None)


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """Offered load of a workload on a cluster."""

    cluster: str
    period_s: int
    """Length of a period: a day, or several days for a long span."""
    whole: PartitionLoad
    """Load if every job may use every server."""
    vcs: dict[str, PartitionLoad] | None
    """Load by vc with jobs confined to their vc; null unless all servers and some jobs have a vc."""
    outside_vcs: int
    """Jobs without a vc, or whose vc has no servers; 0 where `vcs` is null."""
    gpu_types: TypeLoads | None
    """Load by the GPU types that jobs accept; null where no job names any."""
    whole_jobs: bool
    """Whether jobs are rigid: the workload has no columns for chunks or for other numbers of workers."""


def offered_load(table: JobTable, cluster: Cluster) -> ClusterLoad:
    """Compute the load of rigid jobs on a cluster, whose servers may come and go.

    Parameters
    ----------
    table : at least one job, with demands in the cluster's resources
    """
    span_us = int(table.submit_us[-1])
    days = -(-max(span_us, 1) // DAY_US)
    period_us = DAY_US * -(-days // MAX_PERIODS)
    types = type_loads(table, cluster)
    params = {"gpu_types": "ignore"} if types is not None and types.ignored else {}
    world = build_world(table, cluster, params=params)
    rigid = table.chunk_profile is None and table.training is None
    whole = _partition_load(world, 0, period_us, rigid)
    vcs, outside = None, 0
    if table.vc_names and all(vc is not None for vc in cluster.vc):
        divided = build_world(table, cluster, partition="vc", params=params)
        names = [str(vc) for vc in dict.fromkeys(cluster.vc)]
        vcs = {name: _partition_load(divided, p, period_us, rigid) for p, name in enumerate(names)}
        outside = int((divided.arrays.job_part < 0).sum())
    return ClusterLoad(cluster.name, period_us // US_PER_S, whole, vcs, outside, types, rigid)


def never_fits(world: World) -> BoolArray:
    """(J,) whether the empty servers of the job's partition cannot hold it under any placement."""
    never: BoolArray = (world.beyond_capacity != FITS)[world.arrays.job_class]
    return never


def _partition_load(world: World, part: int, period_us: int, rigid: bool) -> PartitionLoad:
    arrays, table = world.arrays, world.table
    members = arrays.job_part == part
    never = never_fits(world)
    fit = np.flatnonzero(members & ~never)
    servers = arrays.pool_servers[arrays.pool_ptr[part] : arrays.pool_ptr[part + 1]]
    rate = (arrays.capacity * arrays.speed[:, None]).astype(np.float64)
    work_us, span_us = table.work_us[fit].astype(np.float64), int(table.submit_us[-1])
    rest_us = (span_us - table.submit_us[fit]) * _slowest(world, fit, servers)
    held = table.demand[fit] * table.tasks[fit, None].astype(np.float64)
    arrivals = _Arrivals(table.submit_us[fit], span_us, period_us)
    return PartitionLoad(
        servers=len(servers),
        jobs=int(members.sum()),
        never_fit=int(members.sum()) - len(fit),
        never_fit_by_resource=_too_much(world, np.flatnonzero(members & never), servers),
        resources={
            name: _resource_load(
                arrivals,
                held[:, r] * work_us,
                float(held[:, r] @ np.minimum(work_us, rest_us)),
                _Offer.of(world, servers, rate[:, r]),
                quanta,
                rigid,
            )
            for r, (name, quanta) in enumerate(world.facts.resources.items())
        },
    )


def _slowest(world: World, jobs: IntArray, servers: IntArray) -> FloatArray:
    """Slowest of the servers that hold a task of each job, (n,) work per microsecond."""
    arrays = world.arrays
    demand = arrays.demand[arrays.class_job, WORKER]
    slowest = np.full(len(demand), arrays.speed[servers].max(initial=0.0))
    kinds = np.unique(np.column_stack([arrays.speed[servers], arrays.capacity[servers]]), axis=0)
    for speed, *capacity in kinds.tolist():
        holds = (demand <= capacity).all(axis=1)
        slowest[holds] = np.minimum(slowest[holds], speed)
    by_job: FloatArray = slowest[arrays.job_class[jobs]]
    return by_job


def _too_much(world: World, jobs: IntArray, servers: IntArray) -> dict[str, int]:
    """Jobs by resource, where any, that the servers would not hold if they asked for nothing else."""
    arrays = world.arrays
    classes, members = np.unique(arrays.job_class[jobs], return_counts=True)
    job = arrays.class_job[classes]
    gang, demand = arrays.gang[job, WORKER], arrays.demand[job, WORKER]
    counts: dict[str, int] = {}
    for r, name in enumerate(world.facts.resources):
        amounts, of = np.unique(demand[:, r], return_inverse=True)
        capacity = arrays.capacity[servers, r]
        room = np.array([(capacity // amount).sum() if amount else _ENDLESS for amount in amounts], np.int64)
        if count := int(members[room[of] < gang].sum()):
            counts[name] = count
    return counts


@dataclass(frozen=True, slots=True)
class _Offer:
    """Work of a partition's servers per microsecond, in quanta of one resource."""

    most: float
    """Rate of all servers."""
    pool: PoolRate
    """Rate of the available servers over time."""

    @classmethod
    def of(cls, world: World, servers: IntArray, rate: FloatArray) -> _Offer:
        """Rates of these servers, given the rate of every server."""
        outages = world.outages
        here = np.isin(outages.server, servers)
        changed = outages.server[here]
        steps = np.where(outages.up[here], rate[changed], -rate[changed])
        first = rate[servers[world.there[servers]]].sum()
        rates = first + np.concatenate([[0.0], np.cumsum(steps)])
        since = np.concatenate([[0], outages.time[here]]).astype(np.int64)
        # Sums of speeds such as 0.7 leave a rounding error instead of 0.
        most = float(rate[servers].sum())
        return cls(most, PoolRate(since, np.where(rates > _NOTHING * most, rates, 0.0)))


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Arrival times of a partition's jobs within the span of the whole workload."""

    submit_us: IntArray
    span_us: int
    period_us: int

    def by_period(self, work: FloatArray) -> FloatArray:
        """Work submitted in each period of the span."""
        periods = self.span_us // self.period_us + 1
        of_period = self.submit_us // self.period_us
        return np.bincount(of_period, weights=work, minlength=periods).astype(np.float64)

    def peak_hour(self, work: FloatArray) -> tuple[int, float]:
        """Index of the first hour with the most work, and that work; hour 0 without jobs."""
        hours, at = np.unique(self.submit_us // HOUR_US, return_inverse=True)
        if not len(hours):
            return 0, 0.0
        by_hour = np.bincount(at, weights=work)
        return int(hours[by_hour.argmax()]), float(by_hour.max())

    def period_ends(self) -> IntArray:
        """End of each period; the last is the last submission."""
        ends = np.arange(1, self.span_us // self.period_us + 2, dtype=np.int64) * self.period_us
        return np.minimum(ends, self.span_us)


def _resource_load(
    arrivals: _Arrivals, work: FloatArray, in_span: float, offer: _Offer, quanta: int, rigid: bool
) -> ResourceLoad:
    """Load of one resource, of whose work that of all jobs ``in_span`` can be done without a wait.

    Work is in quanta x microseconds; a resource with capacity 0 has no work.
    """
    hours, span_us = 1 / (quanta * HOUR_US), arrivals.span_us
    able = offer.pool.by(np.array([max(span_us, 1)]))[0]
    hour, peak_work = arrivals.peak_hour(work)
    bounds = np.arange(span_us // arrivals.period_us + 2, dtype=np.int64) * arrivals.period_us
    in_period = np.diff(offer.pool.by(bounds))
    in_hour = np.diff(offer.pool.by(np.array([hour, hour + 1]) * HOUR_US))[0]
    return ResourceLoad(
        capacity=offer.most / quanta,
        mean_capacity=float(able) / max(span_us, 1) / quanta,
        work_h=float(work.sum()) * hours,
        offered_load=_load(in_span, able) if span_us else None,
        by_period=[_load(*pair) for pair in zip(arrivals.by_period(work), in_period, strict=True)],
        peak_hour_load=_load(peak_work, in_hour),
        peak_hour_s=float(hour * 3_600),
        backlog=_backlog(arrivals, work, offer.pool, hours) if rigid else None,
    )


def _load(work: float, able: float) -> float | None:
    return float(work / able) if able > 0 else None


def _backlog(arrivals: _Arrivals, work: FloatArray, pool: PoolRate, hours: float) -> Backlog:
    if not len(work):
        work, submit_us = np.zeros(1), np.zeros(1, np.int64)
    else:
        submit_us = arrivals.submit_us
    backlog = fluid_backlog(submit_us, work, pool)
    by_period = backlog_at(submit_us, backlog, pool, arrivals.period_ends())
    most = int(backlog.argmax())
    drain_us = pool.time_for(float(by_period[-1]), arrivals.span_us)
    return Backlog(
        at_last_submission_h=float(by_period[-1]) * hours,
        drain_h=drain_us / HOUR_US if np.isfinite(drain_us) else None,
        most_h=float(backlog[most]) * hours,
        most_at_s=float(submit_us[most]) / US_PER_S,
        by_period_h=(by_period * hours).tolist(),
    )
