"""The reward model: its loss, what it sees, and how well it learns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from ray_sim.learning.model_world import ModelWorld
from ray_sim.learning.reward_model import (
    DenseRewardModel,
    Layer,
    ModelledSpeeds,
    SharedRewardModel,
    cells_of,
    relative_error,
    state_of,
)
from ray_sim.learning.speed_samples import SpeedSamples, random_actions
from ray_sim.learning.speeds import true_speeds
from ray_sim.model.errors import InvalidInputError
from tests.learning.batch_worlds import MODELS, random_worlds

Ints = npt.NDArray[np.int64]


def placed(*jobs: list[tuple[int, int]]) -> Ints:
    """(1, K, 2, S) tasks of jobs, given by workers and parameter servers on each server."""
    return np.array([[np.transpose(job) for job in jobs]], dtype=np.int64)


def test_example_5_d_of_the_relative_error() -> None:
    # Predicted 9 and 22, measured 10 and 20: (0.1 + 0.1) / 2.
    samples = SpeedSamples(np.array([[0, 1]]), placed([(1, 1)], [(1, 1)]), np.array([[10.0, 20.0]]))
    assert relative_error(np.array([[9.0, 22.0]]), samples) == pytest.approx(0.1, rel=1e-15)


def test_jobs_without_a_measured_speed_have_no_error() -> None:
    samples = SpeedSamples(
        np.array([[0, 1, -1]]), placed([(1, 1)], [(1, 1)], [(0, 0)]), np.array([[10.0, 0.0, 0.0]])
    )
    assert relative_error(np.array([[9.0, 5.0, 7.0]]), samples) == pytest.approx(0.1, rel=1e-15)
    assert np.isnan(relative_error(np.zeros((1, 3)), samples.part(slice(0))))


def test_a_cell_shows_its_job_and_the_tasks_of_others_on_its_server() -> None:
    # Job of type 1 with (2, 1) on server 0 and (0, 1) on server 1; type 0 has (1, 0) beside it on server 0.
    cells = cells_of(np.array([[1, 0]]), placed([(2, 1), (0, 1)], [(1, 0), (0, 0)]), types=2)
    type_here, beside_0, beside_1, job = slice(0, 4), slice(4, 6), slice(6, 8), slice(8, 11)
    np.testing.assert_array_equal(cells.first, [0, 2])
    np.testing.assert_array_equal(cells.features[:, type_here], [[0, 1, 2, 1], [0, 1, 0, 1], [1, 0, 1, 0]])
    np.testing.assert_array_equal(cells.features[:, beside_0], [[1, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(cells.features[:, beside_1], [[0, 0], [0, 0], [2, 1]])
    np.testing.assert_array_equal(cells.features[:, job], [[2, 2, 2], [2, 2, 2], [1, 0, 1]])


def test_the_dense_state_is_x_w_p_d_of_every_row_and_refuses_more_jobs_than_rows() -> None:
    kind, tasks = np.array([[1, 0]]), placed([(2, 1), (0, 1)], [(1, 0), (0, 0)])
    state = state_of(kind, tasks, types=2, rows=3).reshape(3, 8)
    np.testing.assert_array_equal(state[0], [0, 1, 2, 2, 2, 0, 1, 1])  # workers, then servers, by server
    np.testing.assert_array_equal(state[1], [1, 0, 1, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(state[2], 0)
    with pytest.raises(InvalidInputError, match="2 jobs run at a time, it has 1 rows"):
        state_of(kind, tasks, types=2, rows=1)


def _random_layers(draw: np.random.Generator, *sizes: int) -> tuple[Layer, ...]:
    return tuple(
        Layer(draw.normal(size=(a, b)).astype(np.float32), draw.normal(size=b).astype(np.float32))
        for a, b in pairwise(sizes)
    )


def _random_samples(draw: np.random.Generator) -> tuple[Ints, Ints]:
    tasks = draw.integers(0, 3, (5, 6, 2, 4))
    tasks[:, :, 0, 0] += 1
    kind = draw.integers(0, 3, (5, 6))
    kind[2, 4:], tasks[2, 4:] = -1, 0
    return kind, tasks


def test_a_permutation_of_jobs_or_servers_permutes_what_the_shared_form_answers() -> None:
    draw = np.random.default_rng(1)
    model = SharedRewardModel(3, _random_layers(draw, 14, 8, 8), _random_layers(draw, 8, 4, 1))
    kind, tasks = _random_samples(draw)
    speeds = model.speeds(kind, tasks)
    jobs, servers = draw.permutation(6), draw.permutation(4)
    permuted = model.speeds(kind[:, jobs], tasks[:, jobs][..., servers])
    np.testing.assert_allclose(permuted, speeds[:, jobs], rtol=1e-5)
    assert (speeds[kind < 0] == 0).all()
    assert (speeds[kind >= 0] > 0).all()


def test_both_forms_answer_nothing_where_no_job_runs() -> None:
    draw = np.random.default_rng(1)
    shared = SharedRewardModel(3, _random_layers(draw, 14, 8, 8), _random_layers(draw, 8, 4, 1))
    dense = DenseRewardModel(3, 2, _random_layers(draw, 2 * 13, 8, 2))
    none, tasks = np.array([[-1, -1]]), np.zeros((1, 2, 2, 4), dtype=np.int64)
    np.testing.assert_array_equal(shared.speeds(none, tasks), 0)
    np.testing.assert_array_equal(dense.speeds(none, tasks), 0)


def test_a_batched_world_runs_on_the_speeds_of_a_model() -> None:
    draw = np.random.default_rng(1)
    model = SharedRewardModel(3, _random_layers(draw, 14, 8, 8), _random_layers(draw, 8, 4, 1))
    worlds = random_worlds(7, 4)
    batch = ModelWorld(worlds, true_speeds(worlds), models=MODELS)
    batch.speeds = ModelledSpeeds(model, batch.sets.model)
    total, ended = 0.0, 0
    for _ in range(200):
        answer = batch.step(random_actions(batch, draw))
        total, ended = total + answer.rewards[0], ended + int(answer.episode_ended[0])
    assert ended > 0
    assert total > 0
