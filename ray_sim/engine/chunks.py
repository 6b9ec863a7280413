"""Ordered chunk queues of worker slots, which go on by themselves between decisions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.holdings import State
from ray_sim.model.units import NEVER_US, BoolArray, IntArray

NO_EVENTS: IntArray = np.empty((0, 2), dtype=np.int64)

_FIELDS = ("worker", "key", "sequence", "job", "unit", "left_us")


class DispatchRecord:
    """Which chunks of which jobs have been put on a queue."""

    def __init__(self, chunks: IntArray) -> None:
        self._first = np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64)
        self.done: BoolArray = np.zeros(self._first[-1], dtype=np.bool_)
        """All chunks of the first job, then those of the second, and so on."""

    def number(self, jobs: IntArray, units: IntArray) -> IntArray:
        """Places of chunks in `done`."""
        return self._first[jobs] + units


class ChunkQueues:
    """Each worker trains the chunk with the smallest (key, dispatch order) on its queue.

    A chunk with a smaller key overtakes the running one, which keeps its progress. Time moves only
    in `advance`, never past the next completion.
    """

    def __init__(self) -> None:
        self._now_us = 0
        self._dispatched = 0
        self._queues: dict[int, list[list[int]]] = {}

    def dispatch(self, now_us: int, rows: IntArray) -> None:
        """Add rows (worker, key, job, unit, work in microseconds)."""
        self._settle(now_us)
        for worker, key, job, unit, work_us in rows.tolist():
            self._queues.setdefault(worker, []).append([key, self._dispatched, job, unit, work_us])
            self._queues[worker].sort()
            self._dispatched += 1

    def next_us(self) -> int:
        """When the next chunk completes."""
        heads = (queue[0][4] for queue in self._queues.values())
        return self._now_us + min(heads, default=NEVER_US - self._now_us)

    def advance(self, now_us: int) -> IntArray:
        """Go on to ``now_us``, at most `next_us`; returns (n, 2) rows job, unit completed there, sorted."""
        if not self._queues:
            self._now_us = now_us
            return NO_EVENTS
        self._settle(now_us)
        done: list[tuple[int, int]] = []
        for worker in sorted(self._queues):
            queue = self._queues[worker]
            while queue and queue[0][4] == 0:
                _, _, job, unit, _ = queue.pop(0)
                done.append((job, unit))
            if not queue:
                del self._queues[worker]
        return np.array(sorted(done), dtype=np.int64).reshape(-1, 2)

    def _settle(self, now_us: int) -> None:
        for queue in self._queues.values():
            queue[0][4] -= now_us - self._now_us
        self._now_us = now_us

    def state(self) -> State:
        """Arrays that `restore` takes."""
        rows = [[worker, *entry] for worker, queue in sorted(self._queues.items()) for entry in queue]
        return {
            "rows": np.array(rows, dtype=np.int64).reshape(-1, len(_FIELDS)),
            "clock": np.array([self._now_us, self._dispatched]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._now_us, self._dispatched = (int(value) for value in state["clock"])
        self._queues = {}
        for worker, *entry in state["rows"].tolist():
            self._queues.setdefault(worker, []).append(entry)
