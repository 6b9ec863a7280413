"""The forward pass of a policy network: by hand, against the equations, and its exact bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.agents.features import ACTION_MASK
from ray_sim.model.streams import Streams
from ray_sim.policies.harmony.architecture import Architecture, Form, initial_parameters
from ray_sim.policies.harmony.network import PolicyNetwork
from ray_sim.policies.harmony.network_kernels import best_action
from tests.command_line import python
from tests.harmony_states import (
    DENSE,
    FORMS,
    SHARED,
    State,
    naive_logits,
    network_of,
    permuted,
    random_parameters,
    random_state,
)

TINY = Architecture(
    Form.DENSE, types=1, resources=1, servers=2, most_jobs=1, most_new=1, block=1, hidden=(1,)
)
"""One job on two servers, one number for each block."""


def filled(*values: list[float]) -> list[np.ndarray]:
    return [np.array(value, dtype=np.float32) for value in values]


def one_job() -> State:
    """A job of 2 workers that demand 0.5 and a parameter server that demands 0.25; a worker is on server 1.

    Free are 1 and 0.5. A second worker fits on both servers, the parameter server on server 0 only.
    """
    [kind, demands, workers, ps] = filled([1], [2, 0.5, 1, 0.25], [1], [0])
    return {
        "type": kind[None],
        "demands": demands[None],
        "workers": workers,
        "ps": ps,
        "free": np.array([[1.0], [0.5]], dtype=np.float32),
        "placement": np.array([[0, 0], [1, 0]], dtype=np.float32),
        ACTION_MASK: np.array([1, 1, 1, 0], dtype=np.int8),
    }


def test_a_dense_network_by_hand() -> None:
    """Job: 1 + 2 - 0.5 + 1 = 3.5 (type, workers asked, demand of a worker, workers placed), bias 0.

    Server: free - 2 x workers held, bias 1: 1 + 1 = 2 and max(0, 0.5 - 2 + 1) = 0. Hidden: 3.5 + 10 x 2 + 100
    x 0 - 3 = 20.5. Actions: 1, 2, -1, 4 times 20.5, plus 0, 0, 0.5, 0; the last is forbidden.
    """
    [job, server, hidden, actions] = filled([1, 1, -1, 0, 0, 1, 0], [1, -2, 0], [1, 10, 100], [1, 2, -1, 4])
    parameters = {
        "job.weight": job[:, None],
        "job.bias": np.zeros(1, np.float32),
        "server.weight": server[:, None],
        "server.bias": np.ones(1, np.float32),
        "hidden_0.weight": hidden[:, None],
        "hidden_0.bias": np.full(1, -3, np.float32),
        "actions.weight": actions[None],
        "actions.bias": np.array([0, 0, 0.5, 0], np.float32),
    }
    network = network_of(TINY, parameters, 2)
    assert network.logits(one_job()).tolist() == [20.5, 41.0, -20.0, -np.inf]
    assert network.best(one_job()) == 1


def test_a_shared_network_by_hand() -> None:
    """Job: 3.5 as above. Server: free - workers held x 0.1 x 3.5, bias 0: 1 and 0.5 - 0.35 = 0.15.

    Context: 3.5 / 2 and 1.15 / 2. Hidden: job + 10 server + 2 context + 100 workers here: server 0: 3.5 + 10
    + 4.65 = 18.15; server 1: 3.5 + 1.5 + 4.65 + 100 = 109.65. Scores: worker 1 x, parameter server -1 x.
    """
    [job, server, hidden, scores] = filled(
        [1, 1, -1, 0, 0, 1, 0], [1, -0.1, 0], [1, 10, 2, 2, 100, 0], [1, -1]
    )
    parameters = {
        "job.weight": job[:, None],
        "job.bias": np.zeros(1, np.float32),
        "server.weight": server[:, None],
        "server.bias": np.zeros(1, np.float32),
        "hidden_0.weight": hidden[:, None],
        "hidden_0.bias": np.zeros(1, np.float32),
        "scores.weight": scores[None],
        "scores.bias": np.zeros(2, np.float32),
    }
    network = network_of(replace(TINY, form=Form.SHARED, servers=0), parameters, 2)
    np.testing.assert_allclose(network.logits(one_job()), [18.15, 109.65, -18.15, -np.inf], rtol=1e-6)


@pytest.mark.parametrize("architecture", FORMS, ids=lambda each: each.form)
def test_logits_follow_the_equations(architecture: Architecture) -> None:
    parameters = random_parameters(architecture, 0)
    network = network_of(architecture, parameters, 4)
    for seed in range(50):
        state = random_state(architecture, 4, seed)
        expected = naive_logits(architecture, parameters, state).ravel()
        expected[state[ACTION_MASK] == 0] = -np.inf
        np.testing.assert_allclose(network.logits(state), expected, rtol=1e-4, atol=1e-5)
        assert network.best(state) == int(np.argmax(expected))


@pytest.mark.parametrize("servers", [1, 2, 9])
def test_the_shared_form_takes_any_number_of_servers(servers: int) -> None:
    parameters = random_parameters(SHARED, 1)
    state = random_state(SHARED, servers, 1)
    expected = naive_logits(SHARED, parameters, state).ravel()
    valid = state[ACTION_MASK] == 1
    found = network_of(SHARED, parameters, servers).logits(state)
    np.testing.assert_allclose(found[valid], expected[valid], rtol=1e-4, atol=1e-5)


def test_permuting_jobs_and_servers_permutes_what_the_shared_form_answers() -> None:
    network = network_of(SHARED, random_parameters(SHARED, 2), 5)
    draw = np.random.default_rng(0)
    for seed in range(20):
        state = random_state(SHARED, 5, seed)
        new, rows = SHARED.most_new, SHARED.most_jobs
        jobs = np.concatenate([draw.permutation(new), new + draw.permutation(rows - new)])
        servers = draw.permutation(5)
        before = network.logits(state).reshape(new, 2, 5).copy()
        after = network.logits(permuted(state, SHARED, jobs, servers)).reshape(new, 2, 5)
        np.testing.assert_allclose(after, before[jobs[:new]][:, :, servers], rtol=1e-4, atol=1e-5)


def test_padded_rows_change_nothing_in_the_shared_form() -> None:
    parameters = random_parameters(SHARED, 3)
    wide = replace(SHARED, most_jobs=11)
    state = random_state(SHARED, 4, 0)
    padded = {
        name: np.pad(array, [(0, 5)] + [(0, 0)] * (array.ndim - 1)) if name in _ROWS else array
        for name, array in state.items()
    }
    padded["placement"] = np.pad(state["placement"], [(0, 0), (0, 10)])
    few = network_of(SHARED, parameters, 4).logits(state)
    assert network_of(wide, parameters, 4).logits(padded).tolist() == few.tolist()


_ROWS = ("type", "demands", "workers", "ps")


def test_resources_are_known_by_name_and_one_that_a_world_does_not_have_is_none() -> None:
    parameters = random_parameters(SHARED, 4)
    state = random_state(SHARED, 4, 2)
    state["free"][:, 1] = 0
    state["demands"][:, [2, 5]] = 0
    narrow = {**state, "free": state["free"][:, :1], "demands": state["demands"][:, [0, 1, 3, 4]]}
    whole = network_of(SHARED, parameters, 4).logits(state)
    found = PolicyNetwork(SHARED, parameters, 4, np.array([0])).logits(narrow)
    assert found.tolist() == whole.tolist()


@pytest.mark.parametrize("architecture", FORMS, ids=lambda each: each.form)
def test_equal_logits_go_to_the_lowest_valid_action(architecture: Architecture) -> None:
    nothing = {name: 0 * array for name, array in random_parameters(architecture, 0).items()}
    state = random_state(architecture, 4, 5)
    assert network_of(architecture, nothing, 4).best(state) == int(state[ACTION_MASK].argmax())


def in_order(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A layer in single precision, each sum from its bias on in the order of inputs."""
    y = bias.copy()
    for value, row in zip(x, weight, strict=True):
        y = y + value * row
    return y


