"""Logits of a policy network for the states of a batch of episodes.

`ray_sim.learning.batched_policy` chooses the actions of a training with them. They call the kernels with
which `harmony` chooses in a run (`ray_sim.policies.harmony.network_kernels`), one episode after the other.
Sums have a fixed order, so a seed gives the same episodes on any number of threads and actors. Another
order changes trained networks; another order of the columns in `_show` makes stored ones useless.
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
    """(E, N, L) one-hot model; the entry ``type`` of an observation."""
    demands: F32
    """(E, N, 2 (1 + R))."""
    workers: F32
    """(E, N)."""
    ps: F32
    """(E, N)."""
    free: F32
    """(E, S, R)."""
    placement: F32
    """(E, S, 2 N)."""
    mask: I8
    """(E, N' x 2 x S)."""


@kernel
def _copy(source: F32, target: F32, first: int) -> None:
    """Copy ``source`` into ``target``, its column 0 to column ``first``."""
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
    """Set ``logits``, (E, N' x 2 x S), by a network of the form `dense`; -inf for invalid actions.

    ``seen`` and ``work`` are scratch space.
    """
    for e in range(len(logits)):
        _show(shown, e, seen)
        dense_logits(layers, seen, work, logits[e])


@kernel
def all_shared_logits(layers: Layers, shown: Shown, seen: NetworkInputs, work: Work, logits: F32) -> None:
    """Set ``logits``, (E, N' x 2 x S), by a network of the form `shared`; -inf for invalid actions.

    ``seen`` and ``work`` are scratch space.
    """
    for e in range(len(logits)):
        _show(shown, e, seen)
        shared_logits(layers, seen, work, logits[e])
