"""The compiled outer loop: rigid jobs under an order rule, from instant to instant.

It does what `ray_sim.engine.simulation.Simulation` does with the policies of
`ray_sim.policies.ordered`, through the same kernels, and leaves the same record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import (
    I64,
    NEVER,
    RUNNING,
    WAITING,
    Bool,
    Calendar,
    Changes,
    Ledger,
    Pool,
    Queue,
    Recorder,
    Scratch,
    Shop,
)
from ray_sim.kernels.arrays import LEVEL as LEVEL_EVENT
from ray_sim.kernels.attained import crossing_us, level_key, level_of, promotion_us
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.heap import push, rekey, remove
from ray_sim.kernels.progress import (
    commit_holdings,
    executed,
    finish_due,
    rigid_rate,
    set_rate,
    submit_due,
    work_left,
)
from ray_sim.kernels.record import add_event, add_line, room_for_instant
from ray_sim.kernels.service import (
    copy_matrix,
    drop_running,
    enqueue,
    insert_running,
    order_changes,
    serve_all,
    serve_waiting,
    sort_prefix,
    sort_running,
)

STATIC, REMAINING, SERVICE = range(3)

# Places in `Engine.clock`.
NOW, NEXT_ARRIVAL, DONE = range(3)


class Order(NamedTuple):
    """An order rule, resolved for one workload."""

    kind: int
    """STATIC, REMAINING or SERVICE."""
    placement: int
    backfill: bool
    preemptive: bool
    static_key: I64
    """(J,), for STATIC."""
    limits: I64
    """Service limits in milli-GPU microseconds, for SERVICE."""
    knob: float
    """Promotion after this many times the executed time; 0 = never."""
    gpus: I64
    """(J,) milli-GPU of the gang, at least 1."""
    never_fits: I64
    """(C,) 1 if the partition's capacity, 2 if the placement rule can never hold the gang."""


class Engine(NamedTuple):
    """All other state of the loop."""

    clock: I64
    counts: I64
    """(waiting, running)."""
    used: I64
    """(R,) quanta held."""
    ledger: Ledger
    calendar: Calendar
    queue: Queue
    level: I64
    """(J,) queue of a job under SERVICE."""
    offset: I64
    """(J,) service forgiven by promotions."""
    crossing: I64
    """(J,) when a running job reaches the limit of its queue."""
    crossings: Calendar
    """Running jobs by (crossing, job), under SERVICE."""
    promotion: I64
    """(P,) when a waiting job is next to be promoted."""
    dirty: Bool
    """(P,) partitions to be served at this instant."""
    freed: Bool
    """(P,) and those of them in which capacity was freed, or waiting jobs moved ahead."""
    run_ptr: I64
    """(P + 1,) where a partition's list of running jobs lies."""
    run_jobs: I64
    run_size: I64
    moved: I64
    """Jobs whose level changed at this instant."""
    n_moved: I64
    finished: I64
    pause: I64
    fresh: Bool
    """Whether the job of a change starts to run."""
    idle: I64
    claimable: I64
    scratch: Scratch


@kernel
def _next_instant(shop: Shop, engine: Engine) -> int:
    time = NEVER
    i = engine.clock[NEXT_ARRIVAL]
    if i < len(shop.submit):
        time = shop.submit[i]
    if engine.calendar.size[0] > 0:
        time = min(time, engine.ledger.finish[engine.calendar.heap[0]])
    if engine.crossings.size[0] > 0:
        time = min(time, engine.crossing[engine.crossings.heap[0]])
    for p in range(len(engine.promotion)):
        time = min(time, engine.promotion[p])
    return time


@kernel
def _key(order: Order, engine: Engine, job: int, now: int) -> int:
    """Key of a job under an order that changes with its progress."""
    if order.kind == REMAINING:
        return int(np.ceil(work_left(engine.ledger, job, now)))
    return level_key(engine.level[job], engine.ledger.first_start[job])


@kernel
def _arrive(now: int, shop: Shop, order: Order, engine: Engine, record: Recorder) -> None:
    """Queue every job submitted now that can ever fit."""
    first = engine.clock[NEXT_ARRIVAL]
    last = submit_due(now, first, shop, order.never_fits, engine.ledger, engine.counts, record)
    engine.clock[NEXT_ARRIVAL] = last
    for job in range(first, last):
        if engine.ledger.status[job] == WAITING:
            engine.dirty[shop.job_part[job]] = True
            key = order.static_key[job] if order.kind == STATIC else _key(order, engine, job, now)
            enqueue(shop, engine.queue, job, key)


@kernel
def _service(order: Order, engine: Engine, job: int, now: int) -> int:
    return order.gpus[job] * executed(engine.ledger, job, now) - engine.offset[job]


@kernel
def _set_level(engine: Engine, job: int, level: int) -> None:
    if engine.level[job] != level:
        engine.level[job] = level
        engine.moved[engine.n_moved[0]] = job
        engine.n_moved[0] += 1


