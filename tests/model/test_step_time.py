"""The papers' own forms of speed, worked out by hand: samples, and chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.model.job import ChunkProfile
from ray_sim.model.step_time import ChunkTimes, pd_ors_sample_s, transfer_s
from ray_sim.model.units import US_PER_S
from tests.optimus_speeds import AsyncSpeed, SyncSpeed
from tests.training import ONE, profile


def test_a_megabyte_has_eight_megabits() -> None:
    assert transfer_s(np.array([575.0]), np.array([100.0])) == [46.0]


def test_pd_ors_amortises_the_exchange_of_a_step_over_its_samples() -> None:
    # tau + (gamma / F) 2 g / b = 0.1 + (4 / 100) 2 x 4 = 0.42 s between servers, 0.1 + 0.032 on one.
    job = profile(workers_per_ps=4)
    np.testing.assert_allclose(pd_ors_sample_s(job, ONE, internal=False), [0.42])
    np.testing.assert_allclose(pd_ors_sample_s(job, ONE, internal=True), [0.132])
    both = pd_ors_sample_s(job, np.array([0, 0]), np.array([False, True]))
    np.testing.assert_allclose(both, [0.42, 0.132])


def test_the_speeds_of_optimus_in_example_3_a() -> None:
    # f_A(1,1) = 1 / (2.56 + 0.5 + 0.3 + 0.01 + 0.02) = 1 / 3.39.
    job = SyncSpeed(np.array(128.0), np.array([0.02, 0.5, 0.3, 0.01, 0.02]))
    ps, workers = np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    expected = [0.294985, 0.413223, 0.306748]
    np.testing.assert_allclose(job.steps_per_s(workers, ps), expected, atol=5e-7)
    # Gains of the example, Q = 100: (339 - 242) / (2/20) = 970 for a worker.
    q = 100 / job.steps_per_s(workers, ps)
    assert (q[0] - q[1]) / (2 / 20) == pytest.approx(970)


def test_asynchronous_workers_add_their_steps() -> None:
    # 3 / (1 + 0.5 x 3/2 + 0.1 x 3 + 0.2 x 2) = 3 / 2.45.
    job = AsyncSpeed(np.array([1.0, 0.5, 0.1, 0.2]))
    assert job.steps_per_s(np.array(3.0), np.array(2.0)) == pytest.approx(3 / 2.45)


HOUR_US = 3600 * US_PER_S
J1, J2 = np.array([0]), np.array([1])
EDGE, CLOUD = np.array([False]), np.array([True])
PLAIN_SPEED = np.array([1.0])


def truth(grid_us: int, **columns: list[float]) -> ChunkTimes:
    """J1 trains 20 x 58 mini-batches of 3.6 s and exchanges 575 MB at 100 Mbps; J2 30 x 58 without."""
    given = {
        "chunks": [2.0, 1.0],
        "epochs": [20.0, 30.0],
        "minibatches_per_chunk": [58.0, 58.0],
        "minibatch_s": [3.6, 180.0],
        "gradient_mb": [575.0, 0.0],
        "bandwidth_mbps": [100.0, 5120.0],
        "upload_edge_s": [3600.0, 5400.0],
        "upload_cloud_s": [36_000.0, 54_000.0],
        "worker_memory_gib": [0.0, 0.0],
        "ps_memory_gib": [0.0, 0.0],
        **columns,
    }
    return ChunkTimes(ChunkProfile(**{name: np.array(values) for name, values in given.items()}), grid_us)


def test_a_minibatch_takes_its_training_and_the_exchange_of_gradients_and_parameters() -> None:
    # 2 x 8 x 575 / 100 = 92 s for both ways; in the cloud nothing.
    exact = truth(1)
    np.testing.assert_allclose(exact.minibatch_s(J1, PLAIN_SPEED, EDGE), [3.6 + 92.0])
    np.testing.assert_allclose(exact.minibatch_s(J1, PLAIN_SPEED, CLOUD), [3.6])


def test_a_faster_server_trains_faster_but_does_not_communicate_faster() -> None:
    np.testing.assert_allclose(truth(1).minibatch_s(J1, np.array([2.0]), EDGE), [1.8 + 92.0])


def test_the_fastest_and_the_slowest_chunk_of_the_papers_ranges_without_communication() -> None:
    # m = 0.001 h and 0.05 h: 20 x 58 x 0.001 = 1.16 slots of an hour, 60 x 58 x 0.05 = 174.
    exact = truth(1, epochs=[20.0, 60.0], gradient_mb=[0.0, 0.0])  # m = 3.6 s and 180 s
    lengths = exact.chunk_us(np.array([0, 1]), np.ones(2), np.zeros(2, dtype=np.bool_))
    np.testing.assert_array_equal(lengths, [116 * HOUR_US // 100, 174 * HOUR_US])


def test_whole_slots_round_a_chunk_up_and_microseconds_do_not() -> None:
    # J1 in the cloud: 20 x 58 x 3.6 = 4176 s = 1.16 slots; J2: 30 x 58 x 180 = 313,200 s = 87 slots exactly.
    assert truth(1).chunk_us(J1, PLAIN_SPEED, CLOUD).tolist() == [4176 * US_PER_S]
    assert truth(HOUR_US).chunk_us(J1, PLAIN_SPEED, CLOUD).tolist() == [2 * HOUR_US]
    assert truth(HOUR_US).chunk_us(J2, PLAIN_SPEED, EDGE).tolist() == [87 * HOUR_US]


def test_a_chunk_of_a_whole_number_of_slots_keeps_it_through_floating_point() -> None:
    # 100 x 1 x 0.07 s is 7.000000000000001 s in floating point, and means 7 slots of a second.
    seven = truth(US_PER_S, epochs=[100.0, 1.0], minibatches_per_chunk=[1.0, 1.0], minibatch_s=[0.07, 0.0])
    assert seven.chunk_us(J1, PLAIN_SPEED, CLOUD).tolist() == [7 * US_PER_S]
    assert seven.chunk_us(J2, PLAIN_SPEED, EDGE).tolist() == [0]


@pytest.mark.parametrize(("grid_us", "on_grid_s"), [(1, 3601.5), (HOUR_US, 2 * 3600)])
def test_an_instant_within_a_slot_is_rounded_up_to_the_next(grid_us: int, on_grid_s: float) -> None:
    instants = np.array([3601_500_000, 2 * HOUR_US])
    assert truth(grid_us).on_grid(instants).tolist() == [on_grid_s * US_PER_S, 2 * HOUR_US]
