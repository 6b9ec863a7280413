"""Least times and capacity of elastic jobs, for the certificate of the mean JCT."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits, LeastTimes, NoJctLimits
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.least_use import training_use
from ray_sim.engine.partition_pools import most_capacity, partition_names, partition_servers
from ray_sim.engine.world import World
from ray_sim.model.units import IntArray


def training_jct_limits(world: World, jobs: IntArray) -> JctLimits | NoJctLimits:
    """Limits of completed jobs, each on the servers of its partition; see `training_use`."""
    facts = ElasticFacts.in_world(world)
    partition = world.arrays.job_part[jobs]
    shortest, area = np.zeros(len(jobs)), np.zeros((len(jobs), len(facts.resources)))
    for p, servers in enumerate(partition_servers(world)):
        # Jobs without work complete wherever they are, also where they could not train.
        mine = np.flatnonzero((partition == p) & (facts.profile.work[jobs] > 0))
        use = training_use(world, jobs[mine], servers)
        if use is None:
            return NoJctLimits(f"truth={facts.rule.truth} states no limits of the speed of elastic jobs")
        shortest[mine], area[mine] = use
    return JctLimits(
        LeastTimes(world.table.submit_us[jobs], shortest, shortest, area),
        most_capacity(world),
        partition,
        resources=tuple(facts.resources),
        partitions=partition_names(world),
        cells=facts.bound_cells,
    )
