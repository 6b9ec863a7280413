"""Random numbers keyed by entity, one by one: the same as `ray_sim.model.streams.Streams.uniforms`.

A number is a hash of its key, so it depends on no order of draws.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel


@kernel
def mixed(bits: np.uint64) -> np.uint64:
    """Mix the bits of a number: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def substate(state: np.uint64, entity: int) -> np.uint64:
    """Return the state of a stream whose key has one more entity."""
    return mixed(state ^ mixed(np.uint64(entity) + np.uint64(0x9E3779B97F4A7C15)))


@kernel
def uniform(state: np.uint64) -> float:
    """Return the first number of a stream, in [0, 1): its upper 53 bits."""
    return np.float64(state >> np.uint64(11)) * 2.0**-53
