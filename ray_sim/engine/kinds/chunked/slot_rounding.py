"""Share of chunk and upload time that is rounding up to whole slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.states import State
from ray_sim.model.units import BoolArray, IntArray

_TRAINING, _UPLOADS = 0, 2


class SlotRounding:
    """Time on the grid of completed chunks and of uploads, by job, and how much of it is rounding."""

    def __init__(self, facts: ChunkFacts) -> None:
        self._facts = facts
        self._exact = replace(facts, times=replace(facts.times, grid_us=1))
        self._us: IntArray = np.zeros((len(facts.chunks), 4), dtype=np.int64)
        """(J, 4) microseconds of training on the grid, the rounding in it, the same two of uploads."""

    @property
    def trained_us(self) -> IntArray:
        """(J,) lengths of the completed chunks of each job, on the grid, added up."""
        return self._us[:, _TRAINING]

    def note_completed(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray) -> None:
        """Chunks that are done, (n,) each, without what preemptions cost; ``in_cloud`` is zeta."""
        on_grid = self._facts.chunk_us(jobs, workers, in_cloud)
        self._note(jobs, _TRAINING, on_grid, self._exact.chunk_us(jobs, workers, in_cloud))

    def undo(self, jobs: IntArray) -> IntArray:
        """Completed chunks of jobs count no more; returns the (n,) lengths of those of each job."""
        trained_us = self.trained_us[jobs]
        self._us[jobs, :_UPLOADS] = 0
        return trained_us

    def note_dispatched(self, now_us: int, jobs: IntArray, workers: IntArray) -> None:
        """Chunks that are sent off now, (n,) each."""
        ready_us = self._facts.ready_us(now_us, jobs, workers)
        self._note(jobs, _UPLOADS, ready_us - now_us, self._exact.upload_us(jobs, workers))

    def _note(self, jobs: IntArray, first: int, on_grid: IntArray, exact: IntArray) -> None:
        np.add.at(self._us[:, first], jobs, on_grid)
        np.add.at(self._us[:, first + 1], jobs, on_grid - exact)

    def shares(self, counted: BoolArray | None) -> tuple[float | None, float | None]:
        """Share of the counted jobs' training, and of their uploads, that is rounding; None of no time."""
        us = self._us if counted is None else self._us[counted]
        training, rounding, uploads, of_uploads = us.sum(axis=0).tolist()
        return (rounding / training if training else None, of_uploads / uploads if uploads else None)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"us": self._us.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._us[:] = state["us"]
