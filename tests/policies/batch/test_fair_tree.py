"""Fair Tree, the decay of usage, and multifactor priority."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.batch.fair_tree import FairShare, fair_shares, levels, multifactor
from ray_sim.policies.registry import create_policy
from tests.worlds import Job, cluster_of, job_table, replay, times_of

VISION, SPEECH = 0, 1
ANN, BOB, CY, DI = range(4)


def test_users_rank_by_team_and_then_by_user() -> None:
    # Shares 2 and 1, usage 400 and 100: levels (2/3)/(4/5) and (1/3)/(1/5). In vision ann has (1/2)/(3/4).
    usage, team = np.array([300.0, 100, 100, 0]), np.array([VISION, VISION, SPEECH, SPEECH])
    shares = np.array([2.0, 1.0])
    of_teams = levels(shares, np.array([400.0, 100.0]), np.zeros(2, np.int64))
    np.testing.assert_allclose(of_teams, [0.8333, 1.6667], atol=5e-5)
    np.testing.assert_allclose(levels(np.ones(4), usage, team), [2 / 3, 2, 0.5, math.inf])
    factor = fair_shares(usage, team, shares)
    assert factor[[DI, CY, BOB, ANN]].tolist() == [1, 0.75, 0.5, 0.25]


def test_tied_users_share_the_higher_rank_and_tied_teams_are_one() -> None:
    # Both teams have level 1; users 1 and 3 have level 2 / 3 x ... : 10 of 20 and 20 of 40, all equal.
    assert fair_shares(np.array([10.0, 10, 10, 10]), np.array([0, 0, 1, 1]), np.ones(2)).tolist() == [
        1,
        1,
        1,
        1,
    ]
    # Levels 0.5 / 0.25, 0.5 / 0.75 in both: the two light users are first, then the two heavy ones.
    assert fair_shares(np.array([10.0, 30, 10, 30]), np.array([0, 0, 1, 1]), np.ones(2)).tolist() == [
        1,
        0.5,
        1,
        0.5,
    ]


def test_a_weighted_sum_of_four_factors() -> None:
    # Waited 1 d, 3 d, 0 of at most 7 d; 8, 1, 16 of 32 GPUs.
    factors = np.array([[1 / 7, 3 / 7, 0], [0.75, 0.25, 1], [8 / 32, 1 / 32, 16 / 32], [0.5, 0.5, 0]])
    found = multifactor(np.array([1000.0, 2000.0, 500.0, 3000.0]), factors)
    np.testing.assert_allclose(found, [3267.857, 2444.196, 2250], atol=5e-4)


def test_usage_halves_and_grows_by_what_is_held() -> None:
    # 100 GPU-s halve in 10 s, while 2 GPUs add the integral of 2 x 2^(-t / 10): 2 x 10 / ln 2 x (1 - 1 / 2).
    usage = FairShare(np.zeros(1, np.int64), np.array([2.0]), np.zeros(1, np.int64), np.ones(1), 10.0)
    usage.used[:] = 100.0
    usage.hold(np.zeros(1, np.int64))
    usage.advance(10_000_000)
    assert usage.used[0] == pytest.approx(50 + 10 / math.log(2))


def test_the_user_who_used_less_starts_first() -> None:
    # One GPU. ann runs 0-10; at 10 bob, who came later, goes before ann's second job.
    jobs = [Job(0, 1, 10, "a"), Job(1, 1, 5, "a"), Job(2, 1, 5, "a")]
    world = build_world(job_table(jobs, columns={"user": ["ann", "ann", "bob"]}), cluster_of([1]))
    start = {order: times_of(replay(world, "batch", order=order)) for order in ("fifo", "multifactor")}
    assert start["fifo"] == {"J1": (0, 10), "J2": (10, 15), "J3": (15, 20)}
    assert start["multifactor"] == {"J1": (0, 10), "J3": (10, 15), "J2": (15, 20)}


def test_the_class_counts_lower_classes_among_those_so_far() -> None:
    # One GPU. At 10 s J2 has waited 1 s longer than J3: 1000 / 604,800 = 0.0017. J3's class counts 0.002,
    # as the higher of two, whatever priority comes later.
    jobs = [Job(0, 1, 10, "a"), Job(1, 1, 5, "a"), Job(2, 1, 5, "a"), Job(30, 1, 5, "a")]
    for last in (5, 10**6):
        columns: dict[str, Sequence[object]] = {"user": ["ann"] * 4, "priority": [0, 0, 5, last]}
        world = build_world(job_table(jobs, columns=columns), cluster_of([1]))
        found = times_of(replay(world, "batch", order="multifactor", weights=(1000, 0, 0, 0.002)))
        assert found["J3"] == (10, 15)


def test_multifactor_needs_teams_users_and_four_weights() -> None:
    world = build_world(job_table([Job(0, 1, 10, "a")]), cluster_of([1]))
    with pytest.raises(InvalidScenarioError, match="give the columns vc and user"):
        replay(world, "batch", order="multifactor")
    with pytest.raises(InvalidScenarioError, match=r"weights must be four numbers, .* got 3"):
        create_policy("batch", {"weights": [1, 2, 3]})
    with pytest.raises(InvalidScenarioError, match="weights: "):
        create_policy("batch", {"weights": [1, 2, 3, -4]})
