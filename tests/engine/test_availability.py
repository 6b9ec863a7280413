"""Servers that fail, are repaired, come later or leave: what becomes of the jobs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.run import Loop
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.result import RunResult
from tests.proofs import instances, quick_first
from tests.random_worlds import PolicyChoice, policies, server_changes, worlds
from tests.scripted import at_times, scripted
from tests.toys import WorkersRule, world_with
from tests.worlds import (
    DOWN,
    UP,
    Change,
    Job,
    availability,
    cluster_of,
    column_of,
    events_of,
    fingerprint,
    job_table,
    replay,
    times_of,
)

LOOPS: tuple[Loop, ...] = ("auto", "general")


def world_of(
    jobs: Sequence[Job], gpus: Sequence[float], changes: Sequence[Change], **params: object
) -> World:
    cluster = replace(cluster_of(gpus), availability=availability(changes))
    return build_world(job_table(jobs), cluster, params=params)


def both(world: World, policy: str = "fifo", **params: object) -> RunResult:
    """The run, which is the same in both loops and on any number of sites."""
    new = PolicyChoice(policy, params).create
    compiled, general = (replay(world, new(), loop=loop) for loop in LOOPS)
    assert (compiled.loop, general.loop) == ("compiled", "general")
    assert fingerprint(compiled) == fingerprint(general)
    for sites in range(2, len(world.cluster) + 1):
        assert fingerprint(replay(world, new(), sites=sites)) == fingerprint(general)
    return general


ONE_FAILURE = [(4.0, 0, DOWN), (6.0, 0, UP)]


@pytest.mark.parametrize(
    ("checkpoint_s", "restart_cost_s", "finish_s", "lost_s"),
    [
        (0, 0, 12, 0),  # 4 s done, repaired at 6, the other 6 s until 12
        (3, 0, 13, 1),  # back to 3 s done: 7 s from 6 on
        (4, 0, 12, 0),  # a checkpoint at the very moment of the failure
        (3, 2, 15, 1),  # a pause of 2 s before them
        (100, 0, 16, 4),  # no checkpoint yet: all 10 s again
    ],
)
def test_a_job_on_a_failed_server_goes_on_from_its_last_checkpoint_after_the_repair(
    checkpoint_s: float, restart_cost_s: float, finish_s: float, lost_s: float
) -> None:
    world = world_of(
        [Job(0, 1, 10)], [1], ONE_FAILURE, checkpoint_s=checkpoint_s, restart_cost_s=restart_cost_s
    )
    result = both(world)
    assert times_of(result) == {"J1": (0, finish_s)}
    expected = {"lost_s": lost_s, "interruptions": 1, "restarts": 1, "preemptions": 0, "queue_s": 2}
    assert {name: column_of(result, name)["J1"] for name in expected} == expected
    assert (result.summary.interruptions, result.summary.lost_s) == (1, lost_s)


def test_a_file_on_another_clock_is_told() -> None:
    # Jobs come from second 1,000 on, the server fails at 10 and is back at 20 s.
    for at_s, told in ((10, True), (1003, False)):
        world = world_of([Job(1000, 1, 5)], [1], [(at_s, 0, False), (at_s + 10, 0, True)])
        warnings = replay(world, "fifo").summary.policy_warnings or []
        assert any("in the workload's own seconds, here from 1000 s on" in each for each in warnings) == told


def test_events_tell_which_server_went_and_who_lost_it() -> None:
    result = both(world_of([Job(0, 1, 10)], [1], ONE_FAILURE))
    assert result.events.select("time_s", "event", "job_id", "server").rows() == [
        (0, "submit", "J1", None),
        (0, "start", "J1", "s0"),
        (4, "server_down", None, "s0"),
        (4, "lose", "J1", "s0"),
        (6, "server_up", None, "s0"),
        (6, "start", "J1", "s0"),
        (12, "finish", "J1", None),
    ]


def test_a_gang_that_loses_one_server_gives_up_the_others_to_whoever_is_next() -> None:
    # J1 (2 GPUs) runs on both; at 4 one server goes for good. J2 (1 GPU, 3 s) waits behind J1 in a strict
    # queue, and J1 never fits again; with backfill J2 starts at 4 on the server that is left.
    jobs = [Job(0, 2, 10), Job(1, 1, 3)]
    strict = both(world_of(jobs, [1, 1], [(4, 0, DOWN)]))
    assert times_of(strict) == {"J1": (0, None), "J2": (None, None)}
    assert column_of(strict, "reason") == {"J1": "stalled", "J2": "stalled"}
    passing = both(world_of(jobs, [1, 1], [(4, 0, DOWN)]), backfill=True)
    assert times_of(passing) == {"J1": (0, None), "J2": (4, 7)}


def test_a_job_keeps_its_place_in_the_queue_when_it_returns() -> None:
    # One server of 1 GPU left at 4: J1 (submitted first) takes it before J3, which has waited since 2.
    jobs = [Job(0, 1, 10), Job(0, 1, 4), Job(2, 1, 5)]
    result = both(world_of(jobs, [1, 1], [(3, 0, DOWN)]))
    # J1 stops at 3, J2 ends at 4; J1 goes on at 4 with 7 s left until 11, then J3.
    assert times_of(result) == {"J1": (0, 11), "J2": (0, 4), "J3": (11, 16)}


def test_what_the_scheduler_suspended_was_saved_then() -> None:
    # srtf, checkpoints every 100 s: J1 runs 0-2, is suspended for J2 (2-3), goes on at 3 with 8 s left;
    # the failure at 5 costs the 2 s since then, not the first two.
    world = world_of([Job(0, 1, 10), Job(2, 1, 1)], [1], [(5, 0, DOWN), (6, 0, UP)], checkpoint_s=100)
    result = both(world, "srtf")
    assert times_of(result) == {"J1": (0, 14), "J2": (2, 3)}
    assert column_of(result, "lost_s") == {"J1": 2, "J2": 0}


def test_checkpoints_are_counted_in_progress_not_in_pauses() -> None:
    # Restart pause 2 s at 6 after the failure at 4; from 8 on progress; checkpoint at 11 (3 s later);
    # the failure at 12 loses 1 s: 7 left of 10 at 4 (3 saved), 3 more saved, so 4 s left from 13 + 2 on.
    changes = [(4.0, 0, DOWN), (6.0, 0, UP), (12.0, 0, DOWN), (13.0, 0, UP)]
    result = both(world_of([Job(0, 1, 10)], [1], changes, checkpoint_s=3, restart_cost_s=2))
    assert times_of(result) == {"J1": (0, 19)}
    assert column_of(result, "lost_s") == {"J1": 2}


def test_a_server_that_comes_later_offers_nothing_before() -> None:
    result = both(world_of([Job(0, 1, 5), Job(0, 1, 5)], [1, 1], [(3, 1, UP)]))
    assert times_of(result) == {"J1": (0, 5), "J2": (3, 8)}
    # From 0 to 8 s: 10 GPU-s used of 8 + 5 offered.
    assert result.summary.utilisation["gpu"] == pytest.approx(10 / 13)


def test_a_server_that_left_before_the_first_submission_is_not_there() -> None:
    # Times are the workload's own: the first job comes at 100 s.
    jobs = [Job(100, 1, 5), Job(100, 1, 5)]
    result = both(world_of(jobs, [1, 1], [(20, 0, DOWN), (50, 1, DOWN), (60, 0, UP)]))
    assert times_of(result) == {"J1": (100, 105), "J2": (105, 110)}


def test_servers_change_before_jobs_complete() -> None:
    # J1's last second is done when its server goes: it still has to be seen to finish.
    saved = both(world_of([Job(0, 1, 4)], [1], ONE_FAILURE))
    assert times_of(saved) == {"J1": (0, 6)}
    unsaved = both(world_of([Job(0, 1, 4)], [1], ONE_FAILURE, checkpoint_s=3))
    assert times_of(unsaved) == {"J1": (0, 7)}


def test_a_server_may_go_and_come_back_at_one_instant() -> None:
    result = both(world_of([Job(0, 1, 10)], [1], [(4, 0, DOWN), (4, 0, UP)], checkpoint_s=3))
    assert times_of(result) == {"J1": (0, 11)}


def test_a_job_that_demands_nothing_is_lost_with_its_server_like_any_other() -> None:
    result = both(world_of([Job(0, 0, 10)], [1], ONE_FAILURE))
    assert times_of(result) == {"J1": (0, 12)}
    assert result.summary.interruptions == 1


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "las"])
@pytest.mark.parametrize("placement", quick_first(RULE_NAMES))
def test_a_job_that_demands_nothing_waits_for_a_server_that_is_there(policy: str, placement: str) -> None:
    result = both(world_of([Job(1, 0, 10)], [1], [(0, 0, DOWN), (6, 0, UP)]), policy, placement=placement)
    assert times_of(result) == {"J1": (6, 16)}
    result = both(world_of([Job(1, 0, 10)], [1, 1], [(0, 0, DOWN), (6, 0, UP)]), policy, placement=placement)
    assert times_of(result) == {"J1": (1, 11)}
    assert {row[2] for row in events_of(result, "J1") if row[1] == "start"} == {"s1"}


def test_changes_after_the_last_job_are_not_waited_for() -> None:
    result = both(world_of([Job(0, 1, 5)], [1], [(1000, 0, DOWN), (2000, 0, UP)]))
    assert result.timeline["time_s"].max() == 5


def test_las_counts_the_service_of_lost_progress_and_moves_jobs_down_for_it() -> None:
    # Limit 4 GPU-s. J1 has run 4 s when the server goes: it returns to the second queue, behind J2.
    jobs = [Job(0, 1, 10), Job(1, 1, 3)]
    world = world_of(jobs, [1], [(4, 0, DOWN), (6, 0, UP)], checkpoint_s=100)
    result = both(world, "las", limits_gpu_s=(4.0,))
    assert times_of(result) == {"J1": (0, 19), "J2": (6, 9)}
    assert (4, "level", None, 1) in events_of(result, "J1")


def test_a_neighbour_is_rated_anew_when_a_server_goes() -> None:
    """Workers on s0 and s1 count; when s1 goes the job on it stops, the other one is left as it was."""
    jobs = [Job(0, 1, 8), Job(0, 1, 8)]
    world = world_with(WorkersRule, jobs, [2, 2], elastic=True)
    world = replace(world, outages=world_of([Job(0, 1, 1)], [1, 1], [(4, 1, DOWN), (5, 1, UP)]).outages)
    first = Decision.of({0: [(0, 0, 1)], 1: [(1, 0, 1)]})
    again = Decision.of({1: [(1, 0, 1)]})
    policy = scripted(at_times({0.0: first, 5.0: again}), wake=Wake.ARRIVAL | Wake.SERVER_CHANGE)
    assert times_of(replay(world, policy)) == {"J1": (0, 8), "J2": (0, 9)}


class Stubborn(Policy):
    """Puts every job on server 0, there or not."""

    wake_on: Wake = Wake.ARRIVAL | Wake.SERVER_CHANGE

    def decide(self, view: View) -> Decision:
        return Decision.of({int(job): [(0, 0, 1)] for job in view.arrived})


def test_nothing_can_be_placed_on_a_server_that_is_not_there() -> None:
    with pytest.raises(InfeasibleDecisionError, match="job J1 on server s0, which is not there now"):
        replay(world_of([Job(0, 1, 10)], [1, 1], [(4, 0, DOWN)]), Stubborn())


class Watching(Stubborn):
    """Notes what its view says of servers."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], list[int], list[bool]]] = []

    def decide(self, view: View) -> Decision:
        self.seen.append((view.changed_servers.tolist(), view.returned.tolist(), view.available.tolist()))
        return super().decide(view) if view.available[0] else Decision()


