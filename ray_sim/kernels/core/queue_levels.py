"""Keys that change with progress, and the queues of attained service, for the compiled loop.

`ray_sim.policies.las` implements the same rules for the general loop.

Source of the queues: Gu et al., Tiresias, NSDI 2019; docs/models/baselines.md#las-tiresias-2dlas.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core import running
from ray_sim.kernels.core.arrays import LEVEL, NEVER, RUNNING, Changes, Recorder
from ray_sim.kernels.core.attained_service import (
    among_running,
    attained_service,
    crossing_us,
    end_place,
    front_place,
    level_key,
    level_of,
    promotion_us,
    running_place,
)
from ray_sim.kernels.core.heap import is_due, rekey, schedule
from ray_sim.kernels.core.progress import executed, work_left
from ray_sim.kernels.core.queue_dispatch import sort_prefix
from ray_sim.kernels.core.record import add_event
from ray_sim.kernels.core.replay_state import REMAINING, Engine, Order


@kernel
def current_key(order: Order, engine: Engine, job: int, now: int) -> int:
    """Return the key of a job under REMAINING (work left, rounded up) or SERVICE (level, then place)."""
    if order.kind == REMAINING:
        return int(np.ceil(work_left(engine.books.ledger, job, now)))
    within = engine.place[job] if order.running_first else engine.books.ledger.first_start[job]
    return level_key(engine.level[job], within)


@kernel
def _service(order: Order, engine: Engine, job: int, now: int) -> int:
    """Return the attained service since the last promotion, in the unit of the limits."""
    return attained_service(order.rate[job], executed(engine.books.ledger, job, now) - engine.forgiven[job])


@kernel
def _set_level(engine: Engine, job: int, level: int) -> None:
    """Move a job to the end of another queue; no effect if it is there already."""
    if engine.level[job] != level:
        engine.level[job] = level
        engine.place[job] = end_place(engine.turn[0])
        engine.moved[engine.n_moved[0]] = job
        engine.n_moved[0] += 1


@kernel
def watch_limit(now: int, order: Order, engine: Engine, job: int) -> None:
    """Set the time at which a running job reaches its next limit, in the heap of crossings; O(log n)."""
    span = crossing_us(_service(order, engine, job, now), order.rate[job], order.limits)
    crossing = NEVER if span < 0 else max(now, engine.books.ledger.anchor[job]) + span
    schedule(engine.crossings, engine.crossing, job, crossing)


@kernel
def _reorder(order: Order, engine: Engine, job: int, now: int) -> None:
    """Move a running job to the place of its new key in the list of running jobs; O(running)."""
    p = engine.books.arrays.job_part[job]
    lo, n = engine.run_ptr[p], engine.run_size[p]
    slot = running.drop(engine.running, lo, n, job)
    server, quanta = engine.running.server[slot], engine.running.quanta[slot]
    running.insert(engine.running, lo, n - 1, job, current_key(order, engine, job, now), server, quanta)


@kernel
def cross_limits(now: int, order: Order, engine: Engine) -> bool:
    """Move every running job that reaches a limit now to its new queue; return whether there was one.

    Invariant of the loop: every job before now in the heap of crossings has been moved. A moved job crosses
    its next limit later, so each is visited once; O(log n + running) for each.
    """
    any_crossed = False
    while is_due(engine.crossings, engine.crossing, now):
        job = engine.crossings.heap[0]
        _set_level(engine, job, level_of(_service(order, engine, job, now), order.limits))
        _reorder(order, engine, job, now)
        watch_limit(now, order, engine, job)
        any_crossed = True
    return any_crossed


@kernel
def join_queue(engine: Engine, job: int) -> None:
    """Put a submitted job at the end of the first queue."""
    engine.place[job] = end_place(engine.turn[0])


@kernel
def change_places(engine: Engine, changes: Changes) -> None:
    """Update places: started jobs go after running ones, suspended jobs before waiting ones.

    Several of one kind keep the order of their changes; the suspended ones are visited from the last to
    the first, because each goes to the front. O(changes).
    """
    n = changes.size[0]
    for i in range(n):
        if changes.ptr[i + 1] > changes.ptr[i]:
            _place_running(engine, changes.job[i])
    for i in range(n - 1, -1, -1):
        job = changes.job[i]
        if changes.ptr[i + 1] == changes.ptr[i] and among_running(engine.place[job]):
            engine.turn[0] += 1
            engine.place[job] = front_place(engine.turn[0])


@kernel
def _place_running(engine: Engine, job: int) -> None:
    """Give a job a place after the running jobs of its queue, unless it has one among them."""
    if not among_running(engine.place[job]):
        engine.turn[0] += 1
        engine.place[job] = running_place(engine.turn[0])


@kernel
def place_moved(now: int, order: Order, engine: Engine) -> None:
    """Put running jobs that changed queue after the running jobs of their new queue; O(running) for each."""
    for job in engine.moved[: engine.n_moved[0]]:
        if engine.books.ledger.status[job] == RUNNING and not among_running(engine.place[job]):
            _place_running(engine, job)
            _reorder(order, engine, job, now)


@kernel
def settle_level(now: int, order: Order, engine: Engine, job: int) -> None:
    """Put a job that lost its servers before the waiting jobs of the queue of its attained service."""
    engine.place[job] = front_place(engine.turn[0])
    _set_level(engine, job, level_of(_service(order, engine, job, now), order.limits))


@kernel
def promote_starved(p: int, now: int, order: Order, engine: Engine) -> None:
    """Promote starved waiting jobs to the first queue: waited >= knob x executed time; O(waiting jobs).

    The attained service counts from 0 again (`Engine.forgiven`). Jobs of a class are collected before any
    is promoted, because a new key reorders the heap that the loop reads.
    """
    arrays, queue, due = engine.books.arrays, engine.serving.queue, engine.books.affected
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        base, n = arrays.class_size_ptr[c], 0
        for job in queue.heap[base : base + queue.size[c]]:
            pending = now - engine.books.ledger.last_stop[job]
            if _service(order, engine, job, now) > 0 and pending >= promotion_us(
                engine.books.ledger.ran[job], order.knob
            ):
                due[n] = job
                n += 1
        for job in due[:n]:
            engine.forgiven[job] = engine.books.ledger.ran[job]
            _set_level(engine, job, 0)
            key = current_key(order, engine, job, now)
            rekey(queue.heap, base, queue.size[c], queue.position, queue.key, job, key)


@kernel
def next_promotion(p: int, order: Order, engine: Engine) -> int:
    """Return the time of the next promotion in a partition, NEVER if there is none; O(waiting jobs)."""
    promotion, arrays, ledger = NEVER, engine.books.arrays, engine.books.ledger
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        base = arrays.class_size_ptr[c]
        for job in engine.serving.queue.heap[base : base + engine.serving.queue.size[c]]:
            ran = ledger.ran[job]
            if ran > engine.forgiven[job]:
                due = ledger.last_stop[job] + promotion_us(ran, order.knob)
                promotion = min(promotion, due)
    return promotion


@kernel
def record_levels(now: int, engine: Engine, record: Recorder) -> None:
    """Record the jobs that changed queue at this instant, in job order."""
    n = engine.n_moved[0]
    sort_prefix(engine.moved, n)
    for job in engine.moved[:n]:
        add_event(record, now, LEVEL, job, -1, -1, engine.level[job])
