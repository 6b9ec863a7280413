"""Placements of running jobs with the speed of each: what the reward model of Harmony is fitted to.

A sample is what all running jobs of a cluster hold at an instant. The traces come from a mixture of
heuristics with noise (Bao, Peng, Wu: Deep Learning-based Job Placement in Distributed Machine Learning
Clusters, INFOCOM 2019); which heuristics and how much noise is ours, see docs/training_harmony.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.environments.episodes import Episode
from ray_sim.kernels.core.arrays import RUNNING
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.learning.exploration import RULES, rule_actions
from ray_sim.learning.lanes import Lane, capacity_shares, shown_together
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.progress_rule import rows_of
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray

LANES = 64
"""Most episodes that are stepped together to draw samples."""

NOISE = (0.0, 0.1, 0.5, 1.0)
"""Shares of random actions. Lanes 2 i and 2 i + 1 pack and balance, with noise number i modulo 4."""

KEPT_SHARE = 0.5
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


class SpeedRecorder:
    """Keeps a random share of the placements that it is shown, with the speeds that jobs have in them."""

    def __init__(self, models: Sequence[str], share: float, draw: np.random.Generator) -> None:
        """Without samples.

        Parameters
        ----------
        models : types by number
        share : of the placements that are kept, in (0, 1]
        """
        self._models, self._share, self._draw = models, share, draw
        self.parts: list[SpeedSamples] = []

    def __call__(self, simulation: Simulation) -> None:
        """Keep the placements of the running jobs of a run, or not."""
        core = simulation.core
        jobs = np.flatnonzero(core.ledger.status == RUNNING)
        if self._draw.random() >= self._share or not len(jobs):
            return
        kind, speed = types_of(core.world, self._models)[jobs], core.ledger.rate[jobs] * US_PER_S
        tasks = tasks_by_server(rows_of(core.placements, jobs), len(core.world.cluster))
        self.parts.append(SpeedSamples(kind[None], tasks[None], speed[None]))


def types_of(world: World, models: Sequence[str]) -> IntArray:
    """(J,) number of the model of each job among ``models``, -1 for none."""
    profile = ElasticFacts.in_world(world).profile
    return np.array([*(models.index(name) for name in profile.model_names), -1])[profile.model]


def tasks_by_server(rows: Rows, servers: int) -> IntArray:
    """(n, 2, S) workers and parameter servers of n jobs on each server."""
    tasks = np.zeros((len(rows.ptr) - 1, 2, servers), dtype=np.int64)
    tasks[np.arange(len(tasks)).repeat(np.diff(rows.ptr)), rows.role, rows.server] = rows.tasks
    return tasks


def draw_samples(episodes: Sequence[Episode], models: Sequence[str], samples: int, seed: int) -> SpeedSamples:
    """Draw samples with true speeds from episodes in which rules and chance place the jobs.

    Parameters
    ----------
    episodes : at most `LANES` of them are played at once, each again when all have been
    models : types by number
    samples : exactly so many are drawn

    Raises
    ------
    InvalidInputError, InvalidScenarioError : see `PlacementEnv`; or no samples are asked for
    """
    if samples < 1:
        raise InvalidInputError(f"samples: must be at least 1, got {samples}")
    streams = Streams(seed)
    draw = streams.generator("speed-samples-actions")
    recorder = SpeedRecorder(models, KEPT_SHARE, streams.generator("speed-samples-kept"))
    count = min(LANES, len(episodes))
    lanes = [Lane(episodes[e::count], models, placed=recorder) for e in range(count)]
    seen, capacity = shown_together(lanes), capacity_shares(episodes[0].world)
    lane = np.arange(count)
    noise = np.array(NOISE)[lane // 2 % len(NOISE)]
    while len(recorder.parts) < samples:
        mask = seen[ACTION_MASK]
        by_chance = (draw.random(mask.shape, dtype=np.float32) * mask).argmax(axis=1)
        by_rule = rule_actions(seen, capacity)[lane % RULES, lane]
        actions = np.where(draw.random(count) < noise, by_chance, by_rule)
        for each, action in zip(lanes, actions.tolist(), strict=True):
            each.act(action)
    return joined(recorder.parts).part(slice(samples))
