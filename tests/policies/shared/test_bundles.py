"""What drf, tetris and dorm have in common: slots."""

from __future__ import annotations

import pytest

from ray_sim.engine.run import run_world
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.training import profile


@pytest.mark.parametrize("name", ["drf", "tetris", "dorm"])
def test_slots_need_a_length(name: str) -> None:
    world = elastic_world([0], [profile()], [8])
    with pytest.raises(InvalidScenarioError, match=rf"{name} decides on slots.*slot_s=600, or set -p when"):
        run_world(world, create_policy(name, {"when": "slot"}))
    assert run_world(world, create_policy(name, {"when": "event"})).summary.completed == 1
