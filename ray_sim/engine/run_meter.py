"""Totals of a run so far, read between two decisions; they reward whoever decides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.run_meter import MeterBooks, read_meter
from ray_sim.kernels.handle import handle
from ray_sim.model.units import FloatArray, IntArray


class Reading(NamedTuple):
    """Totals from the beginning of a run to an instant, and the jobs at this instant."""

    now_us: int
    progress: float
    """Shares of their work that jobs have done, summed over jobs: a completed job counts 1."""
    present_us: float
    """Time that jobs have been in the system, summed over jobs."""
    completed: int
    waiting: int
    running: int


class RunMeter:
    """Reads the totals of a run, and of those that follow in its arrays, see `Simulation.again`."""

    def __init__(self, world: World, simulation: Simulation) -> None:
        core = simulation.core
        self._counts = core.counts
        self._count: IntArray = np.zeros(4, dtype=np.int64)
        self._reading: FloatArray = np.zeros(2)
        self._meter = handle(
            MeterBooks(
                core.ledger,
                world.arrays.submit,
                np.array(world.work, dtype=np.float64),
                np.empty(len(world.table), dtype=np.int64),
                self._count,
                self._reading,
            )
        )

    def clear(self) -> None:
        """A new run begins."""
        self._count[:] = 0

    def read(self, now_us: int, arrivals: int) -> Reading:
        """The totals at an instant, after its events and before its decision; instants must not fall.

        ``arrivals`` jobs have been submitted.
        """
        read_meter(self._meter, now_us, arrivals)
        progress, present_us = self._reading.tolist()
        waiting, running = self._counts.tolist()
        return Reading(now_us, progress, present_us, int(self._count[2]), waiting, running)
