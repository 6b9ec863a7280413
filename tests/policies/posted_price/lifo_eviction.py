"""Direct simulation of LIFO evictions on realised points, and failure probabilities by enumeration.

Steps 2 to 4 of Algorithm 1 of Babaioff et al. (WWW 2022), in plain Python; knows no lemma and no posterior.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import IntArray
from ray_sim.policies.posted_price.planner import PlannedJob

Point = tuple[int, int, int, float, int | None]
"""Arrival, duration, signal, probability, start (None: not launched)."""


@dataclass(frozen=True)
class Job:
    birth: int
    concurrency: int
    points: tuple[Point, ...]

    def plan(self) -> tuple[PlannedJob, IntArray]:
        """The job as it is reported, of no value, and the starts of its points."""
        arrival, duration, signal, probability, start = zip(*sorted(self.points), strict=True)
        columns = (np.array(column) for column in (arrival, duration, probability, signal))
        report = PlannedJob(self.birth, self.concurrency, np.zeros(1, dtype=np.int64), *columns)
        return report, np.array([NEVER_ROUND if s is None else s for s in start])


@dataclass(frozen=True)
class Observations:
    """News of one round: (job, signal) of arrivals, and jobs."""

    arrived: tuple[tuple[int, int], ...]
    completed: tuple[int, ...]
    removed: tuple[int, ...]


def simulate(jobs: Sequence[Job], points: Sequence[Point], rounds: int, capacity: int) -> list[Observations]:
    """News of each round, when these points come true; jobs are in order of birth."""
    active: list[int] = []
    started: dict[int, int] = {}
    history = []
    for now in range(rounds):
        active += [j for j, job in enumerate(jobs) if job.birth == now]
        arrived = tuple((j, points[j][2]) for j in active if points[j][0] == now)
        removed = [j for j, _ in arrived if points[j][4] is None]
        started |= {j: start for j, _ in arrived if (start := points[j][4]) is not None}
        completed = tuple(j for j in active if j in started and started[j] + points[j][1] == now)
        active = [j for j in active if j not in completed and j not in removed]
        while sum(jobs[j].concurrency for j in active if j in started and started[j] <= now) > capacity:
            removed.append(active.pop())
        history.append(Observations(arrived, completed, tuple(removed)))
    return history


def fate(history: Sequence[Observations], job: int) -> tuple[str, int] | None:
    """Whether and in which round a job completed or was removed."""
    for now, observations in enumerate(history):
        if job in observations.completed:
            return "completed", now
        if job in observations.removed:
            return "removed", now
    return None


def worlds(
    jobs: Sequence[Job], history: Sequence[Observations], capacity: int
) -> list[tuple[float, tuple[Point, ...]]]:
    """Joint points of all jobs that give this history, with their probabilities given the history."""
    agreeing = [
        (math.prod(point[3] for point in points), points)
        for points in itertools.product(*(job.points for job in jobs))
        if simulate(jobs, points, len(history), capacity) == list(history)
    ]
    total = sum(probability for probability, _ in agreeing)
    return [(probability / total, points) for probability, points in agreeing]


def failure(
    jobs: Sequence[Job],
    agreeing: Sequence[tuple[float, tuple[Point, ...]]],
    probe: Job,
    capacity: int,
) -> float:
    """Probability that a job of one point, born after all others, is removed."""
    (point,) = probe.points
    start, duration = point[4], point[1]
    assert start is not None
    failed = 0.0
    for probability, points in agreeing:
        observations = simulate([*jobs, probe], [*points, point], start + duration + 1, capacity)
        outcome = fate(observations, len(jobs))
        assert outcome is not None
        failed += probability * (outcome[0] == "removed")
    return failed
