"""World arrays of a few jobs and servers, number by number, for tests of single kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ray_sim.engine.world_arrays import classes
from ray_sim.kernels.core.arrays import I64, Bool, Pool, WorldArrays

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
    return WorldArrays(
        capacity=amounts,
        speed=np.array([1.0] * n_servers if speed is None else speed),
        weight=np.where(largest > 0, 1 / np.maximum(largest, 1), 0.0),
        part_ptr=np.searchsorted(np.sort(part), np.arange(n_parts + 1)).astype(np.int64),
        part_servers=np.argsort(part, kind="stable").astype(np.int64),
        server_part=part,
        job_part=of_job,
        submit=ints([0] * n_jobs if submit is None else submit),
        gang=tasks,
        demand=asked,
        **classes(of_job, np.hstack([tasks, asked.reshape(n_jobs, -1)]), n_parts),
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
