"""Limits of elastic jobs for the certificate of utility."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.utility import LONGEST_US, HopefulJobs, UtilityLimits, certify_utility, with_optimum
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.slot_jobs import world_optimum
from ray_sim.engine.world import World
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.solvers.training_limits import pool_of
from ray_sim.solvers.utility_optimum import SearchLimits

_SURELY = 1.0 - 1e-9
"""Factor on least times: a run books progress in floating point."""


def certify_world_utility(
    world: World, earned: float | None, counted: BoolArray | None = None
) -> UtilityCertificate | None:
    """Bound what all jobs together can earn; None unless they are elastic and have utilities.

    Where the world asks for it, the exact optimum in whole slots is found beside the bounds.

    Parameters
    ----------
    earned : by the jobs that are counted
    counted : (J,) the jobs whose utility it is; all without it. The others could only take resources.
    """
    limits = _utility_limits(world, counted)
    if limits is None or earned is None:
        return None
    certificate = certify_utility(limits, earned)
    nodes = ElasticFacts.in_world(world).optimum_nodes
    if nodes is None:
        return certificate
    return with_optimum(certificate, world_optimum(world, SearchLimits(nodes=nodes), counted), earned)


def _utility_limits(world: World, counted: BoolArray | None) -> UtilityLimits | None:
    facts, profile, arrays = world.facts, world.table.utility, world.arrays
    if not isinstance(facts, ElasticFacts) or profile is None:
        return None
    fits = world.beyond_capacity[arrays.job_class] == FITS
    fits &= arrays.job_part >= 0
    wanted = np.flatnonzero(fits if counted is None else fits & counted)
    parts = np.split(arrays.part_servers, arrays.part_ptr[1:-1])
    hopeful = [
        _hopeful_jobs(world, facts, wanted[arrays.job_part[wanted] == p], servers)
        for p, servers in enumerate(parts)
    ]
    pools = [
        (jobs, arrays.capacity[servers].sum(axis=0).astype(np.float64))
        for jobs, servers in zip(hopeful, parts, strict=True)
        if jobs is not None
    ]
    if len(pools) < len(parts):
        return None
    return UtilityLimits(
        jobs=len(world.table) if counted is None else int(counted.sum()),
        pools=pools,
        profile=profile,
        slot_us=world.slot_us,
        horizon_us=world.horizon_us if world.bounded else None,
    )


def _hopeful_jobs(world: World, facts: ElasticFacts, jobs: IntArray, servers: IntArray) -> HopefulJobs | None:
    """Work and speed limits of the given jobs on the given servers; None under a rule that has no limits."""
    profile = facts.profile
    pool = pool_of(world.arrays.capacity[servers], world.arrays.speed[servers])
    limits = facts.rule.limits(profile, jobs, pool, facts.values)
    if limits is None:
        return None
    able = limits.samples_per_s > 0
    jobs, speed, need = jobs[able], limits.samples_per_s[able], limits.need[able]
    work = profile.work[jobs]
    shortest = np.minimum(work / speed * (US_PER_S * _SURELY), LONGEST_US)
    submit = world.table.submit_us[jobs]
    soon = submit + shortest <= world.horizon_us
    need = (need * (work * (US_PER_S * _SURELY))[:, None])[soon]
    return HopefulJobs(jobs[soon], submit[soon], shortest[soon], need)
