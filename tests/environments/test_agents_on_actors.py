"""Agents on sites in Ray actors: the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from ray_sim.contract.elastic_worlds import failing_elastic
from ray_sim.engine.actors.scheduler import run_on_actors
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.policies.harmony.policy import Harmony
from tests.environments.rules import InTurn, LeastLoaded

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    own = not ray.is_initialized()  # else tests of another file in this process have one for the session
    if own:
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    if own:
        ray.shutdown()


@pytest.mark.parametrize("agent", [Harmony, LeastLoaded, InTurn])
def test_an_agent_decides_the_same_on_actors(agent: type[Policy]) -> None:
    world = failing_elastic(30, 1)
    expected, result = run_world(world, agent()), run_on_actors(world, agent, sites=3)
    assert result.jobs.equals(expected.jobs)
    assert result.events.equals(expected.events)
