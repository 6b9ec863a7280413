"""Logits of a policy network for the states of a batch of episodes, by the kernels of runs.

Actors choose actions with these. The order of operations is that of
`ray_sim.policies.harmony.network_kernels`, so neither the threads of a library nor the number of actors
changes what is collected.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I8
from ray_sim.policies.harmony.network_kernels import (
    F32,
    Layers,
    NetworkInputs,
    Work,
    dense_logits,
    shared_logits,
)


class Shown(NamedTuple):
    """Observations of E episodes, see `ModelWorld.observations`."""

    kind: F32
    """(E, N, L) entry ``type``."""
    demands: F32
    workers: F32
    ps: F32
    free: F32
    placement: F32
    mask: I8


@kernel
def _copy(source: F32, target: F32, first: int) -> None:
    """Copy the columns of a matrix to those of another one from ``first`` on."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, first + j] = source[i, j]


@kernel
def _show(shown: Shown, e: int, seen: NetworkInputs) -> None:
    """Copy the state of episode e to the inputs of the network."""
    types, asked = shown.kind.shape[2], shown.demands.shape[2]
    _copy(shown.kind[e], seen.jobs, 0)
    _copy(shown.demands[e], seen.jobs, types)
    _copy(shown.free[e], seen.free, 0)
    _copy(shown.placement[e], seen.placement, 0)
    for n in range(len(seen.jobs)):
        seen.jobs[n, types + asked] = shown.workers[e, n]
        seen.jobs[n, types + asked + 1] = shown.ps[e, n]
        asks = shown.demands[e, n, 0] > 0.0 or shown.demands[e, n, asked // 2] > 0.0
        seen.present[n] = 1 if asks else 0
    for action in range(len(seen.mask)):
        seen.mask[action] = shown.mask[e, action]


@kernel
def all_dense_logits(layers: Layers, shown: Shown, seen: NetworkInputs, work: Work, logits: F32) -> None:
    """Set ``logits``, (E, N' x 2 x S), by a network of the dense form; -inf where an action is not valid."""
    for e in range(len(logits)):
        _show(shown, e, seen)
        dense_logits(layers, seen, work, logits[e])


@kernel
def all_shared_logits(layers: Layers, shown: Shown, seen: NetworkInputs, work: Work, logits: F32) -> None:
    """Set ``logits``, (E, N' x 2 x S), by a network of the shared form; -inf where an action is not valid."""
    for e in range(len(logits)):
        _show(shown, e, seen)
        shared_logits(layers, seen, work, logits[e])
