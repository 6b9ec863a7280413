"""Rigid replay: jobs per CPU second in the engine, and relative to a bare compiled loop of the same rule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
import pytest

from benchmarks.figures import Figures
from benchmarks.week import CLUSTER, philly_week
from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import run_compiled
from ray_sim.engine.contract import Policy
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.result import Outcome
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from workloads.store import load_workload

QUEUE_BUDGET, PREEMPTING_BUDGET = 200_000, 50_000
"""Least jobs per CPU second of fixed-order queues, and of preemptive policies."""

BARE_BUDGET = 5.0
"""Largest CPU time relative to a bare loop of the same rule."""


@pytest.fixture
def world(tmp_path: Path, figures: Figures) -> World:
    """The week on one pool of GPUs."""
    workload, source = philly_week(tmp_path, figures.small)
    figures.input(source)
    return build_world(load_workload(workload), load_cluster(CLUSTER))


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_a_queue_beside_a_bare_loop(policy: str, world: World, figures: Figures) -> None:
    key = world.table.submit_us if policy == "fifo" else world.table.work_us
    arrays = world.arrays
    gpus = arrays.gang[:, 0] * arrays.demand[:, 0, 0]
    total = int(arrays.capacity[:, 0].sum())
    bare_s: list[float] = []
    starts: list[IntArray] = []

    def bare() -> None:  # in turn with the engine, so that other load of the machine affects both
        began = time.process_time()
        starts.append(pooled_starts(arrays.submit, world.table.work_us, gpus, total, key))
        bare_s.append(time.process_time() - began)

    replay = _compiled(world, policy)
    cpu_s = figures.median_s(replay, 7, before_each=bare)
    assert np.array_equal(starts[0], replay().ledger.first_start)
    figures.add(f"{policy}.jobs_per_cpu_s", len(world.table) / cpu_s, "jobs/s", "larger", QUEUE_BUDGET)
    times_bare = cpu_s / statistics.median(bare_s[1:])
    figures.add(f"{policy}.times_bare", times_bare, "x", "smaller", BARE_BUDGET)


@pytest.mark.parametrize("policy", ["srtf", "las"])
def test_a_preemptive_policy(policy: str, world: World, figures: Figures) -> None:
    cpu_s = figures.median_s(_compiled(world, policy), 7)
    figures.add(f"{policy}.jobs_per_cpu_s", len(world.table) / cpu_s, "jobs/s", "larger", PREEMPTING_BUDGET)


def _compiled(world: World, name: str) -> Callable[[], Outcome]:
    """The compiled loop under a policy on one pool of GPUs."""
    policy: Policy = create_policy(name, {"placement": "pooled"})
    order = policy.order(PolicyContext(world, policy.sees, name))
    assert order is not None, f"{name} does not run in the compiled loop"
    return lambda: run_compiled(world, order, None)


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
