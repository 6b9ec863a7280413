"""Bounds by families of jobs that accept certain GPU types: examples, and all schedules of tiny worlds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.pools import families_by_pool, most_capacity
from ray_sim.engine.world import World
from ray_sim.model.result import JctCertificate
from ray_sim.model.streams import Streams
from tests.engine.test_server_pools import typed_world
from tests.policies.test_gpu_types import LISTS, typed_elastic_world
from tests.proofs import instances
from tests.solvers.exact_optimum import least_flow
from tests.worlds import Job, replay

ROUNDED = 2e-9


def certificate(world: World) -> JctCertificate:
    found = replay(world, "srtf").summary.certificate
    assert found is not None
    return found


def test_two_jobs_for_one_type_wait_for_each_other_though_the_other_type_is_free() -> None:
    # One A100, one T4; 10 s each. B3 of all on two GPUs: busy on average at 2.5, 7.5, 12.5, and half the run:
    # 12.5. Of the T4's two jobs alone 10 + 20, and 10 of the one for any: 40 / 3, the optimum.
    jobs, types = [Job(0, 1, 10)] * 3, ["A100", "T4"]
    mixed = certificate(typed_world(jobs, ["T4", "T4", None], [1, 1], types))
    assert mixed.bound_s == pytest.approx(40 / 3, rel=ROUNDED)
    assert mixed.b1_s == pytest.approx(10, rel=ROUNDED)
    assert mixed.gap == pytest.approx(0, abs=1e-8)
    assert mixed.types == "T4"
    assert mixed.binding_text in ("B2 of gpu on T4", "B3 of gpu on T4")
    free = certificate(typed_world(jobs, [None] * 3, [1, 1], types))
    assert free.bound_s == pytest.approx(12.5, rel=ROUNDED)
    assert free.types is None


def test_without_types_a_summary_has_no_key_for_them() -> None:
    jobs = [Job(0, 1, 10)]
    named = replay(typed_world(jobs, ["T4"], [1, 1], ["T4", "A100"]), "fifo").summary.to_dict()
    free = replay(typed_world(jobs, [None], [1, 1], ["T4", "A100"]), "fifo").summary.to_dict()
    assert named["certificate"]["types"] == "T4"
    assert "types" not in free["certificate"]


def tiny_world(seed: int) -> tuple[World, float]:
    """Up to four jobs of one or two GPUs on two or three servers of two types, and the least mean JCT."""
    draw = Streams(seed).generator("tiny-typed-world")
    n, servers = int(draw.integers(1, 5)), int(draw.integers(2, 4))
    gpus = draw.integers(1, 3, servers).tolist()
    types = ["A", "B", *draw.choice(["A", "B", "C"], servers - 2)]
    lists = [str(each) for each in draw.choice(["A", "B", "A|B", "B|C", "A|B|C"], n)]
    pools = [{s for s in range(servers) if types[s] in each.split("|")} for each in lists]
    most = [sum(gpus[s] for s in pool) for pool in pools]
    asked = [int(draw.integers(1, min(2, room) + 1)) for room in most]
    release = sorted(draw.integers(0, 4, n).tolist())
    release = [at - release[0] for at in release]
    run = draw.integers(1, 5, n).tolist()

    def fits(jobs: frozenset[int]) -> bool:
        """By Hall: any of the jobs ask for no more than their pools together have."""
        some = [each for size in range(1, len(jobs) + 1) for each in combinations(sorted(jobs), size)]
        return all(
            sum(asked[j] for j in each) <= sum(gpus[s] for s in set().union(*(pools[j] for j in each)))
            for each in some
        )

    jobs = [Job(at, k, length) for at, k, length in zip(release, asked, run, strict=True)]
    world = typed_world(jobs, lists, gpus, types, bound_cells=2000)
    return world, least_flow(release, run, fits) / n


@pytest.mark.slow
def test_no_schedule_beats_the_bounds_and_families_are_often_tight() -> None:
    tight, gained, tried = 0, 0, instances(10_000, 300)
    for seed in range(tried):
        world, optimum = tiny_world(seed)
        found = certificate(world)
        assert found.b2_s is not None
        assert found.b3_s is not None
        assert found.b4_s is not None
        assert max(found.b1_s, found.b2_s, found.b3_s, found.b4_s, found.bound_s) <= optimum, seed
        tight += found.bound_s > optimum * (1 - ROUNDED)
        ignored = build_world(world.table, world.cluster, params={"gpu_types": "ignore", "bound_cells": 2000})
        gained += found.bound_s > certificate(ignored).bound_s * (1 + 1e-6)
    assert tight > tried / 4
    assert gained > tried / 10


def test_a_faster_server_of_another_type_shortens_no_job() -> None:
    world = typed_world([Job(0, 1, 8)] * 2, ["T4", None], [1, 1], ["T4", "A100"])
    fast = build_world(world.table, replace(world.cluster, speed=np.array([1.0, 4.0])))
    assert certificate(fast).b1_s == pytest.approx((8 + 2) / 2, rel=ROUNDED)


def test_families_take_gpus_from_their_types_and_cpus_of_other_roles_anywhere() -> None:
    world = typed_elastic_world(LISTS)
    [groups] = families_by_pool(world, np.arange(len(LISTS)))
    amounts = {tuple(group.jobs.tolist()): most_capacity(world, group.may).tolist() for group in groups}
    gpu, cpu = amounts[(0, 5)]
    assert gpu == 6000  # V100: servers 1 and 2
    assert cpu == world.arrays.capacity[:, 1].sum()  # parameter servers need no GPU
