"""A warning of the load is a theorem: some job waits, or never ends, under every policy that rejects none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, islice, product

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import run_compiled
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.world import World
from ray_sim.experiments.offered_load import offered_load
from ray_sim.kernels.core.arrays import COMPLETED, NEVER, REJECTED, RUNNING
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from tests.worlds import DOWN, HOUR, UP, Job, availability, cluster_of, job_table, replay

DAY = 24 * HOUR

STRICT, BACKFILLED, LEVELS = {"backfill": False}, {"backfill": True}, {"limits_gpu_s": (10.0,)}

QUEUES: list[tuple[str, dict[str, object]]] = [
    (name, {"placement": rule, **switches})
    for name, rule in product(("fifo", "sjf", "srtf", "las"), RULE_NAMES)
    for switches in ([LEVELS] if name == "las" else [STRICT, BACKFILLED])
]
"""Every built-in policy of rigid jobs with each placement rule, with and without backfill."""

PER_WORKLOAD = 2
"""Queues that replay each workload, in turn."""


def test_a_job_counts_at_the_slowest_speed_at_which_it_may_run() -> None:
    # A job of two cores fits only on the server of speed 2, a job of one core on both: in 10 s they do at
    # least 2 x 10 and 0.5 x 10, of the 25 that both servers do.
    jobs = job_table(
        [Job(0, 1, 50), Job(0, 1, 50), Job(10, 1, 1)], ("gpu", "cpu"), {"cpu_per_task": [2, 1, 1]}
    )
    found = offered_load(jobs, cluster_of([1, 1], cpu=[1, 2], speed=[0.5, 2.0])).whole
    assert found.resources["gpu"].offered_load == pytest.approx(1)
    assert found.overload is None


def test_jobs_that_lost_their_servers_at_the_end_never_end_without_having_waited() -> None:
    jobs = job_table([Job(0, 1, 10 * HOUR), Job(HOUR, 1, 10 * HOUR)])
    gone = availability([(5.0 * HOUR, 0, DOWN), (5.0 * HOUR, 1, DOWN)])
    cluster = replace(cluster_of([1, 1]), availability=gone)
    found = offered_load(jobs, cluster).whole
    # In the first hour one of two GPUs is wanted. By 5 h the two jobs have done 5 h and 4 h.
    gpu = found.resources["gpu"]
    assert (gpu.offered_load, gpu.jobs_must_wait, found.overload) == (0.5, False, ("gpu", gpu))
    ended = replay(build_world(jobs, cluster), "fifo").jobs
    assert ended.select("status", "queue_s").rows() == [("unfinished", 0.0)] * 2


def drawn(seed: int) -> tuple[JobTable, Cluster]:
    """Jobs in whole seconds on servers of other sizes and speeds that come and go.

    What the jobs can do before the last submission is near what the servers can do, or just that.
    """
    rng = np.random.default_rng(seed)
    n, span = int(rng.integers(1, 5)), int(rng.integers(4, 60))
    gpus = rng.choice([1.0, 2.0, 4.0], n)
    speed = rng.choice([[1.0], [0.5, 1.0, 2.0], [0.7, 0.7, 1.3]][seed % 3], n).tolist()
    changes, there = [], [True] * n
    for time_s, server in sorted(
        zip(rng.integers(0, span, seed % 5), rng.integers(0, n, seed % 5), strict=True)
    ):
        there[server] = not there[server]
        changes.append((float(time_s), int(server), there[server]))
    if rng.random() < 0.8:
        changes += [(span + 9.0, server, UP) for server in range(n) if not there[server]]
    target = rng.choice([0.95, 1.0, 1.05, 1.3]) * span * float(gpus.sum())
    jobs, done = [Job(0.0, 1.0, 1.0, "a")], 1.0
    while done < target:
        at, size = int(rng.integers(0, span)), float(rng.choice([0.5, 1.0, 2.0]))
        length = int(min(rng.choice([1, 3, 10, 500]), np.ceil((target - done) / size)))
        jobs.append(Job(float(at), size, float(length), str(rng.choice(["a", "b"]))))
        done += size * min(length, span - at)
    jobs.append(Job(float(span), 1.0, float(rng.choice([0.0, 9.0])), "b"))
    table = job_table(jobs, ("gpu", "cpu"), {"cpu_per_task": rng.choice([1.0, 2.0], len(jobs)).tolist()})
    vc = rng.choice(["a", "b"], n).tolist() if seed % 4 == 0 else None
    cpu = (gpus * rng.choice([1, 2, 4])).tolist()
    cluster = cluster_of(gpus.tolist(), speed=speed, vc=vc, cpu=cpu)
    return table, replace(cluster, availability=availability(changes))


def waits(world: World, name: str, params: Mapping[str, object]) -> tuple[IntArray, np.ndarray]:
    """Microseconds that each job waits under a policy, as `queue_s` of a result, and its status."""
    policy = create_policy(name, params)
    order = policy.order(PolicyContext(world, policy.sees, policy.name))
    assert order is not None
    ran = run_compiled(world, order, None)
    ledger, submit = ran.ledger, world.table.submit_us
    until = np.where(ledger.end < NEVER, ledger.end, np.maximum(ran.now_us, submit))
    held = ledger.held + np.where(ledger.status == RUNNING, until - ledger.held_since, 0)
    return until - submit - held, ledger.status


@pytest.mark.slow
def test_where_it_is_warned_some_job_waits_or_never_ends_under_every_policy() -> None:
    queues = cycle(QUEUES)
    told = {"waits": 0, "never ends": 0, "nothing": 0}
    for seed in range(500):
        table, cluster = drawn(seed)
        found = offered_load(table, cluster)
        for partition, parts in (("none", [found.whole]), ("vc", list((found.vcs or {}).values()))):
            loads = [load for part in parts for load in part.resources.values() if load.overloaded]
            told["nothing"] += not loads
            if not loads:
                continue
            refused = sum(part.never_fit for part in parts) + (found.outside_vcs if partition == "vc" else 0)
            world = build_world(table, cluster, partition="vc" if partition == "vc" else "none")
            for name, params in islice(queues, PER_WORKLOAD):
                wait, status = waits(world, name, params)
                if (status == REJECTED).sum() > refused:
                    continue  # the placement rule refuses a job that would fit
                if any(load.jobs_must_wait for load in loads):
                    told["waits"] += 1
                    assert wait.max() > 0, (seed, partition, name, params)
                if any(load.backlog and load.backlog.drain_h is None for load in loads):
                    told["never ends"] += 1
                    assert not np.isin(status, (COMPLETED, REJECTED)).all(), (seed, partition, name, params)
    assert min(told.values()) > 50, told
