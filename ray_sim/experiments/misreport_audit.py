"""Gains of misreports in announced jobs, with the platform as a black box.

The whole platform runs again with one report changed, through `build_world` and `run_world` as every run.
What counts is the true value of the finish less the payment, in expectation over what comes of all jobs.
Nothing is asked of the policy, so that menu, prior, bounds and order of births are audited too.

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
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.figures.announced import RegretFigures
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import Outlook
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, FloatArray, IntArray, seconds_to_us
from ray_sim.model.value_function import Shape, ValueFunction
from ray_sim.model.welfare_audit import AuditRequest

_GAIN = 1e-8
"""Gains up to this many units come from rounding: a price is rounded to 1e-9 in each round."""

_SURE = 3.0
"""Standard errors that a gain over drawn futures must exceed to count."""


@dataclass(frozen=True, slots=True)
class MisreportGains:
    """Gains of the best report of each of n sampled jobs over its truth; fields as of `WelfareAudit`."""

    figures: RegretFigures | None
    sampled_jobs: int
    exact_jobs: int
    estimate_error: float


@dataclass(frozen=True, slots=True)
class _Report:
    """A statement in place of the truth."""

    kind: str
    value: ValueFunction
    outlook: Outlook
    gpus: float


def misreport_gains(
    world: World, new_policy: Callable[[], Policy], jobs: IntArray, request: AuditRequest, seed: int
) -> MisreportGains:
    """Try reports of these jobs.

    A gain is exact where all jobs together have at most ``request.futures`` futures: all are run, each with
    its probability. Otherwise that number is drawn, the same for truth and report, and a gain counts from
    three standard errors on.

    Parameters
    ----------
    new_policy : makes the policy of the run, not yet started
    jobs : by number, sorted
    """
    platform = _Platform(world, new_policy, seed)
    futures, weights, exact = _futures(world.table, request.futures, seed)
    gains, kinds, errors = [0.0] * len(jobs), [""] * len(jobs), [0.0] * len(jobs)
    for k, job in enumerate(jobs.tolist()):
        truth = platform.truth(job)
        honest = platform.utilities(job, truth, futures)
        for report in platform.reports(job, truth):
            gained = platform.utilities(job, report, futures) - honest
            if not np.isfinite(gained).all():  # the platform refuses the report
                continue
            gain = float(weights @ gained)
            error = 0.0 if exact else float(gained.std(ddof=1)) / math.sqrt(len(futures))
            if gain > max(gains[k], _GAIN, _SURE * error):
                gains[k], kinds[k], errors[k] = gain, report.kind, error
    sampled = len(jobs)
    figures = _figures(np.array(gains), kinds) if sampled else None
    return MisreportGains(figures, sampled, sampled if exact else 0, max(errors, default=0.0))


def _figures(gain: FloatArray, kind: list[str]) -> RegretFigures:
    best = kind[int(gain.argmax())]
    return RegretFigures(float(gain.max()), float(gain.mean()), float((gain > 0).mean()), best or None)


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
    """The platform of a run, asked for what it makes of reports and futures."""

    def __init__(self, world: World, new_policy: Callable[[], Policy], seed: int) -> None:
        self._world, self._new_policy, self._seed = world, new_policy, seed

    def truth(self, job: int) -> _Report:
        """The true statement of a job."""
        told = _statements(self._world.table)
        value, outlook = told.values[told.value_row[job]], told.outlooks[told.outlook_row[job]]
        return _Report("truth", value, outlook, float(self._world.table.num_gpus[job]))

    def utilities(self, job: int, report: _Report, futures: list[tuple[int, ...]]) -> FloatArray:
        """(n,) true value less payment of a job that reports this, in each of these futures."""
        return np.array([self._utility(job, report, points) for points in futures])

    def _utility(self, job: int, report: _Report, points: tuple[int, ...]) -> float:
        table = _reporting(_coming(self._world.table, points), job, report)
        given = self._world
        try:
            world = build_world(table, given.cluster, partition=given.partition, params=given.params)
        except InvalidInputError:
            return -math.inf
        jobs = run_world(world, self._new_policy(), seed=self._seed).jobs
        row = jobs.filter(jobs["job_id"] == self._world.table.job_id[job]).row(0, named=True)
        return float(row["value"]) - float(row["payment"])

    def reports(self, job: int, truth: _Report) -> Iterator[_Report]:
        """Statements in place of the truth.

        *Same distribution*: a worth until a deadline, else 0. Where nothing fails, these reach every start of
        an (arrival, signal) that any value function reaches, so that the best is the best response: a start
        that beats all earlier ones under some value also does with its own worth as the deadline's, and later
        ones are then worth nothing. *Other distributions*: without the longest or all but the shortest
        durations, the mean as certain, a longer one that never happens, chances reversed. *More GPUs*.
        """
        facts = AnnouncedFacts.in_world(self._world)
        bounds, slot_s = facts.bounds, facts.slot_us / US_PER_S
        own = max(1.0, min(bounds.value, float(truth.value.at(np.zeros(1))[0])))
        first = float((truth.outlook.arrival_after_s + truth.outlook.duration_s).min())
        last = max(truth.value.end_s, first)
        for due_s in sorted({last, *np.linspace(first, last, 4).tolist(), last + slot_s}):
            for worth in sorted({1.0, own, bounds.value}):
                due = min(math.ceil(due_s / slot_s), bounds.delay - 1) * slot_s
                value = ValueFunction(Shape.STEPS, (due,), (worth,))
                yield replace(truth, kind=f"worth {worth:g} until {due:g} s", value=value)
        for kind, outlook in _outlooks(truth.outlook, bounds.duration * slot_s):
            yield replace(truth, kind=kind, outlook=outlook)
        for gpus in sorted({truth.gpus + 1, float(bounds.concurrency)} - {truth.gpus}):
            if gpus <= bounds.concurrency:
                yield replace(truth, kind=f"{gpus:g} GPUs", gpus=gpus)


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
