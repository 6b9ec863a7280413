"""Certificate of the mean job completion time: the gap between a run and lower bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.model.result import JctCertificate
from ray_sim.model.units import US_PER_S, FloatArray, IntArray
from ray_sim.solvers.jct_bound import JctBounds, jct_bounds


class LeastTimes(NamedTuple):
    """Least time and resources that each of n jobs needs; in microseconds, see `jct_bounds`."""

    release: IntArray
    shortest: FloatArray
    busy: FloatArray
    area: FloatArray
    """(n, R) quanta x microseconds."""


class NestedJobs(NamedTuple):
    """Jobs that may use a part of their family's servers only."""

    jobs: IntArray
    """Positions in `JctLimits`, sorted."""
    capacity: FloatArray
    """(R,) quanta of that part."""


@dataclass(frozen=True, slots=True)
class JctLimits:
    """Limits that a kind of jobs states about n completed jobs, in any order, in P partitions.

    Where jobs accept certain GPU types only, a partition may stand here for each family of its jobs.
    """

    times: LeastTimes
    capacity: FloatArray
    """(P, R) quanta, infinite where no capacity bounds the jobs."""
    partition: IntArray
    """(n,) of each job."""
    flow: FloatArray | None = None
    """(P,) lower bounds on the mean flow time by a linear programme, 0 where there is none."""
    only_b1: str | None = None
    """Reason why capacity bounds nothing and only B1 holds."""
    no_lp: str | None = None
    """Reason why the linear programme was not solved."""
    speed_up: float | None = None
    """Factor by which workers of the run are faster than those of the bounds."""
    resources: tuple[str, ...] = ()
    """(R,) names."""
    partitions: tuple[str, ...] | None = None
    """(P,) names; None where the servers are one pool."""
    types: tuple[str | None, ...] = ()
    """(P,) GPU types of a family's servers; None for all of a partition."""
    nested: tuple[tuple[NestedJobs, ...], ...] = ()
    """(P,) jobs of each family that may use a part of its servers only; B4 counts them."""
    cells: int | None = None
    """Largest number of variables of B4's programme; None where B4 is not asked for."""

    def bounds(self) -> JctBounds:
        """Lower bounds on the mean time from release to completion."""
        times = self.times
        order = np.argsort(times.release, kind="stable")
        columns = (times.release[order], times.shortest[order], times.area[order])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        bounds = jct_bounds(
            *columns,
            self.capacity,
            self.partition[order],
            busy=times.busy[order],
            other=self.flow,
            cells=self.cells,
            nested=[[(place[part.jobs], part.capacity) for part in parts] for parts in self.nested],
        )
        assert bounds is not None, "some job completed"
        return bounds


@dataclass(frozen=True, slots=True)
class NoJctLimits:
    """Answer of a kind of jobs whose completion times nothing bounds."""

    reason: str


def certify_jct(limits: JctLimits, submit_us: IntArray, end_us: IntArray) -> JctCertificate:
    """Bound the mean JCT of n >= 1 completed jobs, listed in ``limits`` in the order of its partitions.

    Jobs left out only take resources, so the bound holds without them.

    Parameters
    ----------
    submit_us, end_us : (n,) of the same jobs, in any order
    """
    bounds, before_us = limits.bounds(), float((limits.times.release - submit_us).mean())
    b1_us, b2_us, b3_us, lp_us, bound_us = (
        bound + before_us for bound in (bounds.b1, bounds.b2, bounds.b3, bounds.other, bounds.bound)
    )
    bounded, binding = limits.only_b1 is None, bounds.binding
    return JctCertificate(
        b1_s=b1_us / US_PER_S,
        b2_s=b2_us / US_PER_S if bounded else None,
        b3_s=b3_us / US_PER_S if bounded else None,
        bound_s=bound_us / US_PER_S,
        gap=_gap(float((end_us - submit_us).mean()), bound_us),
        only_b1=limits.only_b1,
        lp_s=None if limits.flow is None or limits.no_lp is not None else lp_us / US_PER_S,
        no_lp=limits.no_lp,
        speed_up=limits.speed_up,
        b4_s=None if bounds.b4 is None or bounds.no_b4 is not None else (bounds.b4 + before_us) / US_PER_S,
        no_b4=bounds.no_b4,
        binding=binding.name,
        resource=None if binding.resource is None else limits.resources[binding.resource],
        partition=None if limits.partitions is None else limits.partitions[binding.partition],
        types=limits.types[binding.partition] if limits.types else None,
    )


def _gap(mean_jct: float, bound: float) -> float | None:
    """Excess of the mean JCT over the bound; 0 where both are 0, as for jobs of no length that never wait."""
    if bound > 0.0:
        return mean_jct / bound - 1.0
    return 0.0 if mean_jct == 0.0 else None
