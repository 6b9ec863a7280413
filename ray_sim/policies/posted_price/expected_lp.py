"""Menu B, for known distributions: node prices are capacity duals of the linear programme in expectation.

The programme knows how many jobs of each type are born in each round. A type is a statement (V, c, P). Its
variables are the expected numbers of jobs of a type whose point (a, d) occurs and that start at t:

    max  sum V(t + d) x    subject to    sum_t x <= jobs P(a, d)            for each type and point,
                                         sum c x [t <= tau < t + d] <= C'   for each round tau.

Its value with capacity C is an upper bound on the expected welfare of an offline optimum that knows all
arrivals and durations, since the expected numbers of its starts are feasible.

Source: Babaioff et al. (WWW 2022), section 4, who state a ratio of O(1) for posted prices when durations are
revealed at arrival; the construction is ours, and nothing is proven of its ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RunFailedError
from ray_sim.model.outlook import parse_outlooks
from ray_sim.model.statement import NANO
from ray_sim.model.units import BoolArray, FloatArray, IntArray, seconds_to_us
from ray_sim.model.value_function import parse_value
from ray_sim.policies.posted_price.menu import LARGEST_PRICE, Menu, RelaxedCapacity
from ray_sim.policies.posted_price.planner import PlannedJob, planned_job
from ray_sim.policy_api import Statements, statements_in_rounds
from ray_sim.solvers.linear_programme import linear_optimum

MOST_VARIABLES = 200_000
"""Largest number of types x points x starts; the solver takes about fifteen seconds of CPU time then."""

_BOUGHT = 1e-6
"""Least share of a point that is started for it to count as bought; above the tolerance of the solver."""


@dataclass(frozen=True, slots=True)
class Population:
    """Jobs that are expected, by round of birth and type; row k is one type in one round."""

    statements: Statements
    job: IntArray
    """(K,) the first job of the type."""
    jobs: IntArray
    """(K,) expected number of jobs, > 0."""
    first: IntArray
    """(K + 1,) points of row k are first[k] to first[k + 1] - 1."""
    row: IntArray
    """(n,) row of each point."""
    arrival: IntArray
    """(n,) absolute rounds."""
    duration: IntArray
    """(n,)."""
    mass: FloatArray
    """(n,) expected number of jobs."""

    @classmethod
    def of(cls, statements: Statements) -> Population:
        """The empirical distribution of each round of birth."""
        columns = (statements.birth, statements.concurrency, statements.value_row, statements.outlook_row)
        _, job, jobs = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_counts=True)
        outlooks, of_row = statements.outlooks, statements.outlook_row[job]
        size = np.diff(outlooks.ptr)[of_row]
        first = np.concatenate([[0], np.cumsum(size)])
        row = np.repeat(np.arange(len(job)), size)
        point = np.arange(first[-1]) - first[row] + outlooks.ptr[of_row][row]
        return cls(
            statements=statements,
            job=job,
            jobs=jobs,
            first=first,
            row=row,
            arrival=outlooks.arrival[point] + statements.birth[job][row],
            duration=outlooks.duration[point],
            mass=outlooks.probability[point] * jobs[row],
        )


@dataclass(frozen=True, slots=True)
class _Starts:
    """Variables: starts of points that finish by T with a value, (N,) each."""

    point: IntArray
    start: IntArray
    """Absolute rounds, as the next."""
    finish: IntArray
    """<= T."""
    value: FloatArray
    """Units, > 0."""
    concurrency: FloatArray

    @classmethod
    def of(cls, population: Population, horizon: int) -> _Starts:
        """The variables.

        Raises
        ------
        InvalidScenarioError : there are more than `MOST_VARIABLES`
        """
        told, job = population.statements, population.job[population.row]
        positive = (told.values > 0).sum(axis=1)[told.value_row[job]]
        last = np.minimum(told.birth[job] + positive - 1, horizon)
        choices = np.maximum(last - population.duration - population.arrival + 1, 0)
        total = int(choices.sum())
        if total > MOST_VARIABLES:
            raise InvalidScenarioError(
                f"menu=expected: {total:,} variables (types of jobs in each round x points of their "
                f"distribution x starts), at most {MOST_VARIABLES:,}: use longer rounds, fewer points per "
                "distribution, fewer jobs, or menu=exponential"
            )
        point = np.repeat(np.arange(len(choices)), choices)
        before = np.repeat(np.cumsum(choices) - choices, choices)
        start = np.arange(total) - before + population.arrival[point]
        finish, job = start + population.duration[point], job[point]
        worth = told.worth(job, finish - told.birth[job])
        return cls(point, start, finish, worth / NANO, told.concurrency[job].astype(np.float64))


@dataclass(frozen=True, slots=True)
class ExpectedOptimum:
    """Solution of the programme."""

    value: float
    """Upper bound on the optimum in units, proven by the prices."""
    prices: FloatArray
    """(T,) dual of the capacity of each round, units per node, >= 0."""
    started: FloatArray
    """(n,) expected number of jobs of each point that are started."""


def expected_optimum(population: Population, capacity: float, horizon: int) -> ExpectedOptimum:
    """Solve the programme with so many nodes per round, > 0, in which jobs finish at T at the latest.

    Raises
    ------
    InvalidScenarioError : there are more than `MOST_VARIABLES`
    RunFailedError : the solver fails
    """
    starts = _Starts.of(population, horizon)
    mass, started = population.mass, np.zeros(len(population.row))
    if len(starts.point) == 0:
        return ExpectedOptimum(0.0, np.zeros(horizon), started)
    unit = float(starts.value.max())
    result = _solve(mass, starts, capacity, horizon, unit)
    n = len(starts.point)
    prices = np.maximum(-result.upper.marginals[n:], 0.0) * unit / capacity
    np.add.at(started, starts.point, result.x[:n])
    # Capacity at these prices plus the surplus of all jobs is an upper bound for any prices >= 0.
    before = np.concatenate([[0.0], np.cumsum(prices)])
    surplus = starts.value - starts.concurrency * (before[starts.finish] - before[starts.start])
    best = np.zeros(len(mass))
    np.maximum.at(best, starts.point, surplus)
    return ExpectedOptimum(capacity * float(prices.sum()) + float(mass @ best), prices, started)


def _solve(mass: FloatArray, starts: _Starts, capacity: float, horizon: int, unit: float) -> Any:
    """Solve with HiGHS on one thread, values in ``unit``, loads as shares of the capacity.

    A variable for the load y of each round makes the matrix sparse: y[tau] - y[tau - 1] is what starts at tau
    minus what ends. The price of a round is the dual of y <= 1.
    """
    from scipy.sparse import coo_array  # slow to import

    n, number = len(starts.point), np.arange(len(starts.point))
    rounds, share = np.arange(horizon), starts.concurrency / capacity
    within = starts.finish < horizon
    entries = [
        (rounds, n + rounds, np.ones(horizon)),
        (rounds[1:], n + rounds[:-1], -np.ones(horizon - 1)),
        (starts.start, number, -share),
        (starts.finish[within], number[within], share[within]),
    ]
    row, column, entry = (np.concatenate(part) for part in zip(*entries, strict=True))
    loads = coo_array((entry, (row, column)), shape=(horizon, n + horizon))
    once = coo_array((np.ones(n), (starts.point, number)), shape=(len(mass), n + horizon))
    upper = np.concatenate([np.full(n, np.inf), np.ones(horizon)])
    result = linear_optimum(
        np.concatenate([-starts.value / unit, np.zeros(horizon)]),
        A_ub=once.tocsr(),
        b_ub=mass,
        A_eq=loads.tocsr(),
        b_eq=np.zeros(horizon),
        bounds=np.stack([np.zeros(n + horizon), upper], axis=1),
        method="highs-ipm",
    )
    if result.status != 0:
        why = "it refuses one thread in a process in which something has made it use several"
        raise RunFailedError(f"menu=expected: HiGHS did not solve it: {result.message}; {why}")
    return result


class ExpectedPrices(Menu):
    """Menu B: prices never change, but rounds sell out.

    Prices are rounded down to whole nano, so that what the programme, with capacity C', starts is never at a
    loss here. A job may buy at zero surplus what the programme buys: see `bought`. Without that rule a price
    that equals the value per node of all jobs would sell nothing.
    """

    def __init__(self, capacity: RelaxedCapacity, population: Population) -> None:
        super().__init__(capacity)
        optimum = expected_optimum(population, capacity.relaxed / NANO, capacity.horizon)
        total = float(optimum.prices.sum()) * capacity.most_concurrency
        if total * NANO > LARGEST_PRICE:
            raise InvalidScenarioError(
                f"menu=expected: C_m times the sum of all prices must be at most {LARGEST_PRICE / NANO:.3g} "
                f"so that prices in 1e-9 of a unit fit 64 bits, but is {total:.3g}: use a larger unit of "
                "value"
            )
        self._price[:] = np.floor(optimum.prices * NANO)
        bought: BoolArray = optimum.started > _BOUGHT * population.mass
        self._bought: dict[tuple[object, ...], BoolArray] = {}
        for row, job in enumerate(population.job.tolist()):
            key = _key(planned_job(population.statements, job))
            points = bought[population.first[row] : population.first[row + 1]]
            self._bought[key] = points | self._bought.get(key, False)

    def bought(self, report: PlannedJob) -> BoolArray:
        """(n,) points of a report that the programme starts, at least in part.

        The programme buys nothing for a statement that it does not expect in that round of birth.
        """
        return self._bought.get(_key(report), np.zeros(len(report.arrival), dtype=np.bool_))

    def priced(self, first: int, booked: IntArray) -> IntArray:
        """See `Menu.priced`; prices do not follow the load."""
        return self._price[first : first + len(booked)].copy()


def _key(report: PlannedJob) -> tuple[object, ...]:
    """Contents of a statement, without zeros at the end of its values; chances have 12 digits."""
    chance = np.round(report.probability, 12)
    columns = (np.trim_zeros(report.values, "b"), report.arrival, report.duration, chance)
    return report.birth, report.concurrency, *(column.tobytes() for column in columns)


_REPORTED = ("reported_gpus", "reported_value", "reported_outlook")


def read_prior(path: Path, slot_us: int, signal: str) -> Statements:
    """Statements of a workload file, as they are reported there, in rounds from its first birth on.

    Raises
    ------
    InvalidInputError : the file cannot be read, or has no statements of work
    """
    source = f"prior={path}"
    try:
        frame = pl.read_parquet(path)
        # Files of jobs without reports leave these columns out.
        absent = [name for name in _REPORTED if name not in frame.columns]
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        told = frame.select(
            "birth_s",
            pl.col("reported_gpus").fill_null(pl.col("num_gpus")).cast(pl.Int64).alias("gpus"),
            pl.col("reported_value").fill_null(pl.col("value")).alias("value"),
            pl.col("reported_outlook").fill_null(pl.col("outlook")).alias("outlook"),
        ).sort("birth_s", maintain_order=True)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInputError(f"{source}: is no workload with statements of work: {error}") from error
    empty = told.null_count().sum_horizontal().item()
    if empty or told.is_empty():
        raise InvalidInputError(
            f"{source}: every job needs birth_s, value, outlook and num_gpus, and {empty} of these are null "
            f"in {len(told)} jobs: draw them by `ray-sim enrich --profile announced`"
        )
    try:
        values, outlooks = tuple(map(parse_value, told["value"])), parse_outlooks(told["outlook"])
    except ValueError as error:
        raise InvalidInputError(f"{source}: {error}") from error
    birth_us = seconds_to_us(told["birth_s"].to_numpy())
    return statements_in_rounds(birth_us, told["gpus"].to_numpy(), values, outlooks, slot_us, signal)
