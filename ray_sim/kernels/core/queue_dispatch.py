"""Dispatch of one partition at one instant: start and suspend jobs in queue order, and place them.

Jobs of equal partition, gang and demand form a class. If one job of a class does not fit, none does, so a
queue is one heap per class and a dispatch compares class heads only: its cost does not grow with the number
of waiting jobs. Two flags per class save placements: `Queue.stuck` (a job of the class did not fit since
capacity was last freed) outlives the call, `Queue.blocked` (no job of the class may start in this call) does
not.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Bool, Changes, Pool, WorldArrays
from ray_sim.kernels.core.devices import add_devices, copy_devices
from ray_sim.kernels.core.heap import heap_sort, precedes, push, remove
from ray_sim.kernels.core.placement import may_fit, measure, meets, place
from ray_sim.kernels.core.queue_arrays import Queue, RunningList, Scratch, Serving
from ray_sim.kernels.core.running import claim_place, comes_before, first_after, give_back
from ray_sim.kernels.core.scored_placement import add_started, drop_running


@kernel
def copy_matrix(source: I64, target: I64) -> None:
    """Copy a matrix; a slice assignment could allocate a temporary array."""
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


@kernel
def enqueue(arrays: WorldArrays, queue: Queue, job: int, key: int) -> None:
    """Add a waiting job with its key; O(log n). A new head of its class may fit where the old one did not."""
    c = arrays.job_class[job]
    queue.key[job] = key
    base = arrays.class_size_ptr[c]
    queue.size[c] = push(queue.heap, base, queue.size[c], queue.position, queue.key, job)
    if queue.heap[base] == job:
        queue.stuck[c] = False


@kernel
def count_try(tries: I64 | None, job: int) -> None:
    """Note that a job leaves the queue, where the draws of placement depend on it."""
    if tries is not None:
        tries[job] += 1


@kernel
def dequeue(arrays: WorldArrays, queue: Queue, job: int) -> None:
    """Remove a waiting job; O(log n)."""
    c = arrays.job_class[job]
    base = arrays.class_size_ptr[c]
    queue.size[c] = remove(queue.heap, base, queue.size[c], queue.position, queue.key, job)
    queue.stuck[c] = False
    count_try(queue.tries, job)


@kernel
def _unblock(arrays: WorldArrays, queue: Queue, p: int) -> None:
    """Allow every class of the partition to start jobs in this call."""
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        queue.blocked[c] = False


@kernel
def _unstick(arrays: WorldArrays, queue: Queue, p: int) -> None:
    """Forget which classes did not fit, because capacity was freed."""
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        queue.stuck[c] = False


@kernel
def _head(arrays: WorldArrays, queue: Queue, p: int) -> int:
    """Return the first waiting job of the classes that are not blocked, -1 if there is none; O(classes)."""
    best = -1
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        if queue.size[c] > 0 and not queue.blocked[c]:
            job = queue.heap[arrays.class_size_ptr[c]]
            if best < 0 or precedes(queue.key, job, best):
                best = job
    return best


@kernel
def _block(arrays: WorldArrays, queue: Queue, p: int, job: int, backfill: bool) -> None:
    """Record that a job does not fit; block its class, in a strict queue all whose pools meet its own."""
    mine = arrays.job_class[job]
    queue.stuck[mine] = True
    queue.blocked[mine] = True
    if backfill:
        return
    untyped = len(arrays.pool_ptr) == len(arrays.part_class_ptr)
    for c in range(arrays.part_class_ptr[p], arrays.part_class_ptr[p + 1]):
        queue.blocked[c] = untyped or queue.blocked[c] or meets(arrays, mine, c)


@kernel
def add_change(changes: Changes, job: int, out: Scratch, n: int) -> None:
    """Append a change: the new placement of a job, n rows; 0 rows suspend it."""
    i = changes.size[0]
    at = changes.ptr[i]
    changes.job[i] = job
    for k in range(n):
        changes.server[at + k] = out.server[k]
        changes.role[at + k] = out.role[k]
        changes.tasks[at + k] = out.tasks[k]
        copy_devices(out.device, k, changes.device, at + k)
    changes.ptr[i + 1] = at + n
    changes.size[0] = i + 1


@kernel
def take_rows(arrays: WorldArrays, job: int, free: I64, out: Scratch, n: int) -> None:
    """Subtract n rows of a placement from ``free``, (S, R + D)."""
    resources = arrays.demand.shape[2]
    for k in range(n):
        for r in range(resources):
            free[out.server[k], r] -= out.tasks[k] * arrays.demand[job, out.role[k], r]
        add_devices(free, out.server[k], out.device, k, -1)


@kernel
def give_back_changes(arrays: WorldArrays, free: I64, changes: Changes, first: int) -> None:
    """Add the rows of the changes from number ``first`` on to ``free``, (S, R + D)."""
    resources = arrays.demand.shape[2]
    for i in range(first, changes.size[0]):
        for k in range(changes.ptr[i], changes.ptr[i + 1]):
            for r in range(resources):
                free[changes.server[k], r] += (
                    changes.tasks[k] * arrays.demand[changes.job[i], changes.role[k], r]
                )
            add_devices(free, changes.server[k], changes.device, k, 1)


@kernel
def serve_waiting(
    p: int,
    rule: int,
    backfill: bool,
    reject: bool,
    freed: bool,
    serving: Serving,
    free: I64,
    there: Bool,
) -> None:
    """Start waiting jobs in key order while they fit, without preemption.

    In a strict queue a job that does not fit blocks all jobs whose pools meet its own, so that none takes a
    server that it might use; a backfilling queue passes it.

    Invariant of the loop: every waiting job that precedes the head either started or belongs to a blocked
    class. Each iteration starts a job or blocks a class, so there are at most starts + classes of them;
    each costs O(classes) for the head, O(log n) for the heap and one placement, O(S) or more (`place`).

    Parameters
    ----------
    reject : whether a job that does not fit leaves the queue, and goes to ``refused``
    freed : whether capacity may have been freed since the last call; if not, classes that did not fit
        then are not tried again
    free : (S, R + D) free quanta, reduced by the starts
    there : (S,) servers that may be used
    """
    arrays, queue, out = serving.arrays, serving.queue, serving.scratch
    _unblock(arrays, queue, p)
    if freed:
        _unstick(arrays, queue, p)
    measured = False
    job = _head(arrays, queue, p)
    while job >= 0:
        n = 0
        known = queue.stuck[arrays.job_class[job]]
        if not known and (not measured or may_fit(rule, arrays, job, out.most[0])):
            n = place(rule, arrays, job, free, there, out)
        if n == 0 and reject:
            dequeue(arrays, queue, job)
            queue.stuck[arrays.job_class[job]] = True
            serving.refused[serving.n_refused[0]] = job
            serving.n_refused[0] += 1
        elif n == 0:
            _block(arrays, queue, p, job, backfill)
            if backfill and not (measured or known):
                measure(arrays, p, free, out.most[0])
                measured = True
        else:
            dequeue(arrays, queue, job)
            take_rows(arrays, job, free, out, n)
            add_started(rule, arrays, job, out, n, out.scores)
            add_change(serving.changes, job, out, n)
        job = _head(arrays, queue, p)


@kernel
def serve_all(
    p: int,
    rule: int,
    backfill: bool,
    freed: bool,
    serving: Serving,
    running: RunningList,
    lo: int,
    n_running: int,
    due_of_key_0: int,
    pool: Pool,
) -> None:
    """Dispatch with preemption: merge running and waiting jobs in (due, job) order; the first ones run.

    A running job keeps its place unless an earlier job claimed it; then it moves if it fits elsewhere, else
    it is suspended. A waiting job takes idle capacity first and the places of later running jobs second. A
    waiting job that does not fit blocks the waiting jobs behind it whose pools meet its own (its class only,
    with ``backfill``), never a running job.

    Invariant of the loop: jobs before the current one are settled; ``idle`` is the capacity that no settled
    or later running job holds; ``claimable``, once made, is ``idle`` plus the places of running jobs from
    entry ``visited`` on. It is made when the first waiting job needs the place of another. Up to then
    running jobs are skipped by bisection, so a call that evicts nothing costs O(log running) beside the
    placements, else O(running).

    Parameters
    ----------
    freed : whether capacity may have been freed, or the order of running and waiting jobs may have changed
        in favour of waiting ones, since the last call; if not, classes that did not fit then are not tried
    running, lo, n_running : sorted list of the partition's running jobs
    due_of_key_0 : a waiting job stands at this number plus its key
    """
    arrays, queue, out = serving.arrays, serving.queue, serving.scratch
    idle, claimable = serving.idle, serving.claimable
    copy_matrix(pool.free, idle)
    _unblock(arrays, queue, p)
    if freed:
        _unstick(arrays, queue, p)

    visited, claiming, evicting, measured = 0, False, False, False
    head = _head(arrays, queue, p)
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
            if claim_place(running, slot, arrays, pool, claimable):
                continue
            job = running.job[slot]
            give_back(running, slot, arrays, pool, idle)
            drop_running(rule, arrays, pool, job, out.scores)
            measured = False
        n = 0
        known = not was_running and queue.stuck[arrays.job_class[job]]
        for attempt in range(2):  # first idle capacity, then the places of later running jobs
            if n > 0 or known or (attempt == 1 and not was_running and visited == n_running):
                continue
            if attempt == 1 and not claiming:
                copy_matrix(idle, claimable)
                for later in running.order[lo + visited : lo + n_running]:
                    give_back(running, later, arrays, pool, claimable)
                measure(arrays, p, claimable, out.most[1])
                claiming = True
            if (attempt == 1 or measured) and not may_fit(rule, arrays, job, out.most[attempt]):
                continue
            n = place(rule, arrays, job, idle if attempt == 0 else claimable, pool.there, out)
            if attempt == 1 and n > 0 and not evicting:
                # An evicted job may hold more than this one needs: classes behind may fit now.
                evicting = True
                _unstick(arrays, queue, p)
        if was_running or n > 0:  # a running job is moved, or suspended with n = 0
            take_rows(arrays, job, idle, out, n)
            take_rows(arrays, job, claimable, out, n)
            add_started(rule, arrays, job, out, n, out.scores)
            add_change(serving.changes, job, out, n)
        if was_running:
            continue
        if n > 0:
            dequeue(arrays, queue, job)
        else:
            _block(arrays, queue, p, job, backfill)
            if not (measured or known):
                measure(arrays, p, idle, out.most[0])
                measured = True
        head = _head(arrays, queue, p)


_POSITION_BITS = 2**31


@kernel
def order_changes(changes: Changes) -> None:
    """Set `order` to the numbers of the changes, sorted by job; O(n log n).

    Job and number are packed into one integer, job x 2^31 + number, so that a plain sort is stable.
    """
    n = changes.size[0]
    for i in range(n):
        changes.order[i] = changes.job[i] * _POSITION_BITS + i
    sort_prefix(changes.order, n)
    for i in range(n):
        changes.order[i] %= _POSITION_BITS


@kernel
def sort_prefix(values: I64, n: int) -> None:
    """Sort the first n values in place: insertion sort up to 32 values, else heapsort, O(n log n).

    numpy's sort would allocate, which kernels cannot.
    """
    if n <= 32:
        for i in range(1, n):
            value = values[i]
            k = i
            while k > 0 and values[k - 1] > value:
                values[k] = values[k - 1]
                k -= 1
            values[k] = value
        return
    heap_sort(values, 0, n, _larger, values)


@kernel
def _larger(values: I64, a: int, b: int) -> bool:
    """The order of a heap whose elements are the values themselves."""
    return a > b
