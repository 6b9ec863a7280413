"""Largest welfare of announced jobs whose arrivals and durations are known, and its linear relaxation.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
2, whose benchmark is the expected offline optimum after the fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import IntArray
from ray_sim.solvers.launches import LaunchOptions, check_size, fractional_optimum, launch_programme, ramps
from ray_sim.solvers.milp import SearchEnd
from ray_sim.solvers.realised_jobs import RealisedJobs, realised_jobs
from ray_sim.solvers.utility_optimum import SearchLimits

MOST_VARIABLES = 20_000
"""Largest number of launches, job x start."""

MOST_LOADS = 1_000_000
"""Largest sum of the durations of all launches: the entries of the matrix."""

_DEFAULT_LIMITS = SearchLimits(nodes=200)
"""With 100 jobs and 9,000 variables, 100 nodes take about 70 s and leave a gap of 1.3 %."""


@dataclass(frozen=True, slots=True)
class BestWelfare:
    """Best starts that were found."""

    welfare: float
    """Total value of the starts, in units."""
    bound: float
    """Upper bound on the welfare of any starts, in units; not rounded up by HiGHS's tolerance, 1e-6 of the
    largest value."""
    proven: bool
    """Whether the search ended without a limit."""
    starts: IntArray
    """(J,) rounds; `NEVER_ROUND` for jobs that earn nothing."""


def best_welfare(
    statements: Statements,
    arrival: IntArray,
    duration: IntArray,
    nodes: int,
    rounds: int,
    limits: SearchLimits = _DEFAULT_LIMITS,
) -> BestWelfare:
    """Start jobs after the fact for the largest sum of values.

    The programme is max sum V_j(s + d_j) x_js, subject to sum_s x_js <= 1 for each job, load <= ``nodes`` in
    each round, and x_js in {0, 1}. It has a variable for each job and each start from the arrival on with a
    value above 0 and a finish by ``rounds``. Later starts of equal value stay, for they may fit where the
    earlier do not.

    Parameters
    ----------
    statements : the true statements
    arrival : (J,) rounds, from the birth on
    duration : (J,) rounds, >= 1
    nodes : capacity in every round
    rounds : last round in which a job can finish
    limits : of the search; a limit of seconds makes the result depend on the machine

    Raises
    ------
    InvalidInputError : a realisation that cannot be
    InvalidScenarioError : more than `MOST_VARIABLES` variables, or `MOST_LOADS` loads
    RunFailedError : the solver failed
    """
    jobs = realised_jobs(statements, arrival, duration, nodes, rounds)
    starts = np.full(len(statements), NEVER_ROUND, dtype=np.int64)
    if not len(jobs.job):
        return BestWelfare(0.0, 0.0, True, starts)
    launches, start = _launches(jobs, "exact optimum of welfare")
    programme = launch_programme(launches, nodes, whole=True)
    answer = programme.maximise(gap=0.0, nodes=limits.nodes, seconds=limits.seconds)
    if answer.values is not None:
        taken = np.flatnonzero(answer.values > 0.5)
        starts[jobs.job[launches.claimant[taken]]] = start[taken]
        starts = fitting(statements, duration, starts, nodes)
    welfare = _welfare(statements, duration, starts)
    bound = min(answer.bound * launches.unit, _total(jobs.most()))
    return BestWelfare(welfare, max(bound, welfare), answer.ending is SearchEnd.FOUND, starts)


def fractional_welfare(
    statements: Statements, arrival: IntArray, duration: IntArray, nodes: int, rounds: int
) -> float:
    """Upper bound on `best_welfare`: the same programme with starts in fractions, 0 <= x_js <= 1.

    In units, rounded up by HiGHS's tolerance, a share of 1e-6. It raises what `best_welfare` raises.
    """
    jobs = realised_jobs(statements, arrival, duration, nodes, rounds)
    if not len(jobs.job):
        return 0.0
    launches, _ = _launches(jobs, "fractional optimum of welfare")
    return fractional_optimum(launches, nodes)


def _welfare(statements: Statements, duration: IntArray, starts: IntArray) -> float:
    """Total value of starts, in units; (J,) rounds, `NEVER_ROUND` for none."""
    begun = np.flatnonzero(starts != NEVER_ROUND)
    return _total(statements.worth(begun, starts[begun] + duration[begun] - statements.birth[begun]))


def fitting(statements: Statements, duration: IntArray, starts: IntArray, nodes: int) -> IntArray:
    """Drop starts that do not fit beside those of earlier statements: HiGHS rounds, and may exceed the nodes.

    Durations and starts are (J,) rounds, `NEVER_ROUND` for no start.
    """
    begun = np.flatnonzero(starts != NEVER_ROUND)
    used = np.zeros(int((starts[begun] + duration[begun]).max(initial=0)), dtype=np.int64)
    kept = starts.copy()
    for j in begun.tolist():
        held = slice(starts[j], starts[j] + duration[j])
        if (used[held] + statements.concurrency[j] > nodes).any():
            kept[j] = NEVER_ROUND
        else:
            used[held] += statements.concurrency[j]
    return kept


def _total(values: IntArray) -> float:
    """Sum of values in units; whole units and the rest apart, for their sum may exceed 64 bits."""
    return float(int((values // NANO).sum()) + int((values % NANO).sum()) / NANO)


def _launches(jobs: RealisedJobs, what: str) -> tuple[LaunchOptions, IntArray]:
    """Launches of each job, and the start of each launch."""
    count = jobs.last - jobs.first + 1
    loads = int((count * jobs.duration).sum())
    check_size(what, int(count.sum()), loads, most_variables=MOST_VARIABLES, most_loads=MOST_LOADS)
    claimant = np.repeat(np.arange(len(count)), count)
    start = ramps(jobs.first, count)
    duration = jobs.duration[claimant]
    worth = jobs.values[jobs.value_row[claimant], start + duration - jobs.birth[claimant]]
    launches = LaunchOptions(
        claimant=claimant,
        gain=worth / NANO,
        most=np.ones(len(count)),
        ptr=np.concatenate([[0], np.cumsum(duration)]),
        round=ramps(start, duration),
        load=np.repeat(jobs.concurrency[claimant], duration).astype(np.float64),
    )
    return launches, start
