"""Compiled outer loop: rigid jobs under an order rule, from instant to instant.

The loop does what `ray_sim.engine.simulation.Simulation` does with the policies of
`ray_sim.policy_api.priority`, through the same kernels, and leaves the same record; see
docs/engine.md#two-loops-one-truth. Phases of an instant: servers go and come back, completions, queue
limits, arrivals, dispatch of the partitions that any of these touched.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core import running
from ray_sim.kernels.core.arrays import RUNNING, Outages, Recorder
from ray_sim.kernels.core.heap import next_time, unschedule
from ray_sim.kernels.core.job_transitions import (
    commit_placements,
    finish_due,
    next_job_event,
    reject,
    submit_due,
)
from ray_sim.kernels.core.outages import lose_server, regain_server
from ray_sim.kernels.core.placement_rows import rigid_rate
from ray_sim.kernels.core.progress import set_rate
from ray_sim.kernels.core.queue_dispatch import (
    enqueue,
    give_back_changes,
    order_changes,
    serve_all,
    serve_waiting,
    sort_prefix,
)
from ray_sim.kernels.core.queue_levels import (
    change_places,
    cross_limits,
    current_key,
    join_queue,
    next_promotion,
    place_moved,
    promote_starved,
    record_levels,
    settle_level,
    watch_limit,
)
from ray_sim.kernels.core.record import add_line, room_for_instant
from ray_sim.kernels.core.replay_state import (
    DONE,
    NEXT_ARRIVAL,
    NEXT_OUTAGE,
    NOW,
    REMAINING,
    SERVICE,
    STATIC,
    Engine,
    Order,
)
from ray_sim.kernels.core.scored_placement import begin_scores


@kernel
def _next_instant(engine: Engine, outages: Outages) -> int:
    """Return the time of the next event, NEVER if there is none; O(partitions).

    Outages after the last job has ended do not prolong the run.
    """
    i, counts = engine.clock[NEXT_ARRIVAL], engine.books.counts
    time = min(next_job_event(engine.books, i), next_time(engine.crossings, engine.crossing))
    for p in range(len(engine.promotion)):
        time = min(time, engine.promotion[p])
    k = engine.clock[NEXT_OUTAGE]
    if k < len(outages.time) and (i < len(engine.books.arrays.submit) or counts[0] + counts[1] > 0):
        time = min(time, outages.time[k])
    return time


@kernel
def _note_freed(p: int, engine: Engine) -> None:
    """Note that capacity of a partition was freed, so that it is dispatched at this instant."""
    engine.to_dispatch[p] = True
    engine.freed[p] = True


@kernel
def _wait(now: int, order: Order, engine: Engine, job: int) -> None:
    """Put a waiting job into the queue of its class, with its key as of now; O(log n)."""
    key = order.static_key[job] if order.kind == STATIC else current_key(order, engine, job, now)
    enqueue(engine.books.arrays, engine.serving.queue, job, key)


@outlined
def _change_servers(now: int, order: Order, engine: Engine, record: Recorder, outages: Outages) -> None:
    """Process the outages of this instant in their order; jobs that lose a server wait again.

    O(rows of running jobs) for each server that goes (`lose_server`).
    """
    clock, books = engine.clock, engine.books
    while clock[NEXT_OUTAGE] < len(outages.time) and outages.time[clock[NEXT_OUTAGE]] == now:
        server, up = outages.server[clock[NEXT_OUTAGE]], outages.up[clock[NEXT_OUTAGE]]
        clock[NEXT_OUTAGE] += 1
        p = books.arrays.server_part[server]
        _note_freed(p, engine)
        if up:
            regain_server(now, server, books.arrays, books.pool, record)
            continue
        n = lose_server(now, server, books, record)
        for job in books.affected[:n]:
            if order.preemptive:
                _leave_running(p, order, engine, job)
            if order.kind == SERVICE:
                settle_level(now, order, engine, job)
            _wait(now, order, engine, job)


@kernel
def _arrive(now: int, order: Order, engine: Engine, record: Recorder) -> None:
    """Submit the jobs of this instant and queue those that can ever fit."""
    books, clock = engine.books, engine.clock
    clock[NEXT_ARRIVAL], n = submit_due(now, clock[NEXT_ARRIVAL], books, record)
    for job in books.affected[:n]:
        engine.to_dispatch[books.arrays.job_part[job]] = True
        join_queue(engine, job)
        _wait(now, order, engine, job)


@kernel
def _refresh_running(p: int, now: int, order: Order, engine: Engine) -> None:
    """Recompute the keys of the partition's running jobs as of now, and sort the list.

    Needed only if jobs progress at different rates: else their order by work left does not change.
    """
    lo, n = engine.run_ptr[p], engine.run_size[p]
    for slot in engine.running.order[lo : lo + n]:
        engine.running.due[slot] = now + current_key(order, engine, engine.running.job[slot], now)
    running.sort(engine.running, lo, n)


@kernel
def _anyone_waits(p: int, engine: Engine) -> bool:
    """Whether a job of the partition waits; O(classes)."""
    first = engine.books.arrays.part_class_ptr
    for c in range(first[p], first[p + 1]):
        if engine.serving.queue.size[c] > 0:
            return True
    return False


@kernel
def _serve_partition(p: int, now: int, order: Order, engine: Engine) -> None:
    """Dispatch a partition: append its changes, and leave `pool.free` unchanged."""
    pool, serving, freed = engine.books.pool, engine.serving, engine.freed[p]
    heap, n_running = engine.books.calendar.heap, engine.books.calendar.size[0]
    begin_scores(order.placement, now, serving.arrays, pool, heap, n_running, serving.scratch.scores)
    if order.preemptive:
        lo, n, due_of_key_0 = engine.run_ptr[p], engine.run_size[p], now if order.kind == REMAINING else 0
        serve_all(
            p, order.placement, order.backfill, freed, serving, engine.running, lo, n, due_of_key_0, pool
        )
        return
    changes = serving.changes
    first = changes.size[0]
    serve_waiting(p, order.placement, order.backfill, order.reject, freed, serving, pool.free, pool.there)
    # `serve_waiting` took the starts from `pool.free`; add them: `commit_placements` takes them again.
    give_back_changes(serving.arrays, pool.free, changes, first)


@kernel
def _leave_running(p: int, order: Order, engine: Engine, job: int) -> None:
    """Remove a job from the partition's list of running jobs and from the crossings of limits."""
    running.drop(engine.running, engine.run_ptr[p], engine.run_size[p], job)
    engine.run_size[p] -= 1
    if order.kind == SERVICE:
        unschedule(engine.crossings, engine.crossing, job)


