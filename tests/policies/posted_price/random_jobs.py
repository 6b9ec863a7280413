"""Small random statements of work, with numbers that floats hold exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.policies.posted_price.planner import PlannedJob, Planner

Points = dict[tuple[int, int], float]
"""Probability by (arrival, duration)."""


class Signal(StrEnum):
    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"

    def of(self, duration: int) -> int:
        if self is Signal.NONE:
            return 0
        return duration if self is Signal.FULL else duration.bit_length()


@dataclass(frozen=True)
class Sizes:
    """Upper bounds of random jobs."""

    births: int = 4
    concurrency: int = 2
    duration: int = 3
    value: int = 8
    delay: int = 2
    points: int = 4
    rounds: int = 5
    """S."""


def planner_for(job: PlannedJob) -> Planner:
    """A planner that takes the longest reported duration for the longest of all, whatever is told of it."""
    told = (job.signal == job.duration).all()
    return Planner("full" if told else "none", int(job.duration.max()))


def job_of(
    birth: int, concurrency: int, values: Sequence[float], points: Points, signal: Signal = Signal.FULL
) -> PlannedJob:
    """``values`` in units, of finishes 0, 1, ... rounds after the birth; arrivals are absolute."""
    rows = sorted((a, signal.of(d), d, p) for (a, d), p in points.items())
    return PlannedJob(
        birth=birth,
        concurrency=concurrency,
        values=np.rint(np.array(values) * NANO).astype(np.int64),
        arrival=np.array([row[0] for row in rows], dtype=np.int64),
        duration=np.array([row[2] for row in rows], dtype=np.int64),
        probability=np.array([row[3] for row in rows], dtype=np.float64),
        signal=np.array([row[1] for row in rows], dtype=np.int64),
    )


def random_points(rng: np.random.Generator, birth: int, sizes: Sizes) -> Points:
    """Probabilities are multiples of 1/16."""
    keys = sorted(
        {
            (birth + int(rng.integers(sizes.delay + 1)), int(rng.integers(1, sizes.duration + 1)))
            for _ in range(int(rng.integers(1, sizes.points + 1)))
        }
    )
    cuts = np.sort(rng.choice(np.arange(1, 16), len(keys) - 1, replace=False))
    parts = np.diff(np.concatenate([[0], cuts, [16]])) / 16
    return dict(zip(keys, parts.tolist(), strict=True))


def random_values(rng: np.random.Generator, sizes: Sizes) -> list[float]:
    """Non-increasing, positive ones in [1, H] with steps of 1/4."""
    n = int(rng.integers(2, sizes.rounds + 1))
    steps = np.sort(rng.integers(4, 4 * sizes.value + 1, n))[::-1] / 4
    return [*steps.tolist(), 0.0]


def random_job(
    rng: np.random.Generator, signal: Signal, sizes: Sizes, birth: int | None = None
) -> PlannedJob:
    born = int(rng.integers(sizes.births)) if birth is None else birth
    return job_of(
        born,
        int(rng.integers(1, sizes.concurrency + 1)),
        random_values(rng, sizes),
        random_points(rng, born, sizes),
        signal,
    )


def statements_of(jobs: list[PlannedJob]) -> Statements:
    """Jobs in order of birth; equal value rows and outlooks share a row."""
    width = max(len(job.values) for job in jobs)
    rows = [tuple(job.values.tolist()) + (0,) * (width - len(job.values)) for job in jobs]
    values = sorted(set(rows))
    outlook = [
        tuple(
            zip(
                (job.arrival - job.birth).tolist(),
                job.signal.tolist(),
                job.duration.tolist(),
                job.probability.tolist(),
                strict=True,
            )
        )
        for job in jobs
    ]
    outlooks = sorted(set(outlook))
    points = [point for row in outlooks for point in row]
    return Statements(
        birth=np.array([job.birth for job in jobs]),
        concurrency=np.array([job.concurrency for job in jobs]),
        value_row=np.array([values.index(row) for row in rows]),
        outlook_row=np.array([outlooks.index(row) for row in outlook]),
        values=np.array(values),
        outlooks=Outlooks(
            ptr=np.concatenate([[0], np.cumsum([len(row) for row in outlooks])]),
            arrival=np.array([point[0] for point in points]),
            duration=np.array([point[2] for point in points]),
            probability=np.array([point[3] for point in points]),
            signal=np.array([point[1] for point in points]),
        ),
    )
