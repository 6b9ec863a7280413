"""The load that a workload is on a cluster: per resource, per vc, over time; and what it cannot finish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.solvers.fluid import PoolRate, backlog_at, fluid_backlog

DAY_US = 86_400 * US_PER_S
HOUR_US = 3_600 * US_PER_S

_NOTHING = 1e-12
"""Share of all servers that rounding may leave of none."""

MAX_PERIODS = 1_000
"""Most periods; days of a longer workload are joined."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Least unfinished work of a resource, in its unit x hours, whatever the policy (`fluid_backlog`).

    True of rigid jobs under every policy that refuses none and is promised no more than there is.
    """

    at_last_submission_h: float
    drain_h: float | None
    """Hours that the servers take for that at least; null if those that are there then never do it."""
    most_h: float
    most_at_s: float
    """Since the first submission."""
    by_period_h: list[float]
    """At the end of each period; of the last one, at the last submission."""


@dataclass(frozen=True, slots=True)
class ResourceLoad:
    """What the jobs that fit ask of one resource, and what the servers offer of it.

    Servers of speed v do the work of v traced seconds in a second, and none while they are not there. A load
    is work over what they can do in the time: of the whole span, of a period, of an hour. It is null where
    that is nothing.
    """

    capacity: float
    """Of all servers, times speed, in the resource's unit."""
    mean_capacity: float
    """Of those that are there, on average over the span; without a span at the first submission."""
    work_h: float
    """Demand x traced run time, in the unit x hours."""
    offered_load: float | None
    """Over the span."""
    by_period: list[float | None]
    """By period of submission."""
    peak_hour_load: float | None
    peak_hour_s: float
    """When the hour begins that brings the most work, since the first submission."""
    backlog: Backlog | None
    """Null where jobs train in chunks or with changing numbers of workers, of which it is not true."""

    @property
    def overloaded(self) -> bool:
        """Whether more is asked for than there is, or never done by the servers that are left."""
        if self.backlog is None:
            return False
        return (self.offered_load or 0.0) > 1 or self.backlog.drain_h is None


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """The jobs of a partition on its servers."""

    servers: int
    jobs: int
    never_fit: int
    """Jobs that the empty partition cannot hold; a replay refuses them, and they are no load."""
    resources: dict[str, ResourceLoad]

    @property
    def worst(self) -> tuple[str, ResourceLoad] | None:
        """The resource with the highest offered load; None where none has one."""
        loads = [(name, load) for name, load in self.resources.items() if load.offered_load is not None]
        return max(loads, key=lambda pair: pair[1].offered_load or 0.0, default=None)

    @property
    def overload(self) -> tuple[str, ResourceLoad] | None:
        """The first resource that is `overloaded`, in order of falling load."""
        loads = sorted(self.resources.items(), key=lambda pair: -(pair[1].offered_load or 0.0))
        return next((pair for pair in loads if pair[1].overloaded), None)


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """A workload on a cluster."""

    cluster: str
    period_s: int
    """Length of a period: a day, or some where the span has very many."""
    whole: PartitionLoad
    """Every job may use every server."""
    vcs: dict[str, PartitionLoad] | None
    """Every job keeps to the servers of its vc; null unless all servers bear one, and some jobs."""
    outside_vcs: int
    """Jobs without a vc, or of one without servers; 0 where `vcs` is null."""
    whole_jobs: bool
    """Whether the workload says nothing of how jobs train in chunks or with other numbers of workers."""


