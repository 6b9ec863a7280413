"""Proof that no policy meets a goal on given servers, by the bounds of the certificates.

The bounds are about the metric that the goal limits: the mean JCT, the number of jobs whose JCT is at most
the limit, or the total utility. They hold for every schedule of these jobs on these servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ray_sim.certificates.jct import NoJctLimits, certify_jct
from ray_sim.engine.world import World
from ray_sim.experiments.capacity.goal import SAME, quantile_rank
from ray_sim.experiments.capacity.request import Mix, PlanRequest, within
from ray_sim.experiments.prepare import Offer, offer_of, realise, world_of
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.job import JobTable, UtilityProfile
from ray_sim.model.units import US_PER_S, IntArray, seconds_to_us
from ray_sim.model.utility import CLOCK_US

_DROP_PER_S = 1e9
"""Decay of the worth of a completion in time: half a microsecond around the limit takes it from 1 to 0."""

_ROUNDING_US = 1
"""Least times are quotients in floating point; the engine counts whole microseconds."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound on what any policy can reach, mean over seeds."""

    value: float
    """Bound on the metric of the goal; for a quantile, on the share of jobs whose JCT is within the limit."""
    excluded: bool
    """Whether the bound proves that no policy meets the goal."""


class Proofs:
    """Bounds for the goal of a plan on the jobs of these seeds."""

    def __init__(self, request: PlanRequest, seeds: Sequence[int], inputs: HashedInputs) -> None:
        self._request = request
        self._goal = goal = request.goal
        self._scenario = request.scenario
        self._seeds = seeds
        self._inputs = inputs
        self._tables: dict[Offer, list[JobTable]] = {}
        self._bounds: dict[Mix, Bound | None] = {}
        self.reason = None if self._bounded else f"no bound is known for {goal}"
        """Reason why there is no proof; None as long as there may be one."""

    @property
    def _bounded(self) -> bool:
        goal = self._goal
        if goal.key == "utility":
            return not goal.falls
        return goal.quantile is not None or (goal.key == "jct_s.mean" and goal.falls)

    @property
    def _limit_s(self) -> float:
        """Largest time that may count as within the limit, see `Goal.met`."""
        return self._goal.limit * (1 + SAME)

    def bound(self, mix: Mix) -> Bound | None:
        """Bound on these servers, computed once; None where nothing bounds the metric, see `reason`."""
        if mix not in self._bounds:
            bounded = self.reason is None
            self._bounds[mix] = self._bound(self._request.cluster(mix)) if bounded else None
        return self._bounds[mix]

    def excluded(self, mix: Mix) -> bool:
        """Whether it is proven that no policy meets the goal with these servers."""
        if self.implied(mix):
            return True
        bound = self.bound(mix)
        return bound is not None and bound.excluded

    def implied(self, mix: Mix) -> bool:
        """Whether the mix is within an excluded one: a schedule on fewer servers is one on more, too."""
        return any(
            bound is not None and bound.excluded and within(mix, larger)
            for larger, bound in self._bounds.items()
        )

    def _bound(self, cluster: str) -> Bound | None:
        found = [self._of(table, cluster) for table in self._jobs(cluster)]
        values = [each for each in found if each is not None]
        if len(values) < len(found):
            return None
        value = float(np.mean([bound for bound, _ in values]))
        if self._goal.quantile is None:
            return Bound(value, excluded=not self._goal.met(value))
        return Bound(value, excluded=all(excluded for _, excluded in values))

    def _jobs(self, cluster: str) -> list[JobTable]:
        """Jobs of each seed; those of one offer are drawn once."""
        spec = self._scenario.workload
        offer = offer_of(spec, self._inputs.cluster(cluster))
        if offer not in self._tables:
            base = self._inputs.base(spec)
            self._tables[offer] = [realise(spec, seed, base, offer).table for seed in self._seeds]
        return self._tables[offer]

    def _of(self, table: JobTable, cluster: str) -> tuple[float, bool] | None:
        """Bound for one seed, and whether it excludes the goal; None where there is no bound."""
        share = self._goal.quantile
        if share is not None:
            # Worth 1 within the limit, and 0 later.
            jobs, due_s = len(table), self._limit_s + 0.5 / US_PER_S
            worth = np.ones(jobs), np.full(jobs, _DROP_PER_S), np.full(jobs, due_s)
            table = replace(table, utility=UtilityProfile(*worth))
        servers = self._inputs.servers(cluster, self._scenario.world)
        world = world_of(self._scenario, table, servers)
        counted = self._counted(world)
        if share is not None:
            return self._of_share(world, counted, share)
        if self._goal.key == "utility":
            most = self._most_utility(world, counted)
            return None if most is None else (most, not self._goal.met(most))
        return self._of_mean(world, counted)

    def _of_mean(self, world: World, counted: IntArray) -> tuple[float, bool] | None:
        arrays = world.arrays
        fits = (world.beyond_capacity[arrays.job_class] == FITS) & (arrays.job_part >= 0)
        if not fits[counted].all():
            return np.inf, True
        limits = world.kind.jct_limits(world, counted)
        if limits is None or isinstance(limits, NoJctLimits):
            self.reason = "nothing bounds the JCT of these jobs" if limits is None else limits.reason
            return None
        if limits.speed_up is not None:
            self.reason = "the bounds are about workers of speed 1, and speed_up is another"
            return None
        times = limits.times
        if (times.release + times.shortest > world.horizon_us + _ROUNDING_US).any():
            return np.inf, True
        submit_us = world.table.submit_us[counted]
        bound = certify_jct(limits, submit_us, submit_us).bound_s
        return bound, not self._goal.met(bound)

    def _of_share(self, world: World, counted: IntArray, share: float) -> tuple[float, bool] | None:
        """At least so many jobs are in time as there are order statistics up to the quantile.

        Nothing counts after the last job in time has ended, so the bound looks no further.
        """
        last_us = int(world.table.submit_us[counted].max()) + int(seconds_to_us(self._limit_s)) + CLOCK_US
        world = replace(world, horizon_us=min(world.horizon_us, max(last_us, CLOCK_US)))
        most = self._most_utility(world, counted)
        needed = quantile_rank(len(counted), share)[0] + 1
        return None if most is None else (most / len(counted), most < needed)

    def _most_utility(self, world: World, counted: IntArray) -> float | None:
        chosen = np.zeros(len(world.table), dtype=np.bool_)
        chosen[counted] = True
        certificate = world.kind.certify_utility(world, 0.0, chosen)
        if certificate is None:
            self.reason = f"nothing bounds what {world.kind.jobs} jobs can reach"
            return None
        return certificate.bound

    def _counted(self, world: World) -> IntArray:
        """Jobs that count in the summary."""
        trim = self._scenario.trim
        submit_us = world.table.submit_us
        counted = np.ones(len(submit_us), np.bool_) if trim is None else trim.trim.counted(submit_us)
        return np.flatnonzero(counted)
