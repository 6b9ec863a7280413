"""Appending to the record of a run."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.arrays import I64, Pool, Recorder, Shop
from ray_sim.kernels.compile import kernel


@kernel
def ensure_room(record: Recorder, events: int) -> Recorder:
    """Room for so many more events and a timeline row, by doubling."""
    n, lines = record.size[0], record.size[1]
    time, kind, job, server, role, count = (
        record.time,
        record.kind,
        record.job,
        record.server,
        record.role,
        record.count,
    )
    if n + events > len(time):
        size = 2 * len(time) + events
        time = np.empty(size, np.int64)
        kind = np.empty(size, np.int8)
        job = np.empty(size, np.int32)
        server = np.empty(size, np.int32)
        role = np.empty(size, np.int8)
        count = np.empty(size, np.int32)
        time[:n] = record.time[:n]
        kind[:n] = record.kind[:n]
        job[:n] = record.job[:n]
        server[:n] = record.server[:n]
        role[:n] = record.role[:n]
        count[:n] = record.count[:n]
    line_time, line_waiting, line_running, line_used = (
        record.line_time,
        record.line_waiting,
        record.line_running,
        record.line_used,
    )
    if lines + 1 > len(line_time):
        size = 2 * len(line_time)
        line_time = np.empty(size, np.int64)
        line_waiting = np.empty(size, np.int32)
        line_running = np.empty(size, np.int32)
        line_used = np.empty((size, line_used.shape[1]), np.int64)
        line_time[:lines] = record.line_time[:lines]
        line_waiting[:lines] = record.line_waiting[:lines]
        line_running[:lines] = record.line_running[:lines]
        line_used[:lines] = record.line_used[:lines]
    return Recorder(
        time,
        kind,
        job,
        server,
        role,
        count,
        line_time,
        line_waiting,
        line_running,
        line_used,
        record.size,
    )


@kernel
def add_event(
    record: Recorder, time: int, kind: int, job: int, server: int, role: int, count: int
) -> Recorder:
    """Append one event; a server or role of -1 means none."""
    if record.size[0] == len(record.time):
        record = ensure_room(record, 1)
    n = record.size[0]
    record.time[n] = time
    record.kind[n] = kind
    record.job[n] = job
    record.server[n] = server
    record.role[n] = role
    record.count[n] = count
    record.size[0] = n + 1
    return record


@kernel
def add_holding(record: Recorder, time: int, kind: int, job: int, pool: Pool) -> Recorder:
    """One event per row that the job now holds."""
    row = pool.head[job]
    while row >= 0:
        record = add_event(
            record, time, kind, job, pool.row_server[row], pool.row_role[row], pool.row_count[row]
        )
        row = pool.row_next[row]
    return record


@kernel
def add_line(record: Recorder, time: int, waiting: int, running: int, used: I64) -> Recorder:
    """Append a timeline row: how things stand after all that happened at ``time``."""
    if record.size[1] == len(record.line_time):
        record = ensure_room(record, 0)
    n = record.size[1]
    record.line_time[n] = time
    record.line_waiting[n] = waiting
    record.line_running[n] = running
    record.line_used[n] = used
    record.size[1] = n + 1
    return record


@kernel
def add_used(used: I64, shop: Shop, pool: Pool, job: int, sign: int) -> None:
    """Add what a job holds to the totals, or take it off."""
    row = pool.head[job]
    while row >= 0:
        for r in range(len(used)):
            used[r] += sign * pool.row_count[row] * shop.demand[job, pool.row_role[row], r]
        row = pool.row_next[row]
