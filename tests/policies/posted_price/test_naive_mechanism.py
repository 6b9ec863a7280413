"""The slow mechanism: examples 4.B and 4.C, single rounds and evictions, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.policies.posted_price.naive_jobs import free, job, nano
from tests.policies.posted_price.naive_mechanism import (
    NANO,
    Job,
    Setting,
    Signal,
    regret,
    run,
)

SIGNALS: tuple[Signal, ...] = ("none", "full", "partial")


def at_half(_: int, __: int) -> int:
    return NANO // 2


# ---------------------------------------------------------------- Examples 4.B and 4.C

PAIR = Setting(nodes=2, rounds=4, eps=0.5, max_value=8.0, max_concurrency=1, max_rounds=2)
NEVER = 4


def three_jobs(first_comes: int = 0) -> list[Job]:
    return [
        job([(2, 1, 0.6), (NEVER, 1, 0.4)], (9, 9, 9, 9), comes=first_comes),
        job([(2, 1, 1.0)], (9, 9, 9), birth=1),
        job([(2, 1, 1.0)], (3, 3), birth=2),
    ]


@pytest.mark.parametrize(("first_comes", "what"), [(0, "cancelled_due"), (1, "completed")])
def test_failure_of_example_b_and_utility_of_example_c(first_comes: int, what: str) -> None:
    fate = run(three_jobs(first_comes), PAIR, at_half).fates[2]
    assert fate.failure == {(2, 1): Fraction(6, 10)}
    assert fate.utility == NANO
    assert fate.what == what
    assert fate.payment == (NANO // 2 if what == "completed" else 0)


@pytest.mark.parametrize(("first_comes", "what"), [(0, "cancelled_early"), (1, "completed")])
def test_a_fourth_job_is_evicted_first_in_example_b(first_comes: int, what: str) -> None:
    """It surely fails in round 2; planned for round 3, it fails while it waits, if the first job comes."""
    jobs = three_jobs(first_comes)
    fates = run([*jobs, job([(2, 1, 1.0)], (9, 9, 9), birth=2)], PAIR, at_half).fates
    assert fates[:3] == run(jobs, PAIR, at_half).fates
    assert fates[3].plan == {(2, 1): 3}
    assert fates[3].failure == {(2, 1): Fraction(6, 10)}
    assert fates[3].what == what


def test_small_failures_are_rounded_to_0_by_the_threshold_only() -> None:
    first = job([(0, 1, 0.04), (NEVER, 1, 0.96)], (9, 9))
    one_node = replace(PAIR, nodes=1)
    second = job([(0, 1, 1.0)], (2, 2))
    rounded = run([first, second], one_node, free).fates[1]
    assert rounded.failure == {(0, 1): Fraction(4, 100)}
    assert rounded.utility == 2 * NANO
    exact = run([first, second], replace(one_node, threshold=False), free).fates[1]
    assert exact.utility == 2 * NANO * Fraction(96, 100)


def test_the_threshold_costs_the_truth_what_it_neglects() -> None:
    def prices(now: int, _: int) -> int:
        return nano(1.0, 0.55, 0, 0)[now]

    one_node = replace(PAIR, nodes=1)
    jobs = [job([(0, 1, 0.04), (NEVER, 1, 0.96)], (9, 9)), job([(0, 1, 1.0)], (3, 3, 2.5))]
    later = replace(jobs[1], value=nano(3, 3, 3))
    assert regret(1, [later], jobs, one_node, prices) == [NANO * Fraction(3, 100)]
    assert regret(1, [later], jobs, replace(one_node, threshold=False), prices) == [0]


# ---------------------------------------------------------------- one round, one eviction


def test_the_loop_evicts_by_birth_whatever_a_job_does() -> None:
    """Two of three come in round 1 on one node: those that wait, run and are not yet seen are evicted."""
    one_node = Setting(1, 6, 0.0, 9.0, 1, 4, oracle="zero")
    expected = job([(1, 1, 0.5), (5, 1, 0.5)], (9, 9, 9, 9, 9, 9, 9))
    runs = job([(0, 4, 1.0)], (9, 9, 9, 9, 9))
    unseen = job([(3, 1, 1.0)], (9, 9, 9, 9, 9))
    fates = run([expected, runs, unseen], one_node, free).fates
    assert [(fate.what, fate.end) for fate in fates] == [
        ("completed", 2),
        ("evicted_running", 1),
        ("cancelled_early", 1),
    ]
    assert [fate.counts_as_evicted for fate in fates] == [False, True, True]
    assert [fate.start for fate in fates] == [1, 0, None]


def test_a_cancelled_job_that_would_not_run_is_no_eviction() -> None:
    one_node = Setting(1, 6, 0.0, 9.0, 1, 4, oracle="zero")
    both = [job([(0, 1, 1.0)], (9, 9)), job([(0, 1, 1.0)], (9, 9))]
    worthless = job([(3, 1, 1.0)], (0,))
    never = job([(3, 1, 0.5), (6, 1, 0.5)], (9,) * 9, comes=1)
    fates = run([*both, worthless, never], one_node, free).fates
    assert [fate.what for fate in fates] == [
        "completed",
        "cancelled_due",
        "cancelled_early",
        "cancelled_early",
    ]
    assert [fate.counts_as_evicted for fate in fates] == [False, True, False, False]


def test_a_round_sees_its_plans_and_not_its_completions() -> None:
    one_node = Setting(1, 4, 0.0, 9.0, 1, 2, signal="none", threshold=False)
    first = job([(0, 1, 0.5), (0, 2, 0.5)], (9, 9, 9))
    second = job([(1, 1, 1.0)], (9, 9), birth=1)
    assert run([first, second], one_node, free).fates[1].failure == {(1, 1): Fraction(1, 2)}
    surely = replace(first, points=((0, 1, 1.0),))
    third = replace(second, value=nano(9, 9, 9))
    fates = run([surely, second, third], one_node, free).fates
    assert fates[1].failure == {(1, 1): 0}
    assert fates[2].plan == {(1, 0): 2}


@pytest.mark.parametrize(
    ("birth", "comes", "failure", "start"),
    [
        *((0, comes, Fraction(3, 4), 1) for comes in (0, 1, 2)),
        *((1, comes, Fraction(1, 2), 1) for comes in (0, 1)),
        (1, 2, None, None),  # the first job will surely run in round 2
    ],
)
def test_arrivals_before_the_birth_are_known(
    birth: int, comes: int, failure: Fraction | None, start: int | None
) -> None:
    """A job needs rounds 1 and 2; the first one comes in round 0 for one or two rounds, or in round 2."""
    one_node = Setting(1, 5, 0.0, 9.0, 1, 2, signal="none", threshold=False)
    first = job([(0, 1, 0.25), (0, 2, 0.25), (2, 1, 0.5)], (9,) * 6, comes=comes)
    second = job([(1, 2, 1.0)], (9,) * (4 - birth), birth=birth)
    fate = run([first, second], one_node, at_half).fates[1]
    assert fate.plan == {(1, 0): start}
    assert fate.failure.get((1, 2)) == failure


# ---------------------------------------------------------------- outside the reported support

WIDE = Setting(nodes=2, rounds=8, eps=0.0, max_value=8.0, max_concurrency=1, max_rounds=4)
BY_SIGNAL = {name: replace(WIDE, signal=name) for name in SIGNALS}


@pytest.mark.parametrize(
    ("signal", "arrival", "duration", "what", "end"),
    [
        ("full", 2, 2, "not_launched", 2),
        ("full", 1, 3, "not_launched", 1),
        ("none", 1, 3, "completed", 4),
        ("none", 1, 1, "completed", 2),
        ("partial", 1, 3, "completed", 4),
        ("partial", 1, 1, "not_launched", 1),
        ("full", 8, 2, "never_arrived", 8),
    ],
)
def test_what_is_not_reported_is_not_launched_or_pays_for_what_it_runs(
    signal: Signal, arrival: int, duration: int, what: str, end: int
) -> None:
    """Reported: round 1, two rounds."""
    told = replace(job([(1, 2, 1.0)], (8,) * 8), arrival=arrival, duration=duration)
    fate = run([told], BY_SIGNAL[signal], at_half).fates[0]
    assert (fate.what, fate.end) == (what, end)
    assert fate.payment == (duration * NANO // 2 if what == "completed" else 0)


def test_a_job_that_outlasts_its_report_is_evicted_for_load_only() -> None:
    """The job of round 2 was promised a free node; the one of round 3 knows, and waits for D_m = 4 rounds."""
    one_node = Setting(1, 7, 0.0, 9.0, 1, 4, signal="none")
    outlasts = replace(job([(0, 2, 1.0)], (9, 9, 9)), duration=4)
    follows = job([(2, 1, 1.0)], (9, 9, 9, 9))
    later = job([(3, 1, 1.0)], (9, 9, 9), birth=3)
    outcome = run([outlasts, follows, later], one_node, free)
    assert [(fate.what, fate.end) for fate in outcome.fates] == [
        ("completed", 4),
        ("cancelled_due", 2),
        ("completed", 5),
    ]
    assert outcome.fates[2].failure == {(3, 1): 0}
    assert outcome.booked == tuple(NANO * load for load in (1, 1, 2, 1, 1, 0, 0))


def test_a_job_that_can_come_no_more_is_expected_to_hold_nothing() -> None:
    one_node = Setting(1, 6, 0.0, 9.0, 1, 4, threshold=False)
    misses = replace(job([(0, 4, 1.0)], (9,) * 5), arrival=5)
    second = job([(1, 1, 1.0)], (9, 9), birth=1)
    assert run([misses, second], one_node, free).fates[1].failure == {(1, 1): 0}


def test_too_many_futures_are_refused_with_their_number() -> None:
    many = job([(NEVER + later, 1, 1 / 1001) for later in range(1001)], (9,))
    with pytest.raises(ValueError, match="at most 1000000 joint futures, found 1002001"):
        run([many, many, many], PAIR)


def test_births_that_decrease_are_refused() -> None:
    with pytest.raises(ValueError, match="births must not decrease"):
        run([job([(2, 1, 1.0)], (9,), birth=1), job([(2, 1, 1.0)], (9,))], WIDE)