@kernel
def _join_running(p: int, now: int, order: Order, engine: Engine, job: int) -> None:
    """Add a job to the partition's list of running jobs.

    Under REMAINING the key falls as time goes on; key plus now is constant at rate 1 and keeps the order.
    """
    due = current_key(order, engine, job, now)
    if order.kind == REMAINING:
        due += now
    server, quanta = running.single_row(engine.books.arrays, engine.books.pool, job)
    running.insert(engine.running, engine.run_ptr[p], engine.run_size[p], job, due, server, quanta)
    engine.run_size[p] += 1
    if order.kind == SERVICE:
        watch_limit(now, order, engine, job)


@kernel
def _apply(now: int, order: Order, engine: Engine, record: Recorder, restart_us: int) -> None:
    """Apply the changes, set the rates of the changed jobs and update the lists of running jobs."""
    books, part, changes = engine.books, engine.books.arrays.job_part, engine.serving.changes
    if order.preemptive:
        for i in range(changes.size[0]):
            job = changes.job[i]
            if books.ledger.status[job] == RUNNING:
                _leave_running(part[job], order, engine, job)
    commit_placements(now, books, record, changes, engine.pause, restart_us)
    for i in range(changes.size[0]):
        job = changes.job[i]
        if changes.ptr[i + 1] == changes.ptr[i]:
            _wait(now, order, engine, job)
        else:
            rate = rigid_rate(books.arrays.speed, books.pool, job)
            set_rate(books.ledger, books.calendar, job, now, rate, engine.pause[i])
            if order.preemptive:
                _join_running(part[job], now, order, engine, job)


