"""A reward model as arrays by name, for the state of a training.

The trainer saves them and continues from them. Names of arrays are those of snapshots: after a change, older
snapshots of trainings do not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, takewhile

import numpy as np

from ray_sim.learning.reward_model import Layer, RewardModel, SharedRewardModel


def model_arrays(model: RewardModel) -> dict[str, np.ndarray]:
    """Arrays of a model of the shared form."""
    assert isinstance(model, SharedRewardModel), "a training fits the shared form"
    parts = {"cell": model.cell_layers, "job": model.job_layers}
    return {
        f"{name}.{i}.{field}": getattr(layer, field)
        for name, layers in parts.items()
        for i, layer in enumerate(layers)
        for field in Layer._fields
    }


def model_of(arrays: Mapping[str, np.ndarray], types: int) -> RewardModel:
    """The model of `model_arrays`, for so many types of jobs."""

    def layers(name: str) -> tuple[Layer, ...]:
        numbers = takewhile(lambda i: f"{name}.{i}.weight" in arrays, count())
        return tuple(Layer(*(arrays[f"{name}.{i}.{field}"] for field in Layer._fields)) for i in numbers)

    return SharedRewardModel(types, layers("cell"), layers("job"))
