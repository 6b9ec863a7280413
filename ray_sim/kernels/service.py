"""Serving a queue: who starts, who is suspended, and where, at one instant in one partition."""

from __future__ import annotations

from ray_sim.kernels.arrays import I64, Changes, Pool, Queue, Running, Scratch, Shop
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.heap import precedes, push, remove
from ray_sim.kernels.placement import may_fit, measure, place
from ray_sim.kernels.running import claim_place, comes_before, first_after, give_back


@kernel
def copy_matrix(source: I64, target: I64) -> None:
    """Copy without the temporary array that a slice assignment may make."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


@kernel
def enqueue(shop: Shop, queue: Queue, job: int, key: int) -> None:
    """A job begins to wait."""
    c = shop.job_class[job]
    queue.key[job] = key
    base = shop.class_size_ptr[c]
    queue.size[c] = push(queue.heap, base, queue.size[c], queue.position, queue.key, job)
    if queue.heap[base] == job:
        queue.stuck[c] = False


@kernel
def enqueue_all(shop: Shop, queue: Queue, jobs: I64, keys: I64) -> None:
    """Several jobs begin to wait."""
    for i in range(len(jobs)):
        enqueue(shop, queue, jobs[i], keys[i])


@kernel
def dequeue(shop: Shop, queue: Queue, job: int) -> None:
    """A job waits no longer."""
    c = shop.job_class[job]
    base = shop.class_size_ptr[c]
    queue.size[c] = remove(queue.heap, base, queue.size[c], queue.position, queue.key, job)
    queue.stuck[c] = False


@kernel
def _unblock(shop: Shop, queue: Queue, p: int) -> None:
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        queue.blocked[c] = False


@kernel
def _unstick(shop: Shop, queue: Queue, p: int) -> None:
    """Capacity was freed: nobody is known not to fit."""
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        queue.stuck[c] = False


@kernel
def _head(shop: Shop, queue: Queue, p: int) -> int:
    """First waiting job of the partition whose class is not blocked, -1 if there is none."""
    best = -1
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        if queue.size[c] > 0 and not queue.blocked[c]:
            job = queue.heap[shop.class_size_ptr[c]]
            if best < 0 or precedes(queue.key, job, best):
                best = job
    return best


@kernel
def _block(shop: Shop, queue: Queue, p: int, job: int, backfill: bool) -> None:
    """A job does not fit: neither does its class, and in a strict queue nobody may pass it."""
    queue.stuck[shop.job_class[job]] = True
    if backfill:
        queue.blocked[shop.job_class[job]] = True
        return
    for c in range(shop.part_class_ptr[p], shop.part_class_ptr[p + 1]):
        queue.blocked[c] = True


@kernel
def _add_change(changes: Changes, job: int, out: Scratch, n: int) -> None:
    """Append a job's new holding of n rows."""
    i = changes.size[0]
    at = changes.ptr[i]
    changes.job[i] = job
    for k in range(n):
        changes.server[at + k] = out.server[k]
        changes.role[at + k] = out.role[k]
        changes.tasks[at + k] = out.tasks[k]
    changes.ptr[i + 1] = at + n
    changes.size[0] = i + 1


@kernel
def _take(shop: Shop, job: int, free: I64, out: Scratch, n: int) -> None:
    for k in range(n):
        for r in range(free.shape[1]):
            free[out.server[k], r] -= out.tasks[k] * shop.demand[job, out.role[k], r]


@kernel
def serve_waiting(
    p: int,
    rule: int,
    backfill: bool,
    freed: bool,
    shop: Shop,
    queue: Queue,
    free: I64,
    out: Scratch,
    changes: Changes,
) -> None:
    """Start waiting jobs in key order while they fit; nobody is suspended.

    A strict queue stops at the first job that does not fit, a backfilling one passes it. ``free``
    is left as after the starts. ``freed`` says whether capacity may have been freed since the last
    call; if not, jobs that did not fit then are not tried again. O(log n) per start and
    O(classes x S) per call.
    """
    _unblock(shop, queue, p)
    if freed:
        _unstick(shop, queue, p)
    measured = False
    job = _head(shop, queue, p)
    while job >= 0:
        n = 0
        known = queue.stuck[shop.job_class[job]]
        if not known and (not measured or may_fit(rule, shop, job, out.most[0])):
            n = place(rule, shop, job, free, out)
        if n == 0:
            _block(shop, queue, p, job, backfill)
            if backfill and not (measured or known):
                measure(shop, p, free, out.most[0])
                measured = True
        else:
            dequeue(shop, queue, job)
            _take(shop, job, free, out, n)
            _add_change(changes, job, out, n)
        job = _head(shop, queue, p)


