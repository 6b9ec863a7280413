"""Append events and timeline rows to the record of a run; O(1) for each."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Pool, Recorder
from ray_sim.kernels.core.devices import copy_devices


@kernel
def room_for_instant(record: Recorder, events: int) -> bool:
    """Whether the record has room for ``events`` more events and one timeline row."""
    return bool(record.size[0] + events <= len(record.time) and record.size[1] < len(record.line_time))


@kernel
def add_event(record: Recorder, time: int, kind: int, job: int, server: int, role: int, value: int) -> None:
    """Append one event; a server or role of -1 means none."""
    n = record.size[0]
    record.time[n] = time
    record.kind[n] = kind
    record.job[n] = job
    record.server[n] = server
    record.role[n] = role
    record.value[n] = value
    record.size[0] = n + 1


@kernel
def add_holding(record: Recorder, time: int, kind: int, job: int, pool: Pool) -> None:
    """Append one event per row of the job's placement."""
    row = pool.head[job]
    while row >= 0:
        n = record.size[0]
        add_event(record, time, kind, job, pool.row_server[row], pool.row_role[row], pool.row_count[row])
        copy_devices(pool.row_device, row, record.device, n)
        row = pool.row_next[row]


@kernel
def add_line(record: Recorder, time: int, waiting: int, running: int, used: I64) -> None:
    """Append a timeline row: the state after all events of ``time``."""
    n = record.size[1]
    record.line_time[n] = time
    record.line_waiting[n] = waiting
    record.line_running[n] = running
    for r in range(len(used)):
        record.line_used[n, r] = used[r]
    record.size[1] = n + 1
