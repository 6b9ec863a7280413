"""Rewards and returns of collected steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ray_sim.learning.collection import Steps
from ray_sim.learning.returns import common_errors, lambda_returns, rewards
from ray_sim.learning.training_config import Reward

SLOT_US = 1_000_000


def steps(progress: list[float], slots: Sequence[float], over: list[bool], present: list[float]) -> Steps:
    """One lane; an action with slots above 0 ends its interval."""
    count = len(progress)

    def column(values: Sequence[float]) -> np.ndarray:
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
    # Rewards 0.7, 0.7, 0.3, 0.3 of four slots, in all 2; at 0.9: 0.7 + 0.63 + 0.243 + 0.2187 = 1.7917.
    given = steps([0, 0.7, 0.7, 0.3, 0.3], [0, 1, 1, 1, 1], [False] * 4 + [True], [0] * 5)
    found = lambda_returns(given, given.progress, np.full((6, 1), 9.0), 0.9, 1.0, SLOT_US)
    assert_allclose(found.returns[:2, 0], 1.7917)
    assert_allclose(found.returns[3:, 0], [0.3 + 0.27, 0.3])
    whole = lambda_returns(given, given.progress, np.full((6, 1), 9.0), 1.0, 1.0, SLOT_US)
    assert_allclose(whole.returns[:2, 0], 2.0)
    assert found.known.all()


def test_a_value_stands_for_what_follows_the_last_step_and_an_open_interval_is_unknown() -> None:
    given = steps([0.5, 0.0], [2, 0], [False, False], [0, 0])
    found = lambda_returns(given, given.progress, np.array([[7.0], [4.0], [3.0]]), 0.5, 1.0, SLOT_US)
    assert_allclose(found.returns[0, 0], 0.5 + 0.25 * 3.0)
    assert found.known[:, 0].tolist() == [True, False]


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        # 4 + 0.5 x 30 = 19; 2 + 0.5 x 19 = 11.5; 1 + 0.5 x 11.5 = 6.75, also of the action before
        (1.0, [6.75, 6.75, 11.5, 19.0]),
        # V of the next state; 1 + 0.5 x 10; 2 + 0.5 x 20; 4 + 0.5 x 30
        (0.0, [9.0, 6.0, 12.0, 19.0]),
        # 2 + 0.5 (10 + 9.5) = 11.75; 1 + 0.5 (5 + 5.875) = 6.4375; 4.5 + 3.21875
        (0.5, [7.71875, 6.4375, 11.75, 19.0]),
    ],
)
def test_returns_by_hand(decay: float, expected: list[float]) -> None:
    """Two actions in the first of three intervals of a slot."""
    given = steps([0, 1, 2, 4], [0, 1, 1, 1], [False] * 4, [0] * 4)
    values = np.array([[8.0], [9.0], [10.0], [20.0], [30.0]])
    found = lambda_returns(given, given.progress, values, 0.5, decay, SLOT_US)
    assert found.returns[:, 0].tolist() == expected


def test_generalised_advantages_are_discounted_sums_of_temporal_differences() -> None:
    """Schulman et al.: A_t = sum over u >= t of (l d_t) ... (l d_(u-1)) delta_u.

    delta_u = r_u + d_u V_(u+1) - V_u; the discount d of an action is 0.9 to the power of its slots.
    """
    draw, decay = np.random.default_rng(0), 0.7
    values, reward, slots = draw.normal(size=(7, 1)), draw.normal(size=(6, 1)), [1, 0, 0, 2, 3, 1]
    given = steps([0] * 6, slots, [False] * 6, [0] * 6)
    discount = 0.9 ** np.array(slots)
    delta = reward[:, 0] + discount * values[1:, 0] - values[:-1, 0]
    expected = [sum(np.prod(decay * discount[t:u]) * delta[u] for u in range(t, 6)) for t in range(6)]
    found = lambda_returns(given, reward, values, 0.9, decay, SLOT_US)
    assert_allclose((found.returns - values[:-1])[:, 0], expected)


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


def test_common_errors_by_hand() -> None:
    """Lanes 0 and 1 share a job set: errors 1 and 3 at 0 s, 5 and 7 at 1 s; later one of them acts."""
    lanes = [
        steps([0, 0, 0], [1, 1, 1], [False] * 3, [0] * 3),
        steps([0, 0, 0], [1, 2, 1], [False] * 3, [0] * 3),
        steps([0, 0, 0], [1, 1, 1], [False] * 3, [0] * 3),
    ]
    given = beside(lanes)
    errors = np.array([[1.0, 3, 8], [5, 7, 8], [9, 9, 8]])
    found = common_errors(given, errors, np.ones((3, 3), dtype=np.bool_), 2)
    assert found.tolist() == [[2, 2, 8], [6, 6, 8], [9, 9, 8]]


def test_common_errors_are_means_over_lanes_of_a_set_at_one_time_of_the_episode() -> None:
    """Against sums over all pairs of samples, in random episodes."""
    draw = np.random.default_rng(0)
    given = beside(
        [
            steps([0] * 30, draw.integers(0, 3, 30).tolist(), (draw.random(30) < 0.1).tolist(), [0] * 30)
            for _ in range(6)
        ]
    )
    errors, known = draw.normal(size=(30, 6)), draw.random((30, 6)) < 0.8
    time = np.zeros((30, 6))
    for t, e in np.ndindex(29, 6):
        time[t + 1, e] = 0 if given.episode_ended[t, e] else time[t, e] + given.length_us[t, e]
    found = common_errors(given, errors, known, 3)
    for t, e in zip(*np.nonzero(known), strict=True):
        alike = known & (time == time[t, e]) & (np.arange(6) // 3 == e // 3)
        assert found[t, e] == pytest.approx(errors[alike].mean())
    assert not found[~known].any()


def beside(lanes: list[Steps]) -> Steps:
    """Steps of single lanes as those of one unit."""
    free = np.concatenate([lane.observations["free"] for lane in lanes], axis=1)
    return Steps(
        {"free": free},
        *(np.concatenate(columns, axis=1) for columns in zip(*(lane[1:] for lane in lanes), strict=True)),
    )
