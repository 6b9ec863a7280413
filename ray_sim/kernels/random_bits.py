"""Numbers of `ray_sim.model.streams.Streams.uniforms`, one by one."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel


@kernel
def mixed(bits: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def substate(state: np.uint64, entity: int) -> np.uint64:
    """State of the stream that has one entity more in its key."""
    return mixed(state ^ mixed(np.uint64(entity) + np.uint64(0x9E3779B97F4A7C15)))


@kernel
def uniform(state: np.uint64) -> float:
    """The first number in [0, 1) of a stream."""
    return np.float64(state >> np.uint64(11)) * 2.0**-53
