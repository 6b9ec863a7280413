"""The slow mechanism: worked examples of its specification, the Lemma by enumeration, truthfulness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from ray_sim.model.streams import Streams
from tests.policies.posted_price.naive_mechanism import (
    NANO,
    Fate,
    Job,
    Outcome,
    Point,
    Prices,
    Setting,
    Signal,
    bundle_price,
    exponential_price,
    history_before,
    realisations,
    regret,
    run,
    signal_of,
    true_utility,
)
from tests.proofs import instances

SIGNALS: tuple[Signal, ...] = ("none", "full", "partial")
FAILED = ("evicted_running", "cancelled_due", "cancelled_early")
SIXTEENTHS = 16
"""Probabilities are multiples of 1 / 16, so that loads are whole 1e-9."""


def nano(*units: float) -> tuple[int, ...]:
    return tuple(round(unit * NANO) for unit in units)


def job(
    points: Sequence[Point], value: Sequence[float], *, birth: int = 0, concurrency: int = 1, comes: int = 0
) -> Job:
    """A job whose point number ``comes`` truly comes."""
    arrival, duration, _ = points[comes]
    return Job(birth, concurrency, nano(*value), tuple(points), arrival, duration)


def free(_: int, __: int) -> int:
    return 0


def at_half(_: int, __: int) -> int:
    return NANO // 2


SMALL = Setting(nodes=5, rounds=6, eps=0.0, max_value=4.0, max_concurrency=1, max_rounds=2)
"""Example 4.A: C' = 5, kappa = 4, L = 0.25, B = 17."""

# ---------------------------------------------------------------- prices, and example 4.A


@pytest.mark.parametrize(
    ("booked", "price"), [(0, 0), (1, 0.2576), (1.5, 0.4734), (2, 0.7808), (3, 1.8430), (4, 4)]
)
def test_prices_of_example_a(booked: float, price: float) -> None:
    found = exponential_price(round(booked * NANO), SMALL)
    assert found is not None
    assert round(found / NANO, 4) == price


def test_the_price_reaches_h_at_kappa_and_a_node_more_is_sold_out() -> None:
    assert exponential_price(4 * NANO, SMALL) == 4 * NANO
    assert exponential_price(4 * NANO + 1, SMALL) is None


def test_no_value_buys_a_sold_out_round() -> None:
    """Two nodes are booked in round 0, and kappa = 1."""
    setting = Setting(nodes=3, rounds=3, eps=0.0, max_value=9.0, max_concurrency=2, max_rounds=1)
    first = job([(0, 1, 1.0)], (9, 9), concurrency=2)
    fates = run([first, job([(0, 1, 1.0)], (999, 999)), job([(0, 1, 1.0)], (9, 9, 9))], setting).fates
    assert fates[1].menu == (None, 0, 0)
    assert [fate.plan[0, 1] for fate in fates] == [0, None, 1]


def booked_before() -> list[Job]:
    """Jobs that book rounds 1 and 2, and round 1."""
    return [job([(1, 2, 1.0)], (9, 9, 9, 9)), job([(1, 1, 1.0)], (9, 9, 9))]


TRUTH_A = job([(1, 1, 0.5), (1, 2, 0.5)], (4, 4, 4, 2))


