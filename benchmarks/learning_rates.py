"""Placements per CPU second of the batched world, in one thread. Arguments: lanes, steps, sets of jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from benchmarks.children import answer
from benchmarks.harmony_worlds import harmony_worlds
from ray_sim.learning.model_world import ModelWorld, model_columns
from ray_sim.learning.reward_model import ModelledSpeeds
from ray_sim.learning.reward_training import RewardTraining, fit_reward_model
from ray_sim.learning.speed_samples import draw_samples, random_actions
from ray_sim.learning.speeds import SpeedModel, true_speeds
from ray_sim.model.streams import Streams

_SAMPLES = 2_000
"""Samples to which the reward model is fitted; its speed does not depend on them."""

_BLOCK, _HIDDEN = 32, (196, 196, 128)
"""Neurons of the block layers and of the hidden layers of the policy network."""

_LEAST_NOISE = np.float32(1e-30)

F32 = npt.NDArray[np.float32]
Actions = npt.NDArray[np.int64]


def placements_per_s(lanes: int, steps: int, sets: int) -> dict[str, float]:
    """Placements per CPU second by a random policy and by a network of the published size."""
    worlds = harmony_worlds(sets, seed=1)
    models = model_columns(worlds)
    samples = draw_samples(worlds, models, _SAMPLES, seed=1)
    model = fit_reward_model(samples, samples, len(models), RewardTraining(), seed=1).model
    batch = ModelWorld(worlds, true_speeds(worlds), episodes=lanes, models=models)
    modelled = ModelledSpeeds(model, batch.sets.model)
    draw = Streams(1).generator("benchmark-learning")
    network = _Network(batch, draw)
    cases: dict[str, tuple[SpeedModel, Callable[[], Actions]]] = {
        "truth": (batch.speeds, lambda: random_actions(batch, draw)),
        "model": (modelled, lambda: random_actions(batch, draw)),
        "model-and-network": (modelled, lambda: network.actions(batch, draw)),
    }
    rates = {}
    for case, (speeds, choose) in cases.items():
        batch.speeds = speeds
        batch.step(choose())  # compiles
        began = time.process_time()
        for _ in range(steps):
            batch.step(choose())
        rates[case] = lanes * steps / (time.process_time() - began)
    return rates


class _Network:
    """A forward pass of the published size: a layer per block, hidden layers, a score of each action."""

    def __init__(self, batch: ModelWorld, draw: np.random.Generator) -> None:
        shown = batch.observations()
        job = sum(shown[name].shape[-1] for name in ("type", "demands")) + 2
        server = shown["free"].shape[-1] + shown["placement"].shape[-1]
        blocks = shown["type"].shape[1] + shown["free"].shape[1]
        sizes = (blocks * _BLOCK, *_HIDDEN, batch.mask.shape[1])
        self._job, self._server = _weights(draw, job, _BLOCK), _weights(draw, server, _BLOCK)
        self._layers = [_weights(draw, *pair) for pair in pairwise(sizes)]

    def actions(self, batch: ModelWorld, draw: np.random.Generator) -> Actions:
        """A valid action for each episode, by its probability."""
        shown, lanes = cast("Mapping[str, F32]", batch.observations()), len(batch)
        of_job = [shown["type"], shown["demands"], shown["workers"][..., None], shown["ps"][..., None]]
        jobs = np.maximum(np.concatenate(of_job, axis=2) @ self._job, 0)
        servers = np.concatenate([shown["free"], shown["placement"]], axis=2) @ self._server
        blocks = [jobs.reshape(lanes, -1), np.maximum(servers, 0).reshape(lanes, -1)]
        values: F32 = np.concatenate(blocks, axis=1)
        for layer in self._layers[:-1]:
            values = np.maximum(values @ layer, 0)
        logits = np.where(batch.mask == 1, values @ self._layers[-1], -np.inf)
        noise = draw.standard_exponential(logits.shape, dtype=np.float32)  # Gumbel's trick
        chosen: Actions = (logits - np.log(np.maximum(noise, _LEAST_NOISE))).argmax(axis=1)
        return chosen


def _weights(draw: np.random.Generator, inputs: int, outputs: int) -> F32:
    weights: F32 = (draw.standard_normal((inputs, outputs)) / np.sqrt(inputs)).astype(np.float32)
    return weights


if __name__ == "__main__":
    answer(placements_per_s(*map(int, sys.argv[1:])))
