"""Kinds of rigid jobs beside the built-in one: what a result says of their loop, bounds and evictions."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.kinds.rigid.jobs import RigidJobs
from ray_sim.engine.kinds.run import KindRun
from ray_sim.engine.run import run_world
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import RUNNING
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S, IntArray
from ray_sim.policies.registry import create_policy
from tests.boosted_jobs import BOOSTED, BoostedJobs, BoostOnce
from tests.worlds import Job, column_of, times_of, world_of


class SlowLoopFacts(RigidFacts):
    """Facts of gangs, without the compiled loop."""

    @property
    def compiled(self) -> bool:
        return False


class LimitedRun(KindRun):
    """Gangs that the world ends once they have run for five seconds."""

    limit_us: ClassVar[int] = 5 * US_PER_S
    named: ClassVar[bool] = True

    @property
    def next_us(self) -> int:
        ledger = self._core.ledger
        return int(ledger.held_since[ledger.status == RUNNING].min(initial=NEVER_US)) + self.limit_us

    def complete(self, now_us: int) -> IntArray:
        """End the jobs whose work is done, and those whose time is over."""
        done, ledger = super().complete(now_us), self._core.ledger
        over = np.flatnonzero((ledger.status == RUNNING) & (ledger.held_since + self.limit_us <= now_us))
        for job in over.tolist():
            self.evict(now_us, job)
            if self.named:
                self._core.reasons[job] = "time_limit"
        return np.union1d(done, over)


class UnnamedRun(LimitedRun):
    """Names no reason."""

    named: ClassVar[bool] = False


class LimitedJobs(RigidJobs):
    """The kind of gangs with a time limit."""

    truth = "limited"
    jobs = "limited"

    def __init__(self, run: type[KindRun]) -> None:
        self._run = run

    def facts(self, setting: WorldSetting) -> RigidFacts:
        gangs = RigidFacts.of(setting)
        return SlowLoopFacts(**{each.name: getattr(gangs, each.name) for each in fields(RigidFacts)})

    def start(self, core: RunCore, policy: object, streams: Streams) -> KindRun:
        facts = core.world.facts
        assert isinstance(facts, RigidFacts)
        return self._run(core, facts.progress)


def limited(world: World, run: type[KindRun] = LimitedRun) -> World:
    """The same jobs and servers in a world that ends jobs."""
    kinds = (*JOB_KINDS, LimitedJobs(run))
    return build_world(world.table, world.cluster, params={"truth": "limited"}, kinds=kinds)


TWO_JOBS = world_of([Job(0, 1, 20), Job(1, 1, 4)], [1])


def test_the_reason_for_the_general_loop_names_the_kind_of_jobs() -> None:
    boosted = build_world(
        TWO_JOBS.table, TWO_JOBS.cluster, params={"truth": BOOSTED}, kinds=(*JOB_KINDS, BoostedJobs())
    )
    reason = "the compiled loop does not simulate these {} jobs"
    assert run_world(boosted, BoostOnce()).loop_reason == reason.format("boosted")
    assert run_world(limited(TWO_JOBS), create_policy("fifo")).loop_reason == reason.format("limited")


@pytest.mark.parametrize(("run", "reason"), [(LimitedRun, "time_limit"), (UnnamedRun, "world")])
def test_a_world_that_evicts_a_job_names_its_reason(run: type[KindRun], reason: str) -> None:
    # J1 is ended at 5 s, after five of its 20 s; J2 waits until then and ends at 9 s.
    result = run_world(limited(TWO_JOBS, run), create_policy("fifo"))
    assert times_of(result) == {"J1": (0, 5), "J2": (5, 9)}
    assert column_of(result, "status") == {"J1": "evicted", "J2": "completed"}
    assert column_of(result, "reason") == {"J1": reason, "J2": None}


def test_the_reason_of_an_eviction_is_in_a_snapshot() -> None:
    world, policy = limited(TWO_JOBS), create_policy("fifo")
    first = Simulation(world, policy)
    policy.start(first.world, first.streams)
    while (view := first.advance()) is not None:
        first.apply(policy.decide(view))
    second = Simulation(world, policy)
    policy.start(second.world, second.streams)
    second.restore(first.state())
    assert second.core.reasons == {0: "time_limit"}


def test_bounds_of_rigid_jobs_do_not_depend_on_the_loop() -> None:
    # 20 s and 4 s on one GPU: the bound is that of the same jobs in the compiled loop.
    plain = run_world(TWO_JOBS, create_policy("fifo")).summary
    general = run_world(limited(TWO_JOBS, KindRun), create_policy("fifo")).summary
    assert plain.certificate is not None
    assert general.certificate == plain.certificate
