"""A policy network that rates the actions of one state, without PyTorch."""

from __future__ import annotations

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.agents.round import Observation
from ray_sim.kernels.handle import handle
from ray_sim.model.units import IntArray
from ray_sim.policies.harmony.architecture import (
    F32,
    ROLES,
    Architecture,
    Form,
    Parameters,
    parameter_shapes,
)
from ray_sim.policies.harmony.network_kernels import (
    Layers,
    NetworkInputs,
    Work,
    best_action,
    dense_logits,
    shared_logits,
)


class PolicyNetwork:
    """Forward pass for observations of one number of servers.

    Parameters
    ----------
    parameters : arrays by name, with the shapes of `Architecture.policy_layers`
    servers : S
    resources : (resources of the observations,) column of the network for each
    """

    def __init__(
        self, architecture: Architecture, parameters: Parameters, servers: int, resources: IntArray
    ) -> None:
        self._architecture = architecture
        self._tasks_asked = [0, 1 + architecture.resources]
        self._free_columns = resources
        self._demand_columns = np.concatenate(
            [start + np.array([0, *(1 + resources)]) for start in self._tasks_asked]
        )
        self._seen = state_inputs(architecture, servers)
        layers, work = joined_layers(architecture, parameters), work_space(architecture, servers)
        self._logits = np.empty(len(self._seen.mask), dtype=np.float32)
        self._handles = handle(layers), handle(self._seen), handle(work)

    def logits(self, observation: Observation) -> F32:
        """(N' x 2 x S,) of each action, -inf where it is not valid; overwritten by the next call."""
        self._show(observation)
        layers, seen, work = self._handles
        forward = dense_logits if self._architecture.form is Form.DENSE else shared_logits
        forward(layers, seen, work, self._logits)
        return self._logits

    def best(self, observation: Observation) -> int:
        """The valid action of the largest logit, so of the largest probability; the lowest of equals.

        -1 where logits overflow, so that there are no probabilities.
        """
        return int(best_action(self.logits(observation)))

    def _show(self, observation: Observation) -> None:
        """Fill the inputs of the kernels."""
        seen, types = self._seen, self._architecture.types
        asked = seen.jobs[:, types:-ROLES]
        seen.jobs[:, :types] = observation["type"]
        asked[:, self._demand_columns] = observation["demands"]
        seen.jobs[:, -ROLES] = observation["workers"]
        seen.jobs[:, -ROLES + 1] = observation["ps"]
        seen.present[:] = (asked[:, self._tasks_asked] > 0).any(axis=1)
        seen.free[:, self._free_columns] = observation["free"]
        seen.placement[:] = observation["placement"]
        seen.mask[:] = observation[ACTION_MASK]


def state_inputs(architecture: Architecture, servers: int) -> NetworkInputs:
    """Arrays for one state of so many servers."""
    rows = architecture.most_jobs
    return NetworkInputs(
        jobs=np.zeros((rows, architecture.job_features), dtype=np.float32),
        present=np.zeros(rows, dtype=np.int8),
        free=np.zeros((servers, architecture.resources), dtype=np.float32),
        placement=np.zeros((servers, ROLES * rows), dtype=np.float32),
        mask=np.zeros(architecture.most_new * ROLES * servers, dtype=np.int8),
    )


def joined_layers(architecture: Architecture, parameters: Parameters) -> Layers:
    """The parameters in one array."""
    layers = architecture.policy_layers()
    sizes = np.array(list(layers.values()), dtype=np.int64)
    lengths = (sizes[:, 0] + 1) * sizes[:, 1]
    return Layers(
        parameters=np.concatenate([parameters[name].ravel() for name in parameter_shapes(layers)]),
        start=np.cumsum(lengths) - lengths,
        inputs=sizes[:, 0].copy(),
        outputs=sizes[:, 1].copy(),
    )


def work_space(architecture: Architecture, servers: int) -> Work:
    """Work space of the kernels for one state of so many servers."""
    width, first = architecture.block, architecture.hidden[0]
    widest = max(outputs for _, outputs in architecture.policy_layers().values())

    def zeros(*shape: int) -> F32:
        return np.zeros(shape, dtype=np.float32)

    return Work(
        held=zeros(2 * width),
        blocks=zeros(architecture.most_jobs + servers, width),
        context=zeros(2 * width),
        first=zeros(architecture.most_new + servers + 1, first),
        one=zeros(widest),
        other=zeros(widest),
    )
