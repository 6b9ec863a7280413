"""Layers of Harmony's networks: names and sizes, and parameters to begin training with.

docs/models/harmony.md#networks has the equations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ray_sim.model.streams import Streams

F32 = npt.NDArray[np.float32]

Parameters = Mapping[str, F32]
"""Arrays of a network: ``NAME.weight``, (inputs, outputs), and ``NAME.bias``, (outputs,), of each layer."""

STATE = ("type", "demands", "workers", "ps", "free", "placement")
"""Entries of an observation of `ray_sim/Placement-v1` that the networks see: x, r, w, p, v, d."""

ROLES = 2
"""Workers and parameter servers."""

_FIRST_HIDDEN = "hidden_0"

_LAST_LAYER_SCALE = 0.01
"""Small, so that a network before training prefers no action much."""


class Form(StrEnum):
    """How a network joins the blocks of jobs and servers."""

    DENSE = "dense"
    """Blocks are concatenated: for one number of servers."""
    SHARED = "shared"
    """Each pair of a new job and a server has a score from common weights: for any number of servers."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes of a policy network and of its value network."""

    form: Form
    types: int
    """L, types of jobs."""
    resources: int
    """R."""
    servers: int
    """S of the form `Form.DENSE`; 0 for any number."""
    most_jobs: int
    """N, rows of jobs in an observation."""
    most_new: int
    """N', new jobs among them."""
    block: int
    """Outputs of the layers of a job and of a server."""
    hidden: tuple[int, ...]
    """Outputs of the hidden layers after the blocks, at least one."""

    @property
    def job_features(self) -> int:
        """Type, demands, workers and parameter servers placed so far."""
        return self.types + 2 * (1 + self.resources) + ROLES

    def policy_layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of each layer of the policy network, by name, in order."""
        if self.form is Form.DENSE:
            return self._layers(self._all_blocks, "actions", ROLES * self.servers * self.most_new)
        return self._layers(4 * self.block + ROLES, "scores", ROLES)

    def value_layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of each layer of the value network, by name, in order."""
        if self.form is Form.DENSE:
            return self._layers(self._all_blocks, "value", 1)
        pairs = {
            "pair": (2 * self.block + ROLES, self.block),
            "placed": (2 * self.block, self.block),
        }
        return {**pairs, **self._layers(4 * self.block, "value", 1)}

    @property
    def _all_blocks(self) -> int:
        return (self.most_jobs + self.servers) * self.block

    def _layers(self, joined: int, last: str, outputs: int) -> dict[str, tuple[int, int]]:
        held = ROLES * (self.most_jobs if self.form is Form.DENSE else self.block)
        sizes = (joined, *self.hidden, outputs)
        names = [*(f"hidden_{i}" for i in range(len(self.hidden))), last]
        return {
            "job": (self.job_features, self.block),
            "server": (self.resources + held, self.block),
            **dict(zip(names, pairwise(sizes), strict=True)),
        }


def parameter_shapes(layers: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays of a network, by name, in order."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, (inputs, outputs) in layers.items():
        shapes[f"{name}.weight"] = (inputs, outputs)
        shapes[f"{name}.bias"] = (outputs,)
    return shapes


def initial_parameters(
    layers: Mapping[str, tuple[int, int]], streams: Streams, purpose: str
) -> dict[str, F32]:
    """Parameters before training: uniform weights, and biases of 0.

    Weights of a layer with n inputs are in [-1 / sqrt(n), 1 / sqrt(n)]; those of the first hidden layer in
    sqrt(6) times that (He et al., ICCV 2015); those of the last layer in a hundredth.
    Layer i draws from the stream (``purpose``, i).
    """
    found: dict[str, F32] = {}
    for i, (name, (inputs, outputs)) in enumerate(layers.items()):
        most = ((6.0 if name == _FIRST_HIDDEN else 1.0) / inputs) ** 0.5
        most *= _LAST_LAYER_SCALE if i == len(layers) - 1 else 1.0
        draws = streams.generator(purpose, i).uniform(-most, most, (inputs, outputs))
        found[f"{name}.weight"] = draws.astype(np.float32)
        found[f"{name}.bias"] = np.zeros(outputs, dtype=np.float32)
    return found
