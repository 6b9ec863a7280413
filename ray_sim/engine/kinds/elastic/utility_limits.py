"""Limits of elastic jobs for the certificate of utility."""

from __future__ import annotations

from ray_sim.certificates.utility import certify_utility, with_optimum
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.least_use import training_use
from ray_sim.engine.kinds.elastic.slot_jobs import world_optimum
from ray_sim.engine.kinds.pooled_utility import LeastUse, pooled_limits
from ray_sim.engine.world import World
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.solvers.utility_optimum import SearchLimits


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
    facts = world.facts
    if not isinstance(facts, ElasticFacts) or earned is None:
        return None

    def least_use(jobs: IntArray, servers: IntArray) -> LeastUse | None:
        return training_use(world, jobs, servers)

    limits = pooled_limits(world, counted, least_use)
    if limits is None:
        return None
    certificate = certify_utility(limits, earned)
    if facts.optimum_nodes is None:
        return certificate
    search = SearchLimits(nodes=facts.optimum_nodes)
    return with_optimum(certificate, world_optimum(world, search, counted), earned)
