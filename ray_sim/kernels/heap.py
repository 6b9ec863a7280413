"""Indexed binary heaps of job numbers, ordered by (key[job], job), in a slice of a shared array.

``base`` is where the heap's slice begins, ``n`` how many jobs it holds; ``position[job]`` is the
job's place relative to ``base``, -1 when it is in no heap. All operations are O(log n).
"""

from __future__ import annotations

from ray_sim.kernels.arrays import I64
from ray_sim.kernels.compile import kernel


@kernel
def precedes(key: I64, a: int, b: int) -> bool:
    """Whether job ``a`` comes before job ``b``."""
    return bool(key[a] < key[b] or (key[a] == key[b] and a < b))


@kernel
def _sift_up(heap: I64, base: int, position: I64, key: I64, at: int) -> None:
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
def _sift_down(heap: I64, base: int, n: int, position: I64, key: I64, at: int) -> None:
    job = heap[base + at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and precedes(key, heap[base + child + 1], heap[base + child]):
            child += 1
        below = heap[base + child]
        if not precedes(key, below, job):
            break
        heap[base + at] = below
        position[below] = at
        at = child
    heap[base + at] = job
    position[job] = at


@kernel
def push(heap: I64, base: int, n: int, position: I64, key: I64, job: int) -> int:
    """Add a job whose key is set; returns the new size."""
    heap[base + n] = job
    _sift_up(heap, base, position, key, n)
    return n + 1


@kernel
def remove(heap: I64, base: int, n: int, position: I64, key: I64, job: int) -> int:
    """Take a job out, wherever it stands; returns the new size."""
    at = position[job]
    last = heap[base + n - 1]
    position[job] = -1
    if last != job:
        heap[base + at] = last
        position[last] = at
        _sift_up(heap, base, position, key, at)
        _sift_down(heap, base, n - 1, position, key, position[last])
    return n - 1


@kernel
def rekey(heap: I64, base: int, n: int, position: I64, key: I64, job: int, new_key: int) -> None:
    """Change the key of a job in the heap."""
    key[job] = new_key
    _sift_up(heap, base, position, key, position[job])
    _sift_down(heap, base, n, position, key, position[job])
