"""Runs small enough to be computed by hand, in both loops."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.run import Loop, run_world
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.policies.registry import create_policy
from tests.proofs import instances
from tests.worlds import HOUR, Job, column_of, events_of, fingerprint, replay, times_of, world_of

LOOPS = cast("tuple[Loop, ...]", ("auto", "general"))
both_loops = pytest.mark.parametrize("loop", LOOPS)


@both_loops
def test_las_in_the_worked_example_of_two_queues(loop: Loop) -> None:
    # 4 GPUs, limit 8 GPU-h. J1 (4 GPUs) reaches it at 2 h: 4 x 2. J2 and J3 (2 each) run from 2 h; J2 ends
    # at 5 h; J3 reaches the limit at 6 h: 2 x 4. J1 started first, so it runs 6-9 h, then J3 9-11 h.
    world = world_of([Job(0, 4, 5 * HOUR), Job(HOUR, 2, 3 * HOUR), Job(HOUR, 2, 6 * HOUR)], [4])
    result = replay(world, "las", loop=loop, limits_gpu_s=(8 * HOUR,))
    assert times_of(result) == {
        "J1": (0, 9 * HOUR),
        "J2": (2 * HOUR, 5 * HOUR),
        "J3": (2 * HOUR, 11 * HOUR),
    }
    assert column_of(result, "jct_s") == {"J1": 9 * HOUR, "J2": 4 * HOUR, "J3": 10 * HOUR}
    assert column_of(result, "preemptions") == {"J1": 1, "J2": 0, "J3": 1}
    assert events_of(result, "J1") == [
        (0, "submit", None, 0),
        (0, "start", "s0", 4),
        (2 * HOUR, "level", None, 1),
        (2 * HOUR, "stop", None, 0),
        (6 * HOUR, "start", "s0", 4),
        (9 * HOUR, "finish", None, 0),
    ]


@both_loops
def test_fifo_in_the_same_example(loop: Loop) -> None:
    # J1 0-5 h, then J2 5-8 h and J3 5-11 h, both submitted at 1 h.
    world = world_of([Job(0, 4, 5 * HOUR), Job(HOUR, 2, 3 * HOUR), Job(HOUR, 2, 6 * HOUR)], [4])
    jct = column_of(replay(world, "fifo", loop=loop), "jct_s")
    assert jct == {"J1": 5 * HOUR, "J2": 7 * HOUR, "J3": 10 * HOUR}


@settings(max_examples=instances(40))
@given(
    jobs=st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(0, 3_000_000)), min_size=1, max_size=20),
    gpus=st.lists(st.integers(1, 8).map(float), min_size=1, max_size=4),
    placement=st.sampled_from(RULE_NAMES),
    loop=st.sampled_from(LOOPS),
)
def test_jobs_that_fill_the_cluster_obey_lindleys_recursion(
    jobs: list[tuple[int, int]], gpus: list[float], placement: str, loop: Loop
) -> None:
    # c_k = max(a_k, c_{k-1}) + p_k, in microseconds; the order is by arrival, ties as listed.
    world = world_of([Job(a / 1e6, sum(gpus), p / 1e6) for a, p in jobs], gpus)
    result = replay(world, "fifo", placement=placement, loop=loop)
    free_at, expected = 0, []
    for arrival, length in sorted(jobs, key=lambda job: job[0]):
        free_at = max(arrival, free_at) + length
        expected.append(free_at)
    assert np.rint(result.jobs["finish_s"].to_numpy() * 1e6).astype(int).tolist() == expected


@both_loops
def test_sjf_takes_the_shortest_waiting_job_and_the_earlier_of_two_alike(loop: Loop) -> None:
    # One GPU. When J1 ends at 10, J3 (1 s) goes before J2 and J4 (5 s each), and J2 came before J4.
    world = world_of([Job(0, 1, 10), Job(1, 1, 5), Job(2, 1, 1), Job(3, 1, 5)], [1])
    times = times_of(replay(world, "sjf", loop=loop))
    assert times == {"J1": (0, 10), "J3": (10, 11), "J2": (11, 16), "J4": (16, 21)}


@both_loops
def test_srtf_runs_the_job_with_the_least_left(loop: Loop) -> None:
    # One GPU. J1 0-1; J2 (4 < 7) 1-5; J4 (5 < 7 < 9) 5-10; J1 (7 < 9) 10-17; J3 17-26.
    world = world_of([Job(0, 1, 8), Job(1, 1, 4), Job(2, 1, 9), Job(3, 1, 5)], [1])
    result = replay(world, "srtf", loop=loop)
    assert times_of(result) == {"J1": (0, 17), "J2": (1, 5), "J3": (17, 26), "J4": (5, 10)}
    assert column_of(result, "preemptions") == {"J1": 1, "J2": 0, "J3": 0, "J4": 0}
    assert column_of(result, "run_s") == {"J1": 8, "J2": 4, "J3": 9, "J4": 5}
    assert column_of(result, "queue_s") == {"J1": 9, "J2": 0, "J3": 15, "J4": 2}


@both_loops
def test_a_newcomer_with_as_much_left_does_not_displace_a_running_job(loop: Loop) -> None:
    # At 2 s J1 has 3 s left, as long as J2 in all: J1 came first and stays.
    world = world_of([Job(0, 1, 5), Job(2, 1, 3)], [1])
    assert times_of(replay(world, "srtf", loop=loop)) == {"J1": (0, 5), "J2": (5, 8)}


@both_loops
def test_a_strict_queue_waits_behind_its_head_and_a_backfilling_one_does_not(loop: Loop) -> None:
    # 4 GPUs. J2 wants all, J1 holds 3. Strict: J3 waits for J2. Backfill: J3 takes the fourth at 2 s and
    # keeps J2 off until 22 s.
    world = world_of([Job(0, 3, 10), Job(1, 4, 5), Job(2, 1, 20)], [4])
    assert times_of(replay(world, "fifo", loop=loop)) == {"J1": (0, 10), "J2": (10, 15), "J3": (15, 35)}
    passing = times_of(replay(world, "fifo", loop=loop, backfill=True))
    assert passing == {"J1": (0, 10), "J2": (22, 27), "J3": (2, 22)}


@both_loops
def test_a_resumed_job_pays_the_restart_cost_before_it_goes_on(loop: Loop) -> None:
    # SRTF example with a cost of 2 s: J1 resumes at 10 and progresses from 12, so it ends at 19, J3 at 28.
    jobs = [Job(0, 1, 8), Job(1, 1, 4), Job(2, 1, 9), Job(3, 1, 5)]
    result = replay(world_of(jobs, [1], params={"restart_cost_s": 2}), "srtf", loop=loop)
    assert times_of(result) == {"J1": (0, 19), "J2": (1, 5), "J3": (19, 28), "J4": (5, 10)}
    assert column_of(result, "restarts") == {"J1": 1, "J2": 0, "J3": 0, "J4": 0}
    # Held 0-1 and 10-19, of which 8 s were work.
    assert (column_of(result, "run_s")["J1"], column_of(result, "queue_s")["J1"]) == (10, 9)


@both_loops
def test_a_job_that_has_to_make_room_moves_where_it_fits_and_pays_for_it(loop: Loop) -> None:
    # s0 has 4 GPUs, s1 has 2. J2 needs all of s0; J1 (99 s left) moves to s1 at 1 s, pauses until 4 s and
    # ends at 4 + 99 = 103 s without ever waiting.
    world = world_of([Job(0, 2, 100), Job(1, 4, 10)], [4, 2], params={"restart_cost_s": 3})
    result = replay(world, "srtf", loop=loop, placement="first_fit")
    assert times_of(result) == {"J1": (0, 103), "J2": (1, 11)}
    assert [event for event in events_of(result, "J1") if event[1] == "move"] == [(1, "move", "s1", 2)]
    for column, value in {"preemptions": 0, "restarts": 1, "queue_s": 0, "run_s": 103}.items():
        assert column_of(result, column)["J1"] == value


@both_loops
def test_a_restart_pause_is_no_attained_service(loop: Loop) -> None:
    # The LAS example with a cost of 1 h and a second limit of 16 GPU-h. J1 resumes at 6 h, works from 7 h and
    # attains 16 GPU-h (2 + 2 h of work) at 9 h, not at 8 h. J3 resumes at 9, works 10-12; J1 works 13-14.
    jobs = [Job(0, 4, 5 * HOUR), Job(HOUR, 2, 3 * HOUR), Job(HOUR, 2, 6 * HOUR)]
    world = world_of(jobs, [4], params={"restart_cost_s": HOUR})
    result = replay(world, "las", loop=loop, limits_gpu_s=(8 * HOUR, 16 * HOUR))
    assert times_of(result)["J1"] == (0, 14 * HOUR)
    assert times_of(result)["J3"] == (2 * HOUR, 12 * HOUR)
    levels = [(time, count) for time, event, _, count in events_of(result, "J1") if event == "level"]
    assert levels == [(2 * HOUR, 1), (9 * HOUR, 2)]


@both_loops
def test_a_starved_job_returns_to_the_top_queue_by_the_knob(loop: Loop) -> None:
    # One GPU, limit 2 GPU-s, knob 2. J1 runs 0-2 and is demoted; fresh jobs of 2 s keep it waiting. After
    # 2 x 2 s of waiting, at 6, it is back on top and goes before J4 by its first start; its service counts
    # from 0 again, so it is demoted at 8. J4 8-10, J1 10-12.
    jobs = [Job(0, 1, 6), Job(1, 1, 2), Job(3, 1, 2), Job(5, 1, 2)]
    promoted = replay(world_of(jobs, [1]), "las", loop=loop, limits_gpu_s=(2,), knob=2)
    assert times_of(promoted) == {"J1": (0, 12), "J2": (2, 4), "J3": (4, 6), "J4": (8, 10)}
    levels = [(time, count) for time, event, _, count in events_of(promoted, "J1") if event == "level"]
    assert levels == [(2, 1), (6, 0), (8, 1)]
    # Without the knob J1 waits for all of them.
    left_alone = replay(world_of(jobs, [1]), "las", loop=loop, limits_gpu_s=(2,))
    assert times_of(left_alone) == {"J1": (0, 12), "J2": (2, 4), "J3": (4, 6), "J4": (6, 8)}


@both_loops
def test_the_horizon_ends_the_run_in_the_middle(loop: Loop) -> None:
    # Horizon 15 s after the first submission, which is at 100 s. J2 has run 110-115 of its 10 s.
    jobs = [Job(100, 1, 10), Job(101, 1, 10), Job(105, 1, 1), Job(130, 1, 1)]
    result = replay(world_of(jobs, [1], params={"horizon_s": 15}), "fifo", loop=loop)
    assert times_of(result) == {"J1": (100, 110), "J2": (110, None), "J3": (None, None), "J4": (None, None)}
    assert column_of(result, "status") == {
        "J1": "completed", "J2": "unfinished", "J3": "unfinished", "J4": "unfinished",
    }  # fmt: skip
    assert column_of(result, "reason") == {"J1": None, "J2": "horizon", "J3": "horizon", "J4": "horizon"}
    assert column_of(result, "run_s") == {"J1": 10, "J2": 5, "J3": 0, "J4": 0}
    assert column_of(result, "queue_s") == {"J1": 0, "J2": 9, "J3": 10, "J4": 0}
    assert result.summary.reasons == {"horizon": 3}


@both_loops
def test_what_happens_at_the_horizon_still_happens(loop: Loop) -> None:
    world = world_of([Job(0, 1, 10), Job(0, 1, 10)], [1], params={"horizon_s": 10})
    assert times_of(replay(world, "fifo", loop=loop)) == {"J1": (0, 10), "J2": (10, None)}


@both_loops
def test_a_job_that_never_fits_is_refused_on_arrival_and_blocks_nobody(loop: Loop) -> None:
    # J1 wants 5 of the 4 GPUs; J2, behind it, starts at once, and J3 waits for J2 only.
    world = world_of([Job(0, 5, 1), Job(0, 4, 3), Job(1, 1, 1)], [2, 2])
    result = replay(world, "fifo", loop=loop, placement="pooled")
    assert times_of(result) == {"J1": (None, None), "J2": (0, 3), "J3": (3, 4)}
    assert column_of(result, "reason") == {"J1": "never_fits", "J2": None, "J3": None}
    assert events_of(result, "J1") == [(0, "submit", None, 0), (0, "reject", None, 0)]


@both_loops
def test_a_task_larger_than_every_server_never_fits(loop: Loop) -> None:
    # 1.5 GPUs are one task, and two servers of one GPU cannot share it.
    result = replay(world_of([Job(0, 1.5, 1), Job(0, 2, 1)], [1, 1]), "fifo", loop=loop)
    assert column_of(result, "reason") == {"J1": "never_fits", "J2": None}


@both_loops
def test_jobs_without_length_pass_through_in_an_instant(loop: Loop) -> None:
    # All at 0 on one GPU: three of length 0 one after another, the 5 s, and one behind it at 5 s.
    world = world_of([Job(0, 1, 0), Job(0, 1, 0), Job(0, 1, 0), Job(0, 1, 5), Job(0, 1, 0)], [1])
    result = replay(world, "fifo", loop=loop)
    assert times_of(result) == {"J1": (0, 0), "J2": (0, 0), "J3": (0, 0), "J4": (0, 5), "J5": (5, 5)}
    columns = result.timeline.select("time_s", "waiting", "running", "used_gpu")
    assert columns.rows() == [(0, 1, 1, 1), (5, 0, 0, 0)]


@both_loops
def test_jobs_of_one_instant_are_served_in_trace_order(loop: Loop) -> None:
    # 3 GPUs, listed J1 (2), J2 (2), J3 (1): strict order keeps J3 behind J2.
    world = world_of([Job(7, 2, 4), Job(7, 2, 4), Job(7, 1, 4)], [3])
    assert times_of(replay(world, "fifo", loop=loop)) == {"J1": (7, 11), "J2": (11, 15), "J3": (11, 15)}


@both_loops
def test_at_one_instant_jobs_end_then_arrive_then_start(loop: Loop) -> None:
    # J2 arrives at the very moment at which J1 frees the GPU.
    result = replay(world_of([Job(0, 1, 5), Job(5, 1, 5)], [1]), "fifo", loop=loop)
    assert times_of(result) == {"J1": (0, 5), "J2": (5, 10)}
    at_five = [event for event in result.events.rows() if event[0] == 5]
    assert [event[1:3] for event in at_five] == [("finish", "J1"), ("submit", "J2"), ("start", "J2")]


@both_loops
def test_a_blocked_head_blocks_its_own_partition_only(loop: Loop) -> None:
    # J2 waits for J1 in a; J4 waits behind J2; J3 in b starts at once. No server has the label c, and
    # J6 has no label at all.
    jobs = [
        Job(0, 1, 10, "a"), Job(1, 2, 5, "a"), Job(2, 1, 3, "b"),
        Job(2, 1, 3, "a"), Job(2, 1, 1, "c"), Job(2, 1, 1, None),
    ]  # fmt: skip
    result = replay(world_of(jobs, [2, 2], vc=["a", "b"]), "fifo", loop=loop)
    times = times_of(result)
    assert times == {
        "J1": (0, 10), "J2": (10, 15), "J3": (2, 5), "J4": (15, 18), "J5": (None, None), "J6": (None, None),
    }  # fmt: skip
    assert column_of(result, "reason")["J5"] == column_of(result, "reason")["J6"] == "never_fits"


@both_loops
def test_a_gang_runs_at_the_speed_of_its_slowest_server(loop: Loop) -> None:
    # s0 has speed 2, s1 speed 0.5. J1 on s0 alone: 10 / 2 = 5 s. J2 spans both: 10 / 0.5 = 20 s from 5 s.
    world = world_of([Job(0, 2, 10), Job(0, 3, 10)], [2, 2], speed=[2, 0.5])
    assert times_of(replay(world, "fifo", loop=loop)) == {"J1": (0, 5), "J2": (5, 25)}


@both_loops
def test_a_job_goes_on_at_the_speed_of_the_server_it_moves_to(loop: Loop) -> None:
    # J1 (2 GPUs) runs on s0 at speed 1 for 1 s; J2 needs all of s0, and J1 moves to s1 at half the speed:
    # 99 s of work take 198 s, until 199 s.
    world = world_of([Job(0, 2, 100), Job(1, 4, 10)], [4, 2], speed=[1, 0.5])
    assert times_of(replay(world, "srtf", loop=loop, placement="first_fit"))["J1"] == (0, 199)


@both_loops
def test_fractions_of_a_gpu_share_it_to_the_last_thousandth(loop: Loop) -> None:
    # 0.6 + 0.4 = 1; 0.8101 takes 0.811, and 0.811 + 0.19 > 1.
    fit = replay(world_of([Job(0, 0.6, 5), Job(0, 0.4, 5)], [1]), "fifo", loop=loop)
    assert times_of(fit) == {"J1": (0, 5), "J2": (0, 5)}
    over = replay(world_of([Job(0, 0.8101, 5), Job(0, 0.19, 5)], [1]), "fifo", loop=loop)
    assert times_of(over) == {"J1": (0, 5), "J2": (5, 10)}
    assert over.timeline["used_gpu"].to_list() == [0.811, 0.19, 0.0]


@both_loops
def test_an_empty_workload_is_a_run_of_nothing(loop: Loop) -> None:
    result = replay(world_of([], [1]), "fifo", loop=loop)
    assert (len(result.jobs), len(result.events), len(result.timeline)) == (0, 0, 0)
    assert result.summary.makespan_s is None


def test_the_result_tells_which_loop_ran_and_why() -> None:
    world = world_of([Job(0, 1, 1)], [1, 1])
    assert (replay(world, "las").loop, replay(world, "las").loop_reason) == ("compiled", None)
    asked = replay(world, "las", loop="general")
    assert (asked.loop, asked.loop_reason) == ("general", "asked for")


@pytest.mark.parametrize(
    ("policy", "loop"), [("las", "compiled"), ("weighted_teams:WeightedTeams", "general")]
)
def test_sites_that_report_nothing_are_left_out_unless_the_general_loop_is_asked_for(
    policy: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    world = world_of([Job(0, 1, 3, "a"), Job(1, 2, 2, "b")], [1, 1])
    one, two = (run_world(world, create_policy(policy), sites=sites) for sites in (1, 2))
    assert (one.loop, two.loop) == (loop, loop)
    assert fingerprint(one) == fingerprint(two) == fingerprint(replay(world, policy, sites=2))
