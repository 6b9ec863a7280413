"""The Lemma and truthfulness of the slow mechanism, by enumeration on random instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ray_sim.model.streams import Streams
from tests.policies.posted_price.naive_jobs import free, job, nano
from tests.policies.posted_price.naive_mechanism import (
    NANO,
    Job,
    Point,
    Prices,
    Setting,
    Signal,
    history_before,
    realisations,
    regret,
    run,
)
from tests.proofs import instances

SIGNALS: tuple[Signal, ...] = ("none", "full", "partial")
FAILED = ("evicted_running", "cancelled_due", "cancelled_early")
SIXTEENTHS = 16
"""Probabilities are multiples of 1 / 16, so that loads are whole 1e-9."""


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
    uncertain = checks = 0
    tried = instances(4000, 6)
    for seed in range(tried):
        jobs, setting, prices = random_instance(seed, jobs=4, most_points=3)
        hurried = urgent(jobs, setting, 1 + seed % 2)
        for case_jobs, case_setting, case_prices in ((jobs, setting, prices), (*hurried, prices or free)):
            estimates, frequencies = failures_in_all_realisations(case_jobs, case_setting, case_prices)
            assert estimates == frequencies, seed
            checks += len(estimates)
            uncertain += sum(0 < estimate < 1 for estimate in estimates.values())
    assert uncertain > 5
    assert checks > 7 * tried


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


def lies_of(truth: Job, setting: Setting) -> list[Job]:
    """Misreports that keep D_m, also those that hide long durations, and these with patience feigned."""
    hiding = hidden(truth)
    patient = [replace(lie, value=truth.value[:1] * setting.rounds) for lie in hiding]
    lies = [*misreports(truth, setting), *hiding, *patient]
    return [lie for lie in lies if max(d for _, d, _ in lie.points) <= setting.max_rounds]


@pytest.mark.slow
def test_no_misreport_gains_with_exact_failures_and_no_threshold() -> None:
    """Truthfulness, for exponential, random and zero prices, and for every history."""
    gains: list[Fraction] = []
    at_stake: list[Fraction] = []
    tried = instances(2000, 6)
    for seed in range(tried):
        jobs, setting, prices = random_instance(seed, jobs=3, most_points=3)
        exact = replace(setting, threshold=False)
        lies = lies_of(jobs[-1], exact)
        found = regret(len(jobs) - 1, lies, jobs, exact, prices)
        gains += found
        usual = misreports(jobs[-1], exact)  # the others say less of durations, which often changes nothing
        at_stake += [gain for lie, gain in zip(lies, found, strict=True) if lie in usual]
    assert max(gains) <= 0
    assert len(gains) > 10 * tried
    assert 10 * sum(gain < 0 for gain in at_stake) > len(at_stake)


@pytest.mark.slow
def test_nobody_gains_while_an_earlier_job_outlasts_its_report() -> None:
    """A job of two of three nodes runs for D_m = 6 rounds and said 1; two more are born while it does.

    They are born in round 2. A job that starts in round 0 is known to outlast its report by then; one that
    starts in round 1 is not, and its report is still taken for true.
    """
    gains: list[Fraction] = []
    waits = 0
    for seed in range(6, 6 + instances(1000, 6)):
        (_, *others), setting, prices = random_instance(seed, jobs=4, most_points=3)
        exact = replace(setting, threshold=False, signal="none", nodes=3, rounds=12, max_rounds=6)
        false = replace(job([(0, 1, 1.0)], (8,) * 12, concurrency=2), duration=exact.max_rounds)
        later = [replace(one, birth=2, points=moved(one.points, 2 - one.birth)) for one in others[-2:]]
        later = [replace(one, value=(*one.value[:1] * 4, *one.value)) for one in later]
        jobs, comes = [false, *later], {0: ((0, exact.max_rounds, 1.0),)}
        known = prices and repeated(prices)
        fates = run(jobs, exact, known).fates
        if fates[0].start != 0:
            continue
        gains += regret(len(jobs) - 1, lies_of(jobs[-1], exact), jobs, exact, known, comes)
        waits += 6 in fates[-1].plan.values()
    assert max(gains) <= 0
    assert 10 * sum(gain < 0 for gain in gains) > len(gains)
    assert waits > 0


def repeated(prices: Prices) -> Prices:
    return lambda now, load: prices(now % 5, load)


def moved(points: tuple[Point, ...], rounds: int) -> tuple[Point, ...]:
    return tuple((arrival + rounds, duration, share) for arrival, duration, share in points)


@pytest.mark.parametrize("signal", SIGNALS)
def test_hiding_long_durations_gains_nothing(signal: Signal) -> None:
    """One round is worth 3 - 1, three are worth 0 - 3 (0 if full tells). Who says "one" pays 3 for three."""
    alone = Setting(1, 4, 0.0, 9.0, 1, 3, signal=signal, threshold=False)
    truth = job([(0, 1, 0.5), (0, 3, 0.5)], (3, 3))
    short = replace(truth, points=((0, 1, 1.0),))
    assert regret(0, [short], [truth], alone, lambda _, __: NANO) == [-NANO // 2 if signal == "none" else 0]


@pytest.mark.parametrize("first_of_closed", [2, 4])
def test_who_hides_durations_runs_into_no_sold_out_round_and_past_no_horizon(first_of_closed: int) -> None:
    """Round 2 is sold out, or T = 4: a start in 0 or 1 is closed to who says "one", too, or the same."""
    alone = Setting(2, 4, 0.0, 9.0, 1, 3, signal="none", threshold=False)
    fill = job([(2, 2, 1.0)], (9,) * 6)
    jobs = [fill, fill, job([(1, 1, 0.5), (1, 3, 0.5)], (9,) * 9)]
    jobs = jobs if first_of_closed == 2 else [replace(jobs[2], points=moved(jobs[2].points, 1))]
    truth = jobs[-1]
    short = replace(truth, points=truth.points[:1])
    surely = replace(short, points=((*short.points[0][:2], 1.0),))
    assert regret(len(jobs) - 1, [short, surely], jobs, alone) == [0, 0]


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


def test_a_misreport_gains_where_failures_are_neglected() -> None:
    """The truth starts in a round that is taken; who feigns patience gets the next one."""
    one_node = Setting(1, 4, 0.0, 9.0, 1, 1, oracle="zero", threshold=False)
    jobs = [job([(1, 1, 1.0)], (9, 9, 9)), job([(1, 1, 1.0)], (9, 9, 8), birth=1)]
    patient = replace(jobs[1], value=nano(9, 9, 9))

    def prices(now: int, _: int) -> int:
        return nano(0, 1, 0.5, 0)[now]

    assert regret(1, [patient], jobs, one_node, prices) == [7.5 * NANO]
    assert max(regret(1, [patient], jobs, replace(one_node, oracle="exact"), prices)) <= 0
