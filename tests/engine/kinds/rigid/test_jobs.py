"""Every run says how far from the best possible it is, and no run is better than that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.contract.rigid_worlds import Job, busy_world, cluster, edge_cases, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.result import JctCertificate, Summary
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy, policy_classes
from ray_sim.reports.tables import RunRow, run_table
from tests.proofs import instances, quick_first
from tests.required import new_policy

POLICIES = [name for name, policy in policy_classes().items() if policy.schedules == GANGS]
ROUNDED = 2e-9
"""Bounds are rounded down by a relative 1e-9."""


def _summary(world: World, policy: str) -> Summary:
    return run_world(world, new_policy(policy)).summary


def _certificate(world: World, policy: str) -> JctCertificate:
    certificate = _summary(world, policy).certificate
    assert certificate is not None
    return certificate


def _random_world(seed: int) -> World:
    draw = Streams(seed).generator("certificate-world")
    n_servers = int(draw.integers(2, 7))
    servers = cluster(
        [int(gpus) for gpus in draw.integers(1, 9, n_servers)],
        ["a", "b", *(str(vc) for vc in draw.choice(["a", "b"], n_servers - 2))],
        [float(speed) for speed in draw.choice([0.3, 0.7, 1.0, 1.9], n_servers)],
    )
    n = int(draw.integers(1, 40))
    submit = np.sort(draw.integers(0, 300, n))
    jobs: list[Job] = [
        (
            float(s),
            int(draw.integers(1, 9)),
            float(draw.choice([0, 1, 7, 30, 111])),
            str(draw.choice(["a", "b"])),
        )
        for s in submit
    ]
    partition: Partition = "vc" if draw.integers(2) else "none"
    params = {"slot_s": 60.0, "restart_cost_s": float(draw.choice([0.0, 5.0]))}
    return build_world(job_table(jobs), servers, partition=partition, params=params)


def test_the_best_schedule_of_the_example_of_two_jobs_has_no_gap() -> None:
    # One GPU, (submit, run) = (0, 3), (1, 1). SRTF suspends the first in 1-2: JCT 4 and 1, mean 2.5 = B2.
    # FIFO: 3 and 3, mean 3, a gap of 3 / 2.5 - 1.
    world = build_world(job_table([(0.0, 1, 3.0, "a"), (1.0, 1, 1.0, "a")]), cluster([1], ["a"]))
    found = _certificate(world, "srtf")
    assert found.b1_s == pytest.approx(2.0, rel=ROUNDED)
    assert found.b2_s == pytest.approx(2.5, rel=ROUNDED)
    assert found.b3_s == pytest.approx((13 / 6 + 1.5 + 1.0) / 2, rel=ROUNDED)
    assert found.gap == pytest.approx(0.0, abs=ROUNDED)
    assert _certificate(world, "fifo").gap == pytest.approx(3 / 2.5 - 1, abs=ROUNDED)


def test_the_example_of_two_wide_jobs_and_a_long_one_keeps_a_gap() -> None:
    # The best schedule, 2, 4 and 10 on four GPUs, against B3 = 4.25: 16/3 / 4.25 - 1 = 25.5 %.
    jobs = [(0.0, 4, 2.0, "a"), (0.0, 4, 2.0, "a"), (0.0, 1, 6.0, "a")]
    found = _certificate(build_world(job_table(jobs), cluster([4], ["a"])), "sjf")
    assert found.bound_s == pytest.approx(4.25, rel=ROUNDED)
    assert found.gap == pytest.approx(16 / 3 / 4.25 - 1, abs=ROUNDED)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_job_has_no_gap(policy: str) -> None:
    world = build_world(job_table([(5.0, 3, 10.0, "a")]), cluster([2, 2], ["a", "a"], [0.5, 0.5]))
    assert _certificate(world, policy).bound_s == pytest.approx(10.0 / 0.5, rel=ROUNDED)
    assert _certificate(world, policy).gap == pytest.approx(0.0, abs=ROUNDED)


@pytest.mark.parametrize("policy", POLICIES)
def test_alike_jobs_that_all_fit_at_once_have_no_gap(policy: str) -> None:
    world = build_world(job_table([(0.0, 2, 10.0, "a")] * 4), cluster([4, 4], ["a", "a"]))
    assert _certificate(world, policy).gap == pytest.approx(0.0, abs=ROUNDED)


@pytest.mark.parametrize("policy", quick_first(POLICIES, 2))
def test_no_policy_beats_its_bound(policy: str) -> None:
    # Two partitions or one, speeds that differ, restarts that cost, jobs that never fit, jobs of no length.
    for seed in range(instances(150)):
        summary = _summary(_random_world(seed), policy)
        if summary.completed == 0:
            assert summary.certificate is None
            continue
        found, mean_s = summary.certificate, summary.jct_s.mean
        assert found is not None
        assert mean_s is not None
        assert found.bound_s <= mean_s, f"seed {seed}"
        assert max(found.b1_s, found.b2_s or 0.0, found.b3_s or 0.0) <= found.bound_s * (1 + 1e-12)
        if found.bound_s > 0:
            assert found.gap == pytest.approx(mean_s / found.bound_s - 1, abs=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_cut_off_by_the_horizon_are_left_out(policy: str) -> None:
    # One GPU, 15 s: the run of 10 s completes, that of 100 s does not. Only the first is in the bound.
    jobs = job_table([(0.0, 1, 10.0, "a"), (10.0, 1, 100.0, "a")])
    world = build_world(jobs, cluster([1], ["a"]), params={"horizon_s": 15.0, "slot_s": 5.0})
    assert _certificate(world, policy).bound_s == pytest.approx(10.0, rel=ROUNDED)


def test_a_partition_is_bound_by_its_own_servers() -> None:
    # a: two runs of 10 s on one GPU: 10 and 20, B2 = 15. b: one run of 10 s at half speed: 20.
    # Together (2 * 15 + 20) / 3; without partitions the fast server may take all three.
    jobs = job_table([(0.0, 1, 10.0, "a"), (0.0, 1, 10.0, "a"), (0.0, 1, 10.0, "b")])
    servers = cluster([1, 1], ["a", "b"], [1.0, 0.5])
    apart = _certificate(build_world(jobs, servers, partition="vc"), "fifo")
    assert apart.bound_s == pytest.approx((2 * 15 + 20) / 3, rel=ROUNDED)
    assert apart.gap == pytest.approx(0.0, abs=ROUNDED)
    # Squashed on 1.5 GPUs of speed 1: 20/3, 40/3, 20; B3: 10/3, 10, 50/3 and 5 each: 15.
    assert _certificate(build_world(jobs, servers), "fifo").bound_s == pytest.approx(15, rel=ROUNDED)


def test_both_loops_certify_the_same() -> None:
    world = busy_world(partition="vc")
    general = run_world(world, create_policy("srtf"), loop="general").summary
    assert general.certificate == _certificate(world, "srtf")


def test_jobs_of_no_length_that_never_wait_have_no_gap() -> None:
    world = build_world(job_table([(0.0, 1, 0.0, "a"), (1.0, 1, 0.0, "a")]), cluster([1], ["a"]))
    assert _certificate(world, "fifo") == JctCertificate(0.0, 0.0, 0.0, 0.0, 0.0, binding="B1")


def test_a_bound_of_nothing_has_no_gap_to_tell() -> None:
    # Under LAS the job of no length waits from 1 until the other has had its 4 GPU-s. The horizon cuts
    # that one off, so the only completed job has JCT 3 and bound 0.
    jobs = job_table([(0.0, 1, 9.0, "a"), (1.0, 1, 0.0, "a")])
    world = build_world(jobs, cluster([1], ["a"]), params={"horizon_s": 6.0})
    summary = run_world(world, create_policy("las", {"limits_gpu_s": 4.0})).summary
    assert (summary.completed, summary.jct_s.mean) == (1, 3.0)
    assert summary.certificate == JctCertificate(0.0, 0.0, 0.0, 0.0, None, binding="B1")


def test_no_completed_job_has_no_certificate() -> None:
    summary = _summary(edge_cases()["no job"], "fifo")
    assert summary.certificate is None
    assert not any(name.startswith("certificate") for name in summary.flat())


def test_the_certificate_is_among_the_metrics_and_in_the_tables() -> None:
    summary = _summary(busy_world(), "fifo")
    found = summary.certificate
    assert found is not None
    flat = summary.flat()
    assert flat["certificate.b2_s"] == found.b2_s
    assert flat["certificate.gap"] == found.gap
    without = replace(summary, certificate=None)
    table = run_table(
        [RunRow("w", "c", "", "fifo", seed, each) for seed, each in enumerate([summary, without])]
    )
    assert table["certificate.bound_s"].to_list() == [found.bound_s, None]
    assert table["certificate.gap"].to_list() == [found.gap, None]


def test_gpus_of_unequal_speed_offer_their_speed() -> None:
    # A GPU of speed 1, one of 1/2, four jobs of 10 s: as one machine of speed 1.5 the jobs end after 20/3 s
    # each; as two whole GPUs B2 would be 12.5 s. The best schedule ends them at 10, 20, 20 and 30 s.
    jobs = job_table([(0.0, 1, 10.0, "a")] * 4)
    certificate = _certificate(build_world(jobs, cluster([1, 1], ["a", "a"], [1.0, 0.5])), "fifo")
    assert certificate.b2_s == pytest.approx(50 / 3)
    assert certificate.resource == "priced GPUs"
    assert certificate.bound_s <= 20