@kernel
def serve_all(
    p: int,
    rule: int,
    backfill: bool,
    freed: bool,
    shop: Shop,
    queue: Queue,
    running: Running,
    lo: int,
    n_running: int,
    due_of_key_0: int,
    pool: Pool,
    idle: I64,
    claimable: I64,
    out: Scratch,
    changes: Changes,
) -> None:
    """Walk running and waiting jobs together in (key, job) order; the first ones run.

    ``running`` from ``lo`` on lists the partition's running jobs in that order, and a waiting job stands
    at ``due_of_key_0`` plus its key. A running job keeps its place
    unless an earlier job claimed it; then it moves if it fits elsewhere, else it is suspended. A
    waiting job takes idle servers first and later jobs' places second. A waiting job that does
    not fit blocks the waiting jobs behind it (its class only, with ``backfill``), never a running
    one. ``idle`` begins as the free capacity and is used up; ``claimable`` is working space.

    ``freed`` says whether capacity may have been freed, or the order of running and waiting jobs
    changed in favour of waiting ones, since the last call; if not, jobs that did not fit then are not
    tried again.

    Running jobs are looked at one by one only from the first waiting job on that needs the place of
    another, so a call costs O(log running) if there is none, else O(running).
    """
    _unblock(shop, queue, p)
    if freed:
        _unstick(shop, queue, p)
    # `claimable` is the capacity less all claims: what is idle and what running jobs from
    # `visited` on hold. It is made when first needed.
    visited, claiming, evicting, measured = 0, False, False, False
    head = _head(shop, queue, p)
    while head >= 0 or (evicting and visited < n_running):
        due = due_of_key_0 + queue.key[head] if head >= 0 else 0
        if head >= 0 and not claiming:
            visited = first_after(running, lo, n_running, visited, due, head)
        was_running = visited < n_running and (
            head < 0 or comes_before(running, running.order[lo + visited], due, head)
        )
        job = head
        if was_running:
            slot = running.order[lo + visited]
            visited += 1
            if claim_place(running, slot, shop, pool, claimable):
                continue
            job = running.job[slot]
            give_back(running, slot, shop, pool, idle)
            measured = False
        n = 0
        known = not was_running and queue.stuck[shop.job_class[job]]
        for attempt in range(2):
            if n > 0 or known or (attempt == 1 and not was_running and visited == n_running):
                continue
            if attempt == 1 and not claiming:
                copy_matrix(idle, claimable)
                for later in running.order[lo + visited : lo + n_running]:
                    give_back(running, later, shop, pool, claimable)
                measure(shop, p, claimable, out.most[1])
                claiming = True
            if (attempt == 1 or measured) and not may_fit(rule, shop, job, out.most[attempt]):
                continue
            n = place(rule, shop, job, idle if attempt == 0 else claimable, out)
            if attempt == 1 and n > 0 and not evicting:
                # What the evicted job held beyond this need is free for all behind.
                evicting = True
                _unstick(shop, queue, p)
        if was_running or n > 0:
            _take(shop, job, idle, out, n)
            _take(shop, job, claimable, out, n)
            _add_change(changes, job, out, n)
        if was_running:
            continue
        if n > 0:
            dequeue(shop, queue, job)
        else:
            _block(shop, queue, p, job, backfill)
            if not (measured or known):
                measure(shop, p, idle, out.most[0])
                measured = True
        head = _head(shop, queue, p)


_POSITION_BITS = 2**31


@kernel
def order_changes(changes: Changes) -> None:
    """Set `order`: the numbers of the changes in job order."""
    n = changes.size[0]
    for i in range(n):
        changes.order[i] = changes.job[i] * _POSITION_BITS + i
    sort_prefix(changes.order, n)
    for i in range(n):
        changes.order[i] %= _POSITION_BITS


@kernel
def sort_prefix(values: I64, n: int) -> None:
    """Sort the first n values in place: by insertion while they are few, else by a heap."""
    if n <= 32:
        for i in range(1, n):
            value = values[i]
            k = i
            while k > 0 and values[k - 1] > value:
                values[k] = values[k - 1]
                k -= 1
            values[k] = value
        return
    for root in range(n // 2 - 1, -1, -1):
        _sink(values, root, n)
    for last in range(n - 1, 0, -1):
        values[0], values[last] = values[last], values[0]
        _sink(values, 0, last)


@kernel
def _sink(values: I64, at: int, n: int) -> None:
    while True:
        child = 2 * at + 1
        if child >= n:
            return
        if child + 1 < n and values[child + 1] > values[child]:
            child += 1
        if values[child] <= values[at]:
            return
        values[at], values[child] = values[child], values[at]
        at = child
