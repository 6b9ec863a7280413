"""Placements of running jobs with the speed of each: what the reward model of Harmony is fitted to.

A sample is what all running jobs of a cluster hold at an instant. The traces come from a mixture of
heuristics with noise (Bao, Peng, Wu: Deep Learning-based Job Placement in Distributed Machine Learning
Clusters, INFOCOM 2019); which heuristics and how much noise is ours, see docs/training_harmony.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.learning.batch_arrays import F32
from ray_sim.learning.model_world import ModelWorld
from ray_sim.learning.speeds import Running, SpeedModel, true_speeds
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray

LANES = 64
"""Most episodes that are stepped together to draw samples."""

NOISE = (0.0, 0.1, 0.5, 1.0)
"""Shares of random actions. Lanes 2 i and 2 i + 1 balance and pack, with noise number i modulo 4."""

KEPT_SHARE = 0.25
"""Share of the placements met that become samples: consecutive ones are much alike."""


@dataclass(frozen=True, slots=True)
class SpeedSamples:
    """Measured speeds: n samples of at most K jobs on S servers."""

    kind: IntArray
    """(n, K) type of each job, -1 where there is none."""
    tasks: IntArray
    """(n, K, 2, S) its workers and parameter servers on each server."""
    speed: FloatArray
    """(n, K) samples per second, 0 where there is no job. An epoch of a job is a fixed number of samples, so
    the relative error is the same in epochs."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def measured(self) -> BoolArray:
        """(n, K) jobs with a speed above 0; others have no relative error and are left out."""
        there: BoolArray = (self.kind >= 0) & (self.speed > 0)
        return there

    @property
    def dropped(self) -> int:
        """Number of jobs that are left out, as their measured speed is 0."""
        return int(((self.kind >= 0) & (self.speed <= 0)).sum())

    def part(self, chosen: IntArray | slice) -> SpeedSamples:
        """Some of the samples."""
        return SpeedSamples(self.kind[chosen], self.tasks[chosen], self.speed[chosen])


def joined(parts: Sequence[SpeedSamples]) -> SpeedSamples:
    """All samples of several parts, with as many columns of jobs as the widest has."""
    most = max(part.kind.shape[1] for part in parts)

    def padded(array: np.ndarray, fill: int) -> np.ndarray:
        more = [(0, 0), (0, most - array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
        return np.pad(array, more, constant_values=fill)

    return SpeedSamples(
        np.concatenate([padded(part.kind, -1) for part in parts]),
        np.concatenate([padded(part.tasks, 0) for part in parts]),
        np.concatenate([padded(part.speed, 0) for part in parts]),
    )


class RecordedSpeeds:
    """A model of speeds that keeps a random share of what it is asked and answers."""

    def __init__(self, speeds: SpeedModel, kind: IntArray, share: float, draw: np.random.Generator) -> None:
        """Record it.

        Parameters
        ----------
        kind : (J,) type of each job
        share : of the samples that are kept, in (0, 1]
        """
        self._speeds, self._kind, self._share, self._draw = speeds, kind, share, draw
        self.parts: list[SpeedSamples] = []
        self.count = 0
        """Number of samples kept."""

    def rates(self, running: Running) -> F64:
        """See `SpeedModel.rates`."""
        rates = self._speeds.rates(running)
        kept = np.flatnonzero(self._draw.random(len(rates)) < self._share)
        if len(kept):
            job = running.job[kept]
            kind = np.where(job >= 0, self._kind[job], -1)
            self.parts.append(SpeedSamples(kind, running.tasks[kept], rates[kept] * US_PER_S))
            self.count += len(kept)
        return rates


def draw_samples(worlds: Sequence[World], models: Sequence[str], samples: int, seed: int) -> SpeedSamples:
    """Draw samples with true speeds from episodes in which heuristics and chance place the jobs.

    Parameters
    ----------
    worlds : see `ModelWorld`; at most `LANES` of them at once, each again when all have been run
    models : types by number
    samples : exactly so many are drawn

    Raises
    ------
    InvalidInputError, InvalidScenarioError : see `ModelWorld`; or no samples are asked for
    """
    if samples < 1:
        raise InvalidInputError(f"samples: must be at least 1, got {samples}")
    streams = Streams(seed)
    draw = streams.generator("speed-samples-actions")
    batch = ModelWorld(worlds, true_speeds(worlds), episodes=min(LANES, len(worlds)), models=models)
    recorded = RecordedSpeeds(
        batch.speeds, batch.sets.model, KEPT_SHARE, streams.generator("speed-samples-kept")
    )
    batch.speeds = recorded
    lane = np.arange(len(batch))
    packs, noise = lane % 2 == 1, np.array(NOISE)[lane // 2 % len(NOISE)]
    while recorded.count < samples:
        chosen = heuristic_actions(batch, packs)
        by_chance = draw.random(len(batch)) < noise
        batch.step(np.where(by_chance, random_actions(batch, draw), chosen))
    return joined(recorded.parts).part(slice(samples))


def random_actions(batch: ModelWorld, draw: np.random.Generator) -> I64:
    """(E,) a valid action for each episode, each as likely."""
    mask = batch.mask
    chosen: I64 = (draw.random(mask.shape, dtype=np.float32) * mask).argmax(axis=1)
    return chosen


def heuristic_actions(batch: ModelWorld, packs: BoolArray) -> I64:
    """(E,) the next task of each episode on the emptiest server with room, or where ``packs`` the fullest.

    The next task is the first that has a place: of the first new job, its workers first. A server's load
    follows from its free resources as shares of the largest server, summed. Ties: the lowest server.
    """
    free: F32 = batch.free_shares.sum(axis=2)
    valid = batch.mask.reshape(len(batch), -1, free.shape[1])
    task = valid.any(axis=2).argmax(axis=1)
    here = valid[np.arange(len(batch)), task] == 1
    score = np.where(here, np.where(packs[:, None], free, -free), np.inf)
    chosen: I64 = task * free.shape[1] + score.argmin(axis=1)
    return chosen
