"""Policies that plan at arrival: where worlds differ from plans, what they need, and their baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.cluster import LinkChanges
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.policies.utility_worlds import SLOT_S, example_1_a, paper_world, pd_ors_job, utility_world, worth
from tests.proofs import seeds
from tests.worlds import DOWN, UP, availability

NONE_POOR = {"admitted_below_1_percent": 0}


def run(world: World, policy: str = "pd_ors", **params: object) -> RunResult:
    return run_world(world, create_policy(policy, params))


def slow_world() -> World:
    """One job on a server of speed 0.8: 2 workers train a sample in 2.25 s, not 2 s as published.

    By the published speed it is planned for slot 0.
    """
    return utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [6], 3, speed=[0.8])


def test_a_job_that_is_not_done_when_its_plan_is_over_is_left() -> None:
    result = run(slow_world(), speeds="published")
    assert result.jobs.select("status", "reason", "utility").row(0) == ("unfinished", "horizon", 0.0)
    assert result.events.filter(pl.col("event") == "stop")["time_s"].to_list() == [SLOT_S]


def test_or_what_is_left_is_planned_again() -> None:
    # 2 x 100 / 2.25 = 88.9 samples in slot 0. For 11.1 one worker is enough: 11.1 x 2.25 s = 25 s of slot 1.
    result = run(slow_world(), speeds="published", unfinished="extend")
    assert result.jobs["finish_s"].to_list() == pytest.approx([125])
    assert result.jobs["utility"].to_list() == pytest.approx([4])
    assert result.summary.policy_counts == {
        "admitted": 1,
        "admitted_below_1_percent": 0,
        "extended": 1,
        "operations": 4222,
        "under_delivered": 1,
        "unsolved_slots": 0,
    }


def test_what_cannot_be_planned_again_is_given_up_once() -> None:
    # 11.1 samples are left when the horizon has come.
    world = utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [6], 1, speed=[0.8])
    result = run(world, speeds="published", unfinished="extend")
    assert result.jobs["status"].to_list() == ["unfinished"]
    assert result.summary.policy_counts == {
        "admitted": 1,
        "admitted_below_1_percent": 0,
        "given_up": 1,
        "operations": 1311,
        "under_delivered": 1,
        "unsolved_slots": 0,
    }


def slow_link_world(bandwidth: float, slots: int = 3) -> World:
    """One job, planned for slot 0, whose worker and parameter server fit on no common server.

    25 samples of 4 s across servers: 1 s of training, and 3 s of transfer, or 3 s / ``bandwidth``.
    """
    links = LinkChanges(np.zeros(1, np.int64), np.ones(1, np.int64), np.array([bandwidth]))
    job = pd_ors_job(epochs=1, samples=25)
    return utility_world([0.0], [job], [worth(5, 4)], [2, 1], slots, links=links)


def test_a_plan_made_before_a_link_slows_falls_behind() -> None:
    assert run(slow_link_world(1.0)).jobs["finish_s"].to_list() == [SLOT_S]
    behind = run(slow_link_world(0.5))
    assert behind.jobs["status"].to_list() == ["unfinished"]
    assert behind.events.filter(pl.col("event") == "stop")["time_s"].to_list() == [SLOT_S]


def test_and_what_is_left_behind_a_slow_link_is_planned_again() -> None:
    # 100 / 7 = 14.3 samples in slot 0; the other 10.7 take 75 s of slot 1.
    result = run(slow_link_world(0.5), unfinished="extend")
    assert result.jobs["finish_s"].to_list() == pytest.approx([175])
    # A tenth of the bandwidth: 31 s a sample, so 3.2 a slot; the horizon comes first.
    assert run(slow_link_world(0.1), unfinished="extend").jobs["status"].to_list() == ["unfinished"]


def failing_world(*outages: tuple[float, int, bool]) -> World:
    """Two servers of 6 GPUs, and a job that takes 2 workers of the first for two slots of four."""
    return utility_world([0.0], [pd_ors_job(samples=100)], [worth(5, 4.9)], [6, 6], 4, outages=outages)


def servers_used(result: RunResult) -> list[tuple[float, str]]:
    held = result.events.filter(pl.col("event").is_in(["start", "move"]) & (pl.col("role") == "worker"))
    return held.select("time_s", "server").rows()


def test_a_plan_on_a_server_that_goes_is_lost_or_made_anew() -> None:
    gone = failing_world((SLOT_S, 0, DOWN))
    stays = run(gone)
    assert servers_used(stays) == [(0, "s0")]
    assert stays.jobs["status"].to_list() == ["unfinished"]
    moves = run(gone, replan="failed")
    assert servers_used(moves) == [(0, "s0"), (SLOT_S, "s1")]
    assert moves.jobs["finish_s"].to_list() == [2 * SLOT_S]
    assert moves.summary.policy_counts == {
        "admitted": 1,
        "admitted_below_1_percent": 0,
        "operations": 3523,
        "replanned": 1,
        "unsolved_slots": 0,
    }


def test_nothing_is_planned_on_servers_that_are_not_there() -> None:
    # The second job comes in slot 1 when the first server, the lowest of two equal ones, has gone.
    jobs, utilities = [pd_ors_job()] * 2, [worth(5, 5)] * 2
    world = utility_world([0.0, SLOT_S / 2], jobs, utilities, [6, 6], 4, outages=[(SLOT_S - 1, 0, DOWN)])
    assert servers_used(run(world, replan="failed")) == [(0, "s0"), (SLOT_S, "s1")]
    assert servers_used(run(world)) == [(0, "s0")]


def test_what_a_failure_took_within_a_slot_is_trained_later() -> None:
    # Half of slot 0 is lost with the server, which is back for slot 1.
    world = failing_world((SLOT_S / 2, 0, DOWN), (SLOT_S / 2 + 10, 0, UP))
    assert run(world).jobs["status"].to_list() == ["unfinished"]
    extended = run(world, unfinished="extend").jobs
    # 200 samples less 50 and 100; one worker for 50 x 2 s.
    assert extended["finish_s"].to_list() == [3 * SLOT_S]


def test_idle_servers_are_given_to_jobs_that_train_faster_with_them() -> None:
    # Both fit into slot 0, but there the second finds higher prices, and it does not mind to wait. Given what
    # is idle, each holds all its 4 workers on the server in its slot, and ends after 50 s.
    world = utility_world([0.0, 0.0], [pd_ors_job()] * 2, [worth(5, 5)] * 2, [12], 2)
    assert run(world).jobs["finish_s"].to_list() == [SLOT_S, 2 * SLOT_S]
    given = run(world, idle="give")
    assert given.jobs["finish_s"].to_list() == [SLOT_S / 2, SLOT_S + SLOT_S / 2]
    assert given.summary.policy_counts is not None
    assert given.summary.policy_counts["gifts"] == 2


def test_a_job_without_demand_is_given_no_server_that_is_not_there() -> None:
    # Its tasks fit on any server; the first comes at 250 s only.
    job = replace(pd_ors_job(), worker_demand=np.array([[0]]), ps_demand=np.array([[0]]))
    world = utility_world([0.0], [job], [worth(5, 4)], [3, 4], 6)
    cluster = replace(world.cluster, availability=availability([(250, 0, UP)]))
    result = run(build_world(world.table, cluster, params=world.params), idle="give")
    placed = result.events.filter(pl.col("event").is_in(["start", "move"]))
    assert placed.filter(pl.col("time_s") < 250)["server"].unique().to_list() == ["s1"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5, quick=1))
def test_gifts_delay_nobody(seed: int) -> None:
    world = paper_world(20, 60, 20, seed)
    kept, given = run(world).jobs, run(world, idle="give").jobs
    assert given["status"].to_list() == kept["status"].to_list()
    both = given["finish_s"].drop_nulls() - kept["finish_s"].drop_nulls()
    assert both.max() <= 0  # type: ignore[operator]  # a number


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_whoever_oasis_admits_earns_what_was_planned(seed: int) -> None:
    result = run(paper_world(20, 60, 20, seed), "oasis", record=True)
    summary = result.summary
    assert summary.policy_counts is not None
    assert 0 < summary.policy_counts["admitted"] == summary.completed
    assert summary.utility == pytest.approx(result.timeline["primal"][-1])
    workers = result.events.filter((pl.col("role") == "worker") & (pl.col("count") > 0))["server"].unique()
    ps = result.events.filter((pl.col("role") == "ps") & (pl.col("count") > 0))["server"].unique()
    assert max(int(name[1:]) for name in workers) < 30 <= min(int(name[1:]) for name in ps)


@pytest.mark.parametrize("policy", ["pd_ors", "oasis"])
def test_planners_say_what_they_need(policy: str) -> None:
    world = example_1_a()
    with pytest.raises(InvalidScenarioError, match=f"{policy} plans up to a horizon: give it"):
        run(build_world(world.table, world.cluster, params={"truth": "pd_ors", "slot_s": 1}), policy)
    with pytest.raises(InvalidScenarioError, match="give their length"):
        run(build_world(world.table, world.cluster, params={"truth": "pd_ors", "horizon_s": 1}), policy)
    facts = {"truth": "pd_ors", "horizon_s": 5, "slot_s": 10}
    with pytest.raises(InvalidScenarioError, match="horizon_s=5 is shorter than slot_s=10"):
        run(build_world(world.table, world.cluster, params=facts), policy)
    worthless = replace(world.table, utility=None)
    with pytest.raises(InvalidScenarioError, match="does not say what jobs are worth"):
        run(build_world(worthless, world.cluster, params={**facts, "horizon_s": 50}), policy)


@pytest.mark.parametrize(
    ("policy", "params", "utilities"),
    [
        # A ends with slot 0, B with slot 1; C is cut off by the horizon.
        ("fifo", {}, [5, 3, 0]),
        # A bundle takes 3 of 6 GPUs: A and B train with a worker each, for 200 s.
        ("drf", {}, [4, 3, 0]),
        ("drf", {"when": "event"}, [4, 3, 0]),
        ("dorm", {}, [4, 3, 0]),
    ],
)
def test_others_earn_utility_too(policy: str, params: dict[str, object], utilities: list[float]) -> None:
    utility = [worth(5, 4), worth(9, 3), worth(2, 1)]
    jobs = [pd_ors_job(num_workers=2, num_ps=2)] * 3
    world = utility_world([0.0] * 3, jobs, utility, [6], 2)
    assert run(world, policy, **params).jobs["utility"].to_list() == pytest.approx(utilities)
