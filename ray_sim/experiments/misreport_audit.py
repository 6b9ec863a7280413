"""Gains of misreports in announced jobs, with the platform as a black box.

The whole platform runs again with one report changed, through `build_world` and `Simulation` as every run,
until that job has been charged, rejected or evicted. A gain is the true value of the finish less the
payment, in expectation over what comes of all jobs. The policy is not asked, so menu, prior, bounds and
order of births are audited too.

Until the birth of the job a run does not depend on its report, so runs of one future go on from one snapshot,
but for policies that see the whole trace and reports that change the bounds. That policies decide alike
whatever jobs come later is a clause of `ray-sim check-policy`.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
2, for what users may report; the reports that are tried are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.outcome import AnnouncedOutcome
from ray_sim.engine.run import GeneralRun
from ray_sim.engine.sites.fleet import fleet_of
from ray_sim.engine.states import State
from ray_sim.engine.visible_columns import WHOLE_TRACE
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.figures import RegretFigures
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import Outlook
from ray_sim.model.statement import NANO
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, FloatArray, IntArray, seconds_to_us
from ray_sim.model.value_function import Shape, ValueFunction
from ray_sim.model.welfare_audit import AuditRequest

_GAIN = 1e-8
"""Gains up to this many units come from rounding: a price is rounded to 1e-9 in each round."""

_SURE = 3.0
"""Standard errors that a gain over drawn futures must exceed to count."""

_NEAR = 4.0
"""Quotient of two worths between which no start is looked for."""

_HALVINGS = 4
"""Halvings, by the logarithm, of the range of worths in which the least one is that buys a start."""


@dataclass(frozen=True, slots=True)
class _Report:
    """A statement in place of the truth."""

    kind: str
    value: ValueFunction
    outlook: Outlook
    gpus: float


def misreport_gains(
    world: World, new_policy: Callable[[], Policy], jobs: IntArray, request: AuditRequest, seed: int
) -> tuple[RegretFigures | None, bool, float]:
    """Try reports of these jobs; returns the gains, whether they are exact, and their largest standard error.

    A gain is exact where all jobs together have at most ``request.futures`` futures: all are run, each with
    its probability. Otherwise that number is drawn, the same for truth and report, and a gain counts from
    three standard errors on.
    """
    futures, weights, exact = _futures(world.table, request.futures, seed)
    platform = _Platform(world, new_policy, seed, jobs, futures, weights)
    gains, kinds, errors = [0.0] * len(jobs), [""] * len(jobs), [0.0] * len(jobs)
    for k, job in enumerate(jobs.tolist()):
        truth = platform.truth(job)
        honest = platform.utilities(job, truth)
        if not weights @ (platform.most(job, truth) - honest) > _GAIN:  # no report can gain
            continue
        for report in platform.reports(job, truth):
            gained = platform.utilities(job, report) - honest
            gain = float(weights @ gained)
            error = 0.0 if exact else float(gained.std(ddof=1)) / math.sqrt(len(futures))
            if gain > max(gains[k], _GAIN, _SURE * error):
                gains[k], kinds[k], errors[k] = gain, report.kind, error
    if not gains:
        return None, exact, 0.0
    all_gains: FloatArray = np.array(gains)
    share, best = float((all_gains > 0).mean()), kinds[int(all_gains.argmax())]
    figures = RegretFigures(max(gains), float(all_gains.mean()), share, best or None)
    return figures, exact, max(errors)


def _futures(table: JobTable, most: int, seed: int) -> tuple[list[tuple[int, ...]], FloatArray, bool]:
    """Points of the true outlooks of all jobs, by their probabilities; the third is whether these are all."""
    statements = _statements(table)
    chances = [statements.outlooks[row].probability for row in statements.outlook_row.tolist()]
    if math.prod(map(len, chances)) <= most:
        drawn = list(product(*(range(len(chance)) for chance in chances)))
        weights = [math.prod(chances[job][k] for job, k in enumerate(points)) for points in drawn]
        return drawn, np.array(weights), True
    draw = Streams(seed).generator("audit-futures")
    points = [
        tuple(int(draw.choice(len(chance), p=chance)) for chance in chances) for _ in range(max(most, 2))
    ]
    return points, np.full(len(points), 1 / len(points)), False


def _statements(table: JobTable) -> StatementProfile:
    assert table.statements is not None, "jobs are announced"
    return table.statements


class _Platform:
    """The platform of a run, asked for what it makes of reports in each of these futures."""

    def __init__(
        self,
        world: World,
        new_policy: Callable[[], Policy],
        seed: int,
        jobs: IntArray,
        futures: list[tuple[int, ...]],
        weights: FloatArray,
    ) -> None:
        self._world, self._new_policy, self._seed, self._jobs = world, new_policy, seed, jobs
        self._futures, self._weights = futures, weights
        self._tables = [_coming(world.table, points) for points in futures]
        self._facts = AnnouncedFacts.in_world(world)
        self._born: dict[int, dict[int, State | None]] = {}
        """States before the births of jobs, by the number of the future."""
        self._ends: dict[tuple[object, ...], IntArray] = {}

    def truth(self, job: int) -> _Report:
        """The true statement of a job."""
        told = _statements(self._world.table)
        value, outlook = told.values[told.value_row[job]], told.outlooks[told.outlook_row[job]]
        return _Report("truth", value, outlook, float(self._world.table.num_gpus[job]))

    def most(self, job: int, truth: _Report) -> FloatArray:
        """(n,) most that the job can have in each future: the value of its earliest finish, for nothing."""
        points = [points[job] for points in self._futures]
        return truth.value.at((truth.outlook.arrival_after_s + truth.outlook.duration_s)[points])

    def utilities(self, job: int, report: _Report) -> FloatArray:
        """(n,) true value less payment of a job that reports this; -inf if the platform refuses it."""
        ends = self._ended(job, report)
        return (ends[:, 3] - ends[:, 2]) / NANO if len(ends) else np.full(len(self._tables), -np.inf)

    def _ended(self, job: int, report: _Report) -> IntArray:
        """(n, 4) fate, end, payment and true value of the job; (0, 4) if the platform refuses the report."""
        outlook = report.outlook
        points = (outlook.arrival_after_s, outlook.duration_s, outlook.probability)
        key = (job, report.value, report.gpus, *(column.tobytes() for column in points))
        if key not in self._ends:
            try:
                rows = [self._end(job, k, report) for k in range(len(self._tables))]
            except InvalidInputError:
                rows = []
            self._ends[key] = np.array(rows, dtype=np.int64).reshape(-1, 4)
        return self._ends[key]

    def _end(self, job: int, k: int, report: _Report) -> tuple[int, int, int, int]:
        """Fate, end, payment and true value of the job in the future number k."""
        world, policy = self._world_of(_reporting(self._tables[k], job, report)), self._new_policy()
        facts, saved = AnnouncedFacts.in_world(world), None
        points = [_points(each, job) for each in (facts, self._facts)]  # plans of jobs have as many
        if points[0] == points[1] and facts.bounds == self._facts.bounds and WHOLE_TRACE not in policy.sees:
            saved = self._before_births(k)[job]
        run = self._run(world, policy, saved)
        while not _announced(run).settled[job] and run.decide_once():
            pass
        ended = _announced(run)
        return ended.fate[job], ended.ledger.end[job], ended.price[job], ended.worth[job]

    def _before_births(self, k: int) -> dict[int, State | None]:
        """State after the last decision before the birth of each job, in the future number k, if any."""
        if k in self._born:
            return self._born[k]
        run = self._run(self._world_of(self._tables[k]), self._new_policy())
        born_us = self._facts.statements.reported.birth * self._facts.slot_us
        last: State | None = None
        found = self._born[k] = {}
        while len(found) < len(self._jobs):
            going = run.decide_once()
            for job in self._jobs.tolist():
                if born_us[job] <= run.now_us or not going:
                    found.setdefault(job, last)
            last = run.state()
        return found

    def _world_of(self, table: JobTable) -> World:
        given = self._world
        return build_world(table, given.cluster, partition=given.partition, params=given.params)

    def _run(self, world: World, policy: Policy, saved: State | None = None) -> GeneralRun:
        fleet = fleet_of(world, 1, always=False)
        return GeneralRun(world, policy, seed=self._seed, fleet=fleet, saved=saved)

    def reports(self, job: int, truth: _Report) -> Iterator[_Report]:
        """Statements in place of the truth.

        *Same distribution*: `_steps`, and `_joined`. Where an (arrival, signal) has one duration, as with
        signal=full, and the platform plans by expected utility, these reach every start that any value
        function reaches: its own worth until its end lowers earlier finishes to that worth and later ones to
        0. So if no step gains at a point of the outlook, no value function does, but for starts that are best
        only for worths closer to each other than `_NEAR`. With several durations steps are a sample.

        *Other distributions*: without the longest or all but the shortest durations, the mean as certain, a
        longer one that never happens, chances reversed. *More GPUs*: one more, and the most.
        """
        bounds, slot_s = self._facts.bounds, self._facts.slot_us / US_PER_S
        steps = self._steps(job, truth)
        yield from [*steps, self._joined(job, truth, steps)]
        for kind, outlook in _outlooks(truth.outlook, bounds.duration * slot_s):
            yield replace(truth, kind=kind, outlook=outlook)
        for gpus in sorted({truth.gpus + 1, float(bounds.concurrency)} - {truth.gpus}):
            if gpus <= bounds.concurrency:
                yield replace(truth, kind=f"{gpus:g} GPUs", gpus=gpus)

    def _steps(self, job: int, truth: _Report) -> list[_Report]:
        """A worth until a deadline, then 0, for every deadline and worth that the platform tells apart.

        The expected utility of a start is linear in the worth, so if two worths lead to the same start, all
        between do. A later deadline only adds starts, so the same holds for deadlines. Rectangles of worths
        and deadlines whose corners differ are cut in half where they do, down to the next round and to a
        quotient of worths of `_NEAR`; what equal ends imply is not run. The least worth that changes the end
        is searched for besides, since payments that hang on the report are lowest there.
        """
        facts, outlook = self._facts, truth.outlook
        slot_us = facts.slot_us
        ends_us = seconds_to_us(np.append(outlook.arrival_after_s + outlook.duration_s, truth.value.end_s))
        first = -(-int(ends_us[:-1].min()) // slot_us)
        last = max(first, min(-(-int(ends_us[-1]) // slot_us), facts.bounds.delay - 1))
        reports: list[_Report] = []
        ends: dict[tuple[float, int], IntArray] = {}

        def at(worth: float, due: int) -> IntArray:
            if (worth, due) not in ends:
                due_s = due * slot_us / US_PER_S
                value = ValueFunction(Shape.STEPS, (due_s,), (worth,))
                reports.append(replace(truth, kind=f"worth {worth:g} until {due_s:g} s", value=value))
                ends[worth, due] = self._ended(job, reports[-1])
            return ends[worth, due]

        rectangles = [(1.0, facts.bounds.value, first, last)]
        while rectangles:
            low, high, early, late = rectangles.pop()
            middle, between = (early + late) // 2, math.sqrt(low * high)
            same_due = [worth for worth in (low, high) if np.array_equal(at(worth, early), at(worth, late))]
            same_worth = [due for due in (early, late) if np.array_equal(at(low, due), at(high, due))]
            if len(same_due) < 2 and late - early > 1:
                ends |= {(worth, middle): at(worth, early) for worth in same_due}
                rectangles += [(low, high, early, middle), (low, high, middle, late)]
            elif len(same_worth) < 2 and high > low * _NEAR:
                ends |= {(between, due): at(low, due) for due in same_worth}
                rectangles += [(low, between, early, late), (between, high, early, late)]
        low, high = 1.0, facts.bounds.value
        for _ in range(0 if np.array_equal(at(low, last), at(high, last)) else _HALVINGS):
            between = math.sqrt(low * high)
            if np.array_equal(at(between, last), at(1.0, last)):
                low = between
            else:
                high = between
        return reports

    def _joined(self, job: int, truth: _Report, steps: list[_Report]) -> _Report:
        """The value function that has, at each point of the outlook, the worth of the best step there."""
        point = np.array([points[job] for points in self._futures])
        utility = np.array([self._weights * self.utilities(job, step) for step in steps])
        best = {int(utility[:, point == k].sum(axis=1).argmax()) for k in np.unique(point)}
        chosen = [steps[k].value for k in best]
        due_s = sorted({value.end_s for value in chosen})
        worth = [max(value.worth[0] for value in chosen if value.end_s >= at_s) for at_s in due_s]
        value = ValueFunction(Shape.STEPS, tuple(due_s), tuple(worth))
        return replace(truth, kind=f"joined steps: {value}", value=value)


def _points(facts: AnnouncedFacts, job: int) -> int:
    """Number of points, in rounds, that a job reports."""
    return len(facts.statements.reported.outlooks.arrival[facts.statements.reported.points(job)])


def _announced(run: GeneralRun) -> AnnouncedOutcome:
    outcome = run.outcome
    assert isinstance(outcome, AnnouncedOutcome)
    return outcome


def _outlooks(true: Outlook, most_s: float) -> Iterator[tuple[str, Outlook]]:
    arrival, duration, chance = true.arrival_after_s, true.duration_s, true.probability
    for kind, kept in (
        ("longest hidden", duration < duration.max()),
        ("only the shortest", duration == duration.min()),
    ):
        if 0 < kept.sum() < len(kept):
            yield kind, Outlook(arrival[kept], duration[kept], chance[kept] / chance[kept].sum())
    if len(chance) > 1:
        yield "chances reversed", Outlook(arrival, duration, chance[::-1].copy())
        mean = Outlook(np.array([arrival @ chance]), np.array([duration @ chance]), np.ones(1))
        yield "mean as certain", mean
    if duration.max() < most_s:
        never = np.append(duration, most_s), np.append(chance * (1 - 1e-6), 1e-6)
        yield "a longer one of 1e-6", Outlook(np.append(arrival, arrival[-1]), *never)


def _coming(table: JobTable, points: tuple[int, ...]) -> JobTable:
    """The jobs where these points of their true outlooks come true."""
    told = _statements(table)
    drawn = [told.outlooks[row] for row in told.outlook_row.tolist()]
    after_s = np.array([each.arrival_after_s[k] for each, k in zip(drawn, points, strict=True)])
    duration_s = np.array([each.duration_s[k] for each, k in zip(drawn, points, strict=True)])
    statements = replace(told, arrival_us=told.birth_us + seconds_to_us(after_s))
    return replace(table, work_us=seconds_to_us(duration_s), statements=statements)


def _reporting(table: JobTable, job: int, report: _Report) -> JobTable:
    """The jobs where one of them reports this."""
    told = _statements(table)
    rows = [told.reported_value_row.copy(), told.reported_outlook_row.copy()]
    rows[0][job], rows[1][job] = len(told.values), len(told.outlooks)
    gpus = told.reported_gpus.copy()
    gpus[job] = report.gpus
    changed = replace(
        told,
        values=(*told.values, report.value),
        outlooks=(*told.outlooks, report.outlook),
        reported_value_row=rows[0],
        reported_outlook_row=rows[1],
        reported_gpus=gpus,
    )
    return replace(table, statements=changed)