@kernel
def _refresh_running(p: int, now: int, order: Order, engine: Engine) -> None:
    """Work left of the partition's running jobs as of now, and the list in its order."""
    lo = engine.run_ptr[p]
    running = engine.run_jobs[lo : lo + engine.run_size[p]]
    for job in running:
        engine.queue.key[job] = _key(order, engine, job, now)
    sort_running(running, len(running), engine.queue.key)


@kernel
def _watch(now: int, order: Order, engine: Engine, job: int) -> None:
    """Note when a running job next reaches a limit."""
    span = crossing_us(_service(order, engine, job, now), order.gpus[job], order.limits)
    crossing = NEVER if span < 0 else max(now, engine.ledger.anchor[job]) + span
    watched = engine.crossings
    if watched.position[job] >= 0:
        rekey(watched.heap, 0, watched.size[0], watched.position, engine.crossing, job, crossing)
        return
    engine.crossing[job] = crossing
    watched.size[0] = push(watched.heap, 0, watched.size[0], watched.position, engine.crossing, job)


@kernel
def _cross(now: int, shop: Shop, order: Order, engine: Engine) -> bool:
    """Move every job down that reaches a limit now; returns whether there was one."""
    watched, any_crossed = engine.crossings, False
    while watched.size[0] > 0 and engine.crossing[watched.heap[0]] == now:
        job = watched.heap[0]
        p = shop.job_part[job]
        _set_level(engine, job, level_of(_service(order, engine, job, now), order.limits))
        lo = engine.run_ptr[p]
        running = engine.run_jobs[lo : lo + engine.run_size[p]]
        n = drop_running(running, len(running), job)
        engine.queue.key[job] = _key(order, engine, job, now)
        insert_running(running, n, engine.queue.key, job)
        _watch(now, order, engine, job)
        any_crossed = True
    return any_crossed


@kernel
def _anyone_waits(p: int, shop: Shop, queue: Queue) -> bool:
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        if queue.size[c] > 0:
            return True
    return False


@kernel
def _promote(p: int, now: int, shop: Shop, order: Order, engine: Engine) -> None:
    """Return waiting jobs that have starved to the top queue."""
    queue, due = engine.queue, engine.finished
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        base, n = shop.class_size_ptr[c], 0
        for job in queue.heap[base : base + queue.size[c]]:
            pending = now - engine.ledger.last_stop[job]
            if _service(order, engine, job, now) > 0 and pending >= promotion_us(
                engine.ledger.ran[job], order.knob
            ):
                due[n] = job
                n += 1
        for job in due[:n]:
            engine.offset[job] = order.gpus[job] * engine.ledger.ran[job]
            _set_level(engine, job, 0)
            key = level_key(0, engine.ledger.first_start[job])
            rekey(queue.heap, base, queue.size[c], queue.position, queue.key, job, key)


@kernel
def _next_promotion(p: int, shop: Shop, order: Order, engine: Engine) -> int:
    """When the next waiting job of the partition is to be promoted."""
    promotion = NEVER
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        base = shop.class_size_ptr[c]
        for job in engine.queue.heap[base : base + engine.queue.size[c]]:
            ran = engine.ledger.ran[job]
            if order.gpus[job] * ran > engine.offset[job]:
                due = engine.ledger.last_stop[job] + promotion_us(ran, order.knob)
                promotion = min(promotion, due)
    return promotion


@kernel
def _serve_partition(p: int, shop: Shop, order: Order, engine: Engine, pool: Pool, changes: Changes) -> None:
    """Append the partition's changes."""
    if not order.preemptive:
        first = changes.size[0]
        serve_waiting(
            p,
            order.placement,
            order.backfill,
            engine.freed[p],
            shop,
            engine.queue,
            pool.free,
            engine.scratch,
            changes,
        )
        # Serving used up the true free capacity; `commit_holdings` takes it for good.
        for i in range(first, changes.size[0]):
            for k in range(changes.ptr[i], changes.ptr[i + 1]):
                for r in range(pool.free.shape[1]):
                    pool.free[changes.server[k], r] += (
                        changes.tasks[k] * shop.demand[changes.job[i], changes.role[k], r]
                    )
        return
    copy_matrix(pool.free, engine.idle)
    lo = engine.run_ptr[p]
    serve_all(
        p,
        order.placement,
        order.backfill,
        engine.freed[p],
        shop,
        engine.queue,
        engine.run_jobs[lo : lo + engine.run_size[p]],
        pool,
        engine.idle,
        engine.claimable,
        engine.scratch,
        changes,
    )


@kernel
def _leave_running(p: int, order: Order, engine: Engine, job: int) -> None:
    lo = engine.run_ptr[p]
    running = engine.run_jobs[lo : lo + engine.run_size[p]]
    engine.run_size[p] = drop_running(running, len(running), job)
    if order.kind == SERVICE:
        watched = engine.crossings
        watched.size[0] = remove(watched.heap, 0, watched.size[0], watched.position, engine.crossing, job)


