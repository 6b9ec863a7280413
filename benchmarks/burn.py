"""FIFO with a known additional cost in CPU time."""

from __future__ import annotations

import time
from typing import ClassVar

from ray_sim import PolicyContext, kernel
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.policies.fifo import Fifo


class Burn(Fifo):
    """FIFO that first runs `steps` steps of a loop; it declares random draws, so that every seed is a run."""

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
        """Run the loop, then start FIFO."""
        spin(self._steps)
        super().start(world, streams)


@kernel
def _loop(steps: int) -> int:
    state = 1
    for _ in range(steps):  # xorshift: each step depends on the previous one
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
    return state


def spin(steps: int) -> int:
    """Run the loop; it returns a result so that the compiler does not remove it."""
    return int(_loop(steps))


def steps_per_cpu_s() -> int:
    """Steps of the loop per second of CPU time on this machine, without compilation."""
    spin(1)
    steps = 100_000_000
    began = time.process_time()
    spin(steps)
    return round(steps / (time.process_time() - began))
