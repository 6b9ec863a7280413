"""Rewards and returns of collected steps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ray_sim.learning.collection import Steps
from ray_sim.learning.returns import lambda_returns, rewards
from ray_sim.learning.training_config import Reward

SLOT_US = 1_000_000


def steps(progress: list[float], slots: list[float], over: list[bool], present: list[float]) -> Steps:
    """One lane; an action with slots above 0 ends its interval."""
    count = len(progress)

    def column(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)[:, None]

    return Steps(
        {"free": np.zeros((count + 1, 1, 3, 1), dtype=np.float32)},
        np.zeros((count, 1), dtype=np.int64),
        np.zeros((count, 1)),
        column(progress),
        column(slots) * SLOT_US,
        column(present) * SLOT_US,
        column(slots) > 0,
        np.array(over)[:, None],
    )


def test_example_5_b_all_actions_of_an_interval_share_its_discounted_rewards() -> None:
    # Rewards 0.7, 0.7, 0.3, 0.3 of four slots; at discount 0.9: 0.7 + 0.63 + 0.243 + 0.2187 = 1.7917.
    given = steps([0, 0.7, 0.7, 0.3, 0.3], [0, 1, 1, 1, 1], [False] * 4 + [True], [0] * 5)
    found = lambda_returns(given, given.progress, np.full((6, 1), 9.0), 0.9, 1.0, SLOT_US)
    assert_allclose(found.returns[:2, 0], 1.7917)
    assert_allclose(found.returns[3:, 0], [0.3 + 0.27, 0.3])
    assert found.known.all()


def test_a_value_stands_for_what_follows_the_last_step_and_an_open_interval_is_unknown() -> None:
    given = steps([0.5, 0.0], [2, 0], [False, False], [0, 0])
    found = lambda_returns(given, given.progress, np.array([[7.0], [4.0], [3.0]]), 0.5, 1.0, SLOT_US)
    assert_allclose(found.returns[0, 0], 0.5 + 0.25 * 3.0)
    assert found.known[:, 0].tolist() == [True, False]


def test_decay_0_looks_one_action_ahead() -> None:
    given = steps([0, 1.0], [0, 1], [False, False], [0, 0])
    found = lambda_returns(given, given.progress, np.array([[7.0], [4.0], [3.0]]), 0.9, 0.0, SLOT_US)
    assert_allclose(found.returns[:, 0], [4.0, 1.0 + 0.9 * 3.0])


def test_the_progress_of_a_long_interval_is_discounted_as_if_it_came_evenly() -> None:
    # Two slots of 0.5 each, spread over their slots: the integral of 0.5 x 0.9^t over [0, 2].
    given = steps([1.0], [2], [True], [0])
    expected = 0.5 * (1 - 0.9**2) / -np.log(0.9)
    assert_allclose(rewards(given, Reward.PROGRESS, 0.9, SLOT_US)[0, 0], expected)


def test_without_discount_rewards_are_progress_or_minus_the_slots_in_the_system_over_servers() -> None:
    given = steps([0, 1.5], [0, 2], [False, True], [0, 6])
    assert rewards(given, Reward.PROGRESS, 1.0, SLOT_US)[:, 0].tolist() == [0, 1.5]
    assert rewards(given, Reward.JCT, 1.0, SLOT_US)[:, 0].tolist() == [0, -6 / 3]


@pytest.mark.parametrize("discount", [0.3, 0.9, 0.999999])
def test_two_halves_of_an_interval_earn_what_the_whole_does(discount: float) -> None:
    whole = rewards(steps([3.0], [4], [True], [0]), Reward.PROGRESS, discount, SLOT_US)
    halves = steps([1.5, 1.5], [2, 2], [False, True], [0, 0])
    earned = rewards(halves, Reward.PROGRESS, discount, SLOT_US)
    found = lambda_returns(halves, earned, np.zeros((3, 1)), discount, 1.0, SLOT_US)
    assert_allclose(found.returns[0], whole[0])
