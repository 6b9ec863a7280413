"""Published and worked examples of the rules of needs, recorded optima, and properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.needs import (
    FinishTimeFair,
    Makespan,
    MaxMin,
    NeedRule,
    least_ratio,
    mean_speed,
)
from ray_sim.policies.gavel.programme import Programme
from tests.policies.gavel.recorded import recorded_states
from tests.policies.gavel.small_jobs import assert_shareable, example, random_jobs, rows_of, speeds
from tests.proofs import instances

E = example()
RULES: tuple[Callable[[], NeedRule], ...] = (
    partial(MaxMin, aware=True),
    partial(MaxMin, aware=False),
    Makespan,
    partial(Makespan, reference=2),
    FinishTimeFair,
    partial(FinishTimeFair, reference=2),
)


def level(rule: MaxMin | Makespan, now: JobsNow) -> float:
    """Z of max-min, 1/T of makespan."""
    seen = rule.seen(now)
    need = rule.need(Programme(rule.name, seen))
    if isinstance(rule, Makespan):
        return float((need / seen.steps_left).min())
    return float((need * seen.gpus / (seen.weight * mean_speed(seen))).min())


def ratio(now: JobsNow, alone_s: FloatArray) -> float:
    return least_ratio(Programme("finish_time_fair", now), alone_s)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (MaxMin(aware=False), [[1 / 3, 1 / 3], [1 / 3, 1 / 3], [1 / 3, 1 / 3]]),
        (MaxMin(aware=True), [[0.5, 0], [0.5, 0.2], [0, 0.8]]),
        (Makespan(), [[0.5, 0], [0.5, 0], [0, 1]]),
    ],
)
def test_shares_of_the_example(rule: NeedRule, expected: list[list[float]]) -> None:
    np.testing.assert_allclose(rule.shares(E), expected, atol=1e-5)


def test_max_min_levels_of_the_example() -> None:
    # Agnostic: 2 GPUs for 3 jobs. Aware: 4 x 0.5 / 2.5 = (2 x 0.5 + 0.2) / 1.5 = 3 x 0.8 / 3.
    assert level(MaxMin(aware=False), E) == pytest.approx(2 / 3, rel=1e-12)
    assert level(MaxMin(aware=True), E) == pytest.approx(0.8, rel=1e-12)
    assert level(MaxMin(aware=True), replace(E, weight=np.array([1.0, 2, 1]))) == pytest.approx(
        0.56, rel=1e-12
    )
    two_gpus = replace(E, gpus=np.array([2, 1, 1]), capacity=np.array([2, 2]))
    assert level(MaxMin(aware=True), two_gpus) == pytest.approx(1, rel=1e-12)


def test_packing_raises_the_level_of_the_example_to_1() -> None:
    # Jobs 2, 3 do not fit on a at less than their half; 1 and 2 do not fit on b at all.
    pair_speed = [[[3, 0], [1.5, 0]], [[2, 0.5], [1, 2]], [[1, 0.8], [2, 2.7]]]
    packed = example(pairs=[[0, 1], [0, 2], [1, 2]], pair_speed=np.array(pair_speed, dtype=float))
    assert level(MaxMin(aware=True), packed) == pytest.approx(1, rel=1e-12)
    shares = MaxMin(aware=True).shares(packed)
    assert shares[3, 1] == 0
    assert_shareable(packed, shares)
    assert (speeds(packed, shares) / mean_speed(packed) >= 1 - 5e-6).all()


def test_makespan_of_the_example_is_2000_s() -> None:
    assert 1 / level(Makespan(), E) == pytest.approx(2000, rel=1e-12)


def test_finish_time_fair_ratios_of_the_example() -> None:
    # f = 5/3, 1, 2, so all jobs alone would take (2400, 2000, 3000) s.
    alone_s = np.array([2400.0, 2000, 3000])
    assert ratio(E, alone_s) == pytest.approx(0.83333, abs=1e-5)
    aged = replace(E, age_s=np.array([900.0, 0, 300]))
    assert ratio(aged, alone_s) == pytest.approx(1.01921, abs=1e-5)
    expected = [[0.64679, 0], [0.35321, 0.27474], [0, 0.72526]]
    np.testing.assert_allclose(FinishTimeFair().shares(aged), expected, atol=1e-5)


def test_ratios_of_jobs_of_very_unequal_length_are_found() -> None:
    # From 1 to 1e8 steps: the solver's tolerance is larger than that of the ratio.
    rng = np.random.default_rng(95)
    now = random_jobs(rng, 8)
    speed = now.speed * 10.0 ** rng.uniform(-3, 3, (8, 1))
    now = replace(now, speed=speed, steps_left=10.0 ** rng.uniform(0, 8, 8))
    rule = FinishTimeFair()
    need = rule.need(Programme(rule.name, now))
    assert Programme(rule.name, now).corner(per_level=need).level == pytest.approx(1, abs=1e-6)


def test_a_pair_may_be_faster_than_one_of_its_jobs() -> None:
    # One GPU: each has f = 1/2, so 2 s alone per step, and 1.5 steps per second in the pair: (1/1.5)/2.
    now = rows_of(example(speed=np.ones((3, 1)), capacity=[1], pair_speed=np.zeros((0, 2, 1))), [0, 1])
    packed = replace(now, pairs=np.array([[0, 1]]), pair_speed=np.full((1, 2, 1), 1.5))
    assert ratio(packed, 2 * packed.steps_left) == pytest.approx(1 / 3, rel=1e-9)


def test_time_alone_counts_steps_done_at_the_speed_with_the_share_of_then() -> None:
    # Of three jobs, job 1 has f = 5/3: 600 steps are 360 s. Of two jobs, job 1 has f = (4 + 1) / 2, job 3 has
    # f = 3: 360 + 3400/2.5 = 1720 s and 3000/2 + 3000/3 = 2500 s. Each gets its best type: q = 4 and 3.
    rule = FinishTimeFair()
    rule.shares(E)
    later = replace(
        rows_of(E, [0, 2]),
        steps_left=np.array([3400.0, 3000]),
        age_s=np.array([1000.0, 1000]),
        job=np.array([0, 2]),
    )
    programme = Programme(rule.name, later)
    expected = max((1000 + 3400 / 4) / 1720, (1000 + 3000 / 3) / 2500)
    need = rule.need(programme)
    np.testing.assert_allclose((1000 + later.steps_left / need) / np.array([1720, 2500]), expected, rtol=1e-9)


def test_a_restored_rule_goes_on_as_the_saved_one() -> None:
    now = random_jobs(np.random.default_rng(3), 12)
    left = now.steps_left * np.linspace(0.1, 1, 12)
    later = replace(now, steps_left=left, age_s=now.age_s + 5000)
    rule, restored = FinishTimeFair(), FinishTimeFair()
    rule.shares(now)
    restored.restore(rule.state())
    np.testing.assert_array_equal(restored.shares(later), rule.shares(later))
    assert not np.array_equal(FinishTimeFair().shares(later), rule.shares(later))


def test_agnostic_rules_of_times_take_the_reference_type_for_all() -> None:
    # Type a: T with 2 GPUs for 1000 + 1000 + 2000 s of work is 2000 s; f = 8/3, 4/3, 2.
    agnostic = Makespan(reference=0)
    assert 1 / level(agnostic, E) == pytest.approx(2000, rel=1e-9)
    seen = replace(E, speed=E.speed[:, [0, 0]])
    np.testing.assert_array_equal(FinishTimeFair(reference=0).shares(E), FinishTimeFair().shares(seen))


def test_a_job_without_speed_on_the_reference_type_is_refused() -> None:
    now = replace(E, speed=np.array([[4.0, 1], [0, 1], [3, 3]]), job=np.array([10, 11, 12]))
    with pytest.raises(
        InvalidInputError, match="makespan: row 11 of the workload: expected a speed > 0 on the"
    ):
        Makespan(reference=0).shares(now)


def test_no_jobs_have_no_shares() -> None:
    assert MaxMin(aware=True).shares(rows_of(E, np.zeros(0, dtype=int))).shape == (0, 2)


def test_shares_are_feasible_and_follow_the_jobs() -> None:
    for seed in range(instances(40, 6)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, int(rng.integers(1, 20)))
        now = rows_of(now, np.append(np.arange(len(now.job)), 0))  # the last is identical to the first
        now = replace(now, job=np.arange(len(now.job)))
        order = rng.permutation(len(now.job))
        for new_rule in RULES:
            shares = new_rule().shares(now)
            assert_shareable(now, shares)
            np.testing.assert_array_equal(shares[0], shares[-1])
            np.testing.assert_allclose(new_rule().shares(rows_of(now, order)), shares[order], atol=1.1e-6)
            if new_rule().seen(now) is now:
                assert (shares[now.speed == 0] == 0).all()


def test_faster_steps_of_one_job_change_nothing() -> None:
    for seed in range(instances(20, 5)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, int(rng.integers(2, 20)))
        times = np.where(np.arange(len(now.job)) == 1, 7.0, 1.0)
        faster = replace(now, speed=now.speed * times[:, None])
        longer = replace(faster, steps_left=now.steps_left * times)
        assert level(MaxMin(aware=True), faster) == pytest.approx(level(MaxMin(aware=True), now), rel=1e-9)
        assert level(Makespan(), longer) == pytest.approx(level(Makespan(), now), rel=1e-9)
        for new_rule, changed in ((RULES[0], faster), (Makespan, longer), (FinishTimeFair, longer)):
            np.testing.assert_allclose(new_rule().shares(changed), new_rule().shares(now), atol=1e-5)


def test_levels_have_their_known_bounds() -> None:
    # With n = w = 1, 1/m of the cluster each is feasible: z >= min(1, N/m), and r <= 1 for new jobs.
    for seed in range(instances(40, 8)):
        rng = np.random.default_rng(seed)
        packed = random_jobs(rng, int(rng.integers(1, 25)), pairs=True)
        packed = replace(packed, weight=np.ones(len(packed.job)))
        now = rows_of(packed, np.arange(len(packed.job)))
        now = replace(
            now, pairs=packed.pairs[:0], pair_speed=packed.pair_speed[:0], age_s=np.zeros(len(now.job))
        )
        z = level(MaxMin(aware=True), now)
        assert z >= min(1, now.capacity.sum() / len(now.job)) - 1e-9
        assert level(MaxMin(aware=True), packed) >= z - 1e-9
        rule = FinishTimeFair()
        shares = rule.shares(now)
        assert ratio(now, now.steps_left / rule.state()["fair_speed"]) <= 1 + 1e-9
        assert_shareable(now, shares)


MAX_MIN = [
    "artifact_evaluation_2-2-2_max_min_fairness_perf",
    "minimize_makespan_12-12-12_max_min_fairness",
    "minimize_makespan_12-12-12_max_min_fairness_perf",
    "multi40_4-4-4_max_min_fairness_perf",
    "single60_4-4-4_max_min_fairness",
    "single60_4-4-4_max_min_fairness_perf",
]


@pytest.mark.parametrize("run", MAX_MIN)
def test_max_min_has_the_recorded_levels(shared_data: Path, run: str) -> None:
    rule = MaxMin(aware=run.endswith("perf"))
    for recorded in recorded_states(shared_data, run):
        if len(recorded.now.job):
            now = rule.seen(recorded.now)
            theirs = (speeds(now, recorded.shares) * now.gpus / (now.weight * mean_speed(now))).min()
            assert level(rule, now) == pytest.approx(theirs, abs=1e-7)


@pytest.mark.parametrize("cluster", ["2-2-2", "4-4-4"])
def test_packing_has_the_recorded_levels(shared_data: Path, cluster: str) -> None:
    for recorded in recorded_states(shared_data, f"single60_{cluster}_max_min_fairness_packed", pairs=True):
        theirs = (speeds(recorded.now, recorded.shares) / mean_speed(recorded.now)).min(initial=np.inf)
        if len(recorded.now.job):
            assert level(MaxMin(aware=True), recorded.now) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize(
    "run",
    [
        "minimize_makespan_12-12-12_max_min_fairness",
        "minimize_makespan_12-12-12_max_min_fairness_perf",
        "max_min_fairness_4-4-4_max_min_fairness",
        "multi40_4-4-4_max_min_fairness_perf",
    ],
)
def test_max_min_has_the_recorded_shares(shared_data: Path, run: str) -> None:
    # Agnostic shares such as 12/88 (1 - 1e-6) lie where rounding decides; the aware ones are equal.
    rule = MaxMin(aware=run.endswith("perf"))
    for recorded in recorded_states(shared_data, run, reference="gavel_tie_rule"):
        if len(recorded.now.job):
            assert level(rule, recorded.now) == pytest.approx(recorded.value, rel=1e-9)
            tolerance = 1e-9 if rule.aware else 2e-6
            np.testing.assert_allclose(rule.shares(recorded.now), recorded.shares, rtol=0, atol=tolerance)


RUNS = ["minimize_makespan_12-12-12", "single60_4-4-4"]


@pytest.mark.parametrize("run", RUNS)
def test_finish_time_fair_has_the_recorded_ratios(shared_data: Path, run: str) -> None:
    rule = FinishTimeFair()
    for recorded in recorded_states(shared_data, f"{run}_finish_time_fairness_perf"):
        now = recorded.now
        if len(now.job):
            need = rule.need(Programme(rule.name, now))
            alone_s = rule.state()["fair_s"] + now.steps_left / rule.state()["fair_speed"]
            ours = ((now.age_s + now.steps_left / need) / alone_s).max()
            theirs = ((now.age_s + now.steps_left / speeds(now, recorded.shares)) / alone_s).max()
            assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("run", RUNS)
def test_makespan_is_at_most_5_percent_below_the_recorded_bisection(shared_data: Path, run: str) -> None:
    for recorded in recorded_states(shared_data, f"{run}_min_total_duration_perf"):
        if len(recorded.now.job):
            theirs = (recorded.now.steps_left / speeds(recorded.now, recorded.shares)).max()
            assert 1 - 1e-6 <= theirs * level(Makespan(), recorded.now) <= 1.05


@pytest.mark.parametrize("run", [*RUNS, "max_min_fairness_4-4-4"])
def test_the_first_shares_of_times_are_the_recorded_ones(shared_data: Path, run: str) -> None:
    # r of the record is known within its bisection, to which shares are sensitive.
    for rule, name, tolerance in (
        (Makespan(), "min_total_duration", 1e-9),
        (FinishTimeFair(), "finish_time_fairness", 6e-6),
    ):
        recorded = next(recorded_states(shared_data, f"{run}_{name}_perf", reference="gavel_tie_rule"))
        np.testing.assert_allclose(rule.shares(recorded.now), recorded.shares, rtol=0, atol=tolerance)
