"""Samples of placements and speeds."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'ray_sim[gym]'")

from ray_sim.environments import Episode
from ray_sim.learning.speed_samples import SpeedSamples, draw_samples, joined
from ray_sim.model.errors import InvalidInputError
from tests.learning.tiny_world import MODELS, PAIRS, tiny_world

EPISODES = [Episode(tiny_world(pair), 0) for pair in PAIRS]


def test_as_many_samples_are_drawn_as_asked_for_each_of_whole_gangs() -> None:
    samples = draw_samples(EPISODES, MODELS, 100, seed=3)
    assert len(samples) == 100
    assert samples.dropped == 0
    np.testing.assert_array_equal(samples.tasks.sum(axis=3), 1)
    assert {tuple(kind) for kind in samples.kind.tolist()} == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.slow
def test_speeds_are_those_of_the_engine_right_after_the_placement() -> None:
    # Each job has a server to itself: 100 samples take 1 s and twice 0.4 s, or 2 s and twice 0.4 s.
    samples = draw_samples(EPISODES, MODELS, 200, seed=3)
    apart = (samples.tasks == [[[1, 0], [1, 0]], [[0, 1], [0, 1]]]).all(axis=(1, 2, 3))
    assert apart.any()
    np.testing.assert_allclose(samples.speed[apart], [[100 / 1.8, 100 / 2.8]] * apart.sum())
    together = (samples.tasks[:, :, :, 0] == 1).all(axis=(1, 2))
    assert (samples.speed[together] < 100 / 1.8).all()  # beside another job on server 0


@pytest.mark.slow
def test_the_same_seed_draws_the_same_samples_and_another_one_others() -> None:
    once, again, other = (draw_samples(EPISODES, MODELS, 50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once.tasks, again.tasks)
    np.testing.assert_array_equal(once.speed, again.speed)
    assert (once.tasks != other.tasks).any()


def test_no_samples_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="samples: must be at least 1, got 0"):
        draw_samples(EPISODES, MODELS, 0, seed=1)


def test_jobs_without_a_measured_speed_are_counted_and_parts_are_joined_to_the_widest() -> None:
    narrow = SpeedSamples(np.array([[0]]), np.ones((1, 1, 2, 3), dtype=np.int64), np.array([[2.0]]))
    wide = SpeedSamples(np.array([[1, 0]]), np.ones((1, 2, 2, 3), dtype=np.int64), np.array([[0.0, 3.0]]))
    both = joined([narrow, wide])
    np.testing.assert_array_equal(both.kind, [[0, -1], [1, 0]])
    np.testing.assert_array_equal(both.speed, [[2.0, 0.0], [0.0, 3.0]])
    assert both.dropped == 1  # the first job of the wide part
    np.testing.assert_array_equal(both.measured, [[True, False], [False, True]])
    np.testing.assert_array_equal(both.part(np.array([1])).speed, wide.speed)
