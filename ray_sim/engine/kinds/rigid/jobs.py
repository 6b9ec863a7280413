"""Rigid jobs: a gang holds all its tasks or nothing and runs for its duration."""

from __future__ import annotations

from ray_sim.certificates.jct import JctLimits, NoJctLimits
from ray_sim.engine.contract import GANGS, Policy
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.kinds.bound_cells import BOUND_CELLS
from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.kinds.rigid.jct_limits import certify_gang_utility, gang_limits
from ray_sim.engine.kinds.rigid.run import RigidRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.world import World
from ray_sim.model.result import UtilityCertificate
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, IntArray


class RigidJobs(JobKind):
    """Gangs that run at the speed of their slowest server."""

    truth = "rigid"
    jobs = "rigid"
    takes = frozenset({GANGS})
    summary = "a job runs for its duration while all its tasks are placed"
    parameters = (BOUND_CELLS,)

    def facts(self, setting: WorldSetting) -> RigidFacts:
        """Make the facts of a world, see `RigidFacts`."""
        return RigidFacts.of(setting)

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> RigidRun:
        """Start a run."""
        facts = core.world.facts
        assert isinstance(facts, RigidFacts)
        return RigidRun(core, facts.progress)

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits | None:
        """Gangs at the speed of the fastest server; no limits under another progress rule."""
        return gang_limits(world, jobs) if _gangs(world) else super().jct_limits(world, jobs)

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """See `certify_gang_utility`; None under another progress rule."""
        return certify_gang_utility(world, earned, counted) if _gangs(world) else None


def _gangs(world: World) -> bool:
    """Whether its jobs are gangs, which decides what bounds them; whichever loop runs them."""
    return isinstance(world.facts, RigidFacts) and world.facts.gangs
