"""Rigid jobs: a gang holds all its tasks or nothing and runs for its duration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.certificates.jct import JctLimits, NoJctLimits
from ray_sim.certificates.utility import certify_utility
from ray_sim.engine.gpu_shares import GPU_SHARES
from ray_sim.engine.kinds.base import BOUND_CELLS, GANGS, JobKind, KindParameter
from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.kinds.pools import LeastUse, TypeSpeeds, family_limits, pooled_limits
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.world import World
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.parameters import Parameter
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.run import KindRun
    from ray_sim.engine.run_core import RunCore
    from ray_sim.model.streams import Streams


FRAGMENTATION_TARGET = KindParameter(
    Parameter(
        "fragmentation_target",
        "choice",
        "trace",
        "typical tasks, to which GPUs that they cannot use are fragments. trace: of the whole workload; "
        "arrived: of the jobs that have come",
        choices=("trace", "arrived"),
        source="docs/engine.md#scores-of-servers",
    ),
    # With two roles a job may find a place under one target, and none under that of fewer arrivals.
    "is about the typical tasks of rigid jobs",
)
"""Scenarios may name a file instead."""


class RigidJobs(JobKind):
    """Gangs that run at the speed of their slowest server."""

    truth = "rigid"
    jobs = "rigid"
    accepts = frozenset({GANGS})
    summary = "a job runs for its duration while all its tasks are placed"
    parameters = (BOUND_CELLS, GPU_SHARES, FRAGMENTATION_TARGET)
    heeds = frozenset({"fragmentation_target"})
    devices = True
    faults = frozenset({"stop", "end"})

    def facts(self, setting: WorldSetting) -> RigidFacts:
        """Make the facts of a world, see `RigidFacts`."""
        return RigidFacts.of(setting)

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> KindRun:
        """Start a run."""
        from ray_sim.engine.kinds.run import KindRun

        facts = core.world.facts
        assert isinstance(facts, RigidFacts)
        return KindRun(core, facts.progress)

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits | None:
        """Gangs at the speed of their pool's fastest server; no limits under another progress rule."""
        facts = world.facts
        if not isinstance(facts, RigidFacts) or not facts.gangs:
            return super().jct_limits(world, jobs)
        return family_limits(
            world, jobs, partial(_gang_use, world), facts.bound_cells, _type_speeds(world, jobs)
        )

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """Bound what gangs at the speed of the fastest server can earn; None under another progress rule."""
        facts = world.facts
        if earned is None or not isinstance(facts, RigidFacts) or not facts.gangs:
            return None
        limits = pooled_limits(world, counted, partial(_gang_use, world))
        return None if limits is None else certify_utility(limits, earned)


def _type_speeds(world: World, jobs: IntArray) -> TypeSpeeds | None:
    """Speeds of jobs on the servers of each speed, which are also the prices; None where all are equal.

    At these prices a job pays the same everywhere, and a GPU offers its speed.
    """
    speed, of_server = np.unique(world.arrays.speed, return_inverse=True)
    if len(speed) < 2:
        return None
    table = world.table
    work_us = np.maximum(table.work_us[jobs], 1)[:, None]
    gpus = (table.tasks[jobs] * table.demand[jobs, GPU]).astype(np.float64)
    return TypeSpeeds(
        of_server, np.where(table.work_us[jobs, None] > 0, speed / work_us, np.inf), gpus, speed
    )


def _gang_use(world: World, jobs: IntArray, may: BoolArray) -> LeastUse:
    """All tasks of each job, held for its work at the speed of the fastest server that they may use."""
    table = world.table
    shortest: FloatArray = table.work_us[jobs] / world.arrays.speed[may.any(axis=0)].max()
    return LeastUse(shortest, table.demand[jobs] * (table.tasks[jobs] * shortest)[:, None])
