"""The truthful mechanism for announced jobs, slow and exact, as an oracle for tests.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
Algorithms 1 and 2 with exponential prices. All arithmetic is exact: prices, values and loads are whole
numbers of 1e-9, probabilities and expectations are fractions. Every random future is enumerated.

Where the specification is silent, this module chooses:

Numbers

- A float means the decimal that it prints as: 0.1 is 1/10. ``C' = (1 - eps / 10) C``, kappa and the
  threshold ``eps / 10`` of E are exact.
- A price is rounded to the nearest whole 1e-9, half to even, from 60 digits. At ``y = kappa`` it is
  finite.
- A load is booked point by point: each (arrival, duration) of a launched group adds ``round(1e9 P c)``,
  half to even, to each of its rounds. Rounding may exceed C' by half a 1e-9 per point of the outlook.
- Reported probabilities are used as they are in utilities and loads. In E they are divided by the sum of
  those that the history leaves possible.

Plans

- A start is no choice if a run of the longest duration that the signal allows, at most D_m, would touch a
  sold out round before T, even if E is 1. So no job, whatever it reported, runs in a round that was sold out
  at its birth, and every duration has a price.
- A run that would end after T is cancelled at T: it is worth 0 and pays 0.
- Starts run from the arrival to T - 1. Of equal utilities the earliest start is chosen; 0 is not enough.
- In E, every round from the birth to before the finish counts, also those before the arrival.
- A job submitted at T or later is never planned; its fate is `never_arrived`, and its plan is empty.
- Reports are not checked against C_m, D_m, H, nor against values that must not increase.

History (what E knows)

- The plan of a job born at t knows what happened before t, and the plans of earlier jobs of round t. A
  running job that may end exactly at t may also go on.
- A job that was expected, has not come, and can come no more by its report, is expected to hold no nodes.
- The reports of the others are true in E, and in the expectation of `regret`, until they are seen to be
  false: a job that has outlasted its report runs for D_m rounds.

Order of a round

- Step 1 comes first, then jobs leave whose end is now, then jobs come, then the eviction loop. As step 1
  sees nothing of its round, it could as well come after the completions.
- A job that outlasts its reported durations runs on, and pays the price of its true duration. From the round
  in which it does, after the eviction loop, its nodes are booked up to its start plus D_m, as certain.
- A job that comes with the plan "never", or without a plan, is `not_launched` when it comes: it is active
  no more, and the eviction loop of its round passes it over. Before it came it was active, and may be
  cancelled.
- The loop evicts active jobs that hold no nodes too (not yet due, not yet come, never to run). In E the
  same is done, where ended jobs may be in the list: evicting them changes no load.
- At T jobs that end at T complete. All that are left have not come: `never_arrived`, with end T.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Literal

NANO = 1_000_000_000
MOST_FUTURES = 1_000_000
"""Joint futures of the earlier active jobs; more are refused."""

Point = tuple[int, int, float]
"""Arrival (round, absolute), duration in rounds, probability."""
Group = tuple[int, int]
"""Arrival and signal: what the platform sees when a job comes."""
Plan = Mapping[Group, int | None]
"""Start for each reported group; None: not launched."""
Menu = tuple[int | None, ...]
"""(T,) price of a node for a round in 1e-9; None: sold out."""
Prices = Callable[[int, int], int | None]
"""Price of a node for a round in 1e-9 from (round, booked load in 1e-9 nodes); None: sold out."""
Signal = Literal["none", "full", "partial"]
"""What is told of a duration at the arrival: nothing, all of it, its number of binary digits."""
What = Literal[
    "completed", "evicted_running", "cancelled_due", "cancelled_early", "not_launched", "never_arrived"
]


@dataclass(frozen=True)
class Job:
    """A report, and the arrival and duration that truly come."""

    birth: int
    concurrency: int
    value: tuple[int, ...]
    """Worth in 1e-9 of a finish k rounds after the birth, non-increasing; 0 beyond."""
    points: tuple[Point, ...]
    """Reported support, all different."""
    arrival: int
    """>= birth; from T on the job never comes."""
    duration: int

    def worth(self, finish: int) -> int:
        """Reported value of a finish in this round, in 1e-9."""
        after = finish - self.birth
        return self.value[after] if after < len(self.value) else 0


@dataclass(frozen=True)
class Setting:
    """Cluster and parameters of the mechanism."""

    nodes: int
    rounds: int
    eps: float
    max_value: float
    max_concurrency: int
    max_rounds: int
    signal: Signal = "full"
    oracle: Literal["exact", "zero"] = "exact"
    threshold: bool = True
    """Whether E <= eps / 10 counts as 0."""


@dataclass(frozen=True)
class Fate:
    """What became of a job."""

    what: What
    end: int
    """Round of the completion, eviction, cancellation, or arrival if not launched; T if it never came."""
    start: int | None
    """Round in which it started; None if it never ran."""
    planned: int | None
    """Start that its plan holds for what truly comes; None if it holds none, or the job never comes."""
    payment: int
    plan: Plan
    failure: Mapping[tuple[int, int], Fraction]
    """E, before the threshold, of each (arrival, duration) that is planned to start and complete."""
    utility: Fraction
    """Expected utility of the plan in 1e-9, as estimated at the birth."""
    menu: Menu
    """Prices at the birth."""

    @property
    def counts_as_evicted(self) -> bool:
        """Whether it is in the eviction rate: failed, though its plan was to run."""
        failed = self.what in ("evicted_running", "cancelled_due", "cancelled_early")
        return failed and self.planned is not None


@dataclass(frozen=True)
class Outcome:
    """Fates in the order of the jobs, and the load booked at the end, in 1e-9 nodes for each round."""

    fates: tuple[Fate, ...]
    booked: tuple[int, ...]


def signal_of(duration: int, signal: Signal) -> int:
    """What the platform is told of a duration when the job comes."""
    return {"none": 0, "full": duration, "partial": duration.bit_length()}[signal]


def longest_run(told: int, setting: Setting) -> int:
    """Longest duration of which this signal may tell."""
    known = {"none": setting.max_rounds, "full": told, "partial": (1 << told) - 1}
    return min(known[setting.signal], setting.max_rounds)


def as_written(number: float) -> Fraction:
    """The decimal that a float prints as."""
    return Fraction(str(float(number)))


@cache
def exponential_price(booked: int, setting: Setting) -> int | None:
    """Price of a node for a round with this booked load (1e-9 nodes), in 1e-9; None if sold out.

    ``L (B^(y / kappa) - 1)`` with ``L = 1 / (2 C_m D_m)``, ``B = 1 + 2 H C_m D_m``.
    """
    kappa = (1 - as_written(setting.eps) / 10) * setting.nodes - setting.max_concurrency
    if kappa <= 0:
        raise ValueError(f"kappa = (1 - eps / 10) nodes - max_concurrency must be positive, got {kappa}")
    share = Fraction(booked, NANO) / kappa
    if share > 1:
        return None
    scale = 2 * setting.max_concurrency * setting.max_rounds
    base = 1 + as_written(setting.max_value) * scale
    with localcontext(prec=60):
        power = as_decimal(base) ** as_decimal(share)
        return int((NANO * (power - 1) / scale).to_integral_value(ROUND_HALF_EVEN))


def as_decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def bundle_price(menu: Menu, start: int, concurrency: int, duration: int) -> int | None:
    """Price of these nodes from the start on; None if a round is sold out or not before T."""
    if start + duration > len(menu):
        return None
    total = 0
    for price in menu[start : start + duration]:
        if price is None:
            return None
        total += price
    return concurrency * total


@dataclass
class Submitted:
    """A submitted job: its plan, and how far it has come."""

    job: Job
    groups: Mapping[Group, list[Point]]
    plan: Plan
    failure: Mapping[tuple[int, int], Fraction]
    utility: Fraction
    menu: Menu
    seen: Group | None = None
    """Arrival and signal, once it has come."""
    what: What | None = None
    """None while it is active."""
    end: int = 0

    def start(self) -> int | None:
        return None if self.seen is None else self.plan.get(self.seen)

    def longest(self) -> int:
        """Longest duration that it reported for what was seen."""
        assert self.seen is not None
        return max(duration for _, duration, _ in self.groups[self.seen])

    def close(self, what: What, now: int) -> None:
        self.what, self.end = what, now


@dataclass(frozen=True)
class Future:
    """One joint future of the earlier active jobs."""

    probability: Fraction
    load: tuple[int, ...]
    """Nodes running or due in rounds now, now + 1, ..., T - 1, before the evictions of each round."""


def possible_runs(other: Submitted, now: int, most: int) -> list[tuple[Fraction, range]]:
    """Rounds for which an active job may hold nodes, with probabilities, given the history before ``now``."""
    runs: list[tuple[Fraction, range]] = []
    since = other.start()
    if since is not None and since + other.longest() < now:
        return [(Fraction(1), range(since, since + most))]
    for group, points in other.groups.items():
        start = other.plan[group]
        for arrival, duration, probability in points:
            if other.seen is None:
                possible = arrival >= now
            else:
                # An end at or after now has not been seen.
                possible = group == other.seen and start is not None and start + duration >= now
            if possible:
                rounds = range(0) if start is None else range(start, start + duration)
                runs.append((as_written(probability), rounds))
    total = sum((probability for probability, _ in runs), Fraction())
    return [(probability / total, rounds) for probability, rounds in runs] or [(Fraction(1), range(0))]


def joint_futures(earlier: Sequence[Submitted], setting: Setting, now: int) -> list[Future]:
    """All joint futures of these active jobs, in order of birth, each with its own evictions."""
    runs = [possible_runs(other, now, setting.max_rounds) for other in earlier]
    count = prod(map(len, runs))
    if count > MOST_FUTURES:
        raise ValueError(f"expected at most {MOST_FUTURES} joint futures, found {count}; submit fewer jobs")
    futures = []
    for drawn in product(*runs):
        left = [(rounds, other.job.concurrency) for (_, rounds), other in zip(drawn, earlier, strict=True)]
        load = []
        for then in range(now, setting.rounds):
            load.append(nodes_held(left, then))
            while nodes_held(left, then) > setting.nodes:
                left.pop()  # the most recently born
        probability = prod((share for share, _ in drawn), start=Fraction(1))
        futures.append(Future(probability, tuple(load)))
    return futures


def nodes_held(jobs: Sequence[tuple[range, int]], now: int) -> int:
    return sum(concurrency for rounds, concurrency in jobs if now in rounds)


def failure_probability(
    futures: Sequence[Future], nodes: int, now: int, start: int, concurrency: int, duration: int
) -> Fraction:
    """E: probability that a job born now fails that starts then and lasts so long (the Lemma)."""

    def fails(future: Future) -> bool:
        return any(
            future.load[then - now] + (concurrency if then >= start else 0) > nodes
            for then in range(now, min(start + duration, now + len(future.load)))
        )

    return sum((future.probability for future in futures if fails(future)), Fraction())


def submit(job: Job, earlier: Sequence[Submitted], menu: Menu, setting: Setting) -> Submitted:
    """Step 1: choose a start for each reported (arrival, signal)."""
    futures = joint_futures(earlier, setting, job.birth) if setting.oracle == "exact" else []
    least = as_written(setting.eps) / 10 if setting.threshold else Fraction(0)

    @cache
    def failure(start: int, duration: int) -> Fraction:
        return failure_probability(futures, setting.nodes, job.birth, start, job.concurrency, duration)

    def utility(points: Sequence[Point], start: int, longest: int) -> Fraction | None:
        if None in menu[start : start + longest]:
            return None
        total = Fraction()
        for _, duration, probability in points:
            price = bundle_price(menu, start, job.concurrency, duration)
            if price is None:  # T comes first
                continue
            risk = failure(start, duration)
            risk = risk if risk > least else Fraction(0)
            total += as_written(probability) * (job.worth(start + duration) - price) * (1 - risk)
        return total

    groups: dict[Group, list[Point]] = defaultdict(list)
    for point in job.points:
        groups[point[0], signal_of(point[1], setting.signal)].append(point)
    plan: dict[Group, int | None] = {}
    failures: dict[tuple[int, int], Fraction] = {}
    expected = Fraction()
    for group, points in groups.items():
        best, chosen = Fraction(), None
        for start in range(group[0], setting.rounds):
            found = utility(points, start, longest_run(group[1], setting))
            if found is not None and found > best:
                best, chosen = found, start
        plan[group] = chosen
        expected += best
        if chosen is not None:
            failures |= {(arrival, duration): failure(chosen, duration) for arrival, duration, _ in points}
    return Submitted(job, dict(groups), plan, failures, expected, menu)


def book(chosen: Submitted, booked: list[int]) -> None:
    """Add the expected load of a plan, in 1e-9 nodes."""
    for group, points in chosen.groups.items():
        start = chosen.plan[group]
        if start is not None:
            for _, duration, probability in points:
                for then in range(start, min(start + duration, len(booked))):
                    booked[then] += round(as_written(probability) * chosen.job.concurrency * NANO)


def leave(active: Sequence[Submitted], now: int) -> None:
    """Complete jobs whose duration is over."""
    for other in active:
        start = other.start()
        if start is not None and start + other.job.duration == now:
            other.close("completed", now)


def run_on(active: Sequence[Submitted], booked: list[int], most: int, now: int) -> None:
    """Book jobs that outlast their report from now on, in 1e-9 nodes."""
    for other in active:
        start = other.start()
        if start is not None and start + other.longest() == now:
            for then in range(now, min(start + most, len(booked))):
                booked[then] += other.job.concurrency * NANO


def come(active: Sequence[Submitted], setting: Setting, now: int) -> None:
    """Step 2: see arrivals and signals; jobs without a start are not launched."""
    for other in active:
        if other.job.arrival == now:
            other.seen = now, signal_of(other.job.duration, setting.signal)
            if other.start() is None:
                other.close("not_launched", now)


def evict(active: list[Submitted], setting: Setting, now: int) -> None:
    """Step 3: evict the most recently born active job while too many nodes are held or due."""

    def load() -> int:
        starts = ((other.job.concurrency, other.start()) for other in active)
        return sum(concurrency for concurrency, start in starts if start is not None and start <= now)

    while load() > setting.nodes:
        last = active.pop()
        start = last.start()
        if start is None or start > now:
            last.close("cancelled_early", now)
        else:
            last.close("cancelled_due" if start == now else "evicted_running", now)


def fate_of(other: Submitted, setting: Setting) -> Fate:
    job, start = other.job, other.start()
    planned = None
    if job.arrival < setting.rounds:
        planned = other.plan.get((job.arrival, signal_of(job.duration, setting.signal)))
    payment = None
    if other.what == "completed":
        assert start is not None
        payment = bundle_price(other.menu, start, job.concurrency, job.duration)
    return Fate(
        what=other.what or "never_arrived",
        end=other.end if other.what else setting.rounds,
        start=start if other.what in ("completed", "evicted_running") else None,
        planned=planned,
        payment=payment or 0,
        plan=other.plan,
        failure=other.failure,
        utility=other.utility,
        menu=other.menu,
    )


def run(jobs: Sequence[Job], setting: Setting, prices: Prices | None = None) -> Outcome:
    """Run Algorithm 1 with the menu and the failure estimate of Algorithm 2.

    Parameters
    ----------
    jobs
        In order of (birth, id), births >= 0.
    prices
        Another menu than the exponential one; it may depend on the round and on the load booked in it.

    Raises
    ------
    ValueError
        If births decrease or are negative, C' does not exceed the largest concurrency, or there are too many
        joint futures.
    """
    births = [job.birth for job in jobs]
    if births != sorted(births) or min(births, default=0) < 0:
        raise ValueError(f"births must not decrease or be negative, got {births}")
    price = prices or (lambda _, load: exponential_price(load, setting))
    booked = [0] * setting.rounds
    everyone: list[Submitted] = []

    def active() -> list[Submitted]:
        return [other for other in everyone if other.what is None]

    for now in range(setting.rounds):
        for job in jobs:
            if job.birth == now:
                menu = tuple(price(then, load) for then, load in enumerate(booked))
                everyone.append(submit(job, active(), menu, setting))
                book(everyone[-1], booked)
        leave(active(), now)
        come(active(), setting, now)
        evict(active(), setting, now)
        run_on(active(), booked, setting.max_rounds, now)
    leave(active(), setting.rounds)
    never = [Submitted(job, {}, {}, {}, Fraction(), ()) for job in jobs if job.birth >= setting.rounds]
    return Outcome(tuple(fate_of(other, setting) for other in everyone + never), tuple(booked))


def realisations(jobs: Sequence[Job]) -> list[tuple[Fraction, tuple[Job, ...]]]:
    """All joint (arrival, duration) of these jobs by their reports, with their probabilities."""
    return [
        (
            prod((as_written(probability) for _, _, probability in drawn), start=Fraction(1)),
            tuple(
                replace(job, arrival=arrival, duration=duration)
                for job, (arrival, duration, _) in zip(jobs, drawn, strict=True)
            ),
        )
        for drawn in product(*(job.points for job in jobs))
    ]


def history_before(
    jobs: Sequence[Job], fates: Sequence[Fate], setting: Setting, now: int
) -> tuple[object, ...]:
    """What the platform has seen of these jobs before round ``now``: arrivals, signals and ends."""
    return tuple(
        (
            (job.arrival, signal_of(job.duration, setting.signal)) if job.arrival < now else None,
            (fate.what, fate.end) if fate.end < now else None,
        )
        for job, fate in zip(jobs, fates, strict=True)
    )


def regret(
    index: int,
    misreports: Sequence[Job],
    jobs: Sequence[Job],
    setting: Setting,
    prices: Prices | None = None,
    true_points: Mapping[int, tuple[Point, ...]] | None = None,
) -> list[Fraction]:
    """What each misreport of a job gains over its truth in expected true utility, in 1e-9; positive is bad.

    A gain is an expectation over the job's own (arrival, duration) by its true support, and over those of the
    jobs before it by their reports, all independent, given what the platform has seen before its birth. The
    result is the largest gain over all such histories. Jobs after it cannot change its utility and are left
    out. The arrival and duration in ``jobs`` and ``misreports`` are not used.

    Parameters
    ----------
    index
        The job of ``jobs`` that misreports; its row there is its truth.
    true_points
        What may truly come of the jobs before it, where that is not what they report.
    misreports
        Value, concurrency and points to report instead; the birth is that of the truth.
    """
    truth = jobs[index]
    gains: dict[tuple[object, ...], list[Fraction]] = defaultdict(lambda: [Fraction()] * len(misreports))
    mass: dict[tuple[object, ...], Fraction] = defaultdict(Fraction)
    coming = [replace(one, points=(true_points or {}).get(k, one.points)) for k, one in enumerate(jobs)]
    for probability, drawn in realisations(coming[: index + 1]):
        earlier = tuple(replace(one, points=told.points) for one, told in zip(drawn[:-1], jobs, strict=False))
        own = drawn[-1]

        def true_run(report: Job, earlier: tuple[Job, ...] = earlier, own: Job = own) -> tuple[int, Outcome]:
            told = replace(report, birth=own.birth, arrival=own.arrival, duration=own.duration)
            outcome = run([*earlier, told], setting, prices)
            return true_utility(truth, told, outcome.fates[-1]), outcome

        honest, outcome = true_run(truth)
        seen = history_before(earlier, outcome.fates[:-1], setting, truth.birth)
        mass[seen] += probability
        gains[seen] = [
            gain + probability * (true_run(report)[0] - honest)
            for gain, report in zip(gains[seen], misreports, strict=True)
        ]
    return [max(gains[seen][k] / mass[seen] for seen in mass) for k in range(len(misreports))]


def true_utility(truth: Job, report: Job, fate: Fate) -> int:
    """Value of the true finish minus the payment, in 1e-9; fewer nodes than needed are worth nothing."""
    enough = fate.what == "completed" and report.concurrency >= truth.concurrency
    return (truth.worth(fate.end) if enough else 0) - fate.payment
