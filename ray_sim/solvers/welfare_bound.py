"""Cheap upper bound on the welfare of announced jobs, by prices of rounds, for many jobs.

For any prices p_t >= 0 of a node in round t let a job pay c_j times the prices of the rounds that it holds.
Any schedule of known jobs that fits into C nodes earns

    sum_j V_j = sum_j (V_j - payment_j) + sum_t p_t load_t
             <= sum_j max(0, max_s (V_j(s + d_j) - payment_js)) + C sum_t p_t = L(p).

L(p) is a bound at any prices, and its least value is the optimum of the linear relaxation
`fractional_welfare` (strong duality). L is convex, and C less the load of the starts that jobs prefer at p
is a subgradient. The search begins at prices of 0, where L is what all jobs would earn alone: if they all
fit, the bound is exact.

Prices are constant within buckets of rounds, and are searched for with a sample of the jobs and the same
share of the nodes. The bound is L of all jobs. Steps are Polyak's (1969), towards a target below the best
value. The target comes closer after some steps without progress (Nedic and Bertsekas, Incremental
Subgradient Methods for Nondifferentiable Optimization, 2001).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.planning.best_starts import StartChoices, total_surplus
from ray_sim.model.statement import NANO, Statements
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.realised_jobs import RealisedJobs, realised_jobs

MOST_BUCKETS = 256
"""Largest number of prices. On random jobs that ask for 1.3 to 3 times the nodes the bound is then within 1 %
of the linear relaxation."""

MOST_SEARCHED = 50_000
"""Largest number of jobs with which prices are searched for."""

STEPS = 100
"""Steps of the search."""

_ROUND_UP = 1.0 + 1e-9
"""Factor on the bound, against rounding errors of sums."""

_TARGET = 0.05
"""Share by which the first target is below the best value."""
_PROGRESS = 1e-4
"""Share by which a value must be lower to count as progress."""
_PATIENCE = 5
"""Steps without progress after which the target comes twice as close, from the best prices on."""


@dataclass(frozen=True, slots=True)
class _PricedRounds:
    """L(p) of some jobs on some nodes."""

    choices: StartChoices
    nodes: float
    starts: IntArray
    """(K,) first rounds of buckets, from 0 on."""
    rounds: int

    def value(self, prices: FloatArray) -> tuple[float, FloatArray]:
        """L at prices (K,) of a node for a round, and a subgradient, (K,)."""
        lengths = np.diff(self.starts, append=self.rounds)
        price_before = np.concatenate([[0.0], np.cumsum(np.repeat(prices, lengths))])
        change = np.zeros(self.rounds + 1)
        surplus = total_surplus(self.choices, price_before, change)
        load = np.add.reduceat(np.cumsum(change[:-1]), self.starts)
        unsold: FloatArray = self.nodes * lengths - load
        return surplus + self.nodes * float(price_before[-1]), unsold


def welfare_bound(
    statements: Statements, arrival: IntArray, duration: IntArray, nodes: int, rounds: int
) -> float:
    """Upper bound on the welfare of every schedule in units, rounded up by a share of 1e-9.

    It holds for clairvoyant schedules too, is at least `fractional_welfare`, up to rounding, and at most what
    all jobs would earn alone. Nothing is random. Complexity: at most `STEPS` x `MOST_SEARCHED` scans of the
    starts of a job, and two of each job.

    Parameters
    ----------
    statements : the true statements
    arrival : (J,) rounds, from the birth on; ``rounds`` or later for a job that never arrives
    duration : (J,) rounds, >= 1
    nodes : capacity in every round
    rounds : last round in which a job can finish

    Raises
    ------
    InvalidInputError : a realisation that cannot be
    """
    jobs = realised_jobs(statements, arrival, duration, nodes, rounds)
    if not len(jobs.job):
        return 0.0
    stride = -(-len(jobs.job) // MOST_SEARCHED)
    starts = np.arange(0, rounds, -(-rounds // MOST_BUCKETS))
    prices = _search(_PricedRounds(_choices(jobs.every(stride)), nodes / stride, starts, rounds))
    whole = _PricedRounds(_choices(jobs), nodes, starts, rounds)
    alone, priced = (whole.value(each)[0] for each in (np.zeros_like(prices), prices))
    return min(alone, priced) * _ROUND_UP


def _choices(jobs: RealisedJobs) -> StartChoices:
    return StartChoices(
        first=jobs.first,
        last=jobs.last,
        duration=jobs.duration,
        concurrency=jobs.concurrency,
        birth=jobs.birth,
        value_row=jobs.value_row,
        values=jobs.values / NANO,
    )


def _search(rounds: _PricedRounds) -> FloatArray:
    """(K,) prices with a low value, after at most `STEPS` steps."""
    prices = best_prices = np.zeros(len(rounds.starts))
    best, distance, idle = np.inf, _TARGET, 0
    for _ in range(STEPS):
        value, unsold = rounds.value(prices)
        idle = 0 if value < best * (1 - _PROGRESS) else idle + 1
        if value < best:
            best, best_prices = value, prices
        # A price of 0 cannot fall: without this, unsold rounds would shorten all steps.
        slope = np.where((prices <= 0) & (unsold > 0), 0.0, unsold)
        steepness = float(slope @ slope)
        if steepness == 0:
            break
        if idle >= _PATIENCE:
            prices, distance, idle = best_prices, distance / 2, 0
            continue
        prices = np.maximum(prices - (value - best * (1 - distance)) / steepness * slope, 0.0)
    return best_prices
