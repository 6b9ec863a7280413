"""The policy `batch` as a whole: worked examples, fifo and static partitions as special cases, bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.placement import QUEUE_RULES, RULE_NAMES
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.model.teams import JobClass, Quota, Team
from tests.policies.batch.staged import team
from tests.proofs import instances
from tests.random_worlds import shared_worlds, worlds
from tests.worlds import HOUR, Job, cluster_of, fingerprint, job_table, replay, times_of

FIVE = [Job(0, 3, 3), Job(1, 2, 4), Job(2, 4, 2), Job(2, 2, 3), Job(2, 1, 4)]


@pytest.mark.parametrize(
    ("params", "starts"),
    [
        ({"backfill": False}, [0, 3, 7, 9, 9]),
        ({"reserve": 0}, [0, 3, 9, 6, 2]),
        ({}, [0, 3, 7, 9, 2]),
        ({"reserve": 9}, [0, 3, 7, 3, 9]),
    ],
    ids=["strict", "none", "EASY", "conservative"],
)
@pytest.mark.parametrize("gpus", [[4], [1, 3]], ids=["one server", "pool"])
def test_backfilling_with_no_one_and_all_reservations(
    params: dict[str, Any], starts: list[int], gpus: list[int]
) -> None:
    # 4 GPUs, limits are run times. J2 waits for J1; J5 fits beside it, and beside J2's reservation from 3 on.
    limits = {"time_limit_s": [job.duration_s for job in FIVE]}
    world = build_world(job_table(FIVE, columns=limits), cluster_of(gpus))
    result = replay(world, "batch", placement="pooled", **params)
    assert [start for start, _ in times_of(result).values()] == starts


SPOT = (JobClass("production", 9, preemptible=False), JobClass("spot", 0))


def spot_world(**params: object) -> World:
    """4 GPUs. J1, spot, 4 GPUs and 10 h at 0; J2, production, 2 GPUs and 3 h at 4."""
    table = job_table([Job(0, 4, 10 * HOUR), Job(4 * HOUR, 2, 3 * HOUR)], columns={"priority": [0, 9]})
    return build_world(table, replace(cluster_of([4]), classes=SPOT), params=params)


def hours(result: RunResult) -> dict[str, tuple[float, float]]:
    return {job: ((start or 0) / HOUR, (end or 0) / HOUR) for job, (start, end) in times_of(result).items()}


def test_a_spot_job_makes_room_for_production_and_goes_on_later() -> None:
    assert hours(replay(spot_world(), "batch", preempt="lower")) == {"J1": (0, 13), "J2": (4, 7)}
    assert hours(replay(spot_world(), "batch")) == {"J1": (0, 10), "J2": (10, 13)}


def test_a_spot_job_runs_on_for_its_grace_period() -> None:
    late = replay(spot_world(), "batch", preempt="lower", grace_s=HOUR)
    assert hours(late) == {"J1": (0, 13), "J2": (5, 8)}


def test_room_that_is_promised_is_not_given_to_others() -> None:
    # As above; 2 GPUs of another server are free. J3 (4 GPUs) comes within the grace period and must not
    # take them together with J1's: J2 gets its room at 5 h, J3 and J1 what is left.
    jobs = [Job(0, 4, 10 * HOUR), Job(4 * HOUR, 6, 3 * HOUR), Job(4.5 * HOUR, 2, 8 * HOUR)]
    table = job_table(jobs, columns={"priority": [0, 9, 0]})
    world = build_world(table, replace(cluster_of([6]), classes=SPOT))
    found = hours(replay(world, "batch", preempt="lower", grace_s=HOUR, order="priority", reserve=0))
    assert found == {"J1": (0, 13), "J2": (5, 8), "J3": (8, 16)}


def test_jobs_that_are_not_preemptible_stay() -> None:
    both = (JobClass("high", 9), JobClass("low", 0, preemptible=False))
    table = job_table([Job(0, 1, 10), Job(1, 1, 5)], columns={"priority": [0, 9]})
    world = build_world(table, replace(cluster_of([1]), classes=both))
    assert times_of(replay(world, "batch", preempt="lower")) == {"J1": (0, 10), "J2": (10, 15)}


def without_columns(result: RunResult) -> dict[str, str]:
    """A result apart from the policy's own lines."""
    found = fingerprint(result)
    return {name: found[name] for name in ("jobs", "events", "timeline")}


@pytest.mark.slow
@given(world=worlds() | shared_worlds(), rule=st.sampled_from(RULE_NAMES), backfill=st.booleans())
@settings(max_examples=instances(300))
def test_without_classes_teams_and_reservations_it_is_fifo(world: World, rule: str, backfill: bool) -> None:
    batch = replay(world, "batch", placement=rule, backfill=backfill, reserve=0)
    assert without_columns(batch) == without_columns(replay(world, "fifo", placement=rule, backfill=backfill))


