"""No built-in policy places a task outside the servers that its job accepts, or it refuses by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest

from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.elastic_worlds import busy_bounded, busy_elastic, failing_bounded, failing_elastic
from ray_sim.contract.measured_worlds import busy_measured, failing_measured
from ray_sim.contract.rigid_worlds import busy_world, failing_world
from ray_sim.contract.subject import Busy
from ray_sim.engine.kinds.announced.jobs import ANNOUNCED
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.measured.jobs import MEASURED
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import ROLE_NAMES
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import describe_policy, policy_class, policy_classes
from tests.proofs import instances, quick_first
from tests.worlds import confined, replay

TYPES = ("x", "y", "z")
UNTYPED: dict[str, Busy] = {CHUNKED: busy_chunks, ANNOUNCED: busy_announced}
"""Kinds of jobs that cannot be confined to types."""


def typed(world: World, seed: int) -> World:
    """The world with drawn types of servers, some without, and lists of jobs, some of none or of all."""
    draw = Streams(seed).generator("eligible-servers")
    types = [TYPES[i] if i < 3 else None for i in draw.integers(0, 4, len(world.cluster))]
    chosen = draw.random((len(world.table), len(TYPES))) < 0.5
    lists = ["|".join(np.array(TYPES)[row]) or None for row in chosen]
    return confined(world, ("x", *types[1:]), lists)


def typed_measured(world: World, seed: int) -> World:
    """The world with drawn lists of the types that its servers have; each job accepts one at least."""
    draw, types = Streams(seed).generator("eligible-servers"), np.unique([*world.cluster.gpu_type])
    chosen = draw.random((len(world.table), len(types))) < 0.6
    lists = ["|".join(types[row]) or None for row in chosen]
    return confined(world, world.cluster.gpu_type, lists)


def misplaced(world: World, result: RunResult) -> list[tuple[object, ...]]:
    """Job, server and role of tasks with GPUs on a server of a type that their job does not accept."""
    assert world.table.gpu_types is not None
    accepted = dict(zip(world.table.job_id, world.table.gpu_types, strict=True))
    type_of = dict(zip(world.cluster.server_names, world.cluster.gpu_type, strict=True))
    number = {job: j for j, job in enumerate(world.table.job_id)}
    gpu = world.cluster.resources.index("gpu")
    placed = result.events.filter(pl.col("event").is_in(["start", "move"]))
    roles = placed["role"] if "role" in placed.columns else [ROLE_NAMES[0]] * placed.height
    return [
        (job, server, role)
        for job, server, role in zip(placed["job_id"], placed["server"], roles, strict=True)
        if accepted[job] is not None
        and world.arrays.demand[number[job], ROLE_NAMES.index(role), gpu] > 0
        and type_of[server] not in accepted[job].split("|")
    ]


@pytest.mark.parametrize("name", quick_first(policy_classes(), 3))
def test_no_task_is_on_a_server_that_its_job_does_not_accept(name: str) -> None:
    policy = policy_class(name)
    if policy.schedules in UNTYPED:
        world = UNTYPED[policy.schedules](seed=0, partition="none")
        with pytest.raises(InvalidScenarioError, match=r"gpu_types: .* set gpu_types=ignore"):
            typed(world, 0)
        assert not describe_policy(name).gpu_types
        return
    if policy.schedules == MEASURED:
        for seed, make in product(range(instances(60, 3)), (busy_measured, failing_measured)):
            world = typed_measured(make(12, seed=seed), seed)
            assert misplaced(world, replay(world, name)) == [], (make.__name__, seed)
        return
    of_kind = (busy_world, failing_world) if policy.schedules == GANGS else ()
    elastic = (busy_bounded, failing_bounded) if policy.bounded else (busy_elastic, failing_elastic)
    for seed in range(instances(60, 3)):
        for make in (*of_kind, *elastic):
            world = typed(make(12, seed=seed), seed)
            result = replay(world, name)
            assert misplaced(world, result) == [], (make.__name__, seed)
            assert result.summary.completed > 0 or policy.bounded
