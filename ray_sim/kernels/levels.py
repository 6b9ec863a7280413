"""Keys that change with a job's progress, and the queues of attained service, in the compiled loop.

`ray_sim.policies.las` does the same from outside, decision by decision.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels import running
from ray_sim.kernels.arrays import LEVEL, NEVER, Recorder, Shop
from ray_sim.kernels.attained import crossing_us, level_key, level_of, promotion_us
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.heap import push, rekey
from ray_sim.kernels.progress import executed, work_left
from ray_sim.kernels.record import add_event
from ray_sim.kernels.replay_state import REMAINING, Engine, Order
from ray_sim.kernels.service import sort_prefix


@kernel
def current_key(order: Order, engine: Engine, job: int, now: int) -> int:
    """Key of a job under an order that changes with its progress."""
    if order.kind == REMAINING:
        return int(np.ceil(work_left(engine.ledger, job, now)))
    return level_key(engine.level[job], engine.ledger.first_start[job])


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
def watch_limit(now: int, order: Order, engine: Engine, job: int) -> None:
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
def cross_limits(now: int, shop: Shop, order: Order, engine: Engine) -> bool:
    """Move every job down that reaches a limit now; returns whether there was one."""
    watched, any_crossed = engine.crossings, False
    while watched.size[0] > 0 and engine.crossing[watched.heap[0]] == now:
        job = watched.heap[0]
        p = shop.job_part[job]
        _set_level(engine, job, level_of(_service(order, engine, job, now), order.limits))
        lo, n = engine.run_ptr[p], engine.run_size[p]
        slot = running.drop(engine.running, lo, n, job)
        server, quanta = engine.running.server[slot], engine.running.quanta[slot]
        running.insert(engine.running, lo, n - 1, job, current_key(order, engine, job, now), server, quanta)
        watch_limit(now, order, engine, job)
        any_crossed = True
    return any_crossed


@kernel
def settle_level(now: int, order: Order, engine: Engine, job: int) -> None:
    """A job that lost its servers waits in the queue of the service it has attained."""
    _set_level(engine, job, level_of(_service(order, engine, job, now), order.limits))


@kernel
def promote_starved(p: int, now: int, shop: Shop, order: Order, engine: Engine) -> None:
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
def next_promotion(p: int, shop: Shop, order: Order, engine: Engine) -> int:
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
def record_levels(now: int, engine: Engine, record: Recorder) -> None:
    n = engine.n_moved[0]
    sort_prefix(engine.moved, n)
    for job in engine.moved[:n]:
        add_event(record, now, LEVEL, job, -1, -1, engine.level[job])
    engine.n_moved[0] = 0
