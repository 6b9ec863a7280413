"""Progress rules: the rate of a job as a function of all placements. Policies cannot change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ray_sim.kernels.core.arrays import Pool
from ray_sim.kernels.core.job_rows import Held, Rows, copy_rows, count_rows, count_tasks
from ray_sim.kernels.core.placement_rows import rigid_rates
from ray_sim.model.units import BoolArray, FloatArray, IntArray

NO_JOBS: IntArray = np.empty(0, dtype=np.int64)

_COLUMNS = ("job", "server", "role", "count")


@dataclass(frozen=True, slots=True)
class PlacementTable:
    """Placements as columns: one entry per (job, server, role), sorted by them."""

    job: IntArray
    server: IntArray
    role: IntArray
    count: IntArray
    """Tasks of this role, >= 1."""

    @classmethod
    def joined(cls, tables: Sequence[PlacementTable]) -> PlacementTable:
        """Entries of one table after those of another, in no order; none without tables."""
        columns = (np.concatenate([NO_JOBS, *(getattr(one, name) for one in tables)]) for name in _COLUMNS)
        return cls(*columns)

    def where(self, entries: BoolArray | IntArray) -> PlacementTable:
        """Some entries, by a mask or by their places."""
        return PlacementTable(*(getattr(self, name)[entries] for name in _COLUMNS))

    def in_order(self) -> PlacementTable:
        """The entries, sorted by job, server and role."""
        return self.where(np.lexsort((self.role, self.server, self.job)))


class PlacementRows(Protocol):
    """Placements in the form that progress rules read."""

    @property
    def pool(self) -> Pool:
        """Linked rows."""

    @property
    def held(self) -> Held:
        """Handle of the linked rows and of work space for those of some jobs, for kernels."""

    def of(self, jobs: IntArray) -> PlacementTable:
        """Placements of the given jobs."""


class ProgressRule(Protocol):
    """Rate of each job as a pure function of placements and of one record per job."""

    @property
    def disturbing(self) -> bool:
        """Whether placements of one job can change the rate of others; only then `note_changes` is called."""

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Work per microsecond of each of ``jobs``, all of which hold something, >= 0."""

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """Note that ``jobs`` hold something else now, or nothing; before any rate is asked for.

        Returns
        -------
        The other jobs, sorted, whose rate may have changed.
        """


@dataclass(frozen=True, slots=True)
class RigidProgress:
    """A gang runs at the speed of its slowest server while all its tasks are placed."""

    speed: FloatArray
    """(S,) progress per microsecond on each server."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Speed of the slowest server held; synchronous training waits for it."""
        rates = np.empty(len(jobs))
        rigid_rates(self.speed, placements.held, jobs, rates)
        return rates

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """No jobs."""
        return NO_JOBS


def rows_of(placements: PlacementRows, jobs: IntArray) -> Rows:
    """Placements of jobs as rows, in the order of ``jobs``."""
    held, ptr = placements.held, np.empty(len(jobs) + 1, dtype=np.int64)
    count_rows(held, jobs, ptr)
    server, role, tasks = np.empty((3, int(ptr[-1])), dtype=np.int64)
    rows = Rows(ptr, server, role, tasks)
    copy_rows(held, jobs, rows)
    return rows


def tasks_of(rows: Rows, role: int) -> IntArray:
    """(N,) tasks of one role of each job."""
    tasks = np.empty(len(rows.ptr) - 1, dtype=np.int64)
    count_tasks(rows, role, tasks)
    return tasks
