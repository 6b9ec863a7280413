"""Bare compiled loop: minimal code for the start times of one rule in one pool of GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np

from ray_sim.model.units import IntArray


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", numba.njit(function))


@_compiled
def _push(heap: IntArray, n: int, key: IntArray, job: int) -> int:
    at = n
    while at > 0:
        parent = (at - 1) >> 1
        other = heap[parent]
        if key[other] < key[job] or (key[other] == key[job] and other < job):
            break
        heap[at] = other
        at = parent
    heap[at] = job
    return n + 1


@_compiled
def _pop(heap: IntArray, n: int, key: IntArray) -> int:
    n -= 1
    job = heap[n]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        a, b = heap[child], heap[min(child + 1, n - 1)]
        if key[b] < key[a] or (key[b] == key[a] and b < a):
            child += 1
            a = b
        if key[job] < key[a] or (key[job] == key[a] and job < a):
            break
        heap[at] = a
        at = child
    heap[at] = job
    return n


@_compiled
def pooled_starts(submit: IntArray, work: IntArray, gpus: IntArray, total: int, key: IntArray) -> IntArray:
    """(J,) start times of a strict queue ordered by (key, index) in a pool of ``total`` GPUs."""
    n = len(submit)
    start = np.full(n, -1)
    finish = np.zeros(n, np.int64)
    running, queue = np.empty(n, np.int64), np.empty(n, np.int64)
    n_running = n_queue = arrived = 0
    free = total
    while arrived < n or n_running > 0:
        now = submit[arrived] if arrived < n else finish[running[0]]
        if n_running > 0:
            now = min(now, finish[running[0]])
        while n_running > 0 and finish[running[0]] == now:
            free += gpus[running[0]]
            n_running = _pop(running, n_running, finish)
        while arrived < n and submit[arrived] == now:
            n_queue = _push(queue, n_queue, key, arrived)
            arrived += 1
        while n_queue > 0 and gpus[queue[0]] <= free:
            job = queue[0]
            n_queue = _pop(queue, n_queue, key)
            free -= gpus[job]
            start[job] = now
            finish[job] = now + work[job]
            n_running = _push(running, n_running, finish, job)
    return start