@pytest.mark.slow
@given(world=worlds())
@settings(max_examples=instances(100, 5))
def test_without_backfilling_reservations_change_nothing(world: World) -> None:
    strict = replay(world, "batch", backfill=False, reserve=3)
    assert without_columns(strict) == without_columns(replay(world, "fifo"))


ONE_GPU = st.builds(
    Job, st.integers(0, 30).map(float), st.just(1.0), st.integers(1, 12).map(float), st.sampled_from("ab")
)


@given(
    jobs=st.lists(ONE_GPU, min_size=1, max_size=20),
    quotas=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    seed=st.integers(0, 2),
)
@settings(max_examples=instances(200))
def test_quotas_without_borrowing_are_a_static_partition(
    jobs: list[Job], quotas: tuple[int, int], seed: int
) -> None:
    # Tasks of one GPU in a pool: room is never lacking where the quota suffices.
    gpus = [float(n) for n in quotas]
    parted = replay(
        build_world(job_table(jobs), cluster_of(gpus, vc=["a", "b"]), partition="vc"),
        "fifo",
        placement="pooled",
    )
    declared = tuple(team(name, n, borrow=0) for name, n in zip("ab", quotas, strict=True))
    shared = build_world(job_table(jobs), replace(cluster_of(gpus), teams=declared))
    result = replay(shared, "batch", placement="pooled", backfill=bool(seed), reserve=seed)
    assert times_of(result) == times_of(parted)


def test_a_job_that_its_team_can_never_start_is_rejected() -> None:
    # vision may hold 2 + 1 of 8 GPUs; other is limited by what the cohort lends: 1 + 2.
    declared = (team("vision", 2, borrow=1), team("*", 1))
    jobs = [Job(0, 3, 1, "vision"), Job(0, 4, 1, "vision"), Job(0, 4, 1, "b"), Job(0, 9, 1, "b")]
    world = build_world(job_table(jobs), replace(cluster_of([8]), teams=declared))
    result = replay(world, "batch")
    assert result.jobs["reason"].to_list() == [None, "beyond_quota", "beyond_quota", "never_fits"]


def test_a_quota_of_a_type_counts_jobs_confined_to_it() -> None:
    # a may hold one V100 at a time; jobs that take any type are not counted.
    declared = (Team("a", (Quota("gpu:V100", 1000, 0, 1000),)),)
    jobs = [Job(0, 1, 5, "a"), Job(0, 1, 5, "a"), Job(0, 1, 5, "a")]
    servers = replace(cluster_of([2, 2]), gpu_type=("V100", "T4"), teams=declared)
    table = job_table(jobs, columns={"gpu_types": ["V100", "V100", None]})
    assert times_of(replay(build_world(table, servers), "batch")) == {
        "J1": (0, 5),
        "J2": (5, 10),
        "J3": (0, 5),
    }


def test_virtual_clusters_without_a_team_are_listed() -> None:
    jobs = [Job(0, 1, 1, f"vc{i:02}") for i in range(12)] + [Job(0, 1, 1, None)]
    world = build_world(job_table(jobs), replace(cluster_of([1]), teams=(team("vc03", 1),)))
    expected = (
        r"teams of cluster small: 12 jobs have no team, of vc \(jobs without a vc\), vc00, vc01, vc02, vc04, "
        r"vc05, vc06, vc07, vc08, vc09 and 2 more; declare these under teams, or '\*' for all others"
    )
    with pytest.raises(InvalidScenarioError, match=expected):
        replay(world, "batch")


def test_what_never_acted_is_named() -> None:
    # Each team stays below its quota, together above the cluster; all jobs are of the low class.
    declared = (team("a", 3), team("b", 2))
    world = build_world(
        job_table([Job(0, 1, 1, "a"), Job(0, 1, 1, "b")], columns={"priority": [0, 0]}),
        replace(cluster_of([4]), teams=declared, classes=(JobClass("high", 2), JobClass("low", 0))),
    )
    assert replay(world, "batch", order="priority").summary.policy_warnings == [
        "quotas of gpu: 5 in all, and the cluster has 4",
        "quota of team a, b: never acted",
        "class low, high: never acted",
    ]


@pytest.mark.long  # compiles the kernels anew, for the arrays of these rules
@pytest.mark.parametrize("rule", sorted(set(QUEUE_RULES) - set(RULE_NAMES)))
def test_rules_that_score_servers_place_as_in_fifo(rule: str) -> None:
    draw = np.random.default_rng(1)
    jobs = [Job(float(i), float(draw.integers(1, 5)), float(draw.integers(1, 40))) for i in range(40)]
    world = build_world(job_table(jobs), cluster_of([4, 4, 2, 8]))
    fifo = fingerprint(replay(world, "fifo", placement=rule, backfill=True))
    batch = fingerprint(replay(world, "batch", placement=rule, reserve=0))
    # The timeline of a compiled order has more columns.
    assert [fifo[name] for name in ("jobs", "events")] == [batch[name] for name in ("jobs", "events")]
