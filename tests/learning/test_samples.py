"""Samples of intervals, their returns, replay and exploration: all in numpy, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.advantages import MovingAverage, interval_returns
from ray_sim.learning.exploration import explore, rule_actions
from ray_sim.learning.replay import Replay
from ray_sim.learning.samples import ENTRIES, EPISODE_OVER, Collector, Samples, Step
from ray_sim.model.streams import Streams


def marked(*numbers: int) -> dict[str, np.ndarray]:
    """Observations of environments that can be told apart by one number each."""
    return {name: np.array(numbers, dtype=np.float32)[:, None] for name in ENTRIES}


def step(
    numbers: tuple[int, int], reward: tuple[float, float], closes: str = "", over: str = "", acts: str = "ab"
) -> Step:
    """A step of environments a and b; actions are the numbers."""

    def which(names: str) -> np.ndarray:
        return np.array([name in names for name in "ab"])

    return Step(
        marked(*numbers),
        np.array(numbers),
        -np.array(numbers) / 100,
        which(acts),
        np.array(reward),
        which(closes),
        which(over),
    )


def test_samples_are_in_order_of_environment_and_time() -> None:
    """a: an interval of 10, 11 (reward 1), then 12 open. b: 20 (2), its episode ends with 21 (3); 22 resets.

    After a's first interval comes state 12, which is row 4, behind the four actions.
    """
    collector = Collector()
    collector.note(step((10, 20), (0, 2), closes="b"))
    collector.note(step((11, 21), (1, 3), closes="ab", over="b"))
    collector.note(step((12, 22), (0, 0), acts="a"))
    found = collector.take(marked(13, 23))
    assert found.action.tolist() == [10, 11, 20, 21]
    assert found.interval.tolist() == [0, 0, 1, 2]
    assert found.reward.tolist() == [1, 2, 3]
    assert found.following.tolist() == [4, 3, EPISODE_OVER]
    assert found.observations["free"][:, 0].tolist() == [10, 11, 20, 21, 12]
    assert found.log_probability.tolist() == [-0.10, -0.11, -0.20, -0.21]


def test_open_intervals_stay_for_the_next_time() -> None:
    collector = Collector()
    collector.note(step((10, 20), (0, 2), closes="b"))
    first = collector.take(marked(11, 21))
    assert first.action.tolist() == [20]
    assert first.observations["type"][:, 0].tolist() == [20, 21]
    collector.note(step((11, 21), (5, 0), closes="a"))
    second = collector.take(marked(12, 22))
    assert second.action.tolist() == [10, 11]
    assert second.reward.tolist() == [5]
    assert second.following.tolist() == [2]
    assert second.observations["type"][:, 0].tolist() == [10, 11, 12]


def test_nothing_closed_gives_no_samples() -> None:
    collector = Collector()
    collector.note(step((10, 20), (0, 0)))
    found = collector.take(marked(11, 21))
    assert len(found.action) == len(found.reward) == len(found.following) == 0
    assert found.observations["free"].shape == (0, 1)


THREE = Samples(
    observations={},
    action=np.zeros(4, dtype=np.int64),
    log_probability=np.zeros(4),
    interval=np.array([0, 0, 1, 2]),
    reward=np.array([1.0, 2.0, 4.0]),
    following=np.array([2, 3, 4]),
)
"""Two actions in the first of three intervals; row 4 is the state in which collection stopped."""

VALUES = np.array([9.0, 9.0, 10.0, 20.0, 30.0])


@pytest.mark.parametrize(
    ("trace_decay", "expected"),
    [
        # 4 + 0.5 x 30 = 19; 2 + 0.5 x 19 = 11.5; 1 + 0.5 x 11.5 = 6.75
        (1.0, [6.75, 11.5, 19.0]),
        # 1 + 0.5 x 10; 2 + 0.5 x 20; 4 + 0.5 x 30
        (0.0, [6.0, 12.0, 19.0]),
        # 2 + 0.5 (10 + 9.5) = 11.75; 1 + 0.5 (5 + 5.875) = 6.4375
        (0.5, [6.4375, 11.75, 19.0]),
    ],
)
def test_returns_by_hand(trace_decay: float, expected: list[float]) -> None:
    assert interval_returns(THREE, VALUES, 0.5, trace_decay).tolist() == expected


def test_nothing_follows_an_episode() -> None:
    over = THREE._replace(following=np.array([2, EPISODE_OVER, 4]))
    assert interval_returns(over, VALUES, 0.5, 1.0).tolist() == [2.0, 2.0, 19.0]


def test_generalised_advantages_are_discounted_sums_of_temporal_differences() -> None:
    """Schulman et al.: A_t = sum over k of (g l)^k delta_(t+k), with delta = r + g V(next) - V."""
    draw = np.random.default_rng(0)
    values, reward, g, decay = draw.normal(size=7), draw.normal(size=6), 0.9, 0.7
    chain = Samples({}, np.zeros(6, np.int64), np.zeros(6), np.arange(6), reward, np.arange(1, 7))
    delta = reward + g * values[1:] - values[:-1]
    expected = [sum((g * decay) ** k * delta[t + k] for k in range(6 - t)) for t in range(6)]
    np.testing.assert_allclose(interval_returns(chain, values, g, decay) - values[:-1], expected)


def test_example_5_b_discounted() -> None:
    """Jobs of 4 and 10 epochs that train (2, 2, 0, 0) and (2, 2, 3, 3): 0.7, 0.7, 0.3, 0.3; in all 2."""
    reward = np.array([0.7, 0.7, 0.3, 0.3])
    following = np.array([1, 2, 3, EPISODE_OVER])
    chain = Samples({}, np.zeros(4, np.int64), np.zeros(4), np.arange(4), reward, following)
    assert interval_returns(chain, np.zeros(4), 0.9, 1.0)[0] == pytest.approx(1.7917)
    assert interval_returns(chain, np.zeros(4), 1.0, 1.0)[0] == pytest.approx(2.0)


def test_a_moving_average_by_hand() -> None:
    """With decay 0.5: (1 x 0.5 + 4) / (0.5 + 1) = 3."""
    average = MovingAverage(0.5)
    assert average.value == 0.0
    average.add(np.array([1.0, 4.0]))
    assert average.value == 3.0


def test_a_full_buffer_drops_the_oldest_samples_and_keeps_what_belongs_together() -> None:
    replay = Replay(5, Streams(0))
    for first in (0, 4):
        numbers = np.arange(first, first + 4)
        floats = numbers.astype(np.float64)
        replay.add(
            Samples(
                {"free": numbers[:, None].astype(np.float32)},
                numbers,
                floats / 10,
                np.arange(4),
                floats,
                np.zeros(4, np.int64),
            ),
            2.0 * floats,
            3.0 * floats,
        )
    batch = replay.minibatch(200, 0)
    assert len(replay) == 5
    assert set(batch.action.tolist()) == {3, 4, 5, 6, 7}
    assert batch.returns.tolist() == (2.0 * batch.action).tolist()
    assert batch.baseline.tolist() == (3.0 * batch.action).tolist()
    assert batch.observations["free"][:, 0].tolist() == batch.action.tolist()
    assert batch.action.tolist() == replay.minibatch(200, 0).action.tolist()
    assert batch.action.tolist() != replay.minibatch(200, 1).action.tolist()


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
    choice = explore(probabilities, rules, 0.0, Ones())  # type: ignore[arg-type]
    assert choice.action.tolist() == [1, 0]
