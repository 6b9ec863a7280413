"""Measured speeds of training jobs by model, batch, number of GPUs and GPU type, alone and in pairs on a GPU.

`workloads.training.speed_tables` reads tables. Runs of jobs with measured speeds look speeds up here, as do
enrichment and the conversion of Gavel's traces.

Source: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI
2020.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import FloatArray, IntArray

ModelKey = tuple[str, int | None]
"""A model and its batch; None for a model without a batch."""


class SpeedRow(NamedTuple):
    """Speed of one job alone."""

    model: str
    batch: int | None
    gpus: int
    gpu_type: str
    consolidated: bool
    """Whether all GPUs are on one server; always, for one GPU."""
    steps_per_s: float
    """Mini-batches per second of all GPUs together; 0 where the job cannot run."""


class PairRow(NamedTuple):
    """Speeds of two jobs of one GPU each on one GPU; 0 where they cannot share it."""

    gpu_type: str
    model_a: str
    batch_a: int | None
    model_b: str
    batch_b: int | None
    steps_per_s_a: float
    steps_per_s_b: float


@dataclass(frozen=True)
class SpeedTable:
    """Measured speeds; equal rows in another order are the same table."""

    name: str
    """Bundled table, or name of the file."""
    rows: tuple[SpeedRow, ...]
    """Sorted, one per key."""
    pairs: tuple[PairRow, ...] = ()
    """Sorted, one per type and unordered pair."""

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of all rows and pairs; the name does not enter."""
        return hashlib.sha256(json.dumps([self.rows, self.pairs]).encode()).hexdigest()

    def speeds(
        self,
        models: Sequence[str],
        batch: FloatArray,
        gpus: IntArray,
        types: Sequence[str],
        *,
        nearest: bool = False,
    ) -> FloatArray:
        """(J, T, 2) steps per second on one server and over several, which are equal for one GPU.

        0 where a job cannot run, NaN where that was not measured.

        Parameters
        ----------
        models, batch, gpus : (J,) each; batch is NaN for a model without one
        types : (T,) GPU types, by name
        nearest : whether a number of GPUs n that was measured on no type has n/k times the speed of the
            largest measured k < n
        """
        column = {gpu_type: t for t, gpu_type in enumerate(types)}
        keys = list(zip(_keys(models, batch), gpus.tolist(), strict=True))
        found = {key: self._speed(*key, column, nearest=nearest) for key in dict.fromkeys(keys)}
        return np.array([found[key] for key in keys]).reshape(-1, len(types), 2)

    def pair_speeds(self, models: Sequence[str], batch: FloatArray, types: Sequence[str]) -> FloatArray:
        """(U, U, 2, T) steps per second of the first and the second of two jobs of one GPU that share it.

        0 where they cannot share it, NaN where that was not measured.

        Parameters
        ----------
        models, batch : (U,) each, as in `speeds`, no two alike
        """
        column = {gpu_type: t for t, gpu_type in enumerate(types)}
        number = {key: u for u, key in enumerate(_keys(models, batch))}
        speed: FloatArray = np.full((len(number), len(number), 2, len(types)), np.nan)
        for row in self.pairs:
            a, b = number.get((row.model_a, row.batch_a)), number.get((row.model_b, row.batch_b))
            if a is not None and b is not None and row.gpu_type in column:
                both = row.steps_per_s_a, row.steps_per_s_b
                speed[b, a, :, column[row.gpu_type]] = both[::-1]
                speed[a, b, :, column[row.gpu_type]] = both
        return speed

    @cached_property
    def _by_key(self) -> Mapping[ModelKey, Mapping[int, Sequence[SpeedRow]]]:
        """Rows by model, batch and number of GPUs."""
        found: dict[ModelKey, dict[int, list[SpeedRow]]] = defaultdict(dict)
        for row in self.rows:
            found[row.model, row.batch].setdefault(row.gpus, []).append(row)
        return dict(found)

    def _speed(self, key: ModelKey, gpus: int, column: Mapping[str, int], *, nearest: bool) -> FloatArray:
        """(T, 2) speed of one job, see `speeds`."""
        speed: FloatArray = np.full((len(column), 2), np.nan)
        measured = self._by_key.get(key, {})
        scaled = nearest and gpus not in measured
        taken = max((k for k in measured if k < gpus), default=gpus) if scaled else gpus
        for row in measured.get(taken, ()):
            if row.gpu_type in column:
                apart = slice(None) if taken == 1 else int(not row.consolidated)
                speed[column[row.gpu_type], apart] = row.steps_per_s * (gpus / taken)
        return speed


def _keys(models: Sequence[str], batch: FloatArray) -> list[ModelKey]:
    return [
        (model, None if each != each else int(each))
        for model, each in zip(models, batch.tolist(), strict=True)
    ]
