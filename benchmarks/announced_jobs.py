"""Announced jobs at a given load, as a workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.streams import Streams

ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers that the time of the mechanism depends on."""

    jobs: int = 100_000
    nodes: int = 10_000
    """C."""
    delay: int = 100
    """S_m, rounds after the birth in which a finish is worth something."""
    durations: int = 5
    """Durations in each support; there are three arrivals."""
    load: float = 1.2
    """GPU rounds wanted over those there are."""
    most_gpus: int = 8
    most_duration: int = 20

    @property
    def rounds(self) -> int:
        """Rounds in which jobs are born."""
        mean = (self.most_gpus + 1) / 2 * (self.most_duration + 1) / 2
        return max(1, round(self.jobs * mean / (self.load * self.nodes)))


_OUTLOOKS = 1000
_WORTHS = (1, 2, 4, 8)


def announced_jobs(size: Size, seed: int = 0) -> pl.DataFrame:
    """Jobs with births on whole rounds; each comes and runs as a point of its outlook says.

    Outlooks are drawn from a thousand; values are 1 to 8 units until a deadline.
    """
    draw = Streams(seed).generator("announced-benchmark")
    points = [_points(draw, size) for _ in range(_OUTLOOKS)]
    row = draw.integers(0, len(points), size.jobs)
    chosen = [int(draw.choice(len(points[k]), p=points[k][:, 2])) for k in row]
    came_s, ran_s = np.array([points[k][i, :2] for k, i in zip(row, chosen, strict=True)]).T
    birth_s = np.sort(draw.integers(0, size.rounds, size.jobs)) * ROUND_S
    texts = pl.Series([" ".join(f"{a:g}:{d:g}:{float(p)!r}" for a, d, p in each) for each in points])
    worth, rest = draw.choice(_WORTHS, size.jobs), draw.integers(size.delay // 3, size.delay, size.jobs)
    return pl.DataFrame(
        {
            "job_id": [f"job-{i}" for i in range(size.jobs)],
            "trace_order": np.arange(size.jobs),
            "submit_s": birth_s + came_s,
            "birth_s": birth_s,
            "num_gpus": draw.integers(1, size.most_gpus + 1, size.jobs).astype(np.float64),
            "duration_s": ran_s,
            "outlook": texts.gather(row),
            "value": [f"deadline {v} {d * ROUND_S:g}" for v, d in zip(worth, rest, strict=True)],
        }
    )


def _points(draw: np.random.Generator, size: Size) -> np.ndarray:
    """(n, 3) arrival after the birth and duration in seconds, and probability."""
    lasts = np.sort(draw.choice(np.arange(1, size.most_duration + 1), size.durations, replace=False))
    comes = np.sort(draw.choice(np.arange(10), 3, replace=False))
    weight = np.outer(draw.dirichlet(np.ones(3)), draw.dirichlet(np.ones(size.durations))).ravel()
    weight = np.maximum(weight, 1e-6)
    arrival, duration = np.repeat(comes, size.durations), np.tile(lasts, 3)
    return np.stack([arrival * ROUND_S, duration * ROUND_S, weight / weight.sum()], axis=1)