def test_sums_are_in_the_order_of_inputs_to_the_last_bit() -> None:
    parameters = random_parameters(DENSE, 6)
    network = network_of(DENSE, parameters, 4)
    zero = np.float32(0)
    for seed in range(10):
        state = random_state(DENSE, 4, seed)
        state[ACTION_MASK][:] = 1
        jobs = np.concatenate(
            [state["type"], state["demands"], np.stack([state["workers"], state["ps"]], axis=1)], axis=1
        )
        servers = np.concatenate([state["free"], state["placement"]], axis=1)
        blocks = [
            np.maximum(in_order(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"]), zero)
            for name, rows in (("job", jobs), ("server", servers))
            for x in rows
        ]
        x = np.concatenate(blocks)
        for name in ("hidden_0", "hidden_1", "actions"):
            y = in_order(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
            x = np.maximum(y, zero)
        assert network.logits(state).tobytes() == y.tobytes()


@pytest.mark.parametrize(
    ("logits", "best"),
    [([1, 3, 3], 1), ([-np.inf, 0], 1), ([-np.inf] * 2, -1), ([np.nan, 1], -1), ([1, np.inf], -1)],
)
def test_the_best_action_is_the_first_of_the_largest_logits_or_none(logits: list[float], best: int) -> None:
    assert best_action(np.array(logits, dtype=np.float32)) == best


PRINTED = """
from tests.harmony_states import *
for architecture in FORMS:
    network = network_of(architecture, random_parameters(architecture, 7), 4)
    for seed in range(3):
        print(network.logits(random_state(architecture, 4, seed)).tobytes().hex())
"""


@pytest.mark.slow
def test_compiled_and_plain_python_give_the_same_bytes() -> None:
    printed = [python("-c", PRINTED, NUMBA_DISABLE_JIT=plain) for plain in ("0", "1")]
    assert len(printed[0].split()) == 6
    assert printed[0] == printed[1]


def test_weights_before_training_depend_on_seed_and_layer_only() -> None:
    layers = DENSE.policy_layers()
    one, same = (initial_parameters(layers, Streams(3), "weights") for _ in range(2))
    other = initial_parameters(SHARED.policy_layers(), Streams(3), "weights")
    assert all(one[name].tobytes() == same[name].tobytes() for name in one)
    assert one["job.weight"].tobytes() == other["job.weight"].tobytes()
    assert np.abs(one["job.weight"]).max() <= (6 / DENSE.job_features) ** 0.5
    assert np.abs(one["actions.weight"]).max() <= 0.01 * (6 / 12) ** 0.5
