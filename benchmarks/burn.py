"""A policy that costs a known amount of CPU time, and otherwise is FIFO."""

from __future__ import annotations

import time
from typing import ClassVar

import numba

from ray_sim import PolicyContext
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.policies.fifo import Fifo


class Burn(Fifo):
    """FIFO after so many steps of a loop; says that it draws, so that every seed is a run."""

    name: ClassVar[str] = "burn"
    uses_seed: ClassVar[bool] = True
    parameters = (
        *Fifo.parameters,
        Parameter("steps", "int", 0, "steps of the loop to run before the first decision", minimum=0),
    )

    def __init__(self, placement: str = "consolidate", backfill: bool = False, steps: int = 0) -> None:
        super().__init__(placement, backfill)
        self._steps = steps

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """FIFO's, later."""
        spin(self._steps)
        super().start(world, streams)


def _loop(steps: int) -> int:
    state = 1
    for _ in range(steps):  # xorshift: each step needs the one before
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
    return state


_compiled_loop = numba.njit(_loop, cache=True)


def spin(steps: int) -> int:
    """Run the loop; the result keeps a compiler from leaving it out."""
    return int(_compiled_loop(steps))


def steps_per_cpu_s() -> int:
    """How many steps this machine does in a second of CPU time, compiling apart."""
    spin(1)
    steps = 100_000_000
    began = time.process_time()
    spin(steps)
    return round(steps / (time.process_time() - began))
