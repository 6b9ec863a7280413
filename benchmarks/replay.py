"""Benchmark of rigid replay: jobs per CPU second, compared with a bare compiled loop of the same rule."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.week import CLUSTER, philly_week
from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import run_compiled
from ray_sim.engine.contract import Policy
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.result import Outcome
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import IntArray, us_to_seconds
from ray_sim.policies.registry import create_policy
from workloads.store import load_workload

_T = TypeVar("_T")

QUEUE_BUDGET, PREEMPTING_BUDGET = 200_000, 50_000
"""Least jobs per CPU second of fixed-order queues, and of preemptive policies."""

BARE_BUDGET = 5.0
"""Largest CPU time relative to a bare loop of the same rule."""


def run(step: Step = lambda what: None, repetitions: int = 7) -> Findings:
    """Measure every policy; each figure is the median of the repetitions."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-replay-") as folder:
        workload, source = philly_week(Path(folder))
        world = build_world(load_workload(workload), load_cluster(CLUSTER))
    rows: list[Measurement] = []
    for policy, key in (("fifo", world.table.submit_us), ("sjf", world.table.work_us)):
        step(f"{policy}, beside a bare loop")
        rows += _queue(world, policy, key, repetitions)
    for policy in ("srtf", "las"):
        step(policy)
        replay = _compiled(world, policy)
        cpu_s = [_timed(replay)[0] for _ in range(repetitions + 1)][1:]  # the first repetition compiles
        rows.append(_speed(policy, world, cpu_s, PREEMPTING_BUDGET))
    return Findings(source, tuple(rows))


def _queue(world: World, policy: str, key: IntArray, repetitions: int) -> list[Measurement]:
    """Speed of a strict queue in the order of `key`, absolute and relative to the bare loop.

    Raises
    ------
    RunFailedError : the two do not start the jobs at the same times
    """
    replay = _compiled(world, policy)
    arrays = world.arrays
    gpus = arrays.gang[:, 0] * arrays.demand[:, 0, 0]
    total = int(arrays.capacity[:, 0].sum())
    ours, bare = [], []
    for _ in range(repetitions + 1):  # alternating, so that other load of the machine affects both
        cpu_s, outcome = _timed(replay)
        bare_cpu_s, starts = _timed(
            lambda: pooled_starts(arrays.submit, world.table.work_us, gpus, total, key)
        )
        if not np.array_equal(starts, outcome.ledger.first_start):
            raise RunFailedError(f"{policy}: the bare loop starts jobs at {us_to_seconds(starts[:3])} ...")
        ours.append(cpu_s)
        bare.append(bare_cpu_s)
    del ours[0], bare[0]  # compiling
    times = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
    return [
        _speed(policy, world, ours, QUEUE_BUDGET),
        Measurement(policy, "times_bare", times, "x", "smaller", BARE_BUDGET),
    ]


def _compiled(world: World, name: str) -> Callable[[], Outcome]:
    """Run the compiled loop under a policy on one pool of GPUs."""
    policy: Policy = create_policy(name, {"placement": "pooled"})
    order = policy.order(PolicyContext(world, policy.sees, name))
    if order is None:
        raise RunFailedError(f"{name} does not run in the compiled loop")
    return lambda: run_compiled(world, order, None)


def _timed(work: Callable[[], _T]) -> tuple[float, _T]:
    """CPU seconds of a function, and its result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def _speed(case: str, world: World, cpu_s: list[float], budget: float) -> Measurement:
    speed = len(world.table) / statistics.median(cpu_s)
    return Measurement(case, "jobs_per_cpu_s", speed, "jobs/s", "larger", budget)


def _jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", numba.njit(function))


@_jitted
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


@_jitted
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


@_jitted
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
