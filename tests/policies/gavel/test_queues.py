"""FIFO and AlloX: worked examples, recorded runs, and brute force."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from ray_sim.policies.gavel.queues import Allox, FifoAgnostic, FifoAware, FifoPublished
from tests.policies.gavel.recorded import recorded_states
from tests.policies.gavel.small_jobs import example, random_jobs, rows_of
from tests.proofs import instances

E = example()


def test_fifo_gives_the_fastest_type_that_has_room() -> None:
    np.testing.assert_array_equal(FifoAware().shares(E), [[1, 0], [0, 1], [0, 0]])


def test_fifo_stops_at_the_first_without_room_but_passes_over_one_that_does_not_run() -> None:
    # Job 1 takes a; job 2 does not run on b, job 3 takes b. As job 2 needs two GPUs, job 3 waits behind it.
    blocked = replace(E, speed=np.array([[4.0, 1], [2, 0], [3, 3]]))
    np.testing.assert_array_equal(FifoAware().shares(blocked), [[1, 0], [0, 0], [0, 1]])
    wide = replace(E, gpus=np.array([1, 2, 1]))
    np.testing.assert_array_equal(FifoAware().shares(wide), [[1, 0], [0, 0], [0, 0]])


def test_equal_speeds_take_the_first_type() -> None:
    np.testing.assert_array_equal(FifoAware().shares(rows_of(E, [2])), [[1, 0]])


def test_a_queued_job_joins_the_one_with_which_it_does_best() -> None:
    # Job 3 on a with job 1: 3/4 + 2/3 = 1.42; on b with job 2: 0.9/1 + 2/3 = 1.57 > 1.5.
    pair_speed = np.array([[[3, 0.9], [2, 2]], [[1, 0.9], [1, 2]]], dtype=float)
    packed = example(pairs=[[0, 2], [1, 2]], pair_speed=pair_speed)
    np.testing.assert_array_equal(FifoAware().shares(packed), [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1]])
    pair_speed[1, 0, 1] = 0.8  # 1.47
    alone = FifoAware().shares(example(pairs=[[0, 2], [1, 2]], pair_speed=pair_speed))
    np.testing.assert_array_equal(alone[:3], FifoAware().shares(E))


def test_agnostic_fifo_draws_a_type_and_jobs_keep_it() -> None:
    rule, draws = FifoAgnostic(seed=5), random.Random(5)
    first = draws.randrange(2)
    shares = rule.shares(E)
    assert shares[0, first] == 1
    assert shares[1, 1 - first] == 1  # one type has room: randrange(1) is drawn too
    draws.randrange(1)
    assert not shares[2].any()
    later = rule.shares(rows_of(E, [1, 2]))
    np.testing.assert_array_equal(later[0], shares[1])
    assert later[1, first] == 1


def test_restored_queues_go_on_as_the_saved_ones() -> None:
    for rule, restored in (
        (FifoAgnostic(1), FifoAgnostic(2)),
        (FifoPublished(1), FifoPublished(2)),
        (Allox(), Allox()),
    ):
        rng = np.random.default_rng(0)
        now = replace(random_jobs(rng, 60), gpus=np.ones(60, dtype=np.int64))
        for count in (20, 30):
            rule.shares(rows_of(now, np.arange(count)))
        restored.restore(rule.state())
        for count in (40, 60):
            later = rows_of(now, np.arange(count // 2, count))
            np.testing.assert_array_equal(restored.shares(later), rule.shares(later))


def test_allox_in_the_example() -> None:
    # a: job 2 (1600/2 s, twice as job 1 waits for it), then job 1 (1000 s); b: job 3 (2000 s). In sum 4600 s.
    now = replace(E, steps_left=np.array([4000.0, 1600, 6000]))
    np.testing.assert_array_equal(Allox().shares(now), [[0, 0], [1, 0], [0, 1]])


def test_a_job_with_a_gpu_keeps_it_in_allox() -> None:
    rule = Allox()
    rule.shares(rows_of(E, [0]))
    np.testing.assert_array_equal(rule.shares(E)[0], [1, 0])


def test_no_waiting_job_starts_where_more_gpus_are_held_than_there_are() -> None:
    for rule in (Allox(), FifoAgnostic(seed=0)):
        held = rule.shares(rows_of(E, [0, 1]))
        lost = replace(E, capacity=np.array([0, 0]))
        np.testing.assert_array_equal(rule.shares(lost), [*held, [0, 0]])


def test_allox_looks_at_a_part_of_the_queue_but_fills_all_gpus() -> None:
    # Half of five jobs are two: the two oldest. A tenth is none, but there are two GPUs.
    now = rows_of(E, [0, 1, 2, 0, 1])
    now = replace(now, job=np.arange(5), age_s=np.arange(5.0))
    for alpha in (0.5, 0.1):
        assert Allox(alpha).shares(now).any(axis=1).tolist() == [False, False, False, True, True]


def test_allox_has_the_least_total_time() -> None:
    # All orders of at most four jobs on at most two GPUs of two types.
    for seed in range(instances(60, 15)):
        rng = np.random.default_rng(seed)
        jobs = int(rng.integers(2, 5))
        now = rows_of(E, rng.integers(0, 3, jobs))
        now = replace(now, job=np.arange(jobs), steps_left=rng.uniform(1, 9, jobs))
        run_s = now.steps_left[:, None] / now.speed

        least: dict[tuple[tuple[int, int], ...], float] = {}  # total time by the first job of each GPU
        for types, order in product(product(range(2), repeat=jobs), permutations(range(jobs))):
            end, total = np.zeros(2), 0.0
            for job in order:
                end[types[job]] += run_s[job, types[job]]
                total += end[types[job]]
            first = tuple(sorted({types[job]: job for job in reversed(order)}.items()))
            least[first] = min(total, least.get(first, np.inf))
        shares = Allox().shares(now)
        ours = tuple((int(shares[job].argmax()), int(job)) for job in np.flatnonzero(shares.any(axis=1)))
        assert least[tuple(sorted(ours))] == pytest.approx(min(least.values()), rel=1e-12)


def same_as_recorded(
    folder: Path, run: str, rule: FifoAware | FifoAgnostic | Allox, reference: str = "gavel"
) -> None:
    for recorded in recorded_states(folder, run, reference=reference, pairs=run.endswith("packed")):
        np.testing.assert_array_equal(rule.shares(recorded.now), recorded.shares)


@pytest.mark.parametrize(
    "run",
    [
        "artifact_evaluation_2-2-2_fifo_perf",
        "max_min_fairness_4-4-4_fifo_perf",
        "minimize_makespan_12-12-12_fifo_perf",
        "multi40_4-4-4_fifo_perf",
        "single60_2-2-2_fifo_perf",
        "single60_4-4-4_fifo_packed",
    ],
)
def test_aware_fifo_is_the_recorded_one(shared_data: Path, run: str) -> None:
    same_as_recorded(shared_data, run, FifoAware())


TRACES = ["max_min_fairness_4-4-4", "minimize_makespan_12-12-12", "single60_4-4-4"]


@pytest.mark.parametrize("run", TRACES)
def test_agnostic_fifo_is_the_recorded_one(shared_data: Path, run: str) -> None:
    same_as_recorded(shared_data, f"{run}_fifo_clean", FifoAgnostic(seed=0), "gavel_tie_rule")


@pytest.mark.parametrize("run", TRACES)
def test_published_fifo_is_the_recorded_one(shared_data: Path, run: str) -> None:
    same_as_recorded(shared_data, f"{run}_fifo", FifoPublished(seed=0))


@pytest.mark.parametrize("cluster", ["2-2-2", "4-4-4"])
def test_allox_is_the_recorded_one(shared_data: Path, cluster: str) -> None:
    same_as_recorded(shared_data, f"single60_{cluster}_allox", Allox())