def test_a_policy_sees_which_servers_changed_and_which_jobs_returned() -> None:
    policy = Watching()
    replay(world_of([Job(0, 1, 10)], [1, 1], [(4, 0, DOWN), (6, 1, DOWN)]), policy)
    assert policy.seen == [([], [], [True, True]), ([0], [0], [False, True]), ([1], [], [False, False])]


@st.composite
def failing_worlds(draw: st.DrawFn) -> World:
    """Small worlds full of ties, whose servers go and come back all the time."""
    world = draw(worlds(max_servers=4))
    cluster = replace(world.cluster, availability=availability(draw(server_changes(len(world.cluster)))))
    seconds = {
        "checkpoint_s": draw(st.sampled_from([0, 1.5, 4, 100])),
        "restart_cost_s": world.restart_us / 1e6,
    }
    if world.horizon_us < 2**60:
        seconds["horizon_s"] = world.horizon_us / 1e6
    return build_world(world.table, cluster, partition=world.partition, params=seconds)


@pytest.mark.slow
@settings(max_examples=instances(300, 25))
@given(world=failing_worlds(), policy=policies())
def test_both_loops_agree_however_servers_come_and_go(world: World, policy: PolicyChoice) -> None:
    compiled = replay(world, policy.create())
    general = replay(world, policy.create(), loop="general")
    assert (compiled.loop, general.loop) == ("compiled", "general")
    assert fingerprint(compiled) == fingerprint(general)
    parts = replay(world, policy.create(), sites=len(world.cluster), loop="general")
    assert fingerprint(parts) == fingerprint(general)


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(world=failing_worlds(), policy=policies())
def test_jobs_take_as_long_as_their_work_what_they_lost_and_their_pauses(
    world: World, policy: PolicyChoice
) -> None:
    """At speed 1 a completed job holds servers for its duration, what it lost, and at most its pauses."""
    result = replay(world, policy.create())
    if (world.arrays.speed != 1.0).any():
        return
    pause_s = world.restart_us / 1e6
    for job in result.jobs.filter(result.jobs["status"] == "completed").iter_rows(named=True):
        least = job["duration_s"] + job["lost_s"]
        assert least - 1e-6 <= job["run_s"] <= least + job["restarts"] * pause_s + 1e-6
