"""Every run of jobs that are worth something says what any policy could have earned, and none earns more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.kinds.elastic.limits import certify_world_utility
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.metrics import Trim
from ray_sim.model.result import Summary, UtilityCertificate
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy, policy_class, policy_classes
from ray_sim.reports.tables import RunRow, run_table, summary_rows
from ray_sim.solvers.utility_bounds import price_bound, utility_bounds
from tests.best_utility import best_utility, slot_claims, slot_jobs, tiny_world
from tests.elastic_worlds import elastic_world
from tests.proofs import instances
from tests.required import new_policy
from tests.training import profile
from tests.worlds import Job, cluster_of, job_table, world_of

ROUNDED = 3e-9
SOLVER = 2e-6
POLICIES = [name for name, policy in policy_classes().items() if policy.schedules in (GANGS, ELASTIC)]
SLOT_S = 100.0


def worth(n: int, most: float = 8.0, decay: float = 0.01, due: float = 300.0) -> UtilityProfile:
    return UtilityProfile(np.full(n, most), np.full(n, decay), np.full(n, due))


def utility_world(
    jobs: Sequence[TrainingProfile],
    gpus: Sequence[float],
    submit_s: Sequence[float] = (),
    params: Mapping[str, object] | None = None,
    utility: UtilityProfile | None = None,
) -> World:
    """Under the truth of PD-ORS, in slots of 100 s."""
    facts = {"truth": "pd_ors", "slot_s": SLOT_S, **(params or {})}
    world = elastic_world(submit_s or [0] * len(jobs), jobs, gpus, facts)
    table = replace(world.table, utility=worth(len(jobs)) if utility is None else utility)
    return build_world(table, world.cluster, params=facts)


def summary_of(world: World, policy: str = "fifo", **params: object) -> Summary:
    return run_world(world, new_policy(policy, params)).summary


def certificate(world: World, policy: str = "fifo", **params: object) -> UtilityCertificate:
    found = summary_of(world, policy, **params).utility_certificate
    assert found is not None
    return found


def valued(world: World, seed: int) -> World:
    """The world with jobs that are worth something for a while."""
    draw, n = Streams(seed).generator("worth"), len(world.table)
    utility = UtilityProfile(
        draw.uniform(0, 100, n), draw.choice([0, 0.003, 0.03, 0.3], n), draw.uniform(10, 500, n)
    )
    return replace(world, table=replace(world.table, utility=utility))


def test_a_job_earns_by_the_slot_in_which_it_completes() -> None:
    # 2,000 samples at 0.108 s each are 216 s of one worker: slots 0, 1, 2; 300 s after it came half is left.
    world = utility_world([profile()], [2])
    summary = summary_of(world)
    assert summary.utility == pytest.approx(8 / (1 + np.exp(0.01 * (200 - 300))))
    exact = replace(world, slot_us=None)
    assert summary_of(exact).utility == pytest.approx(8 / (1 + np.exp(0.01 * (216 - 300))))


def test_what_does_not_complete_earns_nothing() -> None:
    jobs = run_world(
        utility_world([profile(), profile()], [2], params={"horizon_s": 300}), create_policy("fifo")
    ).jobs
    assert jobs["status"].to_list() == ["completed", "unfinished"]
    assert jobs["utility"][1] == 0.0


def test_one_job_that_gets_all_it_can_use_has_no_gap() -> None:
    # Two of four GPUs are workers: 108 s, so it completes in slot 1 at best, and drf gives it so much.
    found = certificate(utility_world([profile()], [4]), "drf")
    assert found.gap == pytest.approx(0, abs=ROUNDED)
    assert (found.hopeful, found.hopeless) == (1, 0)


def test_alike_jobs_that_all_fit_at_once_have_no_gap() -> None:
    # One sample a step: one worker at most, which takes 0.1 + 2 x 0.4 s for each of 400.
    found = certificate(utility_world([profile(batch=1, samples=200)] * 3, [2, 2, 2]))
    assert found.u1 == pytest.approx(3 * 8 / (1 + np.exp(0.01 * (300 - 300))))
    assert found.gap == pytest.approx(0, abs=ROUNDED)


def test_jobs_that_cannot_complete_alone_do_not_count() -> None:
    # 216 s on two GPUs, 10,800 s for fifty times the samples; the last needs more than there is.
    jobs = [profile(), profile(samples=50_000), profile(samples=1e12)]
    found = certificate(utility_world(jobs, [2], params={"horizon_s": 1000}))
    assert (found.hopeful, found.hopeless) == (1, 2)
    assert found.gap == pytest.approx(0, abs=ROUNDED)
    late = certificate(utility_world([profile()] * 2, [2], [0, 850], params={"horizon_s": 1000}))
    assert (late.hopeful, late.hopeless) == (1, 1)


def test_without_a_horizon_all_jobs_complete_some_time() -> None:
    # One after the other on two GPUs: 216, 432, 648 s, in slots 2, 4, 6.
    jobs = [profile()] * 3
    found = certificate(utility_world(jobs, [2]))
    worth_in = 8 / (1 + np.exp(0.01 * (np.array([200.0, 400.0, 600.0]) - 300)))
    assert found.u1 == pytest.approx(3 * worth_in[0])
    assert worth_in.sum() <= found.bound < 3 * worth_in[0]


def test_nothing_earned_has_no_gap() -> None:
    found = certificate(utility_world([profile()], [2], params={"horizon_s": 100}))
    assert found == UtilityCertificate(0, 0, 0, 0, None, hopeful=0, hopeless=1)


def test_only_jobs_that_are_worth_something_have_a_certificate() -> None:
    assert summary_of(elastic_world([0], [profile()], [2])).utility_certificate is None
    rigid = world_of([Job(0, 1, 10)], [1])
    assert summary_of(rigid).utility_certificate is None
    summary = summary_of(replace(rigid, table=replace(rigid.table, utility=worth(1))))
    assert summary.utility == pytest.approx(8 / (1 + np.exp(0.01 * (10 - 300))))
    assert summary.utility_certificate is not None
    assert summary.utility_certificate.gap == pytest.approx(0, abs=SOLVER)


@pytest.mark.slow
def test_no_policy_for_rigid_jobs_earns_more_than_the_bound() -> None:
    """Two speeds, two partitions or one, restarts that cost, jobs that never fit, with and without an end."""
    for seed in range(instances(300, 8)):
        draw = Streams(seed).generator("rigid-utility")
        n, vcs = int(draw.integers(1, 12)), (["a", "b"] if draw.integers(2) else None)
        times = zip(
            np.sort(draw.integers(0, 60, n)), draw.integers(1, 5, n), draw.integers(0, 40, n), strict=True
        )
        jobs = [Job(float(s), float(g), float(d), str(draw.choice(["a", "b"]))) for s, g, d in times]
        facts: dict[str, object] = {"restart_cost_s": float(draw.choice([0, 3]))}
        facts |= {"horizon_s": 80.0} if draw.integers(2) else {}
        facts |= {"slot_s": 10.0} if draw.integers(2) else {}
        world = world_of(jobs, [2, 4], vc=vcs, speed=[1.0, float(draw.choice([0.5, 2]))], params=facts)
        for policy in ("fifo", "srtf"):
            summary = summary_of(valued(world, seed), policy)
            found = summary.utility_certificate
            assert found is not None
            assert summary.utility is not None
            assert summary.utility <= found.bound, seed
            assert summary.completed <= found.hopeful, seed


def test_bounds_of_partitions_add_up() -> None:
    table = replace(
        job_table([Job(0, 1, 100, "a"), Job(0, 1, 100, "b"), Job(0, 1, 100, "c")]),
        training=utility_world([profile()] * 3, [2]).table.training,
        utility=worth(3),
    )
    params = {"truth": "pd_ors", "slot_s": SLOT_S}
    world = build_world(table, cluster_of([2, 4], vc=["a", "b"]), partition="vc", params=params)
    apart = certificate(world)
    one, other = (certificate(utility_world([profile()], [gpus])).bound for gpus in (2, 4))
    assert apart.bound == pytest.approx(one + other)
    assert (apart.hopeful, apart.hopeless) == (2, 1)


def test_a_trimmed_run_bounds_the_jobs_that_count() -> None:
    world = utility_world([profile()] * 4, [4], [0, 100, 200, 300])
    summary = run_world(world, create_policy("fifo"), trim=Trim(50, 50)).summary
    found = summary.utility_certificate
    assert found is not None
    assert found.hopeful == 2
    assert summary.utility is not None
    assert found.u1 == pytest.approx(2 * 8 / (1 + np.exp(0.01 * (100 - 300))))
    assert found.bound >= summary.utility


def test_it_is_among_the_metrics_and_in_the_tables() -> None:
    with_utility, without = utility_world([profile()], [2]), elastic_world([0], [profile()], [2])
    summary = summary_of(with_utility)
    found = summary.utility_certificate
    assert found is not None
    assert summary.flat()["utility_certificate.bound"] == found.bound
    assert ("upper bound on utility", found.bound) in summary_rows(summary)
    rows = [RunRow("w", "c", "", "fifo", 0, each) for each in (summary, summary_of(without))]
    table = run_table(rows)
    assert table["utility_certificate.gap"].to_list() == [found.gap, None]
    assert "utility" not in run_table(rows[1:]).columns


def test_utilities_that_grow_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match=r"utility_decay_per_s: row 0 .* must not increase with time"):
        utility_world([profile()], [2], utility=worth(1, decay=-1.0))


@pytest.mark.parametrize(
    ("column", "value"), [("bandwidth_mbps", 0.0), ("internal_bandwidth_mbps", -1.0), ("workers_per_ps", 0.0)]
)
def test_training_that_cannot_be_is_refused_by_name(column: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=column):
        utility_world([profile(**{column: value})], [2])


def test_servers_without_anything_hold_no_hope() -> None:
    found = certificate(utility_world([profile()], [0, 0]))
    assert (found.bound, found.hopeful, found.hopeless) == (0, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "dorm"])
@pytest.mark.parametrize("seed", range(3))
def test_no_policy_earns_more_than_the_bound(seed: int, policy: str) -> None:
    """Seeds differ in truth; servers of three speeds, restarts that cost, stragglers, servers that fail."""
    for world in (busy_elastic(30, seed), busy_elastic(30, seed, partition="vc"), failing_elastic(30, seed)):
        bounded = world.partition == "vc" or policy_class(policy).bounded
        horizon_us = 400_000_000 if bounded else world.horizon_us
        summary = summary_of(replace(valued(world, seed), horizon_us=horizon_us), policy)
        found = summary.utility_certificate
        assert found is not None
        assert summary.utility is not None
        assert summary.utility <= found.bound
        assert summary.completed <= found.hopeful
        assert found.bound <= min(found.u1, found.u2) * (1 + ROUNDED)


def _is_never_beaten(seeds: range) -> int:
    """The number of instances in which the bound is the optimum."""
    tight = 0
    for seed in seeds:
        world = tiny_world(seed)
        jobs, capacity = slot_jobs(world), world.arrays.capacity
        best = best_utility(jobs, capacity)
        found = certify_world_utility(world, best)
        assert found is not None
        assert found.u3 is not None
        assert best <= min(found.u1, found.u2, found.u3), seed
        tight += found.bound <= best * (1 + ROUNDED)
        claims = slot_claims(jobs, capacity)
        of_slots = utility_bounds(claims)
        assert of_slots.u3 is not None
        assert best <= min(of_slots.u1, of_slots.u2, of_slots.u3), seed
        assert found.u1 <= of_slots.u1 * (1 + ROUNDED), seed
        draw = Streams(seed).generator("prices")
        scale = 10.0 ** draw.uniform(-6, -2)
        prices = scale * draw.uniform(0, 1, claims.offer.shape)
        assert best <= price_bound(claims, prices), seed
    return tight


def test_the_best_schedule_earns_no_more_than_any_bound() -> None:
    tried = instances(10_000)
    assert _is_never_beaten(range(tried)) > tried / 2


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_does_not_depend_on_the_policy(seed: int) -> None:
    world = valued(busy_elastic(20, seed), seed)
    one, other = (certificate(world, policy) for policy in ("fifo", "srtf"))
    assert replace(one, gap=None) == replace(other, gap=None)
    assert one.u2 <= one.u1 * (1 + SOLVER)
