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

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.menu import LARGEST_PRICE, Menu, RelaxedCapacity
from ray_sim.policies.posted_price.planner_kernels import PlannedJob

MOST_VARIABLES = 200_000
"""Largest number of types x points x starts; the solver takes about fifteen seconds of CPU time then."""

_BOUGHT = 1e-6
"""Least share of a point that is started for it to count as bought; above the tolerance of the solver."""


@dataclass(frozen=True, slots=True)
class Population:
    """Jobs that are expected, by round of birth and type; row k is one type in one round."""

    birth: IntArray
    """(K,)."""
    jobs: FloatArray
    """(K,) > 0, expected number: jobs of the round times probability of the type."""
    concurrency: IntArray
    """(K,)."""
    value_row: IntArray
    """(K,) row of ``values``."""
    outlook_row: IntArray
    """(K,) row of ``outlooks``."""
    values: IntArray
    """(V, S + 1) nano, as in `Statements`."""
    outlooks: Outlooks

    @classmethod
    def of(cls, statements: Statements) -> Population:
        """Return the empirical distribution of each round of birth."""
        keys = np.stack(
            [statements.birth, statements.concurrency, statements.value_row, statements.outlook_row], axis=1
        )
        rows, count = np.unique(keys, axis=0, return_counts=True)
        return cls(
            birth=rows[:, 0],
            jobs=count.astype(np.float64),
            concurrency=rows[:, 1],
            value_row=rows[:, 2],
            outlook_row=rows[:, 3],
            values=statements.values,
            outlooks=statements.outlooks,
        )


@dataclass(frozen=True, slots=True)
class _Points:
    """Points of all rows of a population."""

    row: IntArray
    """(n,) row of the population."""
    first: IntArray
    """(K + 1,) points of row k are first[k] to first[k + 1] - 1."""
    arrival: IntArray
    """(n,) absolute rounds."""
    duration: IntArray
    """(n,)."""
    mass: FloatArray
    """(n,) expected number of jobs."""

    @classmethod
    def of(cls, population: Population) -> _Points:
        outlooks, rows = population.outlooks, population.outlook_row
        begin, size = outlooks.ptr[rows], outlooks.ptr[rows + 1] - outlooks.ptr[rows]
        first = np.concatenate([[0], np.cumsum(size)])
        row = np.repeat(np.arange(len(rows)), size)
        point = np.arange(first[-1]) - first[row] + begin[row]
        return cls(
            row=row,
            first=first,
            arrival=outlooks.arrival[point] + population.birth[row],
            duration=outlooks.duration[point],
            mass=outlooks.probability[point] * population.jobs[row],
        )


@dataclass(frozen=True, slots=True)
class _Starts:
    """Variables: starts of points that finish by T with a value."""

    point: IntArray
    """(N,)."""
    start: IntArray
    """(N,) absolute rounds."""
    finish: IntArray
    """(N,) absolute rounds, <= T."""
    value: FloatArray
    """(N,) units, > 0."""
    concurrency: FloatArray
    """(N,)."""

    @classmethod
    def of(cls, population: Population, points: _Points, horizon: int) -> _Starts:
        """Return the variables.

        Raises
        ------
        InvalidScenarioError
            If there are more than `MOST_VARIABLES`.
        """
        positive = (population.values > 0).sum(axis=1)
        last = population.birth[points.row] + positive[population.value_row[points.row]] - 1
        last = np.minimum(last, horizon)
        choices = np.maximum(last - points.duration - points.arrival + 1, 0)
        total = int(choices.sum())
        if total > MOST_VARIABLES:
            raise InvalidScenarioError(
                f"menu=expected: {total:,} variables (types of jobs in each round x points of their "
                f"distribution x starts), at most {MOST_VARIABLES:,}: use longer rounds, fewer points per "
                "distribution, fewer jobs, or menu=exponential"
            )
        point = np.repeat(np.arange(len(choices)), choices)
        start = np.arange(total) - np.repeat(np.cumsum(choices) - choices, choices) + points.arrival[point]
        finish, row = start + points.duration[point], points.row[point]
        worth = population.values[population.value_row[row], finish - population.birth[row]]
        return cls(point, start, finish, worth / NANO, population.concurrency[row].astype(np.float64))


@dataclass(frozen=True, slots=True)
class ExpectedOptimum:
    """Solution of the programme."""

    value: float
    """Upper bound on the optimum in units, proven by the prices."""
    prices: FloatArray
    """(T,) dual of the capacity of each round, units per node, >= 0."""
    started: FloatArray
    """(n,) expected number of jobs of each point that are started."""
    points: _Points