def offered_load(table: JobTable, cluster: Cluster) -> ClusterLoad:
    """The load of rigid jobs on a cluster, whose servers may come and go.

    Parameters
    ----------
    table : at least one job, with demands in the cluster's resources
    """
    span_us = int(table.submit_us[-1])
    days = -(-max(span_us, 1) // DAY_US)
    period_us = DAY_US * -(-days // MAX_PERIODS)
    world = build_world(table, cluster)
    rigid = table.chunk_profile is None and table.training is None
    whole = _partition_load(world, 0, period_us, rigid)
    vcs, outside = None, 0
    if table.vc_names and all(vc is not None for vc in cluster.vc):
        divided = build_world(table, cluster, partition="vc")
        names = [str(vc) for vc in dict.fromkeys(cluster.vc)]
        vcs = {name: _partition_load(divided, p, period_us, rigid) for p, name in enumerate(names)}
        outside = int((divided.arrays.job_part < 0).sum())
    return ClusterLoad(cluster.name, period_us // US_PER_S, whole, vcs, outside, rigid)


def never_fits(world: World) -> BoolArray:
    """(J,) jobs that the empty servers of their partition cannot hold, however they are placed."""
    never: BoolArray = (world.beyond_capacity != FITS)[world.arrays.job_class]
    return never


def _partition_load(world: World, part: int, period_us: int, rigid: bool) -> PartitionLoad:
    arrays, table = world.arrays, world.table
    members = arrays.job_part == part
    fit = np.flatnonzero(members & ~never_fits(world))
    servers = arrays.part_servers[arrays.part_ptr[part] : arrays.part_ptr[part + 1]]
    rate = (arrays.capacity * arrays.speed[:, None]).astype(np.float64)
    run_us = table.tasks[fit] * table.work_us[fit].astype(np.float64)
    arrivals = _Arrivals(table.submit_us[fit], int(table.submit_us[-1]), period_us)
    return PartitionLoad(
        servers=len(servers),
        jobs=int(members.sum()),
        never_fit=int(members.sum()) - len(fit),
        resources={
            name: _resource_load(
                arrivals, table.demand[fit, r] * run_us, _Offer.of(world, servers, rate[:, r]), quanta, rigid
            )
            for r, (name, quanta) in enumerate(world.facts.resources.items())
        },
    )


@dataclass(frozen=True, slots=True)
class _Offer:
    """What the servers of a partition do in a microsecond, in quanta of one resource."""

    most: float
    """All of them together."""
    pool: PoolRate
    """Those that are there."""

    @classmethod
    def of(cls, world: World, servers: IntArray, rate: FloatArray) -> _Offer:
        """Of these servers, given the rate of every server."""
        outages = world.outages
        here = np.isin(outages.server, servers)
        changed = outages.server[here]
        steps = np.where(outages.up[here], rate[changed], -rate[changed])
        first = rate[servers[world.there[servers]]].sum()
        rates = first + np.concatenate([[0.0], np.cumsum(steps)])
        since = np.concatenate([[0], outages.time[here]]).astype(np.int64)
        # Sums of speeds such as 0.7 leave a little where nothing is left.
        most = float(rate[servers].sum())
        return cls(most, PoolRate(since, np.where(rates > _NOTHING * most, rates, 0.0)))


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """When the jobs of a partition come, in a workload of which this is a part."""

    submit_us: IntArray
    span_us: int
    period_us: int

    def by_period(self, work: FloatArray) -> FloatArray:
        """Work submitted in each period of the span."""
        periods = self.span_us // self.period_us + 1
        of_period = self.submit_us // self.period_us
        return np.bincount(of_period, weights=work, minlength=periods).astype(np.float64)

    def peak_hour(self, work: FloatArray) -> tuple[int, float]:
        """The first hour with the most work, and that work; hour 0 without jobs."""
        hours, at = np.unique(self.submit_us // HOUR_US, return_inverse=True)
        if not len(hours):
            return 0, 0.0
        by_hour = np.bincount(at, weights=work)
        return int(hours[by_hour.argmax()]), float(by_hour.max())

    def period_ends(self) -> IntArray:
        """The last one is the last submission."""
        ends = np.arange(1, self.span_us // self.period_us + 2, dtype=np.int64) * self.period_us
        return np.minimum(ends, self.span_us)


def _resource_load(
    arrivals: _Arrivals, work: FloatArray, offer: _Offer, quanta: int, rigid: bool
) -> ResourceLoad:
    """Work in quanta x microseconds; a resource of which there is none has no work either."""
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
        offered_load=_load(float(work.sum()), able) if span_us else None,
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
