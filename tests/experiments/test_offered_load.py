"""The load of a workload on a cluster: by hand, and by the engine's own rules.

A warning of the load is a theorem: some job waits, or never ends, under every policy that rejects none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.compiled import run_compiled
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.world import World
from ray_sim.experiments.offered_load import Backlog, ResourceLoad, never_fits, offered_load
from ray_sim.kernels.core.arrays import COMPLETED, NEVER, REJECTED, RUNNING
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from tests.proofs import instances
from tests.random_worlds import server_changes, worlds
from tests.worlds import DOWN, HOUR, UP, Job, availability, cluster_of, job_table, replay

DAY = 24 * HOUR


def backlog_of(load: ResourceLoad) -> Backlog:
    assert load.backlog is not None
    return load.backlog


def test_load_and_backlog_of_four_jobs() -> None:
    # Two servers of 4 GPUs and 8 cores: 8 GPUs, 16 cores. Four jobs in 30 h:
    #   0 h   4 GPUs for 10 h = 40 GPU-hours, 4 tasks of 2 cores: 80 core-hours
    #   1 h   8 GPUs for 20 h = 160,          8 tasks of 1 core: 160
    #   25 h  2 GPUs for 1 h = 2,             no cores
    #   30 h  1 GPU for 40 h = 40,            no cores
    jobs = [
        Job(0, 4, 10 * HOUR),
        Job(HOUR, 8, 20 * HOUR),
        Job(25 * HOUR, 2, HOUR),
        Job(30 * HOUR, 1, 40 * HOUR),
    ]
    table = job_table(jobs, ("gpu", "cpu"), {"cpu_per_task": [2.0, 1.0, None, None]})
    found = offered_load(table, cluster_of([4, 4], cpu=[8, 8]))
    assert (found.cluster, found.period_s, found.vcs, found.outside_vcs) == ("small", DAY, None, 0)
    whole = found.whole
    assert (whole.servers, whole.jobs, whole.never_fit) == (2, 4, 0)
    gpu, cpu = whole.resources["gpu"], whole.resources["cpu"]
    assert (gpu.capacity, cpu.capacity) == (8, 16)
    assert (gpu.work_h, cpu.work_h) == pytest.approx((242, 240))
    # In 30 h the servers have 8 x 30 = 240 GPU-hours and 480 core-hours. The last job counts from then on.
    assert gpu.offered_load == pytest.approx(202 / 240)
    assert cpu.offered_load == pytest.approx(240 / 480)
    # A day has 192 GPU-hours: 200 are submitted on the first, 42 on the second.
    assert gpu.by_period == pytest.approx([200 / 192, 42 / 192])
    # The hour from 1 h on brings 160 GPU-hours and has 8; cores: 160 and 16.
    assert (gpu.peak_hour_s, gpu.peak_hour_load) == pytest.approx((HOUR, 20))
    assert (cpu.peak_hour_s, cpu.peak_hour_load) == pytest.approx((HOUR, 10))
    # Unfinished: 40 at 0 h; 32 + 160 = 192 at 1 h; 0 at 25 h, plus 2; 0 at 30 h, plus 40.
    assert backlog_of(gpu).most_h == pytest.approx(192)
    assert backlog_of(gpu).most_at_s == HOUR
    assert backlog_of(gpu).at_last_submission_h == pytest.approx(40)
    assert backlog_of(gpu).drain_h == pytest.approx(5)
    # At 24 h: 192 - 23 x 8 = 8.
    assert backlog_of(gpu).by_period_h == pytest.approx([8, 40])
    assert whole.worst == ("gpu", gpu)
    assert whole.overload is None


def test_jobs_that_never_fit_are_counted_and_are_no_load() -> None:
    # 5 GPUs fit on two servers of 4 as tasks of one; 9 do not, nor does one task of 4.5.
    jobs = [Job(0, 5, 100), Job(50, 9, 100), Job(100, 4.5, 100)]
    found = offered_load(job_table(jobs), cluster_of([4, 4])).whole
    assert (found.jobs, found.never_fit) == (3, 2)
    assert found.resources["gpu"].offered_load == pytest.approx(5 * 100 / (8 * 100))
    assert found.overload is None


def test_the_resource_that_a_job_asks_too_much_of_is_named() -> None:
    # A task of 40 cores exceeds a server of 16; 9 GPUs are one too many; 6 tasks of 5 cores fit, not 8.
    jobs = [Job(0, 1, 100), Job(0, 9, 100), Job(0, 8, 100), Job(0, 8, 100)]
    table = job_table(jobs, ("gpu", "cpu"), {"cpu_per_task": [40.0, 1, 5, 4]})
    found = offered_load(table, cluster_of([4, 4], cpu=[16, 16])).whole
    assert found.never_fit == 3
    assert found.never_fit_by_resource == {"gpu": 1, "cpu": 2}


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(world=worlds())
def test_what_never_fits_is_what_the_engine_refuses_under_pooled_placement(world: World) -> None:
    # Pooled placement refuses nothing that the empty servers could hold.
    result = replay(world, "fifo", placement="pooled")
    refused = (result.jobs["reason"] == "never_fits").fill_null(value=False).to_numpy()
    submitted = world.table.submit_us <= world.horizon_us
    np.testing.assert_array_equal(never_fits(world) & submitted, refused)


def test_every_vc_has_its_own_jobs_servers_and_load() -> None:
    jobs = [Job(0, 1, 100, "a"), Job(0, 3, 50, "b"), Job(0, 1, 50), Job(100, 2, 50, "a"), Job(100, 1, 9, "c")]
    found = offered_load(job_table(jobs), cluster_of([1, 2, 3], vc=["a", "b", "b"]))
    assert found.vcs is not None
    assert list(found.vcs) == ["a", "b"]
    a, b = found.vcs.values()
    # vc a: 100 GPU-seconds on 1 GPU in the 100 s of the whole workload; the job of 2 GPUs never fits.
    assert (a.servers, a.jobs, a.never_fit, a.resources["gpu"].offered_load) == (1, 2, 1, 1)
    assert a.overload is None
    # vc b: 150 GPU-seconds on 5 GPUs. It has no job at the end.
    assert (b.servers, b.jobs, b.never_fit) == (2, 1, 0)
    assert b.resources["gpu"].offered_load == pytest.approx(0.3)
    assert backlog_of(b.resources["gpu"]).at_last_submission_h == 0
    assert found.outside_vcs == 2
    assert found.whole.never_fit == 0


def test_vcs_count_only_where_a_replay_can_be_divided_by_them() -> None:
    table = job_table([Job(0, 1, 10, "a"), Job(10, 1, 10, "b")])
    assert offered_load(table, cluster_of([1, 1], vc=["a", None])).vcs is None
    assert offered_load(job_table([Job(0, 1, 10)]), cluster_of([1], vc=["a"])).vcs is None
    divided = offered_load(table, cluster_of([1, 1, 1], vc=["a", "b", "idle"])).vcs
    assert divided is not None
    idle = divided["idle"]
    assert (idle.jobs, idle.resources["gpu"].offered_load, backlog_of(idle.resources["gpu"]).most_h) == (
        0,
        0,
        0,
    )


def test_a_fast_server_does_more_in_the_same_time() -> None:
    # One GPU of speed 1 and one of speed 3 do 4 x 100 GPU-seconds in 100 s.
    found = offered_load(job_table([Job(0, 2, 100), Job(100, 1, 0)]), cluster_of([1, 1], speed=[1.0, 3.0]))
    gpu = found.whole.resources["gpu"]
    assert gpu.capacity == 4
    assert gpu.offered_load == pytest.approx(200 / 400)


def test_a_server_that_is_not_there_does_nothing() -> None:
    # Two servers of 4 GPUs over 10 h, one of them gone from 0 h to 5 h and from 9 h on: 4 x 10 + 4 x 4
    # GPU-hours, 5.6 GPUs on average. Jobs of 4 GPUs: 5 h at 0 h, 3 h at 1 h, 1 h at 10 h.
    jobs = [Job(0, 4, 5 * HOUR), Job(HOUR, 4, 3 * HOUR), Job(10 * HOUR, 4, HOUR)]
    gone = availability([(0.0, 0, DOWN), (5.0 * HOUR, 0, UP), (9.0 * HOUR, 0, DOWN)])
    cluster = replace(cluster_of([4, 4]), availability=gone)
    gpu = offered_load(job_table(jobs), cluster).whole.resources["gpu"]
    assert (gpu.capacity, gpu.mean_capacity) == pytest.approx((8, 5.6))
    # The last job comes at the end of the span.
    assert gpu.offered_load == pytest.approx(32 / 56)
    # The day has 4 x 24 GPU-hours of the one and 4 x 4 of the other; the first hour has 4.
    assert gpu.by_period == pytest.approx([36 / 112])
    assert (gpu.peak_hour_s, gpu.peak_hour_load) == pytest.approx((0, 20 / 4))
    # 20 at 0 h; 16 + 12 at 1 h; 12 at 5 h; none at 6.5 h; 4 at 10 h, an hour of the server that is there.
    assert (backlog_of(gpu).most_h, backlog_of(gpu).at_last_submission_h) == pytest.approx((28, 4))
    assert backlog_of(gpu).drain_h == pytest.approx(1)


def test_a_resource_that_is_gone_has_no_load_and_what_never_comes_back_drains_nothing() -> None:
    jobs = [Job(0, 1, HOUR), Job(2 * DAY, 1, HOUR)]
    gone = availability([(0.5 * HOUR, 0, DOWN)])
    gpu = offered_load(job_table(jobs), replace(cluster_of([1]), availability=gone)).whole.resources["gpu"]
    # Half a GPU-hour in two days; the second day has none. 0.5 + 1 hours are left for ever.
    assert gpu.by_period == [pytest.approx(2), None, None]
    assert backlog_of(gpu).at_last_submission_h == pytest.approx(1.5)
    assert backlog_of(gpu).drain_h is None
    assert gpu.overloaded


@settings(max_examples=instances(60))
@given(data=st.data(), gpus=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_it_is_what_is_counted_second_by_second(data: st.DataObject, gpus: list[int]) -> None:
    size = st.integers(1, sum(gpus))
    jobs = data.draw(
        st.lists(st.tuples(st.integers(0, 60), size, st.integers(0, 30)), min_size=2, max_size=9)
    )
    changes = data.draw(server_changes(len(gpus)))
    seconds = [(round(time_s), server, up) for time_s, server, up in changes]
    first, last = min(job[0] for job in jobs), max(job[0] for job in jobs)
    there = {
        server: next((not up for _, s, up in seconds if s == server), True) for server in range(len(gpus))
    }
    left, able, most = 0, 0, 0
    for now in range(last + 1):
        there |= {server: up for time, server, up in seconds if time == now}
        left += sum(gpu * run for submit, gpu, run in jobs if submit == now)
        most = max(most, left)
        if first <= now < last:
            able += (rate := sum(gpu for server, gpu in enumerate(gpus) if there[server]))
            left = max(0, left - rate)
    cluster = cluster_of([float(gpu) for gpu in gpus])
    whole_s = availability([(float(time), server, up) for time, server, up in seconds])
    table = job_table([Job(float(submit), float(gpu), float(run)) for submit, gpu, run in jobs])
    load = offered_load(table, replace(cluster, availability=whole_s)).whole.resources["gpu"]
    work = sum(gpu * min(run, last - submit) for submit, gpu, run in jobs)
    assert load.offered_load == (pytest.approx(work / able) if able else None)
    assert backlog_of(load).at_last_submission_h * HOUR == pytest.approx(left)
    assert backlog_of(load).most_h * HOUR == pytest.approx(most)
    if last > first:
        assert load.mean_capacity == pytest.approx(able / (last - first))


def test_nothing_is_said_to_be_unfinished_of_jobs_that_may_train_otherwise() -> None:
    whole = ("chunks", "epochs", "minibatches_per_chunk")
    others = ("minibatch_s", "gradient_mb", "bandwidth_mbps", "upload_edge_s", "upload_cloud_s")
    columns: dict[str, list[object]] = {name: [4, 4] for name in whole}
    columns |= {name: [0.5, 0.5] for name in others}
    table = job_table([Job(0, 1, 10 * HOUR), Job(HOUR, 1, HOUR)], columns=columns)
    assert table.chunk_profile is not None
    found = offered_load(table, cluster_of([1]))
    gpu = found.whole.resources["gpu"]
    assert (found.whole_jobs, gpu.offered_load, gpu.backlog) == (False, 1, None)
    assert found.whole.overload is None


def test_without_span_or_resource_there_is_no_load() -> None:
    at_once = offered_load(job_table([Job(0, 1, HOUR), Job(0, 2, HOUR)]), cluster_of([4])).whole
    gpu = at_once.resources["gpu"]
    assert gpu.offered_load is None
    assert backlog_of(gpu).at_last_submission_h == pytest.approx(3)
    assert gpu.by_period == pytest.approx([3 / 96])
    assert at_once.worst is None
    none = offered_load(job_table([Job(0, 1, 10), Job(10, 0, 10)]), cluster_of([0])).whole
    assert (none.never_fit, none.resources["gpu"].offered_load) == (1, None)


def test_a_long_span_is_told_in_periods_of_several_days() -> None:
    found = offered_load(job_table([Job(0, 1, 10), Job(3_000 * DAY + 1, 1, 10)]), cluster_of([1]))
    # 3,001 days in at most 1,000 periods: four days each.
    assert found.period_s == 4 * DAY
    assert len(found.whole.resources["gpu"].by_period) == 751
    # The longest times and largest gangs that a workload may have do not overflow.
    huge = offered_load(job_table([Job(0, 2.0**20, 2.0**36), Job(2.0**36, 1, 1)]), cluster_of([2.0**20]))
    assert huge.whole.resources["gpu"].offered_load == pytest.approx(1)
    assert len(huge.whole.resources["gpu"].by_period) <= 1_000


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
    for seed in range(instances(500, 100)):
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
    assert min(told.values()) > instances(500, 100) // 10, told
