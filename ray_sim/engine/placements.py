"""Placements of all jobs, and the free capacity they leave."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ray_sim.engine.read_only import read_only
from ray_sim.engine.states import State, arrays_of, same, within
from ray_sim.kernels.core.arrays import Changes, Pool, WorldArrays, new_pool
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.job_rows import Held, Rows
from ray_sim.kernels.core.placement_rows import change_placements
from ray_sim.kernels.handle import handle
from ray_sim.model.progress_rule import PlacementTable, rows_of
from ray_sim.model.units import NEVER_US, BoolArray, IntArray


def nothing_for(jobs: IntArray) -> Changes:
    """Changes by which the jobs, sorted, give up all they hold."""
    nothing = np.zeros(0, dtype=np.int64)
    return Changes(
        job=jobs,
        ptr=np.zeros(len(jobs) + 1, dtype=np.int64),
        server=nothing,
        role=nothing,
        tasks=nothing,
        order=np.arange(len(jobs)),
        size=np.array([len(jobs)]),
    )


class Placements:
    """Sorted integer rows (job, server, role, count) and the free capacity they leave."""

    def __init__(self, arrays: WorldArrays, there: BoolArray, rows: int) -> None:
        self._arrays = arrays
        self.pool: Pool = new_pool(len(arrays.submit), rows, arrays, there)
        self.used: IntArray = np.zeros(arrays.capacity.shape[1], dtype=np.int64)

    @cached_property
    def held(self) -> Held:
        """Handle of the linked rows and of work space for those of some jobs, for kernels."""
        jobs, rows = len(self.pool.head), len(self.pool.row_next)
        server, role, tasks = np.empty((3, rows), dtype=np.int64)
        return handle(Held(self.pool, Rows(np.empty(jobs + 1, dtype=np.int64), server, role, tasks)))

    @property
    def free(self) -> IntArray:
        """(S, R) quanta."""
        return self.pool.free[:, : len(self.used)]

    @property
    def free_devices(self) -> IntArray:
        """(S, D) free milli-GPU of each device; D is 0 where tasks share no device."""
        return self.pool.free[:, len(self.used) :]

    @property
    def available(self) -> BoolArray:
        """(S,) servers that are there now."""
        return self.pool.there

    def of(self, jobs: IntArray) -> PlacementTable:
        """Placements of the given jobs."""
        pool = self.pool
        found: list[tuple[int, int, int, int]] = []
        for job in np.sort(jobs):
            row = int(pool.head[job])
            while row >= 0:
                found.append(
                    (int(job), int(pool.row_server[row]), int(pool.row_role[row]), int(pool.row_count[row]))
                )
                row = int(pool.row_next[row])
        return PlacementTable(*np.array(found, dtype=np.int64).reshape(-1, 4).T.copy())

    def rows_of(self, jobs: IntArray) -> Rows:
        """Placements of jobs as rows, in the order of ``jobs``."""
        return rows_of(self, jobs)

    def change(self, changes: Changes) -> None:
        """Replace the placements of the changed jobs."""
        change_placements(self._arrays, self.pool, self.used, changes)

    def clear(self, there: BoolArray) -> None:
        """Forget all placements; ``there`` is (S,) servers that are there."""
        self.pool.head[:] = -1
        self.pool.top[:] = (-1, 0)
        self.pool.free[:] = self._arrays.empty * there[:, None]
        self.pool.there[:] = there
        self.used[:] = 0

    def state(self) -> State:
        """Arrays that `restore` takes."""
        used_rows = int(self.pool.top[1])
        pool = {
            f"pool.{name}": (array[:used_rows] if name.startswith("row_") else array).copy()
            for name, array in arrays_of(self.pool)
        }
        return {**pool, "used": self.used.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._check_rows(state)
        for name, array in arrays_of(self.pool):
            saved = state[f"pool.{name}"]
            array[: len(saved)] = saved
        self.used[:] = state["used"]
        ptr, server, role, tasks = self.rows_of(np.arange(len(self.pool.head)))
        held = tasks[:, None] * self._arrays.demand[np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), role]
        free = self._arrays.empty * self.pool.there[:, None]
        np.subtract.at(free[:, : held.shape[1]], server, held)
        if self.pool.row_device is not None:
            live = self.live_rows()
            np.subtract.at(free[:, held.shape[1] :], self.pool.row_server[live], self.pool.row_device[live])
        same("pool.free", free, self.pool.free)
        same("used", held.sum(axis=0), self.used)

    def live_rows(self) -> IntArray:
        """Numbers of the rows that jobs hold: all that were ever used but the spare ones."""
        spare, used = self.pool.top.tolist()
        live = np.ones(used, dtype=np.bool_)
        while spare >= 0:
            live[spare] = False
            spare = int(self.pool.row_next[spare])
        return np.flatnonzero(live)

    def _check_rows(self, state: Mapping[str, np.ndarray]) -> None:
        """Refuse rows whose values are out of range, or that are not all linked, once each."""
        servers, roles = len(self._arrays.capacity), self._arrays.demand.shape[1]
        spare, rows = within(state, "pool.top", -1, len(self.pool.row_next)).tolist()
        most = {"server": servers - 1, "role": roles - 1, "count": NEVER_US, "next": rows - 1}
        for name, high in most.items():
            column = within(state, f"pool.row_{name}", -1 if name == "next" else 0, high)
            same(f"pool.row_{name}", [rows], column.shape)
        if self.pool.row_device is not None:
            device = within(state, "pool.row_device", 0, DEVICE)
            same("pool.row_device", [rows, self.pool.row_device.shape[1]], device.shape)
        head = within(state, "pool.head", -1, rows - 1)
        linked = np.sort(np.concatenate([head, state["pool.row_next"], [spare]]))
        same("pool.row_next", np.arange(rows), linked[np.searchsorted(linked, 0) :])


class VisiblePlacements:
    """Placements as policies see them: nothing here can be written to."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        self.free: IntArray = read_only(placements.free)
        """(S, R) quanta."""
        self.free_devices: IntArray = read_only(placements.free_devices)
        """(S, D) milli-GPU of each device; D is 0 where tasks share no device."""
        self.used: IntArray = read_only(placements.used)
        """(R,) quanta that all jobs hold together."""

    def of(self, jobs: IntArray) -> PlacementTable:
        """Placements of the given jobs."""
        return self._placements.of(jobs)

    def rows_of(self, jobs: IntArray) -> Rows:
        """Placements of jobs as rows, in the order of ``jobs``."""
        return self._placements.rows_of(jobs)

    @property
    def _pool(self) -> Pool:
        """The rows themselves, for kernels of the engine that read them."""
        return self._placements.pool
