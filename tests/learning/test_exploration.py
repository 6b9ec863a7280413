"""Actions by rules, how often exploration takes them, and the rule that teaches: tasks of a job together."""

from __future__ import annotations

from typing import cast

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.exploration import explore, rule_actions, together_actions
from ray_sim.learning.replay import Observations

CAPACITY = np.array([[1.0, 1.0], [1.0, 0.5], [1.0, 0.0]])
"""Three servers; the last one has no second resource."""


def state(free: list[list[float]], mask: list[list[list[int]]]) -> dict[str, np.ndarray]:
    return {
        "free": np.array([free], dtype=np.float32),
        ACTION_MASK: np.array([mask], dtype=np.int8).reshape(1, -1),
    }


def test_rules_by_hand() -> None:
    """Row 0 is complete. Row 1: only its parameter server fits, on servers 0, 1, 2.

    Left: 0.5 + 0.5 = 1; 0.5 + 0.25 / 0.5 = 1; 0.9. Used: 1; 1; 0.1. Server 2 by both rules. Without it, a
    tie: server 0. With less free on server 1, that one is the fuller.
    """
    mask = [[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [1, 1, 1]], [[1, 1, 1], [1, 1, 1]]]
    free = [[0.5, 0.5], [0.5, 0.25], [0.9, 0.0]]
    assert rule_actions(state(free, mask), CAPACITY).tolist() == [[11], [11]]
    mask[1][1][2] = 0
    assert rule_actions(state(free, mask), CAPACITY).tolist() == [[9], [9]]
    free[1] = [0.25, 0.25]
    assert rule_actions(state(free, mask), CAPACITY).tolist() == [[10], [9]]


def test_exploration_takes_rules_as_often_as_asked_and_knows_its_probabilities() -> None:
    """Half of the actions follow a rule: action 0 by one, 1 by the other; the network says 1, 2, 3."""
    n = 40_000
    probabilities = np.tile([0.0, 0.2, 0.5, 0.3, 0.0], (n, 1))
    rules = np.array([[0] * n, [1] * n])
    choice = explore(probabilities, rules, 0.5, np.random.default_rng(0))
    expected = np.array([0.25, 0.25 + 0.1, 0.25, 0.15, 0.0])
    np.testing.assert_allclose(np.bincount(choice.action, minlength=5) / n, expected, atol=0.01)
    np.testing.assert_allclose(np.exp(choice.log_probability), expected[choice.action])


def test_without_exploration_a_forbidden_action_is_never_drawn() -> None:
    class Ones:
        """Draws the largest number below 1."""

        def random(self, shape: tuple[int, int]) -> np.ndarray:
            return np.full(shape, 1 - 2.0**-53)

    probabilities = np.array([[0.3, 0.7 - 1e-12, 0.0], [1.0, 0.0, 0.0]])
    rules = np.zeros((2, 2), dtype=np.int64)
    choice = explore(probabilities, rules, 0.0, cast("np.random.Generator", Ones()))
    assert choice.action.tolist() == [1, 0]


def test_a_task_goes_where_its_job_is_and_else_to_the_least_loaded_server() -> None:
    # Three servers, two rows of new jobs. The worker of row 0 is next, in the last state that of row 1.
    placement = np.zeros((5, 3, 4), dtype=np.float32)
    free = np.array([[[0.2], [0.9], [0.5]]] * 5, dtype=np.float32)
    mask = np.zeros((5, 2 * 2 * 3), dtype=np.int8)
    mask[:4, 0:3], mask[4, 6:9] = 1, 1
    placement[1, 0, 1] = 1.0  # its parameter server is on the fullest server
    placement[2, [0, 2], 0] = 1.0  # one worker each on servers 0 and 2: the less loaded of these
    placement[3, 0, 0] = 2.0
    mask[3, 0] = 0  # where its tasks are is no room
    placement[4, 2, 2], placement[4, 0, 0] = 1.0, 2.0  # its worker is on server 2, those of row 0 are on 0
    seen: Observations = {"placement": placement, "free": free, ACTION_MASK: mask}
    assert together_actions(seen, np.ones((3, 1))).tolist() == [1, 0, 2, 1, 8]