def test_plan_utility_and_booking_of_example_a() -> None:
    outcome = run([*booked_before(), TRUTH_A], SMALL)
    fate = outcome.fates[2]
    prices = [price and round(price / NANO, 4) for price in fate.menu]
    assert prices == [0, 0.7808, 0.2576, 0, 0, 0]
    assert fate.plan == {(1, 1): 1, (1, 2): 1}
    assert round(float(fate.utility) / NANO, 4) == 2.0904
    assert outcome.booked == (0, 3 * NANO, 3 * NANO // 2, 0, 0, 0)
    assert set(fate.failure.values()) == {0}
    assert (fate.what, fate.start, fate.end) == ("completed", 1, 2)
    assert round(fate.payment / NANO, 4) == 0.7808


def test_the_misreport_of_example_a_starts_later_and_loses() -> None:
    flat = replace(TRUTH_A, value=nano(4, 4, 4, 4))
    lying = run([*booked_before(), flat], SMALL).fates[2]
    honest = run([*booked_before(), TRUTH_A], SMALL).fates[2]
    assert lying.plan == {(1, 1): 2, (1, 2): 1}
    assert round(true_utility(TRUTH_A, flat, lying) / NANO, 4) == 1.7424
    assert round(true_utility(TRUTH_A, TRUTH_A, honest) / NANO, 4) == 3.2192
    (gain,) = regret(2, [flat], [*booked_before(), TRUTH_A], SMALL)
    assert round(float(gain) / NANO, 4) == (1.7424 - 3.2192) / 2


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


def test_the_threshold_costs_the_truth_as_much_as_4_4_a_says() -> None:
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
        ("none", 1, 3, "evicted_running", 3),
        ("none", 1, 1, "completed", 2),
        ("partial", 1, 3, "evicted_running", 3),
        ("partial", 1, 1, "not_launched", 1),
        ("full", 8, 2, "never_arrived", 8),
    ],
)
def test_what_is_not_reported_is_not_launched_or_ends(
    signal: Signal, arrival: int, duration: int, what: str, end: int
) -> None:
    """Reported: round 1, two rounds."""
    told = replace(job([(1, 2, 1.0)], (8,) * 8), arrival=arrival, duration=duration)
    fate = run([told], BY_SIGNAL[signal], at_half).fates[0]
    assert (fate.what, fate.end) == (what, end)
    assert fate.payment == (NANO // 2 if what == "completed" else 0)


def test_a_job_that_outlasts_its_report_leaves_before_the_loop() -> None:
    one_node = Setting(1, 6, 0.0, 9.0, 1, 4, signal="none")
    outlasts = replace(job([(0, 2, 1.0)], (9, 9, 9)), duration=4)
    follows = job([(2, 1, 1.0)], (9, 9, 9, 9))
    fates = run([outlasts, follows], one_node, free).fates
    assert [(fate.what, fate.end) for fate in fates] == [("evicted_running", 2), ("completed", 3)]


def test_a_job_that_can_come_no_more_is_expected_to_hold_nothing() -> None:
    one_node = Setting(1, 6, 0.0, 9.0, 1, 4, threshold=False)
    misses = replace(job([(0, 4, 1.0)], (9,) * 5), arrival=5)
    second = job([(1, 1, 1.0)], (9, 9), birth=1)
    assert run([misses, second], one_node, free).fates[1].failure == {(1, 1): 0}


# ---------------------------------------------------------------- random instances


def random_points(draw: np.random.Generator, birth: int, rounds: int, count: int) -> tuple[Point, ...]:
    """Different points with probabilities in sixteenths; some never come."""
    pairs = [(a, d) for a in [*range(birth, birth + 3), rounds + 3] for d in (1, 2, 3)]
    chosen = sorted(draw.choice(len(pairs), count, replace=False).tolist())
    weights = 1 + draw.multinomial(SIXTEENTHS - count, [1 / count] * count)
    return tuple((*pairs[k], int(w) / SIXTEENTHS) for k, w in zip(chosen, weights, strict=True))


def random_job(draw: np.random.Generator, birth: int, rounds: int, most_points: int) -> Job:
    points = random_points(draw, birth, rounds, int(draw.integers(1, most_points + 1)))
    value = sorted(draw.integers(0, 8 * NANO, int(draw.integers(2, 7))).tolist(), reverse=True)
    arrival, duration, _ = points[int(draw.integers(len(points)))]
    return Job(birth, int(draw.integers(1, 3)), tuple(value), points, arrival, duration)


def random_instance(seed: int, jobs: int, most_points: int) -> tuple[list[Job], Setting, Prices | None]:
    """``jobs`` jobs or one fewer, on a few nodes; a third each with zero, random and exponential prices."""
    draw = Streams(seed).generator("naive-mechanism")
    rounds = int(draw.integers(5, 8))
    births = sorted(draw.integers(0, 3, int(draw.integers(jobs - 1, jobs + 1))).tolist())
    made = [random_job(draw, birth, rounds, most_points) for birth in births]
    setting = Setting(
        nodes=int(draw.integers(3, 6)),
        rounds=rounds,
        eps=float(draw.choice([0.0, 0.5, 1.0])),
        max_value=8.0,
        max_concurrency=2,
        max_rounds=3,
        signal=SIGNALS[int(draw.integers(3))],
        threshold=bool(draw.integers(2)),
    )
    if seed % 3 == 2:
        return made, setting, None
    # Prices that know no load send jobs to the same cheap rounds; two nodes make them fail there.
    table = draw.integers(0, 2, rounds) * draw.integers(0, 7 * NANO, rounds)
    prices = table.tolist() if seed % 3 else [0] * rounds
    return made, replace(setting, nodes=2), lambda now, _: prices[now]


def random_outcomes(whole: int) -> list[tuple[list[Job], Setting, Prices | None, Outcome]]:
    made = (random_instance(seed, jobs=5, most_points=3) for seed in range(instances(whole, 15)))
    return [(jobs, setting, prices, run(jobs, setting, prices)) for jobs, setting, prices in made]


def urgent(jobs: Sequence[Job], setting: Setting, nodes: int) -> tuple[list[Job], Setting]:
    """The same jobs on one node each, with no time to spare at their last reported finish: many may fail."""
    made = []
    for one in jobs:
        finishes = [arrival + duration for arrival, duration, _ in one.points if arrival < setting.rounds]
        finish = max(finishes, default=one.birth) - one.birth
        made.append(replace(one, concurrency=1, value=(8 * NANO,) * (finish + 1)))
    return made, replace(setting, nodes=nodes)


def test_estimated_failures_are_frequencies_of_failure() -> None:
    """The Lemma: E given the history equals the share of joint realisations in which the job fails."""
    uncertain = 0
    for seed in range(instances(200, 6)):
        jobs, setting, prices = random_instance(seed, jobs=4, most_points=3)
        hurried = urgent(jobs, setting, 1 + seed % 2)
        for case_jobs, case_setting, case_prices in ((jobs, setting, prices), (*hurried, prices or free)):
            estimates, frequencies = failures_in_all_realisations(case_jobs, case_setting, case_prices)
            assert estimates == frequencies, seed
            uncertain += sum(0 < estimate < 1 for estimate in estimates.values())
    assert uncertain > 5


Case = tuple[int, tuple[object, ...], tuple[int, int]]
"""A job, what was seen before its birth, and its own arrival and duration."""


def failures_in_all_realisations(
    jobs: Sequence[Job], setting: Setting, prices: Prices | None
) -> tuple[dict[Case, Fraction], dict[Case, Fraction]]:
    """E and the share of failures for each case in which a job is planned to start."""
    estimates: dict[Case, Fraction] = {}
    mass: dict[Case, Fraction] = defaultdict(Fraction)
    failed: dict[Case, Fraction] = defaultdict(Fraction)
    for probability, drawn in realisations(jobs):
        fates = run(drawn, setting, prices).fates
        for index, (one, fate) in enumerate(zip(drawn, fates, strict=True)):
            own = one.arrival, one.duration
            if own in fate.failure:
                case = index, history_before(drawn[:index], fates[:index], setting, one.birth), own
                assert estimates.setdefault(case, fate.failure[own]) == fate.failure[own]
                mass[case] += probability
                failed[case] += probability * (fate.what in FAILED)
    return estimates, {case: failed[case] / mass[case] for case in mass}


def test_later_jobs_change_no_earlier_fate() -> None:
    for jobs, setting, prices, outcome in random_outcomes(200):
        for kept in range(len(jobs)):
            assert run(jobs[:kept], setting, prices).fates == outcome.fates[:kept]


def test_no_more_is_booked_than_c_prime() -> None:
    fullest = 0.0
    for jobs, setting, prices, outcome in random_outcomes(300):
        if prices is None:
            most = (1 - Fraction(setting.eps) / 10) * setting.nodes
            assert all(Fraction(load, NANO) <= most for load in outcome.booked), jobs
            fullest = max(fullest, *(load / NANO / float(most) for load in outcome.booked))
    assert fullest > 0.4


def amount(price: int | None) -> float:
    return np.inf if price is None else price


def test_menus_do_not_decrease_in_birth_concurrency_and_duration() -> None:
    for _, setting, _, outcome in random_outcomes(60):
        menus = [fate.menu for fate in outcome.fates]
        for earlier, later in pairwise(menus):
            assert all(amount(a) <= amount(b) for a, b in zip(earlier, later, strict=True))
        for start in range(setting.rounds):
            prices = np.array(
                [[amount(bundle_price(menus[-1], start, size, d)) for d in (1, 2, 3)] for size in (1, 2, 3)]
            )
            assert np.all(prices[1:] >= prices[:-1])
            assert np.all(prices[:, 1:] >= prices[:, :-1])


def test_no_deterministic_job_fails_where_all_fit_at_once() -> None:
    """4.4 (e): and with a menu of zeros, each finishes as early as it can if that is worth anything."""
    for seed in range(instances(100, 15)):
        jobs, setting, _ = random_instance(seed, jobs=5, most_points=1)
        roomy = replace(setting, nodes=sum(one.concurrency for one in jobs))
        for one, fate in zip(jobs, run(jobs, roomy, free).fates, strict=True):
            assert set(fate.failure.values()) <= {0}
            earliest = one.arrival + one.duration
            best = one.worth(earliest) if earliest <= setting.rounds else 0
            assert (one.worth(fate.end) if fate.what == "completed" else 0) == best
            assert fate.utility == best


def test_relaxed_welfare_is_utility_plus_revenue() -> None:
    """4.4 (f), where E is 0: the relaxed problem knows no failure."""
    for seed in range(instances(100, 15)):
        jobs, setting, prices = random_instance(seed, jobs=5, most_points=3)
        setting = replace(setting, oracle="zero")
        for one, fate in zip(jobs, run(jobs, setting, prices).fates, strict=True):
            welfare, revenue = planned_totals(one, fate, setting)
            assert welfare == fate.utility + revenue


def planned_totals(one: Job, fate: Fate, setting: Setting) -> tuple[Fraction, Fraction]:
    """Expected value and payment of a plan that never fails."""
    value = payment = Fraction()
    for arrival, duration, probability in one.points:
        start = fate.plan[arrival, signal_of(duration, setting.signal)]
        if start is not None:
            price = bundle_price(fate.menu, start, one.concurrency, duration)
            assert price is not None
            value += Fraction(probability) * one.worth(start + duration)
            payment += Fraction(probability) * price
    return value, payment


def test_only_completed_jobs_pay_and_by_the_menu_of_their_birth() -> None:
    seen = set()
    for jobs, _, _, outcome in random_outcomes(200):
        for one, fate in zip(jobs, outcome.fates, strict=True):
            seen.add(fate.what)
            if fate.what == "completed":
                assert fate.start is not None
                assert fate.start == fate.planned == fate.end - one.duration
                assert fate.payment == bundle_price(fate.menu, fate.start, one.concurrency, one.duration)
            else:
                assert fate.payment == 0
    assert {"completed", "not_launched"} < seen


def test_a_higher_value_never_lowers_the_estimated_utility() -> None:
    """4.4 (d): a value raised pointwise; and a value scaled up keeps what is accepted."""
    for seed in range(instances(100, 10)):
        jobs, setting, prices = random_instance(seed, jobs=4, most_points=3)
        draw = Streams(seed).generator("naive-mechanism-raise")
        *others, last = jobs
        before = run(jobs, setting, prices).fates[-1]
        extra = sorted(draw.integers(0, NANO, len(last.value)).tolist(), reverse=True)
        raised = replace(last, value=tuple(a + b for a, b in zip(last.value, extra, strict=True)))
        assert run([*others, raised], setting, prices).fates[-1].utility >= before.utility
        scaled = replace(last, value=tuple(3 * a for a in last.value))
        after = run([*others, scaled], setting, prices).fates[-1]
        assert all(after.plan[group] is not None for group, at in before.plan.items() if at is not None)


# ---------------------------------------------------------------- truthfulness


def misreports(truth: Job, setting: Setting) -> list[Job]:
    """Values scaled, deadlines moved, more or fewer nodes, and wrong outlooks."""
    value, points = truth.value, truth.points
    values = [
        *(tuple(int(scale * v) for v in value) for scale in (0.25, 0.5, 2, 4)),
        value[1:],
        (value[0], *value),
        (value[0],) * setting.rounds,
    ]
    shares = [probability for _, _, probability in points]
    arrival, duration, _ = max(points, key=lambda point: point[2])
    outlooks = [
        tuple((a, d + 1, p) for a, d, p in points),
        tuple((a + 1, d, p) for a, d, p in points),
        tuple((a, d, p) for (a, d, _), p in zip(points, reversed(shares), strict=True)),
        ((arrival, duration, 1.0),),
        (*((a, d, p / 2) for a, d, p in points), (truth.birth, 4, 0.5)),
    ]
    sizes = [size for size in range(1, setting.max_concurrency + 1) if size != truth.concurrency]
    return [
        *(replace(truth, value=v) for v in values),
        *(replace(truth, concurrency=size) for size in sizes),
        *(replace(truth, points=outlook) for outlook in outlooks),
    ]


def may_outlast(truth: Job, report: Job, signal: Signal) -> bool:
    """Whether the job may run longer than the longest reported duration of its (arrival, signal)."""
    longest: dict[tuple[int, int], int] = {}
    for arrival, duration, _ in report.points:
        group = arrival, signal_of(duration, signal)
        longest[group] = max(longest.get(group, 0), duration)
    return any(longest.get((a, signal_of(d, signal)), d) < d for a, d, _ in truth.points)


def test_no_misreport_gains_with_exact_failures_and_no_threshold() -> None:
    """4.4 (a), for exponential, random and zero prices, and for every history; but see the next test."""
    gains: list[Fraction] = []
    for seed in range(instances(200, 6)):
        jobs, setting, prices = random_instance(seed, jobs=3, most_points=2)
        exact = replace(setting, threshold=False)
        truth = jobs[-1]
        lies = [lie for lie in misreports(truth, exact) if not may_outlast(truth, lie, exact.signal)]
        gains += regret(len(jobs) - 1, lies, jobs, exact, prices)
    assert max(gains) <= 0
    assert 10 * sum(gain < 0 for gain in gains) > len(gains)


def test_hiding_long_durations_gains_where_the_signal_does_not_tell_them() -> None:
    """Evicted unpaid when the short durations are over, a job avoids a long one worth less than its price.

    Truth: one round is worth 3 - 1, three rounds 0 - 3, so that it is not launched. The short report gains 1.
    """
    alone = Setting(1, 4, 0.0, 9.0, 1, 3, signal="none", threshold=False)
    truth = job([(0, 1, 0.5), (0, 3, 0.5)], (3, 3))
    short = replace(truth, points=((0, 1, 1.0),))
    assert regret(0, [short], [truth], alone, lambda _, __: NANO) == [NANO]
    assert regret(0, [short], [truth], replace(alone, signal="full"), lambda _, __: NANO) == [0]


def hidden(truth: Job) -> list[Job]:
    """Reports without a point, with all durations cut, with one duration, and with durations permuted."""
    points = truth.points
    dropped = [(*points[:k], *points[k + 1 :]) for k in range(len(points)) if len(points) > 1]
    cut = [tuple({(a, min(d, most)): p for a, d, p in points}.items()) for most in (1, 2)]
    shortened = [tuple((a, d, p) for (a, d), p in one) for one in cut]
    durations = [d for _, d, _ in points]
    turned = tuple((a, d, p) for (a, _, p), d in zip(points, durations[1:] + durations[:1], strict=True))
    different = len({(a, d) for a, d, _ in turned}) == len(turned)
    return [replace(truth, points=one) for one in (*dropped, *shortened, *([turned] if different else []))]


def test_no_misreport_gains_with_cutoffs_though_it_hides_long_durations() -> None:
    """Exact E, no threshold: also reports that the job may outlast."""
    gains: list[Fraction] = []
    shortened = 0
    for seed in range(instances(300, 6)):
        jobs, setting, prices = random_instance(seed, jobs=3, most_points=3)
        exact = replace(setting, threshold=False, cutoffs=True)
        truth = jobs[-1]
        lies = [*misreports(truth, exact), *hidden(truth)]
        lies += [replace(lie, value=truth.value[:1] * exact.rounds) for lie in hidden(truth)]
        shortened += any(may_outlast(truth, lie, exact.signal) for lie in lies)
        gains += regret(len(jobs) - 1, lies, jobs, exact, prices)
    assert max(gains) <= 0
    assert shortened > 0
    assert 10 * sum(gain < 0 for gain in gains) > len(gains)


def test_cutoffs_take_the_gain_of_hidden_durations() -> None:
    """The job above: truth and short report both earn 1 of 3 with one round, and are evicted with three."""
    alone = Setting(1, 4, 0.0, 9.0, 1, 3, signal="none", threshold=False, cutoffs=True)
    truth = job([(0, 1, 0.5), (0, 3, 0.5)], (3, 3))
    short = replace(truth, points=((0, 1, 1.0),))
    assert regret(0, [short], [truth], alone, lambda _, __: NANO) == [0]
    long = run([replace(truth, duration=3)], alone, lambda _, __: NANO)
    assert (long.fates[0].what, long.fates[0].end, long.fates[0].payment) == ("evicted_running", 1, 0)
    assert long.booked == (NANO, 0, 0, 0)


def test_a_misreport_gains_where_failures_are_neglected() -> None:
    """The truth starts in a round that is taken; who feigns patience gets the next one."""
    one_node = Setting(1, 4, 0.0, 9.0, 1, 1, oracle="zero", threshold=False)
    jobs = [job([(1, 1, 1.0)], (9, 9, 9)), job([(1, 1, 1.0)], (9, 9, 8), birth=1)]
    patient = replace(jobs[1], value=nano(9, 9, 9))

    def prices(now: int, _: int) -> int:
        return nano(0, 1, 0.5, 0)[now]

    assert regret(1, [patient], jobs, one_node, prices) == [7.5 * NANO]
    assert max(regret(1, [patient], jobs, replace(one_node, oracle="exact"), prices)) <= 0


def test_too_many_futures_are_refused_with_their_number() -> None:
    many = job([(NEVER + later, 1, 1 / 1001) for later in range(1001)], (9,))
    with pytest.raises(ValueError, match="at most 1000000 joint futures, found 1002001"):
        run([many, many, many], PAIR)


def test_births_that_decrease_are_refused() -> None:
    with pytest.raises(ValueError, match="births must not decrease"):
        run([job([(2, 1, 1.0)], (9,), birth=1), job([(2, 1, 1.0)], (9,))], WIDE)