def expected_optimum(population: Population, capacity: float, horizon: int) -> ExpectedOptimum:
    """Solve the programme.

    Parameters
    ----------
    population
        Jobs that are expected.
    capacity
        Nodes per round, > 0.
    horizon
        T; jobs finish at T at the latest.

    Raises
    ------
    InvalidScenarioError
        If there are more than `MOST_VARIABLES`.
    RunFailedError
        If the solver fails.
    """
    points = _Points.of(population)
    starts = _Starts.of(population, points, horizon)
    if len(starts.point) == 0:
        return ExpectedOptimum(0.0, np.zeros(horizon), np.zeros(len(points.row)), points)
    unit = float(starts.value.max())
    result = _solve(points, starts, capacity, horizon, unit)
    n = len(starts.point)
    prices = np.maximum(-result.upper.marginals[n:], 0.0) * unit / capacity
    started: FloatArray = np.zeros(len(points.row))
    np.add.at(started, starts.point, result.x[:n])
    return ExpectedOptimum(_proven(points, starts, capacity, prices), prices, started, points)


def _solve(points: _Points, starts: _Starts, capacity: float, horizon: int, unit: float) -> Any:
    """Solve with HiGHS on one thread, values in ``unit``, loads as shares of the capacity.

    A variable for the load y of each round makes the matrix sparse: y[tau] - y[tau - 1] is what starts at tau
    minus what ends. The price of a round is the dual of y <= 1.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import coo_array

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
    once = coo_array((np.ones(n), (starts.point, number)), shape=(len(points.row), n + horizon))
    upper = np.concatenate([np.full(n, np.inf), np.ones(horizon)])
    with warnings.catch_warnings():
        # SciPy passes threads and random_seed on to HiGHS, with a warning.
        warnings.simplefilter("ignore")
        result = linprog(  # type: ignore[call-overload]  # its types lack sparse matrices and these options
            np.concatenate([-starts.value / unit, np.zeros(horizon)]),
            A_ub=once.tocsr(),
            b_ub=points.mass,
            A_eq=loads.tocsr(),
            b_eq=np.zeros(horizon),
            bounds=np.stack([np.zeros(n + horizon), upper], axis=1),
            method="highs-ipm",
            options={"threads": 1, "random_seed": 0},
        )
    if result.status != 0:
        why = "it refuses one thread in a process in which something has made it use several"
        raise RunFailedError(f"menu=expected: HiGHS did not solve it: {result.message}; {why}")
    return result


def _proven(points: _Points, starts: _Starts, capacity: float, prices: FloatArray) -> float:
    """Return capacity at these prices plus the surplus of all jobs; an upper bound for any prices >= 0."""
    before = np.concatenate([[0.0], np.cumsum(prices)])
    surplus = starts.value - starts.concurrency * (before[starts.finish] - before[starts.start])
    best = np.zeros(len(points.row))
    np.maximum.at(best, starts.point, surplus)
    return capacity * float(prices.sum()) + float(points.mass @ best)


_Key = tuple[int, int, bytes, bytes, bytes, bytes]


def _key(
    birth: int,
    concurrency: int,
    values: IntArray,
    arrival: IntArray,
    duration: IntArray,
    probability: FloatArray,
) -> _Key:
    """Contents of a statement, without zeros at the end of its values; chances have 12 digits."""
    worth, chance = np.trim_zeros(values, "b").tobytes(), np.round(probability, 12).tobytes()
    return birth, concurrency, worth, arrival.tobytes(), duration.tobytes(), chance


class ExpectedPrices(Menu):
    """Menu B: prices never change, but rounds sell out.

    Prices are rounded down to whole nano, so that what the programme starts is never at a loss here. A job
    may buy at zero surplus what the programme buys: see `bought`. Without that rule a price that equals the
    value per node of all jobs would sell nothing.

    Parameters
    ----------
    capacity
        Nodes and rounds; the programme has capacity C'.
    population
        Jobs that are expected.
    """

    buys_at_zero: ClassVar[bool] = True

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
        points = optimum.points
        bought: BoolArray = optimum.started > _BOUGHT * points.mass
        self._bought: dict[_Key, BoolArray] = {}
        for row in range(len(population.birth)):
            of_row = slice(int(points.first[row]), int(points.first[row + 1]))
            key = _key(
                int(population.birth[row]),
                int(population.concurrency[row]),
                population.values[population.value_row[row]],
                points.arrival[of_row],
                points.duration[of_row],
                points.mass[of_row] / population.jobs[row],
            )
            self._bought[key] = bought[of_row] | self._bought.get(key, False)

    def bought(self, report: PlannedJob) -> BoolArray:
        """Return which points of a report the programme starts, at least in part; (n,).

        The programme buys nothing for a statement that it does not expect in that round of birth.
        """
        key = _key(
            report.birth,
            report.concurrency,
            report.values,
            report.arrival,
            report.duration,
            report.probability,
        )
        return self._bought.get(key, np.zeros(len(report.arrival), dtype=np.bool_))

    def _set_prices(self, booked: IntArray, price: IntArray) -> None:
        """Prices stay; a sold-out round is one with too much booked load."""
