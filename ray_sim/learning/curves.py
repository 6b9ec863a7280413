"""Curves of a training: a point for each round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Self

import numpy as np
import polars as pl

PHASES = ("imitation", "offline", "online")


class Point(NamedTuple):
    """Figures of one round; NaN where a round has none."""

    round: int
    """From 0 on."""
    phase: str
    samples: int
    """Actions collected."""
    reward: float
    """Shares of work done in a slot, summed over jobs; modelled in the offline phase."""
    jobs_present: float
    """Mean number of jobs in the system, while the policy explores."""
    policy_loss: float
    value_loss: float
    entropy: float
    """Of the policy, in nats."""
    reward_model_error: float
    """Relative error of held-out speeds in the newest fit."""
    validation_jct_s: float
    """Mean JCT of the greedy policy on the job sets of validation, after the round."""


class Curves:
    """Points of a training, in order."""

    def __init__(self) -> None:
        self._points: list[Point] = []

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def add(self, point: Point) -> None:
        """Add the point of the next round."""
        self._points.append(point)

    def frame(self) -> pl.DataFrame:
        """A row for each round; figures that a round does not have are null."""
        columns = {name: [getattr(point, name) for point in self._points] for name in Point._fields}
        types = {"round": pl.Int64, "phase": pl.String, "samples": pl.Int64}
        schema = {name: types.get(name, pl.Float64) for name in Point._fields}
        return pl.DataFrame(columns, schema=schema).fill_nan(None)

    def arrays(self) -> dict[str, np.ndarray]:
        """A column for each figure."""
        columns = {name: [getattr(point, name) for point in self._points] for name in Point._fields}
        columns["phase"] = [PHASES.index(point.phase) for point in self._points]
        whole = ("round", "phase", "samples")
        return {
            name: np.array(column, dtype=np.int64 if name in whole else np.float64)
            for name, column in columns.items()
        }

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The curves of `arrays`."""
        found = cls()
        columns = {name: arrays[name].tolist() for name in Point._fields}
        columns["phase"] = [PHASES[number] for number in columns["phase"]]
        found._points = [Point(*row) for row in zip(*columns.values(), strict=True)]
        return found
