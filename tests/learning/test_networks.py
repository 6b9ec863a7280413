"""The networks in PyTorch are those of runs, and their gradients are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.networks import PolicyNet, ValueNet, new_policy, new_value, states_of
from ray_sim.learning.pytorch import torch
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import Architecture, initial_parameters
from tests.harmony_states import (
    DENSE,
    FORMS,
    SHARED,
    State,
    network_of,
    permuted,
    random_parameters,
    random_state,
)

LARGE = (
    replace(DENSE, types=10, resources=3, servers=6, most_jobs=12, block=32, hidden=(196, 196, 128)),
    replace(SHARED, types=10, resources=3, most_jobs=12, block=32, hidden=(64, 64)),
)


def together(states: list[State]) -> State:
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


@pytest.mark.parametrize("architecture", [*FORMS, *LARGE], ids=lambda each: f"{each.form}-{each.block}")
def test_a_run_and_pytorch_agree_on_logits_and_best_actions(architecture: Architecture) -> None:
    servers = architecture.servers or 6
    parameters = random_parameters(architecture, 0)
    states = [random_state(architecture, servers, seed) for seed in range(40)]
    with torch.no_grad():
        found = PolicyNet(architecture, parameters)(states_of(together(states))).numpy()
    network = network_of(architecture, parameters, servers)
    for state, logits in zip(states, found, strict=True):
        expected = network.logits(state)
        valid = state[ACTION_MASK] == 1
        np.testing.assert_allclose(logits[valid], expected[valid], rtol=1e-5, atol=1e-5)
        assert np.where(valid, logits, -np.inf).argmax() == network.best(state)


@pytest.mark.parametrize("architecture", FORMS, ids=lambda each: each.form)
def test_parameters_come_back_as_they_were(architecture: Architecture) -> None:
    parameters = random_parameters(architecture, 1)
    found = PolicyNet(architecture, parameters).parameters_by_name()
    assert list(found) == list(parameters)
    assert all(found[name].tobytes() == parameters[name].tobytes() for name in parameters)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", FORMS, ids=lambda each: each.form)
def test_gradients_of_both_networks_agree_with_finite_differences(architecture: Architecture) -> None:
    states = states_of(together([random_state(architecture, 4, seed) for seed in range(2)]), torch.float64)
    for network in (new_policy(architecture, Streams(0)), new_value(architecture, Streams(0))):
        network.double()
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.data += 0.05  # away from the corners of ReLU
        chosen = network.arrays["job-weight"]

        def output(weight: Any, network: Any = network) -> Any:
            return torch.func.functional_call(network, {"arrays.job-weight": weight}, (states,))

        assert torch.autograd.gradcheck(output, (chosen.detach().requires_grad_(),), atol=1e-6)


@pytest.mark.slow
def test_the_value_of_the_shared_form_does_not_depend_on_the_order_of_jobs_and_servers() -> None:
    layers = SHARED.value_layers()
    network = ValueNet(SHARED, initial_parameters(layers, Streams(2), "test"))
    draw = np.random.default_rng(0)
    for seed in range(10):
        state = random_state(SHARED, 5, seed)
        new = SHARED.most_new
        permutation = np.concatenate([draw.permutation(new), new + draw.permutation(new)])
        other = permuted(state, SHARED, permutation, draw.permutation(5))
        with torch.no_grad():
            one, same = network(states_of(together([state, other]))).tolist()
        assert one == pytest.approx(same, rel=1e-4, abs=1e-6)


def test_a_seed_gives_the_same_weights_in_both_networks_every_time() -> None:
    for new in (new_policy, new_value):
        one, same, other = (new(SHARED, Streams(seed)).parameters_by_name() for seed in (5, 5, 6))
        assert all(one[name].tobytes() == same[name].tobytes() for name in one)
        assert one["job.weight"].tobytes() != other["job.weight"].tobytes()
