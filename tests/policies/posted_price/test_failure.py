"""Failure oracles: against direct simulation of LIFO evictions, and against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.posted_price.exact_failure import ExactFailure
from ray_sim.policies.posted_price.failure import FailureOracle
from ray_sim.policies.posted_price.sampled_failure import SampledFailure, sample_count
from tests.policies.posted_price.lifo_eviction import (
    Job,
    Observations,
    Point,
    failure,
    fate,
    simulate,
    worlds,
)
from tests.proofs import instances

LONGEST = 4
PATHS = 20_000
MU = 0.03
"""A sampled estimate errs by more with probability 2 exp(-2 PATHS MU^2) < 5e-16 (Hoeffding)."""
NOTHING = Observations((), (), ())


def ints(values: Sequence[int] = ()) -> IntArray:
    return np.array(values, dtype=np.int64)


def observe(oracle: FailureOracle, now: int, news: Observations) -> None:
    arrived = ints([job for job, _ in news.arrived]), ints([signal for _, signal in news.arrived])
    oracle.observe(now, *arrived, ints(news.completed), ints(news.removed))


def oracles(capacity: int, seed: int, paths: int = PATHS) -> list[FailureOracle]:
    sampled = SampledFailure(capacity, LONGEST, paths, Streams(seed))
    return [ExactFailure(capacity, LONGEST), sampled]


def random_job(rng: np.random.Generator, birth: int) -> Job:
    """Up to four points; the signal tells nothing, all, or whether the duration is above 2."""
    signal = rng.integers(3)
    pairs = {(birth + int(rng.integers(4)), int(rng.integers(1, 4))) for _ in range(rng.integers(1, 5))}
    weights = rng.dirichlet(np.ones(len(pairs)))
    starts: dict[tuple[int, int], int | None] = {}
    points: list[Point] = []
    for (arrival, duration), weight in zip(sorted(pairs), weights, strict=True):
        told = (0, duration, int(duration > 2))[signal]
        start = None if rng.random() < 0.15 else arrival + int(rng.integers(3))
        start = starts.setdefault((arrival, told), start)
        points.append((arrival, duration, told, float(weight), start))
    return Job(birth, int(rng.integers(1, 4)), tuple(points))


def random_instance(seed: int, most: int = 4) -> tuple[list[Job], list[Point], int]:
    """Jobs in order of birth, the points that come true, and the capacity."""
    rng = np.random.default_rng(seed)
    births = np.sort(rng.integers(0, 5, rng.integers(1, most + 1)))
    jobs = [random_job(rng, int(birth)) for birth in births]
    points = [job.points[rng.choice(len(job.points), p=[p[3] for p in job.points])] for job in jobs]
    return jobs, points, int(rng.integers(2, 6))


def replayed(
    oracle: FailureOracle,
    jobs: Sequence[Job],
    points: Sequence[Point],
    capacity: int,
    rounds: int,
    *,
    silent: bool = False,
) -> list[Observations]:
    """History of the rounds, after the oracle has seen it.

    Rounds without news are left out but the last, unless ``silent``.
    """
    history = simulate(jobs, points, rounds, capacity)
    for now, news in enumerate(history):
        for j, job in enumerate(jobs):
            if job.birth == now:
                oracle.add(j, *job.plan())
        if silent or news != NOTHING or now == rounds - 1:
            observe(oracle, now, news)
    return history


def example_4b(oracle: FailureOracle) -> FloatArray:
    """Jobs 1 to 3 of example 4.B; estimates of a job born in round 2."""
    first = Job(0, 1, ((2, 1, 0, 0.6, 2), (3, 1, 0, 0.4, None)))
    oracle.add(1, *first.plan())
    observe(oracle, 0, NOTHING)
    oracle.add(2, *Job(1, 1, ((2, 1, 0, 1.0, 2),)).plan())
    observe(oracle, 1, NOTHING)
    return oracle.failures(2, 1, 3)


def test_job_3_of_example_4b_fails_with_probability_0_6() -> None:
    oracle = oracles(2, 0)[0]
    found = example_4b(oracle)
    np.testing.assert_allclose(found[:, 1:], [[0.6] * LONGEST, [0.0] * LONGEST], atol=1e-15)
    oracle.add(3, *Job(2, 1, ((2, 1, 0, 1.0, 2),)).plan())
    assert oracle.failures(2, 1, 2)[0, 1] == pytest.approx(1.0)  # job 4 is the first to be evicted


def test_job_3_of_example_4b_is_estimated_from_samples() -> None:
    np.testing.assert_allclose(example_4b(oracles(2, 0)[1])[0, 1:], 0.6, atol=MU)


def test_nothing_fails_without_earlier_jobs() -> None:
    for oracle in oracles(3, 0):
        assert oracle.certain(3)
        assert not oracle.failures(5, 3, 9).any()


def test_a_job_that_waits_is_cancelled_by_earlier_jobs_alone() -> None:
    """Jobs 0 and 1 overload rounds 1 and 2: a job due in round 3 is cancelled, one that has ended is not."""
    for oracle in oracles(3, 0):
        for job in range(2):
            oracle.add(job, *Job(0, 2, ((1, 2, 0, 1.0, 1),)).plan())
        found = oracle.failures(0, 1, 3)
        np.testing.assert_allclose(found[0, 1:], [0, 1, 1, 1], atol=1e-15)
        np.testing.assert_allclose(found[1:, 1:], 1, atol=1e-15)


@pytest.mark.parametrize("seed", range(instances(3000)))
def test_exact_estimates_are_those_of_direct_simulation(seed: int) -> None:
    """For a job born in any round, given the history until then, for all starts and durations."""
    jobs, points, capacity = random_instance(seed)
    now = int(np.random.default_rng([seed, 1]).integers(0, 7))
    concurrency = 1 + seed % 3
    born = [job for job in jobs if job.birth <= now]
    exact, sampled = oracles(capacity, seed)
    for oracle in (exact, sampled):
        history = replayed(oracle, [job for job in born if job.birth < now], points, capacity, now)
        for j, job in enumerate(born):
            if job.birth == now:
                oracle.add(j, *job.plan())
    found = exact.failures(now, concurrency, now + 2)
    agreeing = worlds(born, history, capacity)
    for start in range(now, now + 3):
        for duration in (1, 3):
            probe = Job(now, concurrency, ((start, duration, 0, 1.0, start),))
            expected = failure(born, agreeing, probe, capacity)
            assert found[start - now, duration] == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(sampled.failures(now, concurrency, now + 2), found, atol=MU)
    for oracle in (exact, sampled):
        assert not oracle.certain(concurrency) or not found.any()


@pytest.mark.parametrize("seed", range(instances(3000)))
def test_later_jobs_change_no_fate_of_earlier_ones(seed: int) -> None:
    jobs, points, capacity = random_instance(seed, most=6)
    whole = simulate(jobs, points, 15, capacity)
    for n in range(len(jobs)):
        part = simulate(jobs[:n], points[:n], 15, capacity)
        assert [fate(part, j) for j in range(n)] == [fate(whole, j) for j in range(n)]


@pytest.mark.parametrize("seed", range(instances(3000, 7)))
def test_later_jobs_change_no_estimate_of_a_job_that_was_evicted_or_not(seed: int) -> None:
    """Two runs that differ in jobs born later, until all of these have gone, give equal estimates then.

    Samples are equal if both runs see the same rounds: draws are keyed by how often points are ruled out.
    """
    jobs, points, capacity = random_instance(seed, most=3)
    rng = np.random.default_rng([seed, 2])
    extra = random_job(rng, jobs[-1].birth)
    for alone, crowded in zip(oracles(capacity, 7, 50), oracles(capacity, 7, 50), strict=True):
        silent = isinstance(alone, SampledFailure)
        replayed(alone, jobs, points, capacity, 5, silent=silent)
        replayed(crowded, [*jobs, extra], [*points, extra.points[0]], capacity, 5, silent=silent)
        gone = replace(NOTHING, removed=(len(jobs),))
        observe(alone, 5, NOTHING)
        observe(crowded, 5, gone)
        np.testing.assert_array_equal(alone.failures(6, 2, 9), crowded.failures(6, 2, 9))


@pytest.mark.parametrize("seed", range(instances(3000, 7)))
def test_estimates_grow_with_nodes_and_duration(seed: int) -> None:
    jobs, points, capacity = random_instance(seed, most=5)
    for oracle in oracles(capacity, seed, 200):
        replayed(oracle, jobs, points, capacity, 4)
        by_nodes = np.stack([oracle.failures(5, nodes, 8) for nodes in range(1, 5)])
        assert (np.diff(by_nodes[:, :, 1:], axis=0) >= -1e-12).all()
        assert (np.diff(by_nodes[:, :, 1:], axis=2) >= 0).all()
        assert (by_nodes >= 0).all()
        assert (by_nodes <= 1).all()


@pytest.mark.parametrize("seed", range(instances(3000, 7)))
def test_a_restored_oracle_gives_the_same_later_answers(seed: int) -> None:
    jobs, points, capacity = random_instance(seed, most=6)
    history = simulate(jobs, points, 10, capacity)
    for oracle, other in zip(oracles(capacity, 3, 50), oracles(capacity, 3, 50), strict=True):
        other.add(9, *jobs[0].plan())
        other.failures(0, 2, 5)
        for now, news in enumerate(history):
            for j, job in enumerate(jobs):
                if job.birth == now:
                    oracle.add(j, *job.plan())
                    if now > seed % 5:
                        other.add(j, *job.plan())
            if now == seed % 5:
                other.restore({name: array.copy() for name, array in oracle.state().items()})
                np.testing.assert_array_equal(
                    other.failures(now, 3, now + 3), oracle.failures(now, 3, now + 3)
                )
            observe(oracle, now, news)
            if now >= seed % 5:
                observe(other, now, news)
                expected, found = (each.failures(now + 1, 2, now + 5) for each in (oracle, other))
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(instances(100, 5)))
def test_memory_that_grows_and_rows_that_move_change_no_estimate(seed: int) -> None:
    """200 jobs of up to 40 points, half of them with late starts; a second oracle knows the last 10 only."""
    rng = np.random.default_rng(seed)
    arrivals = rng.integers(1, 40, 200)
    for crowded, alone in zip(oracles(2, 3, 30)[1:], oracles(2, 3, 30)[1:], strict=True):
        for job, last in enumerate(arrivals.tolist()):
            plan = Job(0, 1, tuple((k, 2, 0, 1 / last, k + 100 * (job % 2)) for k in range(last))).plan()
            crowded.add(job, *plan)
            if job >= 190:
                alone.add(job, *plan)
            if job == 150:
                crowded.failures(0, 1, 200)
                observe(crowded, 0, Observations((), (), tuple(range(0, 151, 2))))
                observe(alone, 0, NOTHING)
        for oracle in (crowded, alone):
            observe(oracle, 1, Observations((), tuple(range(1, 151, 2)), tuple(range(151, 190))))
        expected = alone.failures(2, 1, 150)
        assert expected.any()
        np.testing.assert_array_equal(crowded.failures(2, 1, 150), expected)


@pytest.mark.parametrize("birth", [10, 50, 1000])
def test_estimates_do_not_depend_on_the_round_of_the_birth(birth: int) -> None:
    """Loads of earlier rounds leave nothing behind; loads stay in their rounds when later ones are added."""
    for oracle in oracles(1, 0):
        oracle.add(0, *Job(0, 1, ((0, 8, 0, 1.0, 0),)).plan())
        assert oracle.failures(0, 1, 3).any()
        observe(oracle, 9, Observations((), (0,), ()))
        observe(oracle, birth, NOTHING)
        now = birth + 1
        oracle.add(1, *Job(now, 1, ((now, 10, 0, 0.5, now + 10), (now, 12, 0, 0.5, now + 10))).plan())
        oracle.failures(now, 1, now + 20)
        oracle.add(2, *Job(now, 1, ((now, 1, 0, 1.0, now + 100),)).plan())
        found = oracle.failures(now, 1, now + 100)[:, 1]
        np.testing.assert_allclose(found[:23], [0] * 10 + [1] * 10 + [0.5] * 2 + [0], atol=MU)
        assert found[100] == pytest.approx(1.0)


def test_news_that_no_plan_foresees_removes_the_load() -> None:
    """An arrival or a signal that was not reported, no arrival, and a run beyond the largest duration."""
    plan = Job(0, 1, ((1, 1, 1, 0.5, 1), (1, 2, 2, 0.5, 3))).plan()
    for oracle in oracles(1, 0, 100):
        for job in range(5):
            oracle.add(job, *plan)
        observe(oracle, 0, Observations(((0, 1),), (), (0,)))
        assert oracle.failures(1, 1, 3)[2, 1] > 0.8
        observe(oracle, 1, Observations(((1, 3), (2, 1)), (), (1,)))
        assert not oracle.failures(2, 1, 3).any()
        observe(oracle, 2, Observations(((9, 1),), (2,), (9,)))
        assert not oracle.failures(3, 1, 6).any()
        assert oracle.certain(1)


def test_a_job_that_is_never_launched_is_forgotten() -> None:
    for oracle in oracles(1, 0, 100):
        oracle.add(0, *Job(0, 1, ((1, 1, 0, 1.0, None),)).plan())
        observe(oracle, 3, Observations(((0, 0),), (), (0,)))
        assert oracle.certain(1)


def test_points_of_tiny_probability_keep_their_odds() -> None:
    """After a history of probability 1e-30, durations 2 and 3 are as likely as 3 to 1."""
    points = ((0, 1, 0, 1.0, 0), (0, 2, 0, 3e-30, 0), (0, 3, 0, 1e-30, 0))
    for oracle in oracles(1, 0):
        oracle.add(0, *Job(0, 1, points).plan())
        observe(oracle, 0, Observations(((0, 0),), (), ()))
        observe(oracle, 1, NOTHING)
        assert oracle.failures(2, 1, 2)[0, 1] == pytest.approx(0.25, abs=MU)


def test_draws_of_a_job_depend_on_no_other_job() -> None:
    """Jobs on other rounds, before and after it, change no sampled estimate of the rounds of a job."""
    middle = Job(0, 1, ((3, 1, 0, 0.5, 3), (4, 1, 0, 0.5, 4))).plan()
    other = Job(0, 1, ((20, 1, 0, 0.5, 20), (21, 1, 0, 0.5, 21))).plan()
    estimates = []
    for before, after in ((0, 0), (3, 0), (0, 3), (3, 3)):
        oracle = SampledFailure(1, LONGEST, 100, Streams(5))
        for job in [*range(before), 10, *range(11, 11 + after)]:
            oracle.add(job, *(middle if job == 10 else other))
        observe(oracle, 2, NOTHING)
        estimates.append(oracle.failures(3, 1, 6))
    assert 0 < estimates[0][0, 1] < 1
    for estimate in estimates[1:]:
        np.testing.assert_array_equal(estimate, estimates[0])


def test_other_seeds_draw_other_paths() -> None:
    first, again, other = (example_4b(SampledFailure(2, LONGEST, 1000, Streams(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_exact_enumeration_beyond_a_million_points_is_refused_with_its_number() -> None:
    oracle = ExactFailure(15, LONGEST)
    plan = Job(0, 1, ((1, 1, 0, 0.5, 1), (2, 1, 0, 0.5, 2))).plan()
    for job in range(19):
        oracle.add(job, *plan)
    assert oracle.failures(0, 1, 1)[1, 1] == pytest.approx(
        sum(math.comb(19, k) for k in range(15, 20)) / 2**19
    )
    oracle.add(19, *plan)
    with pytest.raises(InvalidScenarioError, match=r"1,048,576 joint points of the 20.*=sampled"):
        oracle.failures(0, 1, 1)


def test_rounds_and_births_go_forward() -> None:
    oracle = ExactFailure(2, LONGEST)
    plan = Job(5, 1, ((5, 1, 0, 1.0, 5),)).plan()
    oracle.add(3, *plan)
    with pytest.raises(ValueError, match="order of birth"):
        oracle.add(3, *plan)
    observe(oracle, 4, NOTHING)
    with pytest.raises(ValueError, match="round 4"):
        oracle.failures(4, 1, 6)
    with pytest.raises(ValueError, match="round 4"):
        observe(oracle, 3, NOTHING)


def test_sample_counts_are_those_of_the_specification() -> None:
    """625 paths for an expected error of 0.02; some 17,000 for all of a few thousand triples at once."""
    assert sample_count("pointwise", 0.02, 1) == 625
    assert sample_count("uniform", 0.02, 100 * 20 * 4) == math.ceil(math.log(1_600_000) / 0.0008) == 17_857
