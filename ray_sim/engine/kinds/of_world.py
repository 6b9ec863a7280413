"""The kind of jobs that a world has, and whether a policy can schedule it."""

from __future__ import annotations

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.base import KindRun
from ray_sim.engine.kinds.chunked.run import ChunkedRun
from ray_sim.engine.kinds.elastic.run import ElasticRun
from ray_sim.engine.kinds.rigid.run import RigidRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.streams import Streams


def start_kind(core: RunCore, policy: Policy, name: str, streams: Streams) -> KindRun:
    """The jobs of a run as the kind that the world has.

    Policies that place whole gangs do so in elastic worlds too, with what each job asks for.

    Raises
    ------
    InvalidScenarioError : the policy is for another kind, or it deals out parameter blocks that the world or
        the workload does not have
    """
    world = core.world
    refuse_other_kinds(world, policy, name)
    if world.chunks is not None:
        return ChunkedRun(core, world.chunks)
    if world.training is not None:
        return ElasticRun(core, world.training, streams, policy.parameter_blocks)
    return RigidRun(core, world.truth)


def refuse_other_kinds(world: World, policy: Policy, name: str) -> None:
    """Raise unless the policy schedules jobs of the kind that the world has.

    Raises
    ------
    InvalidScenarioError : it names the kind that is missing, and how to get it
    """
    if policy.chunked and world.chunks is None:
        raise InvalidScenarioError(
            f"policy {name} dispatches chunks of jobs, but the jobs of this world are whole: "
            f"set -w truth=a_online, or choose a policy for whole jobs"
        )
    if not policy.chunked and world.chunks is not None:
        raise InvalidScenarioError(
            f"policy {name} places whole jobs, but truth=a_online has jobs in chunks: "
            f"leave -w truth out, or choose a policy that dispatches chunks"
        )
    if policy.elastic and world.training is None:
        raise InvalidScenarioError(
            f"policy {name} decides how many workers and parameter servers jobs get, but the jobs of this "
            f"world are not elastic: set -w truth=placement (or pd_ors)"
        )
