"""A policy network that chooses an action in every episode of a batch, without PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.handle import handle
from ray_sim.learning.choice_kernels import Shown, all_dense_logits, all_shared_logits
from ray_sim.learning.observations import ENTRIES, Observations
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import FloatArray
from ray_sim.policies.harmony.architecture import F32, Architecture, Form, Parameters
from ray_sim.policies.harmony.network import joined_layers, state_inputs, work_space


class BatchedPolicy:
    """Forward pass for all episodes of a batch; it reads the arrays of their observations in place."""

    def __init__(
        self, architecture: Architecture, parameters: Parameters, observations: Observations
    ) -> None:
        episodes, servers = observations["free"].shape[:2]
        entries: Iterator[Any] = (observations[name] for name in ENTRIES)
        shown = Shown(*entries)
        self._forward = all_dense_logits if architecture.form is Form.DENSE else all_shared_logits
        self._arguments = (
            handle(joined_layers(architecture, parameters)),
            handle(shown),
            handle(state_inputs(architecture, servers)),
            handle(work_space(architecture, servers)),
        )
        self._logits = np.empty((episodes, shown.mask.shape[1]), dtype=np.float32)

    def probabilities(self) -> FloatArray:
        """(E, N' x 2 x S) of each action, 0 where it is not valid; rows sum to 1.

        Raises
        ------
        RunFailedError : logits overflow
        """
        found = self._rated().astype(np.float64)
        found -= found.max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def best(self) -> I64:
        """(E,) valid action of the largest logit, the lowest of equals.

        Raises
        ------
        RunFailedError : logits overflow
        """
        found: I64 = self._rated().argmax(axis=1)
        return found

    def _rated(self) -> F32:
        """(E, N' x 2 x S) logits; overwritten by the next call."""
        self._forward(*self._arguments, self._logits)
        if not np.isfinite(self._logits.max(axis=1)).all():  # the largest is NaN where one is
            raise RunFailedError(
                "training: the network rates an action by no finite number: its weights are too large; lower "
                "learning_rate"
            )
        return self._logits
