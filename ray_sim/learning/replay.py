"""First-in-first-out buffer of samples of past intervals: observations of Placement-v0 and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.agents.features import ACTION_MASK
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.harmony.architecture import STATE

Observations = Mapping[str, npt.NDArray[np.float32] | npt.NDArray[np.int8]]
"""Entries of observations of several episodes by name, each with a leading axis of states."""

ENTRIES = (*STATE, ACTION_MASK)
"""Entries that networks need and training keeps; docs/environments.md describes them."""


class ReplayBatch(NamedTuple):
    """n samples for one step of training."""

    observations: Observations
    action: IntArray
    log_probability: FloatArray
    """Of the action when it was taken."""
    returns: FloatArray
    """Q of the action, computed when it was added."""
    baseline: FloatArray
    """V of the state then; a later V would follow these very returns, and with it what is left of an
    advantage."""


class Replay:
    """The last samples, up to a number; when a new one comes, the oldest goes."""

    def __init__(self, capacity: int, streams: Streams) -> None:
        self._capacity, self._streams = capacity, streams
        self._kept: ReplayBatch | None = None

    def __len__(self) -> int:
        return 0 if self._kept is None else len(self._kept.action)

    def put(self, new: ReplayBatch) -> None:
        """Add a batch, the oldest first."""
        self._kept = _last(new if self._kept is None else _joined(self._kept, new), self._capacity)

    def forget(self) -> None:
        """Remove all samples."""
        self._kept = None

    @property
    def kept(self) -> ReplayBatch | None:
        """All samples, the oldest first; None if there are none."""
        return self._kept

    def minibatch(self, size: int, step: int) -> ReplayBatch:
        """Draw samples with replacement, by the stream of this step of training."""
        assert self._kept is not None, "nothing was added"
        rows = self._streams.generator("harmony-minibatch", step).integers(0, len(self), size)
        return _rows(self._kept, rows)


def _joined(one: ReplayBatch, other: ReplayBatch) -> ReplayBatch:
    return ReplayBatch(
        {name: np.concatenate([array, other.observations[name]]) for name, array in one.observations.items()},
        np.concatenate([one.action, other.action]),
        np.concatenate([one.log_probability, other.log_probability]),
        np.concatenate([one.returns, other.returns]),
        np.concatenate([one.baseline, other.baseline]),
    )


def _last(batch: ReplayBatch, count: int) -> ReplayBatch:
    return _rows(batch, slice(-count, None))


def _rows(batch: ReplayBatch, rows: IntArray | slice) -> ReplayBatch:
    return ReplayBatch(
        {name: array[rows] for name, array in batch.observations.items()},
        batch.action[rows],
        batch.log_probability[rows],
        batch.returns[rows],
        batch.baseline[rows],
    )
