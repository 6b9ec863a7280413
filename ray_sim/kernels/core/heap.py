"""Binary heaps of integers: plain ones in any order, and indexed ones of jobs by (key[job], job).

Elements of both sink by one loop, `_sift_down`; `heap_sort` sorts by it. Plain heaps have one operation,
`settle`. An indexed heap is a slice of a shared array: ``base`` is the start of the slice, ``n`` the number
of jobs in it, ``position[job]`` the place of a job relative to ``base``, -1 if it is in no heap. Invariant
between calls: no job precedes its parent, and ``heap[base + position[job]] == job``. Every operation is
O(log n). Jobs with equal keys are in the order of their numbers, so the content of a heap determines what it
returns. A `Calendar` is an indexed heap of jobs by time: the time of each job stands in an array of the
caller, (J,), NEVER for a job that has none.

Source: the textbook structure, Cormen et al., Introduction to Algorithms, chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, NEVER, Calendar

T = TypeVar("T")


@kernel
def _sift_down(
    heap: I64,
    base: int,
    n: int,
    at: int,
    before: Callable[[T, int, int], bool],
    moved: Callable[[T, int, int], None],
    data: T,
) -> None:
    """Move the element at ``at`` towards the leaves until no child must stand above it; O(log n).

    Invariant of the loop: all elements but this one are in order, and ``at`` is a free place for it. Kernels
    passed as arguments are inlined: one loop for all orders costs no time.

    Parameters
    ----------
    before : a kernel; ``before(data, a, b)`` tells whether element a must stand above element b, and is a
        strict order
    moved : a kernel; ``moved(data, a, place)`` is called for each element that has a new place, and for this
    """
    element = heap[base + at]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and before(data, heap[base + child + 1], heap[base + child]):
            child += 1
        below = heap[base + child]
        if not before(data, below, element):
            break
        heap[base + at] = below
        moved(data, below, at)
        at = child
    heap[base + at] = element
    moved(data, element, at)


@kernel
def _forget_place(data: T, element: int, place: int) -> None:
    """Do nothing: a plain heap has no positions."""


@kernel
def settle(heap: I64, at: int, n: int, before: Callable[[T, int, int], bool], data: T) -> None:
    """Move the element of a plain heap at ``at`` down to its place among the first ``n``; O(log n).

    Both subtrees below ``at`` must be heaps, and are one with it afterwards. Called for n // 2 - 1 down to 0
    it makes a heap of elements in any order, in O(n). ``before`` and ``data`` are as in `_sift_down`.
    """
    _sift_down(heap, 0, n, at, before, _forget_place, data)


@kernel
def heap_sort(items: I64, first: int, n: int, after: Callable[[T, int, int], bool], data: T) -> None:
    """Sort ``items[first:first + n]``; O(n log n).

    ``after`` and ``data`` are ``before`` and ``data`` of `_sift_down`: the last one stands above all others.
    """
    for at in range(n // 2 - 1, -1, -1):
        _sift_down(items, first, n, at, after, _forget_place, data)
    for left in range(n - 1, 0, -1):
        items[first], items[first + left] = items[first + left], items[first]
        _sift_down(items, first, left, 0, after, _forget_place, data)


@kernel
def precedes(key: I64, a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b``."""
    return bool(key[a] < key[b] or (key[a] == key[b] and a < b))


@kernel
def _rise(heap: I64, base: int, position: I64, key: I64, at: int) -> None:
    """Move a job towards the root until it does not precede its parent; all others are in order. O(log n)."""
    job = heap[base + at]
    while at > 0:
        parent = (at - 1) >> 1
        above = heap[base + parent]
        if not precedes(key, job, above):
            break
        heap[base + at] = above
        position[above] = at
        at = parent
    heap[base + at] = job
    position[job] = at


@kernel
def _precedes(data: tuple[I64, I64], a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b``; ``data`` are keys and positions."""
    return precedes(data[0], a, b)


@kernel
def _set_position(data: tuple[I64, I64], job: int, place: int) -> None:
    """Set the position of a job; ``data`` are keys and positions."""
    data[1][job] = place


@kernel
def _sink(heap: I64, base: int, n: int, position: I64, key: I64, at: int) -> None:
    """Move a job towards the leaves until no child precedes it; all others are in order. O(log n)."""
    _sift_down(heap, base, n, at, _precedes, _set_position, (key, position))


@kernel
def push(heap: I64, base: int, n: int, position: I64, key: I64, job: int) -> int:
    """Add a job whose key is set; returns the new size."""
    heap[base + n] = job
    _rise(heap, base, position, key, n)
    return n + 1


@kernel
def remove(heap: I64, base: int, n: int, position: I64, key: I64, job: int) -> int:
    """Remove a job from any place; the last job takes the place, and rises or sinks. Returns the new size."""
    at = position[job]
    last = heap[base + n - 1]
    position[job] = -1
    if last != job:
        heap[base + at] = last
        position[last] = at
        _rise(heap, base, position, key, at)
        _sink(heap, base, n - 1, position, key, position[last])
    return n - 1


@kernel
def rekey(heap: I64, base: int, n: int, position: I64, key: I64, job: int, new_key: int) -> None:
    """Change the key of a job in the heap, and its place."""
    key[job] = new_key
    _rise(heap, base, position, key, position[job])
    _sink(heap, base, n, position, key, position[job])


@kernel
def schedule(calendar: Calendar, times: I64, job: int, time: int) -> None:
    """Insert a job at a time, or move it there; O(log n)."""
    if calendar.position[job] >= 0:
        rekey(calendar.heap, 0, calendar.size[0], calendar.position, times, job, time)
    else:
        times[job] = time
        calendar.size[0] = push(calendar.heap, 0, calendar.size[0], calendar.position, times, job)


@kernel
def unschedule(calendar: Calendar, times: I64, job: int) -> None:
    """Remove a job; its time stays in ``times``; O(log n)."""
    calendar.size[0] = remove(calendar.heap, 0, calendar.size[0], calendar.position, times, job)


@kernel
def next_time(calendar: Calendar, times: I64) -> int:
    """Return the time of the first job, NEVER if the calendar is empty; O(1)."""
    return times[calendar.heap[0]] if calendar.size[0] > 0 else NEVER


@kernel
def is_due(calendar: Calendar, times: I64, now: int) -> bool:
    """Whether the time of the first job is now; O(1)."""
    return bool(calendar.size[0] > 0 and times[calendar.heap[0]] == now)
