"""Fragments of the whole cluster at each line of a timeline, from the events of a finished run.

`ray_sim.engine.scoring` calls it. So no loop keeps fragments, and both give the same.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import (
    EVICT,
    F64,
    FINISH,
    I64,
    LOSE,
    MOVE,
    SERVER_DOWN,
    SERVER_UP,
    START,
    STOP,
    Bool,
    Recorder,
    WorldArrays,
)
from ray_sim.kernels.core.devices import add_devices
from ray_sim.kernels.core.fragmentation import fragments, note_arrivals
from ray_sim.kernels.core.queue_arrays import Scores
from ray_sim.kernels.core.scored_placement import show_free


class Replica(NamedTuple):
    """Servers as the events leave them, and who holds what."""

    free: I64
    """(S, R + D) quanta, at first those of empty servers."""
    there: Bool
    """(S,)."""
    head: I64
    """(J,) last event by which the job holds something, -1 for none."""
    before: I64
    """(events,) the event before it, by which the same job holds something."""
    each: F64
    """(S,) fragments."""
    changed: Bool
    """(S,) at first True."""


@kernel
def _add(arrays: WorldArrays, record: Recorder, replica: Replica, e: int, sign: int) -> None:
    """Add what the tasks of an event hold to what is free, or subtract it with ``sign`` -1."""
    server, resources = record.server[e], arrays.demand.shape[2]
    replica.changed[server] = True
    for r in range(resources):
        replica.free[server, r] += sign * record.value[e] * arrays.demand[record.job[e], record.role[e], r]
    add_devices(replica.free, server, record.device, e, sign)


@kernel
def _release(arrays: WorldArrays, record: Recorder, replica: Replica, job: int) -> None:
    """Give back all that a job holds."""
    e = replica.head[job]
    while e >= 0:
        _add(arrays, record, replica, e, 1)
        e = replica.before[e]
    replica.head[job] = -1


@kernel
def _continues(record: Recorder, e: int) -> bool:
    """Whether an event is a further row of the placement that the event before it begins or continues."""
    same = e > 0 and record.kind[e - 1] == record.kind[e] and record.job[e - 1] == record.job[e]
    if not same or record.time[e - 1] != record.time[e] or record.server[e - 1] > record.server[e]:
        return False
    return bool(record.server[e - 1] < record.server[e] or record.role[e - 1] < record.role[e])


@kernel
def _apply(arrays: WorldArrays, record: Recorder, replica: Replica, e: int) -> None:
    """Carry out one event."""
    kind, job, server = record.kind[e], record.job[e], record.server[e]
    if kind == START or kind == MOVE:
        if not _continues(record, e):
            _release(arrays, record, replica, job)
        replica.before[e] = replica.head[job]
        replica.head[job] = e
        _add(arrays, record, replica, e, -1)
    elif kind == STOP or kind == FINISH or kind == EVICT or kind == LOSE:
        _release(arrays, record, replica, job)
    elif kind == SERVER_DOWN or kind == SERVER_UP:
        replica.there[server] = kind == SERVER_UP
        replica.changed[server] = True


@kernel
def fragments_over_time(
    arrays: WorldArrays, scores: Scores, record: Recorder, replica: Replica, found: F64
) -> None:
    """Set ``found``, (lines,), to the fragments of all servers after the events up to each line."""
    scoring, book, e, total = scores.scoring, scores.book, 0, 0.0
    for i in range(record.size[1]):
        while e < record.size[0] and record.time[e] <= record.line_time[i]:
            _apply(arrays, record, replica, e)
            e += 1
        if note_arrivals(scoring.target, scoring.arrivals, arrays.submit, record.line_time[i]):
            replica.changed[:] = True
        for s in range(len(replica.there)):
            if not replica.changed[s]:
                continue
            replica.changed[s] = False
            total -= replica.each[s]
            replica.each[s] = 0.0
            if replica.there[s]:
                show_free(replica.free, s, arrays.demand.shape[2], scores)
                kind = scoring.kind[s]
                replica.each[s] = fragments(scoring.target, book.cpu[s], book.device[s], kind, book.classes)
            total += replica.each[s]
        found[i] = total
