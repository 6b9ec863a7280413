"""Forward pass of a policy network for one state, in single precision and one fixed order of operations.

Every sum begins with the bias and runs over its inputs in ascending order. Compiled code computes several
outputs side by side, never parts of one sum, and fuses no multiplication with an addition. So logits have the
same bytes on every machine. Inputs that are 0 are left out: they would add 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I8, I64

F32 = npt.NDArray[np.float32]

JOB, SERVER, HIDDEN = range(3)
"""Layers of a network; all from `HIDDEN` on follow each other."""

_ZERO = np.float32(0.0)


class Layers(NamedTuple):
    """Parameters of a network: layer i multiplies ``inputs[i]`` numbers by a matrix and adds a bias."""

    parameters: F32
    """Weights, (inputs, outputs), then biases, (outputs,), of each layer."""
    start: I64
    """Index of the first weight of each layer."""
    inputs: I64
    outputs: I64


class NetworkInputs(NamedTuple):
    """One state: N rows of jobs, S servers, R resources."""

    jobs: F32
    """(N, features)."""
    present: I8
    """(N,) 1 where a row has a job."""
    free: F32
    """(S, R)."""
    placement: F32
    """(S, 2 N) workers and parameter servers of row n in columns 2 n and 2 n + 1."""
    mask: I8
    """(N' x 2 x S,) 1 where an action is valid: ((row x 2 + role) x S + server)."""


class Work(NamedTuple):
    """Work space: B outputs of a block, H of the first hidden layer, W of the widest layer."""

    held: F32
    """(2 B,) sum of the blocks of jobs over the tasks of a server, workers first."""
    blocks: F32
    """(N + S, B) of jobs, then of servers."""
    context: F32
    """(2 B,) sums of the blocks of jobs and of servers over S."""
    first: F32
    """(N' + S + 1, H) parts of the first hidden layer of jobs, servers and the context."""
    one: F32
    """(W,)"""
    other: F32
    """(W,)"""


@kernel
def _add(layers: Layers, layer: int, first_input: int, x: F32, y: F32) -> None:
    """Add to ``y`` the product of ``x`` and the rows of a layer's matrix from ``first_input`` on."""
    outputs = layers.outputs[layer]
    row = layers.start[layer] + first_input * outputs
    for i in range(len(x)):
        factor = x[i]
        if factor != _ZERO:
            weights = layers.parameters[row : row + outputs]
            for j in range(outputs):
                y[j] += factor * weights[j]
        row += outputs


@kernel
def _begin(layers: Layers, layer: int, y: F32) -> None:
    """Set ``y`` to the bias of a layer."""
    outputs = layers.outputs[layer]
    bias = layers.start[layer] + layers.inputs[layer] * outputs
    for j in range(outputs):
        y[j] = layers.parameters[bias + j]


@kernel
def _rectify(y: F32, n: int) -> None:
    """Set negative numbers to 0."""
    for j in range(n):
        if y[j] < _ZERO:
            y[j] = _ZERO


@kernel
def _rest(layers: Layers, first: int, x: F32, y: F32) -> None:
    """Replace the rectified ``x`` by the outputs of the layers from ``first`` on; ``y`` is work space."""
    last = len(layers.start) - 1
    for layer in range(first, last + 1):
        outputs = layers.outputs[layer]
        _begin(layers, layer, y)
        _add(layers, layer, 0, x[: layers.inputs[layer]], y)
        if layer < last:
            _rectify(y, outputs)
        for j in range(outputs):
            x[j] = y[j]


@kernel
def _job_blocks(layers: Layers, seen: NetworkInputs, work: Work) -> None:
    """Compute the block of every row; O(N features B)."""
    for n in range(len(seen.jobs)):
        _begin(layers, JOB, work.blocks[n])
        _add(layers, JOB, 0, seen.jobs[n], work.blocks[n])
        _rectify(work.blocks[n], work.blocks.shape[1])


@kernel
def _server_block(layers: Layers, seen: NetworkInputs, server: int, held: F32, work: Work) -> None:
    """Compute the block of a server from its free resources and what it holds."""
    block = work.blocks[len(seen.jobs) + server]
    _begin(layers, SERVER, block)
    _add(layers, SERVER, 0, seen.free[server], block)
    _add(layers, SERVER, seen.free.shape[1], held, block)
    _rectify(block, len(block))


@kernel
def dense_logits(layers: Layers, seen: NetworkInputs, work: Work, logits: F32) -> None:
    """Set ``logits``, (N' x 2 x S,), by a network of the dense form; -inf where an action is not valid."""
    rows, width = len(seen.jobs), work.blocks.shape[1]
    _job_blocks(layers, seen, work)
    for server in range(len(seen.free)):
        _server_block(layers, seen, server, seen.placement[server], work)
    _begin(layers, HIDDEN, work.one)
    for block in range(rows + len(seen.free)):
        _add(layers, HIDDEN, block * width, work.blocks[block], work.one)
    _rectify(work.one, layers.outputs[HIDDEN])
    _rest(layers, HIDDEN + 1, work.one, work.other)
    for action in range(len(logits)):
        logits[action] = work.one[action] if seen.mask[action] == 1 else -np.inf


@kernel
def _sum_held(seen: NetworkInputs, server: int, work: Work) -> None:
    """Set `held` to the sum of the blocks of jobs over the tasks of a server, workers first; O(N B)."""
    width = work.blocks.shape[1]
    work.held[:] = _ZERO
    for n in range(len(seen.jobs)):
        for role in range(2):
            tasks = seen.placement[server, 2 * n + role]
            if tasks != _ZERO:
                for j in range(width):
                    work.held[role * width + j] += tasks * work.blocks[n, j]


@kernel
def _find_context(seen: NetworkInputs, work: Work) -> None:
    """Set `context`: sums of the blocks of jobs, and of servers, over the number of servers."""
    rows, width, servers = len(seen.jobs), work.blocks.shape[1], np.float32(len(seen.free))
    work.context[:] = _ZERO
    for block in range(len(work.blocks)):
        if block >= rows or seen.present[block] == 1:
            start = width if block >= rows else 0
            for j in range(width):
                work.context[start + j] += work.blocks[block, j]
    for j in range(2 * width):
        work.context[j] /= servers


@kernel
def _shared_parts(layers: Layers, seen: NetworkInputs, new: int, work: Work) -> None:
    """Compute the parts of the first hidden layer that pairs have in common; O((N' + S) B H)."""
    rows, width = len(seen.jobs), work.blocks.shape[1]
    work.first[:] = _ZERO
    for n in range(new):
        _add(layers, HIDDEN, 0, work.blocks[n], work.first[n])
    for server in range(len(seen.free)):
        _add(layers, HIDDEN, width, work.blocks[rows + server], work.first[new + server])
    common = work.first[new + len(seen.free)]
    _begin(layers, HIDDEN, common)
    _add(layers, HIDDEN, 2 * width, work.context, common)


@kernel
def shared_logits(layers: Layers, seen: NetworkInputs, work: Work, logits: F32) -> None:
    """Set ``logits``, (N' x 2 x S,), by a network of the shared form; -inf where an action is not valid.

    Pairs of a new job and a server without a valid action are left out.
    """
    width, servers = work.blocks.shape[1], len(seen.free)
    new, hidden = len(seen.mask) // (2 * servers), layers.outputs[HIDDEN]
    _job_blocks(layers, seen, work)
    for server in range(servers):
        _sum_held(seen, server, work)
        _server_block(layers, seen, server, work.held, work)
    _find_context(seen, work)
    _shared_parts(layers, seen, new, work)
    common = work.first[new + servers]
    for n in range(new):
        for server in range(servers):
            worker = n * 2 * servers + server
            ps = worker + servers
            logits[worker], logits[ps] = -np.inf, -np.inf
            if seen.mask[worker] == 0 and seen.mask[ps] == 0:
                continue
            for j in range(hidden):
                work.one[j] = common[j] + work.first[n, j] + work.first[new + server, j]
            _add(layers, HIDDEN, 4 * width, seen.placement[server, 2 * n : 2 * n + 2], work.one)
            _rectify(work.one, hidden)
            _rest(layers, HIDDEN + 1, work.one, work.other)
            if seen.mask[worker] == 1:
                logits[worker] = work.one[0]
            if seen.mask[ps] == 1:
                logits[ps] = work.one[1]


@kernel
def best_action(logits: F32) -> int:
    """Return the action of the largest logit, the lowest of equals; -inf stands for a forbidden action.

    It is -1 if a logit is NaN, or the largest one infinite.
    """
    best = 0
    for action in range(len(logits)):
        if not logits[action] < np.inf:
            return -1
        if logits[action] > logits[best]:
            best = action
    return best if logits[best] > -np.inf else -1