@kernel
def _happen(now: int, order: Order, engine: Engine, record: Recorder) -> None:
    """Process completions, limits and arrivals of an instant, and mark the partitions that they touch."""
    books = engine.books
    n = finish_due(now, books, record)
    for job in books.affected[:n]:
        p = books.arrays.job_part[job]
        _note_freed(p, engine)
        if order.preemptive:
            _leave_running(p, order, engine, job)
    reviewed = cross_limits(now, order, engine)
    for p in range(len(engine.promotion)):
        reviewed = reviewed or engine.promotion[p] == now
    if reviewed:
        engine.to_dispatch[:] = True
        engine.freed[:] = True
    _arrive(now, order, engine, record)


@outlined
def _reject_refused(now: int, engine: Engine, record: Recorder) -> None:
    """Reject the jobs for which the queue found no room, in job order."""
    refused, n = engine.serving.refused, engine.serving.n_refused[0]
    sort_prefix(refused, n)
    for job in refused[:n]:
        reject(now, engine.books, record, job)


@kernel
def _serve(now: int, order: Order, engine: Engine) -> None:
    """Dispatch every partition marked ``to_dispatch``."""
    engine.serving.changes.size[0] = 0
    engine.serving.n_refused[0] = 0
    for p in range(len(engine.to_dispatch)):
        if not engine.to_dispatch[p]:
            continue
        waiting = _anyone_waits(p, engine)
        if waiting and order.kind == REMAINING and not order.uniform:
            _refresh_running(p, now, order, engine)
        if waiting and order.knob > 0.0:
            promote_starved(p, now, order, engine)
        if waiting:
            _serve_partition(p, now, order, engine)


@kernel
def replay(
    order: Order,
    engine: Engine,
    record: Recorder,
    outages: Outages,
    restart_us: int,
    horizon: int,
    instants: int,
    events: int,
) -> None:
    """Advance by at most ``instants`` instants, or until the record may lack room for ``events`` events.

    All state is in the arguments, so the loop can be left and entered again between instants. Invariant
    between instants: no partition is marked ``to_dispatch``, and every waiting job is in the queue of its
    class. ``clock[DONE]`` is 1 when the run has ended or its horizon is reached. An instant costs O(classes +
    partitions), and each start, stop and completion of a job O(log n) beside its placement.
    """
    clock, books, changes = engine.clock, engine.books, engine.serving.changes
    for _ in range(instants):
        if not room_for_instant(record, events):
            return
        now = _next_instant(engine, outages)
        if now > clock[NOW]:
            if clock[NOW] >= 0:
                add_line(record, clock[NOW], books.counts[0], books.counts[1], books.used)
            if now > horizon:
                clock[DONE] = 1
                return
            clock[NOW] = now
        engine.turn[0] += 1
        if clock[NEXT_OUTAGE] < len(outages.time):
            _change_servers(now, order, engine, record, outages)
        _happen(now, order, engine, record)
        _serve(now, order, engine)
        if engine.serving.n_refused[0] > 0:
            _reject_refused(now, engine, record)
        if engine.n_moved[0] > 0:
            record_levels(now, engine, record)
        if changes.size[0] > 0:
            if order.running_first:
                change_places(engine, changes)
            order_changes(changes)
            _apply(now, order, engine, record, restart_us)
        if order.running_first:
            place_moved(now, order, engine)
        engine.n_moved[0] = 0
        if order.knob > 0.0:
            for p in range(len(engine.to_dispatch)):
                if engine.to_dispatch[p]:
                    engine.promotion[p] = next_promotion(p, order, engine)
        engine.to_dispatch[:] = False
        engine.freed[:] = False
