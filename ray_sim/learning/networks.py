"""The networks of Harmony in PyTorch, for batches of states.

The parameters have the names and shapes of `ray_sim.policies.harmony.architecture`, so that they go to and
from checkpoints as they are; docs/models/harmony.md#networks has the equations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.pytorch import Tensor, nn, torch
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import (
    F32,
    ROLES,
    STATE,
    Architecture,
    Form,
    Parameters,
    initial_parameters,
)

States = Mapping[str, Tensor]
"""Entries of `STATE`, with a leading axis E, and the mask as booleans."""


def states_of(observations: Mapping[str, np.ndarray], dtype: torch.dtype = torch.float32) -> States:
    """Observations with a leading axis E as tensors."""
    entries = {name: torch.as_tensor(observations[name]).to(dtype) for name in STATE}
    return {**entries, ACTION_MASK: torch.as_tensor(observations[ACTION_MASK]).bool()}


class Network(nn.Module):
    """Base of both networks: layers by name."""

    def __init__(self, architecture: Architecture, parameters: Parameters) -> None:
        super().__init__()
        self.architecture = architecture
        self.arrays = nn.ParameterDict()
        for name, array in parameters.items():  # given a dict, it would sort the names
            self.arrays[name.replace(".", "-")] = nn.Parameter(torch.as_tensor(array).clone())

    def layer(self, name: str, x: Tensor) -> Tensor:
        """``x`` times the matrix of a layer, plus its bias."""
        return x @ self.arrays[f"{name}-weight"] + self.arrays[f"{name}-bias"]

    def hidden(self, x: Tensor) -> Tensor:
        """The hidden layers after the first one, whose outputs are ``x`` before they are rectified."""
        for i in range(1, len(self.architecture.hidden)):
            x = self.layer(f"hidden_{i}", torch.relu(x))
        return torch.relu(x)

    def parameters_by_name(self) -> dict[str, F32]:
        """Copies of the parameters, by the names of checkpoints."""
        return {
            name.replace("-", "."): array.detach().cpu().numpy().astype(np.float32, copy=True)
            for name, array in self.arrays.items()
        }

    def blocks(self, states: States) -> tuple[Tensor, Tensor]:
        """Blocks of jobs, (E, N, B), and of servers, (E, S, B)."""
        placed = torch.stack([states["workers"], states["ps"]], dim=2)
        jobs = torch.relu(self.layer("job", torch.cat([states["type"], states["demands"], placed], dim=2)))
        held = states["placement"]
        if self.architecture.form is Form.SHARED:
            held = torch.cat([held[:, :, role::ROLES] @ jobs for role in range(ROLES)], dim=2)
        servers = torch.relu(self.layer("server", torch.cat([states["free"], held], dim=2)))
        return jobs, servers

    def shown(self, states: States) -> Tensor:
        """(E, N, 1) whether a row has a job."""
        asked = states["demands"][:, :, [0, 1 + self.architecture.resources]]
        return (asked > 0).any(dim=2, keepdim=True)

    def context(self, states: States, jobs: Tensor, servers: Tensor) -> Tensor:
        """(E, 2 B) sums of the blocks of shown jobs, and of servers, over the number of servers."""
        return (
            torch.cat([(jobs * self.shown(states)).sum(dim=1), servers.sum(dim=1)], dim=1) / servers.shape[1]
        )


class PolicyNet(Network):
    """Logits of actions."""

    def forward(self, states: States) -> Tensor:
        """(E, N' x 2 x S) logits, of valid actions or not."""
        jobs, servers = self.blocks(states)
        if self.architecture.form is Form.DENSE:
            joined = torch.cat([jobs.flatten(1), servers.flatten(1)], dim=1)
            return self.layer("actions", self.hidden(self.layer("hidden_0", joined)))
        return self._scores(states, jobs[:, : self.architecture.most_new], servers, jobs)

    def _scores(self, states: States, new: Tensor, servers: Tensor, jobs: Tensor) -> Tensor:
        """(E, N' x 2 x S) scores of actions; 0 for pairs of a new job and a server without a valid action."""
        sizes = (new.shape[1], ROLES, servers.shape[1])
        episode, job, server = states[ACTION_MASK].unflatten(1, sizes).any(dim=2).nonzero(as_tuple=True)
        pairs = self._first_of_pairs(states, new, servers, jobs)[episode, job, server]
        scores = torch.zeros(len(new), sizes[0], sizes[2], ROLES, dtype=pairs.dtype)
        scores = scores.index_put((episode, job, server), self.layer("scores", self.hidden(pairs)))
        return scores.permute(0, 1, 3, 2).flatten(1)

    def _first_of_pairs(self, states: States, new: Tensor, servers: Tensor, jobs: Tensor) -> Tensor:
        """(E, N', S, H) outputs of the first hidden layer for each new job and server.

        The layer is a sum of a part of the job, one of the server, and one of the context, so that the large
        products are not computed for each pair.
        """
        width = self.architecture.block
        weight = self.arrays["hidden_0-weight"]
        of_job, of_server, of_context, of_held = weight.split([width, width, 2 * width, ROLES])
        common = self.context(states, jobs, servers) @ of_context + self.arrays["hidden_0-bias"]
        held = states["placement"][:, :, : ROLES * new.shape[1]].unflatten(2, (new.shape[1], ROLES))
        return (
            (new @ of_job)[:, :, None]
            + (servers @ of_server)[:, None]
            + common[:, None, None]
            + held.transpose(1, 2) @ of_held
        )


class ValueNet(Network):
    """Expected return of a state."""

    def forward(self, states: States) -> Tensor:
        """(E,)."""
        jobs, servers = self.blocks(states)
        if self.architecture.form is Form.DENSE:
            joined = torch.cat([jobs.flatten(1), servers.flatten(1)], dim=1)
        else:
            joined = torch.cat(
                [self.context(states, jobs, servers), self._placed(states, jobs, servers)], dim=1
            )
        return self.layer("value", self.hidden(self.layer("hidden_0", joined))).squeeze(1)

    def _placed(self, states: States, jobs: Tensor, servers: Tensor) -> Tensor:
        """(E, 2 B) sums over pairs of a job and a server that has tasks of it, and over jobs with their
        pairs.

        Sums over the tasks of a server alone do not tell whose they are, so not which jobs lie on one server
        only.
        """
        rows, count = jobs.shape[1], servers.shape[1]
        held = states["placement"].unflatten(2, (rows, ROLES)).transpose(1, 2)
        episode, job, server = held.sum(dim=3).nonzero(as_tuple=True)
        of_pair = [jobs[episode, job], servers[episode, server], held[episode, job, server]]
        pairs = torch.relu(self.layer("pair", torch.cat(of_pair, dim=1)))
        of_jobs = torch.zeros_like(jobs).flatten(0, 1).index_add(0, episode * rows + job, pairs)
        of_jobs = of_jobs.unflatten(0, (len(jobs), rows))
        placed = torch.relu(self.layer("placed", torch.cat([jobs, of_jobs], dim=2)))
        shown = self.shown(states)
        return torch.cat([of_jobs.sum(dim=1), (placed * shown).sum(dim=1)], dim=1) / count


def new_policy(architecture: Architecture, streams: Streams) -> PolicyNet:
    """A policy network before training; its weights depend on the seed of the streams only."""
    layers = architecture.policy_layers()
    return PolicyNet(architecture, initial_parameters(layers, streams, "harmony-policy-weights"))


def new_value(architecture: Architecture, streams: Streams) -> ValueNet:
    """A value network before training."""
    layers = architecture.value_layers()
    return ValueNet(architecture, initial_parameters(layers, streams, "harmony-value-weights"))
