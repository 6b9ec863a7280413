"""No placements train faster than the limits say, or take less of the servers for a sample."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.streams import Streams
from ray_sim.model.training_progress import (
    Nic,
    PdOrsProgress,
    PlacementProgress,
    pd_ors_progress,
    placement_progress,
)
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.training_limits import TrainingLimits, pd_ors_limits, placement_limits, pool_of
from tests.proofs import quick_first
from tests.training import ONE, profile, rows

SPEEDS = [0.5, 1.0, 1.0, 2.0]


def _job(draw: np.random.Generator, exchange: Exchange) -> TrainingProfile:
    pick = {
        "exchange": exchange,
        "batch": draw.choice([1.0, 3.0, 10.0, 100.0]),
        "sample_s": draw.choice([0.01, 0.1, 1.0]),
        "gradient_mb": draw.choice([0.0, 5.0, 50.0]),
        "bandwidth_mbps": draw.choice([100.0, 1000.0, 5000.0]),
        "internal_bandwidth_mbps": draw.choice([1000.0, 10_000.0]),
        "step_s": draw.choice([0.0, 0.1]),
        "step_s_per_worker": draw.choice([0.0, 0.01, 0.5]),
        "step_s_per_ps": draw.choice([0.0, 0.01, 0.5]),
        "workers_per_ps": draw.integers(1, 6),
    }
    return profile(**pick)


def _placements(draw: np.random.Generator, n: int) -> Rows:
    """Up to four workers and parameter servers on each of four servers, one of them alone now and then."""
    tasks = draw.integers(0, 5, (n, 4, 2)) * (draw.random((n, 4, 1)) < 0.5)
    return rows(*([(int(w), int(p)) for w, p in each] for each in tasks))


def _held(placements: Rows, n: int) -> FloatArray:
    """(n, 2) tasks of each role."""
    owner = np.repeat(np.arange(n), np.diff(placements.ptr))
    held = np.zeros((n, 2))
    np.add.at(held, (owner, placements.role), placements.tasks)
    return held


def _assert_within(
    truth: PdOrsProgress | PlacementProgress,
    limits: TrainingLimits,
    demand: IntArray,
    placements: Rows,
    n: int,
) -> None:
    speed = truth.samples_per_s(np.zeros(n, dtype=np.int64), placements)
    assert (speed <= limits.samples_per_s[0] * (1 + 1e-12)).all()
    some = speed > 0
    taken = (_held(placements, n) @ demand)[some] / speed[some, None]
    assert (taken >= limits.resource_time[0] * (1 - 1e-12)).all()


@pytest.mark.parametrize("seed", quick_first(range(60), 2))
def test_no_placement_beats_the_limits(seed: int) -> None:
    draw = Streams(seed).generator("limits")
    exchange = Exchange(int(draw.integers(0, 3)))
    job = _job(draw, exchange)
    pool = pool_of(np.full((4, 1), 8000), np.array(SPEEDS))  # room for four tasks of each role
    placements = _placements(draw, 200)
    demand = np.concatenate([job.worker_demand, job.ps_demand])
    for nic in Nic:
        truth = placement_progress(job, np.array(SPEEDS), nic)
        _assert_within(truth, placement_limits(job, ONE, pool, nic), demand, placements, 200)
    if exchange != Exchange.ALL_REDUCE:
        truth_of_paper = pd_ors_progress(job, np.array(SPEEDS))
        _assert_within(truth_of_paper, pd_ors_limits(job, ONE, pool), demand, placements, 200)


def test_the_limit_of_pd_ors_is_reached_on_one_server() -> None:
    # 100 samples a step, 0.1 s each, 2 x 0.4 s of exchange over 100 samples: 0.108 s a sample and worker.
    job = profile()
    limits = pd_ors_limits(job, ONE, pool_of(np.array([[8000]]), np.array([1.0])))
    assert limits.samples_per_s[0] == pytest.approx(4 / 0.108)
    assert limits.resource_time[0] == pytest.approx([2000 * 0.108])  # a worker and a parameter server


def test_it_is_the_external_rate_where_one_server_has_no_room() -> None:
    # Between servers the exchange takes 2 x 4 s: 0.18 s a sample and worker, 2 workers on 4 GPUs.
    job = profile()
    limits = pd_ors_limits(job, ONE, pool_of(np.full((4, 1), 1000), np.ones(4)))
    assert limits.samples_per_s[0] == pytest.approx(2 / 0.18)
    assert limits.resource_time[0] == pytest.approx([2000 * 0.18])
    alone = pd_ors_limits(job, ONE, pool_of(np.array([[1000]]), np.ones(1)))
    assert alone.samples_per_s[0] == 0.0


def test_a_fraction_of_workers_per_parameter_server_is_not_rounded_down() -> None:
    # Two workers with one parameter server, which serves 1.5 of them, on three GPUs.
    job, one = profile(workers_per_ps=1.5), rows([(2, 1)])
    limits = pd_ors_limits(job, ONE, pool_of(np.array([[3000]]), np.ones(1)))
    assert pd_ors_progress(job, np.ones(1)).samples_per_s(ONE, one)[0] <= limits.samples_per_s[0]


def test_more_workers_than_the_batch_has_samples_do_not_train() -> None:
    limits = pd_ors_limits(profile(batch=3), ONE, pool_of(np.array([[80_000]]), np.ones(1)))
    assert limits.samples_per_s[0] == pytest.approx(3 / (0.1 + 2 * 0.4 / 3))


def test_a_few_workers_can_be_faster_under_placement_than_under_pd_ors() -> None:
    """PD-ORS books the exchange of gamma workers with each parameter server, however few there are."""
    job = profile(workers_per_ps=10)
    one = rows([(1, 1)])
    speed = np.ones(1)
    assert placement_progress(job, speed).samples_per_s(ONE, one)[0] == pytest.approx(100 / (10 + 0.8))
    assert pd_ors_progress(job, speed).samples_per_s(ONE, one)[0] == pytest.approx(1 / (0.1 + 10 * 0.8 / 100))
