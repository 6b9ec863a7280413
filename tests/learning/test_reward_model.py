"""The reward model: its loss, what it sees, and how well it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install 'ray_sim[gym]'")

from ray_sim.environments import Episode, PlacementEnv
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.learning.reward_model import (
    DenseRewardModel,
    Layer,
    ModelledProgress,
    SharedRewardModel,
    cells_of,
    modelled,
    relative_error,
    state_of,
)
from ray_sim.learning.speed_samples import SpeedSamples
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import US_PER_S
from tests.interfering_worlds import interference, interfering_world
from tests.training import profile

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


@dataclass(frozen=True)
class Shared:
    """All running jobs share so many samples per second."""

    samples_per_s: float

    def speeds(self, kind: Ints, tasks: Ints) -> npt.NDArray[np.float64]:
        return np.full(kind.shape, self.samples_per_s / kind.shape[1])


def ends_s(env: PlacementEnv, observation: Mapping[str, Any]) -> list[float]:
    """Ends of the jobs of an episode in which the first valid action is taken."""
    over = False
    while not over:
        observation, _, terminated, truncated, _ = env.step(observation["action_mask"].argmax())
        over = terminated or truncated
    return (env.simulation.core.ledger.end / US_PER_S).tolist()


def test_a_job_at_the_speed_of_a_model_takes_its_work_over_this_speed() -> None:
    """Of 1000 and 2000 samples: both at 2 samples/s up to 500 s; the other 1000 samples at 4, in 250 s."""
    jobs = [("none", profile(samples=500)), ("none", profile(samples=1000))]
    slowing = interference(worker_load={"none": [0.6, 0.6]}, sensitivity={"none": [3.0, 3.0]})
    world = interfering_world([0.0, 0.0], jobs, [4], slowing, params={"slot_s": 100})
    env = PlacementEnv(modelled(Episode(world, 0), Shared(4.0), ["none"]))
    assert ends_s(env, env.reset()[0]) == [500.0, 750.0]


def test_trial_speeds_of_a_model_are_those_of_jobs_alone() -> None:
    rows = Rows(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([2, 1, 1]))
    draw = np.random.default_rng(1)
    model = SharedRewardModel(3, _random_layers(draw, 14, 8, 8), _random_layers(draw, 8, 4, 1))
    rule = ModelledProgress(model, np.array([2, 0]), servers=5).on_reference_servers(2)
    one, other = placed([(2, 0), (0, 1)]), placed([(0, 0), (1, 0)])
    expected = [model.speeds(np.array([[kind]]), tasks)[0, 0] for kind, tasks in ((2, one), (0, other))]
    np.testing.assert_allclose(rule.samples_per_s(np.array([0, 1]), rows), expected, rtol=1e-6)
