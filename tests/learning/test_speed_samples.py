"""Samples of placements and speeds."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.learning.model_world import ModelWorld
from ray_sim.learning.speed_samples import (
    SpeedSamples,
    draw_samples,
    heuristic_actions,
    joined,
    random_actions,
)
from ray_sim.learning.speeds import true_speeds
from ray_sim.model.errors import InvalidInputError
from tests.learning.batch_worlds import MODELS, random_worlds


def test_as_many_samples_are_drawn_as_asked_for_with_a_speed_of_each_job_and_none_elsewhere() -> None:
    worlds = random_worlds(2, 6)
    samples = draw_samples(worlds, MODELS, 200, seed=3)
    assert len(samples) == 200
    assert samples.dropped == 0
    assert (samples.speed[samples.kind < 0] == 0).all()
    assert (samples.tasks[samples.kind < 0] == 0).all()
    assert samples.measured.sum() == (samples.kind >= 0).sum()


def test_the_same_seed_draws_the_same_samples_and_another_one_others() -> None:
    worlds = random_worlds(2, 6)
    once, again, other = (draw_samples(worlds, MODELS, 50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once.tasks, again.tasks)
    np.testing.assert_array_equal(once.speed, again.speed)
    assert once.tasks.shape != other.tasks.shape or (once.tasks != other.tasks).any()


def test_no_samples_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="samples: must be at least 1, got 0"):
        draw_samples(random_worlds(2, 1), MODELS, 0, seed=1)


def test_jobs_without_a_measured_speed_are_counted_and_parts_are_joined_to_the_widest() -> None:
    narrow = SpeedSamples(np.array([[0]]), np.ones((1, 1, 2, 3), dtype=np.int64), np.array([[2.0]]))
    wide = SpeedSamples(np.array([[1, 0]]), np.ones((1, 2, 2, 3), dtype=np.int64), np.array([[0.0, 3.0]]))
    both = joined([narrow, wide])
    np.testing.assert_array_equal(both.kind, [[0, -1], [1, 0]])
    np.testing.assert_array_equal(both.speed, [[2.0, 0.0], [0.0, 3.0]])
    assert both.dropped == 1  # the first job of the wide part
    np.testing.assert_array_equal(both.measured, [[True, False], [False, True]])
    np.testing.assert_array_equal(both.part(np.array([1])).speed, wide.speed)


def test_heuristics_place_workers_first_on_the_emptiest_or_the_fullest_server_with_room() -> None:
    # Free GPUs (4, 3, 2), shown as shares (1, 0.75, 0.5) of the largest server.
    worlds = random_worlds(4, 2, slowing=None)
    batch = ModelWorld(worlds, true_speeds(worlds), models=MODELS)
    first_worker_of_row_0 = heuristic_actions(batch, np.array([False, True]))
    np.testing.assert_array_equal(first_worker_of_row_0, [0, 2])


def test_random_actions_are_valid() -> None:
    worlds = random_worlds(5, 5)
    batch, draw = ModelWorld(worlds, true_speeds(worlds), models=MODELS), np.random.default_rng(1)
    for _ in range(30):
        actions = random_actions(batch, draw)
        assert batch.mask[np.arange(5), actions].all()
        batch.step(actions)
