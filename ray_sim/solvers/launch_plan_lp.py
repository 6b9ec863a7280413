"""Linear programme over launch plans: what schedulers that do not know durations can earn in expectation.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
4, where capacity holds in expectation. Plans that evict are ours.

A scheduler sees the arrival and the signal of a job when the job arrives, and completions when they happen.
While a job runs, the scheduler learns of its duration only that it has not ended, and jobs are independent.
So, given the group (arrival, signal) of a job, the pair (start, eviction if the job never ended) is
independent of its duration. Let x be the probability of each pair given the group. The expected value of
the job and its expected load in each round are linear in x. The load of all jobs is at most the nodes in
every outcome, hence also in expectation. So x is feasible for the programme, and its objective is the
expected welfare. This holds for schedulers that know all statements in advance, adapt to all that they see,
and draw lots.

An eviction between two possible durations is no better than one at the shorter, so that only evictions at
possible durations of the group are variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.launches import LaunchOptions, check_size, fractional_optimum, ramps

MOST_VARIABLES = 100_000
"""Largest number of plans: group x start x eviction."""

MOST_LOADS = 5_000_000
"""Largest number of entries of the matrix: rounds that each plan may hold nodes, in total."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Plans of alike jobs after one arrival and signal."""

    jobs: int
    start: IntArray
    """(p,) rounds."""
    length: IntArray
    """(p,) most rounds that the job holds its nodes within the horizon."""
    gain: FloatArray
    """(p,) expected value in units, times the probability of the group."""
    load: FloatArray
    """(longest,) expected nodes held r rounds after the start, times the probability of the group."""


def launch_plan_bound(statements: Statements, nodes: int, rounds: int, *, evictions: bool = True) -> float:
    """Upper bound on the expected welfare of every scheduler that learns of durations as the signals tell.

    A plan starts a job in a round that depends on its arrival and signal alone. Loads fit in expectation.
    Jobs of equal statements share variables.

    Parameters
    ----------
    statements : the true statements; their signals are what schedulers see
    nodes : capacity in every round
    rounds : last round in which a job can finish
    evictions : whether plans may also evict a job that has run for a given time. Without, the optimum bounds
        schedulers that never evict only, and is the benchmark of the paper, one start per arrival and signal:
        a scheduler that evicts can earn more. If signals tell durations, both are equal.

    Returns
    -------
    float
        Units, rounded up by HiGHS's tolerance, a share of 1e-6.

    Raises
    ------
    InvalidScenarioError : more than `MOST_VARIABLES` variables, or `MOST_LOADS` loads
    RunFailedError : the solver failed
    """
    groups = [group for group in _groups(statements, nodes, rounds, evictions) if len(group.start)]
    check_size(
        "optimum over launch plans",
        sum(len(group.start) for group in groups),
        sum(int(group.length.sum()) for group in groups),
        most_variables=MOST_VARIABLES,
        most_loads=MOST_LOADS,
    )
    return fractional_optimum(_launches(groups), nodes) if groups else 0.0


def _groups(statements: Statements, nodes: int, rounds: int, evictions: bool) -> Iterator[_Group]:
    columns = (statements.birth, statements.concurrency, statements.value_row, statements.outlook_row)
    groups, jobs = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    for (birth, concurrency, value_row, outlook_row), count in zip(
        groups.tolist(), jobs.tolist(), strict=True
    ):
        if concurrency > nodes:
            continue
        for points in _points(statements.outlooks, outlook_row):
            arrival = birth + int(statements.outlooks.arrival[points.start])
            duration = statements.outlooks.duration[points]
            weight = statements.outlooks.probability[points]
            start = np.arange(arrival, max(arrival, rounds))
            finish = start[:, None] + duration
            value = statements.values[value_row, np.minimum(finish - birth, statements.values.shape[1] - 1)]
            gain = np.where(finish <= rounds, value * (weight / NANO), 0.0)
            useful = gain > 0
            if not evictions:
                useful = useful[:, :1] & (np.arange(len(duration)) == len(duration) - 1)
            at, last = np.nonzero(useful)
            yield _Group(
                jobs=count,
                start=start[at],
                length=np.minimum(duration[last], rounds - start[at]),
                gain=np.cumsum(gain, axis=1)[at, last],
                load=concurrency * (weight * (duration > np.arange(duration[-1])[:, None])).sum(axis=1),
            )


def _points(outlooks: Outlooks, row: int) -> Iterator[slice]:
    """Points of each (arrival, signal) of an outlook, by increasing duration."""
    begin, end = outlooks.ptr[row : row + 2].tolist()
    same = (np.diff(outlooks.arrival[begin:end]) == 0) & (np.diff(outlooks.signal[begin:end]) == 0)
    edges = [begin, *(begin + 1 + np.flatnonzero(~same)).tolist(), end]
    yield from (slice(*edge) for edge in pairwise(edges))


def _launches(groups: list[_Group]) -> LaunchOptions:
    """Plans of all groups; groups >= 1."""
    start = np.concatenate([group.start for group in groups])
    length = np.concatenate([group.length for group in groups])
    return LaunchOptions(
        claimant=np.repeat(np.arange(len(groups)), [len(group.start) for group in groups]),
        gain=np.concatenate([group.gain for group in groups]),
        most=np.array([float(group.jobs) for group in groups]),
        ptr=np.concatenate([[0], np.cumsum(length)]),
        round=ramps(start, length),
        load=np.concatenate(
            [group.load[ramps(np.zeros_like(group.length), group.length)] for group in groups]
        ),
    )
