"""World arrays of a few jobs and servers, number by number, and runs of them, for tests of single kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from ray_sim.engine.world_arrays import classes
from ray_sim.kernels.core import job_transitions, outages
from ray_sim.kernels.core.arrays import (
    I64,
    Books,
    Bool,
    Pool,
    Recorder,
    WorldArrays,
    new_calendar,
    new_ledger,
    new_pool,
    new_recorder,
)
from ray_sim.kernels.handle import handle
from tests.worlds import changes_of

SEEDS = st.integers(0, 2**32 - 1)

Rows = list[tuple[int, int, int]]
"""(server, role, tasks)."""


def ints(values: Any) -> I64:
    """A new array of integers."""
    return np.array(values, dtype=np.int64)


def world_arrays(
    capacity: Any,
    demand: Any,
    gang: Any,
    *,
    server_part: Sequence[int] | None = None,
    job_part: Sequence[int] | None = None,
    submit: Sequence[int] | None = None,
    speed: Sequence[float] | None = None,
) -> WorldArrays:
    """Servers of ``capacity``, (S, R), and jobs of ``demand``, (J, roles, R), and ``gang``, (J, roles).

    One partition, submission at 0 and speed 1 unless given; `class_single` is left False.
    """
    amounts, asked, tasks = ints(capacity), ints(demand), ints(gang)
    n_servers, n_jobs = len(amounts), len(asked)
    part = ints([0] * n_servers if server_part is None else server_part)
    of_job = ints([0] * n_jobs if job_part is None else job_part)
    n_parts, largest = int(part.max()) + 1, amounts.max(axis=0)
    part_ptr = np.searchsorted(np.sort(part), np.arange(n_parts + 1)).astype(np.int64)
    part_servers = np.argsort(part, kind="stable").astype(np.int64)
    job_pool = np.repeat(of_job[:, None], tasks.shape[1], axis=1)
    return WorldArrays(
        capacity=amounts,
        empty=amounts,
        speed=np.array([1.0] * n_servers if speed is None else speed),
        weight=np.where(largest > 0, 1 / np.maximum(largest, 1), 0.0),
        pool_ptr=part_ptr,
        pool_servers=part_servers,
        pool_meets=np.eye(n_parts, dtype=np.bool_),
        server_part=part,
        job_part=of_job,
        submit=ints([0] * n_jobs if submit is None else submit),
        gang=tasks,
        demand=asked,
        **classes(of_job, job_pool, np.hstack([tasks, asked.reshape(n_jobs, -1)]), n_parts),
    )


def all_there(arrays: WorldArrays) -> Bool:
    """(S,) servers that are there: all."""
    return np.ones(len(arrays.capacity), dtype=np.bool_)


def rows_of(pool: Pool, job: int) -> Rows:
    """The placement of a job, in the order in which its rows are linked."""
    rows, row = [], int(pool.head[job])
    while row >= 0:
        rows.append((int(pool.row_server[row]), int(pool.row_role[row]), int(pool.row_count[row])))
        row = int(pool.row_next[row])
    return rows


def quanta_of(arrays: WorldArrays, placements: dict[int, Rows]) -> I64:
    """(S, R) quanta that placements hold, added row by row."""
    held = np.zeros_like(arrays.capacity)
    for job, rows in placements.items():
        for server, role, tasks in rows:
            held[server] += tasks * arrays.demand[job, role]
    return held


class Run(NamedTuple):
    """A run that takes its steps through handles, as the general loop does."""

    books: Books
    record: Recorder
    steps: Books
    writer: Recorder

    @classmethod
    def of(
        cls,
        arrays: WorldArrays,
        work_us: Sequence[int],
        *,
        verdict: Sequence[int] | None = None,
        checkpoint_us: int = 0,
    ) -> Run:
        """A run that has not begun; ``verdict`` is given per job."""
        n_jobs, by_class = len(work_us), np.zeros(len(arrays.class_job), np.int64)
        by_class[arrays.job_class] = [0] * n_jobs if verdict is None else verdict
        books = Books(
            arrays=arrays,
            ledger=new_ledger(ints(work_us), losses=True, checkpoint_us=checkpoint_us),
            pool=new_pool(n_jobs, n_jobs * len(arrays.capacity), arrays, all_there(arrays)),
            calendar=new_calendar(n_jobs),
            used=np.zeros(1, np.int64),
            counts=np.zeros(2, np.int64),
            affected=np.empty(n_jobs, np.int64),
            verdict=by_class,
        )
        record = new_recorder(200, 1, 1)
        return cls(books, record, handle(books), handle(record))

    def submit(self, now: int, first: int) -> tuple[int, list[int]]:
        """First job of a later time, and the jobs submitted now that wait."""
        last, n = job_transitions.submit_due(now, first, self.steps, self.writer)
        return last, self.affected(n)

    def place(self, now: int, *rows: tuple[int, Rows], restart_us: int = 0, rate: float = 1.0) -> list[int]:
        """Commit placements, at a rate; returns the restart pauses."""
        changes, pause = changes_of(rows), np.empty(len(rows), np.int64)
        all_hold = job_transitions.commit_placements(now, self.steps, self.writer, changes, pause, restart_us)
        assert all_hold == all(held for _, held in rows)
        holding = [i for i, (_, held) in enumerate(rows) if held]
        jobs = changes.job[holding]
        job_transitions.rate_jobs(now, self.steps, jobs, np.full(len(jobs), rate), pause[holding])
        return [int(each) for each in pause]

    def finish(self, now: int) -> list[int]:
        """Jobs whose work is done now."""
        return self.affected(job_transitions.finish_due(now, self.steps, self.writer))

    def lose(self, now: int, server: int) -> list[int]:
        """Jobs that lose their servers with this one."""
        return self.affected(outages.lose_server(now, server, self.steps, self.writer))

    def evict(self, now: int, job: int) -> None:
        job_transitions.evict(now, self.steps, self.writer, job)

    def next_event(self, next_job: int) -> int:
        return job_transitions.next_job_event(self.steps, next_job)

    def affected(self, n: int) -> list[int]:
        return [int(job) for job in self.books.affected[:n]]

    def events(self) -> list[tuple[int, int, int, int]]:
        """(time, kind, job, server) of each event."""
        of, n = self.record, int(self.record.size[0])
        return [(int(of.time[i]), int(of.kind[i]), int(of.job[i]), int(of.server[i])) for i in range(n)]
