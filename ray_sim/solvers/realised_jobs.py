"""Announced jobs whose arrivals and durations are known: what a clairvoyant scheduler chooses from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.statement import Statements
from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class RealisedJobs:
    """Jobs that can earn something alone; a start s earns ``values[value_row, s + duration - birth]``."""

    job: IntArray
    """(n,) rows of the statements, increasing."""
    birth: IntArray
    concurrency: IntArray
    """(n,) between 1 and the number of nodes."""
    duration: IntArray
    value_row: IntArray
    first: IntArray
    """(n,) arrival: the first possible start."""
    last: IntArray
    """(n,) last start that earns more than 0 and finishes in time, >= ``first``."""
    values: IntArray
    """(V, S + 1) as in the statements."""

    def most(self) -> IntArray:
        """(n,) value of the earliest start, the largest of a job."""
        most: IntArray = self.values[self.value_row, self.first + self.duration - self.birth]
        return most

    def every(self, stride: int) -> RealisedJobs:
        """Select every ``stride``-th job."""
        names = [each.name for each in fields(self) if each.name != "values"]
        return replace(self, **{name: getattr(self, name)[::stride] for name in names})


def realised_jobs(
    statements: Statements, arrival: IntArray, duration: IntArray, nodes: int, rounds: int
) -> RealisedJobs:
    """Select the jobs that can earn something alone.

    Parameters
    ----------
    arrival : (J,) rounds, from the birth on; a job that never arrives has an arrival of ``rounds`` or later
    duration : (J,) rounds, >= 1
    nodes : capacity, >= 0
    rounds : last round in which a job can finish, >= 0

    Raises
    ------
    InvalidInputError : a realisation that cannot be
    """
    _check(statements, arrival, duration)
    last = np.minimum(lasting(statements)[statements.value_row] - 1 + statements.birth, rounds) - duration
    hopeful = np.flatnonzero((last >= arrival) & (statements.concurrency <= nodes))
    return RealisedJobs(
        job=hopeful,
        birth=statements.birth[hopeful],
        concurrency=statements.concurrency[hopeful],
        duration=duration[hopeful],
        value_row=statements.value_row[hopeful],
        first=arrival[hopeful],
        last=last[hopeful],
        values=statements.values,
    )


def lasting(statements: Statements) -> IntArray:
    """(V,) rounds after the birth from which on a finish is worth 0."""
    rounds: IntArray = np.count_nonzero(statements.values, axis=1)
    return rounds


def _check(statements: Statements, arrival: IntArray, duration: IntArray) -> None:
    for name, column in (("arrival", arrival), ("duration", duration)):
        if column.shape != (len(statements),):
            raise InvalidInputError(
                f"{name}: expected {len(statements)} rounds, one for each statement, found"
                f" shape {column.shape}"
            )
    for name, column, least in (("arrival", arrival, statements.birth), ("duration", duration, 1)):
        wrong = np.flatnonzero(column < least)
        if len(wrong):
            row = int(wrong[0])
            expected = int(np.broadcast_to(least, column.shape)[row])
            raise InvalidInputError(
                f"{name}: row {row} is {int(column[row])}, expected at least {expected}; "
                "give absolute arrivals, from the birth on, and durations of at least 1 round"
            )
