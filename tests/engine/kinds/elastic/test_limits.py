"""Runs of elastic jobs have a lower bound on their mean JCT, and no schedule is below it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.certificates.jct import JctLimits, certify_jct
from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.limits import training_jct_limits, training_use
from ray_sim.engine.kinds.pools import most_capacity, partition_servers
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.result import JctCertificate, Summary
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.policies.registry import create_policy
from ray_sim.reports.tables import RunRow, run_table, summary_rows
from tests.best_mean_jct import NICS, able_jobs, least_mean_jct, tiny_training_world, ways
from tests.elastic_worlds import elastic_world
from tests.proofs import instances, quick_first
from tests.training import profile
from tests.worlds import DOWN, UP, Change, Job, availability, cluster_of, world_of

ROUNDED = 2e-9
CELLS = 400
POLICIES = ("drf", "optimus", "tetris", "dorm", "fifo")


def summary_of(world: World, policy: str = "fifo") -> Summary:
    return run_world(world, create_policy(policy)).summary


def certificate(world: World, policy: str = "fifo") -> JctCertificate:
    found = summary_of(world, policy).certificate
    assert found is not None
    return found


def limits_of(world: World, jobs: IntArray) -> JctLimits:
    found = training_jct_limits(world, jobs)
    assert isinstance(found, JctLimits)
    return replace(found, cells=CELLS)


def bounded(world: World, jobs: IntArray, limits: JctLimits, mean_s: float) -> JctCertificate:
    """Certificate of a schedule with this mean JCT."""
    submit_us = world.table.submit_us[jobs]
    return certify_jct(limits, submit_us, submit_us + round(mean_s * US_PER_S))


def tiny_instances(tried: int) -> list[tuple[int, World, IntArray, float]]:
    """Seed, world, jobs that can complete, and the least mean JCT of the schedules that are tried."""
    found = []
    for seed in range(tried):
        world = tiny_training_world(seed)
        jobs = np.flatnonzero(able_jobs(world))
        if len(jobs):
            found.append((seed, world, jobs, least_mean_jct(world, jobs)))
    return found


def slower(limits: JctLimits, shortest: float = 1.0, area: float = 1.0) -> JctLimits:
    """Wrong limits: longer least runs, or more least resources."""
    times = limits.times
    wrong = times._replace(
        shortest=times.shortest * shortest, busy=times.busy * shortest, area=times.area * area
    )
    return replace(limits, times=wrong)


@pytest.mark.slow
def test_no_schedule_of_a_tiny_world_beats_a_bound() -> None:
    """Both truths, all values of nic, two resources, two speeds, one or two servers and partitions."""
    tried = instances(10_000, 150)
    tight = too_long = too_much = 0
    for seed, world, jobs, best_s in tiny_instances(tried):
        limits = limits_of(world, jobs)
        found = bounded(world, jobs, limits, best_s)
        assert found.b2_s is not None
        assert found.b3_s is not None
        assert found.b4_s is not None
        assert max(found.b1_s, found.b2_s, found.b3_s, found.b4_s, found.bound_s) <= best_s, seed
        assert found.b4_s >= max(found.b1_s, found.b3_s) * (1 - ROUNDED), seed
        tight += found.bound_s > best_s * (1 - 1e-6)
        too_long += bounded(world, jobs, slower(limits, shortest=1.05), best_s).bound_s > best_s
        too_much += bounded(world, jobs, slower(limits, area=1.05), best_s).bound_s > best_s
    assert tight > tried / 5
    # Limits that are wrong by 5 % are found out.
    assert too_long > tried / 10
    assert too_much > tried / 20


def test_no_placement_is_faster_or_needs_less_than_the_limits() -> None:
    """All placements of one job on one or two servers, under both truths and all values of nic."""
    exact = 0
    for seed in range(instances(1000, 30)):
        world = tiny_training_world(seed, jobs=1)
        servers = partition_servers(world)[int(world.arrays.job_part[0])]
        may = np.isin(np.arange(len(world.cluster)), servers)[None].repeat(2, axis=0)
        use = training_use(world, np.array([0]), may)
        assert use is not None
        found = ways(world, 0, servers)
        assert bool(found) <= bool(np.isfinite(use.shortest_us[0])), seed
        if not found:
            continue
        work = float(world.work[0]) * US_PER_S
        shortest = min(work / way.samples_per_s for way in found)
        held = np.array([np.reshape(way.used, (len(servers), -1)).sum(axis=0) for way in found])
        least = (held * (work / np.array([way.samples_per_s for way in found]))[:, None]).min(axis=0)
        assert use.shortest_us[0] <= shortest * (1 + ROUNDED), seed
        assert (use.resource_time[0] <= least * (1 + ROUNDED)).all(), seed
        exact += use.shortest_us[0] >= shortest * (1 - ROUNDED)
    assert exact > 0


def _world(seed: int) -> World:
    """Random worlds in turn: crowded, of partitions, with servers that go and come back, with other nics."""
    n, variant = 6 + seed % 9, seed // 4
    if seed % 4 == 0:
        return busy_elastic(n, variant)
    if seed % 4 == 1:
        return busy_elastic(n, variant, partition="vc")
    if seed % 4 == 2:
        return failing_elastic(n, variant)
    world = busy_elastic(n, 0)
    params = {**world.params, "nic": NICS[variant % len(NICS)]}
    return build_world(world.table, world.cluster, params=params)


@pytest.mark.parametrize("policy", quick_first(POLICIES, 2))
def test_no_policy_beats_its_bound(policy: str) -> None:
    """Three speeds, restarts that cost, slow workers, unequal parameter servers, data that move."""
    for seed in range(instances(100, 6)):
        summary = summary_of(_world(seed), policy)
        found, mean_s = summary.certificate, summary.jct_s.mean
        if summary.completed == 0:
            assert found is None
            continue
        assert found is not None
        assert mean_s is not None
        assert found.bound_s <= mean_s, seed
        assert found.gap == pytest.approx(mean_s / found.bound_s - 1, abs=1e-12)


@pytest.mark.parametrize("truth", ["placement", "pd_ors"])
def test_one_job_has_no_gap(truth: str) -> None:
    # One sample a step: more workers would not train. 2,000 samples of 0.1 s + 2 x 0.4 s, on one server.
    world = elastic_world([5], [profile(batch=1, step_s_per_worker=0.1 if truth == "placement" else 0)], [8])
    world = build_world(world.table, world.cluster, params={"truth": truth})
    found = certificate(world)
    assert found.gap == pytest.approx(0, abs=ROUNDED)
    assert (found.binding, found.resource, found.partition) == ("B1", None, None)


def test_equal_jobs_that_all_fit_at_once_have_no_gap() -> None:
    world = elastic_world([0, 0, 0], [profile(batch=1)] * 3, [8], {"truth": "pd_ors"})
    assert certificate(world).gap == pytest.approx(0, abs=ROUNDED)


def test_jobs_one_after_the_other_are_bound_by_the_resource() -> None:
    # A job takes 2,000 x 0.9 s of two GPUs, and there are two: 1,800, 3,600, 5,400 s, which B2 knows.
    world = elastic_world([0, 0, 0], [profile(batch=1)] * 3, [2], {"truth": "pd_ors"})
    found = certificate(world)
    assert found.b1_s == pytest.approx(1800, rel=ROUNDED)
    assert found.b2_s == pytest.approx((1800 + 3600 + 5400) / 3, rel=ROUNDED)
    assert found.gap == pytest.approx(0, abs=ROUNDED)
    assert (found.binding, found.resource) == ("B2", "gpu")


def test_each_partition_has_its_own_bound() -> None:
    # vc a: the three jobs from above, mean 3,600 s; vc b: one job alone, 1,800 s: (3 x 3,600 + 1,800) / 4.
    world = elastic_world([0] * 4, [profile(batch=1)] * 4, [2, 4], {"truth": "pd_ors"})
    table = replace(world.table, vc=np.array([0, 0, 0, 1]), vc_names=("a", "b"))
    servers = cluster_of([2, 4], vc=["a", "b"])
    found = certificate(build_world(table, servers, partition="vc", params={"truth": "pd_ors"}))
    assert found.bound_s == pytest.approx((3 * 3600 + 1800) / 4, rel=ROUNDED)
    assert (found.binding, found.resource, found.partition) == ("B2", "gpu", "a")


def test_scaling_time_scales_the_bound() -> None:
    jobs = [profile(samples=n, bandwidth_mbps=100) for n in (500, 900, 1000, 100)]
    slow_jobs = [
        profile(samples=n, sample_s=0.7, bandwidth_mbps=100 / 7, internal_bandwidth_mbps=1000 / 7)
        for n in (500, 900, 1000, 100)
    ]
    cells = {"bound_cells": CELLS}
    plain = certificate(elastic_world([0, 3, 9, 11], jobs, [4, 2], cells))
    slow = certificate(elastic_world([0, 21, 63, 77], slow_jobs, [4, 2], cells))
    assert plain.b4_s is not None
    for name in ("b1_s", "b2_s", "b3_s", "b4_s", "bound_s"):
        assert getattr(slow, name) == pytest.approx(7 * getattr(plain, name), rel=1e-6)


def test_jobs_without_work_have_a_bound_of_nothing() -> None:
    found = certificate(elastic_world([0, 4], [profile(samples=0)] * 2, [4]))
    assert (found.bound_s, found.gap) == (0.0, 0.0)


def test_capacity_is_the_most_there_is_at_a_time() -> None:
    # Two servers of 2 and 3 GPUs; the second comes when the first has gone, and then a third of 1.
    changes: list[Change] = [(0.0, 1, DOWN), (0.0, 2, DOWN), (5.0, 0, DOWN), (6.0, 1, UP), (7.0, 2, UP)]
    cluster = replace(cluster_of([2, 3, 1]), availability=availability(changes))
    world = build_world(world_of([Job(0, 1, 1)], [1]).table, cluster)
    assert most_capacity(world, np.ones((1, len(world.cluster)), np.bool_)).tolist() == [4000.0]
    parts = world_of([Job(0, 1, 1)], [2, 3], vc=["a", "b"])
    assert [most_capacity(parts, np.array([on])).tolist() for on in ([True, False], [False, True])] == [
        [2000.0],
        [3000.0],
    ]


def test_b4_is_there_where_it_is_asked_for() -> None:
    world = busy_elastic(20)
    assert certificate(world, "drf").b4_s is None
    with_b4 = build_world(world.table, world.cluster, params={**world.params, "bound_cells": 4000})
    assert ElasticFacts.in_world(with_b4).bound_cells == 4000
    found = certificate(with_b4, "drf")
    assert found.b4_s is not None
    assert found.b3_s is not None
    assert found.b4_s >= max(found.b1_s, found.b3_s) * (1 - ROUNDED)
    assert found.no_b4 is None


def test_it_is_among_the_metrics_and_in_the_tables() -> None:
    summary = summary_of(elastic_world([0, 0, 0], [profile(batch=1)] * 3, [2], {"truth": "pd_ors"}))
    found = summary.certificate
    assert found is not None
    assert summary.flat()["certificate.bound_s"] == found.bound_s
    assert ("lower bound on mean JCT s", found.bound_s) in summary_rows(summary)
    assert ("the largest bound", "B2 of gpu") in summary_rows(summary)
    table = run_table([RunRow("w", "c", "", "fifo", 0, summary)])
    assert table["certificate.gap"].to_list() == [found.gap]