@kernel
def _join_running(p: int, now: int, order: Order, engine: Engine, job: int) -> None:
    engine.queue.key[job] = _key(order, engine, job, now)
    lo = engine.run_ptr[p]
    running = engine.run_jobs[lo : lo + engine.run_size[p] + 1]
    insert_running(running, engine.run_size[p], engine.queue.key, job)
    engine.run_size[p] += 1


@kernel
def _apply(
    now: int,
    shop: Shop,
    order: Order,
    engine: Engine,
    pool: Pool,
    record: Recorder,
    changes: Changes,
    restart_us: int,
) -> None:
    """Commit the changes, re-rate the changed jobs and keep the lists of running jobs."""
    if order.preemptive:
        for i in range(changes.size[0]):
            job = changes.job[i]
            engine.fresh[i] = engine.ledger.status[job] != RUNNING
            if changes.ptr[i + 1] == changes.ptr[i]:
                _leave_running(shop.job_part[job], order, engine, job)
    commit_holdings(
        now,
        shop,
        engine.ledger,
        pool,
        engine.calendar,
        engine.used,
        record,
        changes,
        engine.pause,
        restart_us,
        engine.counts,
    )
    for i in range(changes.size[0]):
        job = changes.job[i]
        if changes.ptr[i + 1] == changes.ptr[i]:
            enqueue(shop, engine.queue, job, engine.queue.key[job])
        else:
            rate = rigid_rate(shop.speed, pool, job)
            set_rate(engine.ledger, engine.calendar, job, now, rate, engine.pause[i])
            if order.preemptive and engine.fresh[i]:
                _join_running(shop.job_part[job], now, order, engine, job)
            if order.kind == SERVICE:
                _watch(now, order, engine, job)


@kernel
def _record_levels(now: int, engine: Engine, record: Recorder) -> None:
    n = engine.n_moved[0]
    sort_prefix(engine.moved, n)
    for job in engine.moved[:n]:
        add_event(record, now, LEVEL_EVENT, job, -1, -1, engine.level[job])
    engine.n_moved[0] = 0


@kernel
def _happen(now: int, shop: Shop, order: Order, engine: Engine, pool: Pool, record: Recorder) -> None:
    """Completions and arrivals of an instant, and which partitions they make dirty."""
    n = finish_due(
        now,
        shop,
        engine.ledger,
        pool,
        engine.calendar,
        engine.used,
        record,
        engine.counts,
        engine.finished,
    )
    for job in engine.finished[:n]:
        p = shop.job_part[job]
        engine.dirty[p] = True
        engine.freed[p] = True
        if order.preemptive:
            _leave_running(p, order, engine, job)
    reviewed = _cross(now, shop, order, engine)
    for p in range(len(engine.promotion)):
        reviewed = reviewed or engine.promotion[p] == now
    if reviewed:
        engine.dirty[:] = True
        engine.freed[:] = True
    _arrive(now, shop, order, engine, record)


@kernel
def _serve(now: int, shop: Shop, order: Order, engine: Engine, pool: Pool, changes: Changes) -> None:
    """Serve every dirty partition."""
    changes.size[0] = 0
    for p in range(len(engine.dirty)):
        if not engine.dirty[p]:
            continue
        waiting = _anyone_waits(p, shop, engine.queue)
        if waiting and order.kind == REMAINING:
            _refresh_running(p, now, order, engine)
        if waiting and order.knob > 0.0:
            _promote(p, now, shop, order, engine)
        if waiting:
            _serve_partition(p, shop, order, engine, pool, changes)


@kernel
def replay(
    shop: Shop,
    order: Order,
    engine: Engine,
    pool: Pool,
    record: Recorder,
    changes: Changes,
    restart_us: int,
    horizon: int,
    instants: int,
    events: int,
) -> None:
    """Go on for at most so many instants, or until the record may lack room for one with ``events``.

    ``clock[DONE]`` is 1 at the end. All state is in the arguments, so the loop can be left and
    entered again between instants.
    """
    clock = engine.clock
    for _ in range(instants):
        if not room_for_instant(record, events):
            return
        now = _next_instant(shop, engine)
        if now > clock[NOW]:
            if clock[NOW] >= 0:
                add_line(record, clock[NOW], engine.counts[0], engine.counts[1], engine.used)
            if now > horizon:
                clock[DONE] = 1
                return
            clock[NOW] = now
        _happen(now, shop, order, engine, pool, record)
        _serve(now, shop, order, engine, pool, changes)
        if engine.n_moved[0] > 0:
            _record_levels(now, engine, record)
        if changes.size[0] > 0:
            order_changes(changes)
            _apply(now, shop, order, engine, pool, record, changes, restart_us)
        if order.knob > 0.0:
            for p in range(len(engine.dirty)):
                if engine.dirty[p]:
                    engine.promotion[p] = _next_promotion(p, shop, order, engine)
        engine.dirty[:] = False
        engine.freed[:] = False
