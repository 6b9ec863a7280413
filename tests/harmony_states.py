"""Random states and networks of Harmony, and networks before training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import (
    F32,
    Architecture,
    Form,
    initial_parameters,
    parameter_shapes,
)
from ray_sim.policies.harmony.checkpoint import Checkpoint, Header
from ray_sim.policies.harmony.network import PolicyNetwork

State = dict[str, np.ndarray]

DENSE = Architecture(
    Form.DENSE, types=3, resources=2, servers=4, most_jobs=6, most_new=3, block=8, hidden=(16, 12)
)
SHARED = replace(DENSE, form=Form.SHARED, servers=0)
FORMS = (DENSE, SHARED)


def random_parameters(architecture: Architecture, seed: int) -> dict[str, F32]:
    """Parameters of a policy network, biases too, large enough to tell actions apart."""
    draw = Streams(seed).generator("test-parameters")
    shapes = parameter_shapes(architecture.policy_layers())
    return {
        name: draw.normal(0, 1 / shape[0] ** 0.5, shape).astype(np.float32)
        if name.endswith("weight")
        else draw.normal(0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def untrained(header: Header, streams: Streams) -> Checkpoint:
    """A network before training, see `initial_parameters`."""
    layers = header.architecture.policy_layers()
    return Checkpoint(header, initial_parameters(layers, streams, "harmony-policy-weights"))


def network_of(architecture: Architecture, parameters: dict[str, F32], servers: int) -> PolicyNetwork:
    """A network for worlds with the resources that it knows."""
    return PolicyNetwork(architecture, parameters, servers, np.arange(architecture.resources))


def random_state(architecture: Architecture, servers: int, seed: int, shown: int | None = None) -> State:
    """A state like those of Placement-v0, with ``shown`` rows of jobs, and some forbidden actions."""
    draw = Streams(seed).generator("test-states")
    rows, resources = architecture.most_jobs, architecture.resources
    shown = int(draw.integers(1, rows + 1)) if shown is None else shown
    there = (np.arange(rows) < shown)[:, None]
    demands = draw.random((rows, 2 * (1 + resources)))
    demands[:, [0, 1 + resources]] = draw.integers(1, 4, (rows, 2))
    placement = np.repeat(there.T, 2, axis=1) * draw.integers(0, 3, (servers, 2 * rows))
    state: State = {
        "type": there * np.eye(architecture.types)[draw.integers(0, architecture.types, rows)],
        "demands": there * demands,
        "workers": placement[:, 0::2].sum(axis=0),
        "ps": placement[:, 1::2].sum(axis=0),
        "free": draw.random((servers, resources)),
        "placement": placement,
    }
    mask = draw.random((architecture.most_new, 2, servers)) < 0.6
    mask &= there[: architecture.most_new, :, None]
    mask[0, 0, 0] = True
    state = {name: array.astype(np.float32) for name, array in state.items()}
    return {**state, ACTION_MASK: mask.ravel().astype(np.int8)}


def permuted(state: State, architecture: Architecture, jobs: np.ndarray, servers: np.ndarray) -> State:
    """The state with row ``jobs[i]`` in row i, and server ``servers[i]`` in place i."""
    columns = (2 * jobs[:, None] + [0, 1]).ravel()
    new = jobs[: architecture.most_new]
    mask = state[ACTION_MASK].reshape(architecture.most_new, 2, -1)
    return {
        **{name: state[name][jobs] for name in ("type", "demands", "workers", "ps")},
        "free": state["free"][servers],
        "placement": state["placement"][servers][:, columns],
        ACTION_MASK: mask[new][:, :, servers].ravel(),
    }


def naive_logits(architecture: Architecture, parameters: dict[str, F32], state: State) -> np.ndarray:
    """(N', 2, S) by the equations of docs/models/harmony.md in double precision, without a mask."""
    weights = {name: array.astype(np.float64) for name, array in parameters.items()}
    last = list(architecture.policy_layers())[-1]

    def layer(name: str, x: np.ndarray) -> np.ndarray:
        y = x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return y if name == last else np.maximum(y, 0)

    def rest(x: np.ndarray) -> np.ndarray:
        for i in range(len(architecture.hidden)):
            x = layer(f"hidden_{i}", x)
        return layer(last, x)

    counts = np.stack([state["workers"], state["ps"]], axis=1)
    job = layer("job", np.concatenate([state["type"], state["demands"], counts], axis=1))
    free, placement = state["free"], state["placement"]
    servers, new = len(free), architecture.most_new
    if architecture.form is Form.DENSE:
        server = layer("server", np.concatenate([free, placement], axis=1))
        joined = np.concatenate([job.ravel(), server.ravel()])
        return rest(joined).reshape(new, 2, servers)
    held = np.concatenate([placement[:, 0::2] @ job, placement[:, 1::2] @ job], axis=1)
    server = layer("server", np.concatenate([free, held], axis=1))
    there = state["demands"][:, [0, 1 + architecture.resources]].any(axis=1)
    context = np.concatenate([job[there].sum(axis=0), server.sum(axis=0)]) / servers
    scores = np.empty((new, 2, servers))
    for n in range(new):
        for s in range(servers):
            here = placement[s, 2 * n : 2 * n + 2]
            scores[n, :, s] = rest(np.concatenate([job[n], server[s], context, here]))
    return scores
