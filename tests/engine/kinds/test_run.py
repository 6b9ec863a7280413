"""Jobs whose rate is not that of a rigid gang: elastic ones, and neighbours that disturb each other."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.view import View
from ray_sim.model.result import RunResult
from tests.scripted import EVENTS, at_times, scripted
from tests.toys import CrowdedRule, WorkersRule, world_with
from tests.worlds import Job, column_of, events_of, replay, times_of

J1, J2 = 0, 1


def one_more_worker_each_slot(view: View) -> Decision:
    """One worker in the first slot of 2 s, two in the second, and so on."""
    return Decision.of({J1: [(0, 0, 1 + view.now_us // 2_000_000)]})


def growing(restart_cost_s: float) -> RunResult:
    """12 worker-seconds of work."""
    world = world_with(
        WorkersRule,
        [Job(0, 1, 12)],
        [8],
        elastic=True,
        params={"slot_s": 2, "restart_cost_s": restart_cost_s},
    )
    return replay(world, scripted(one_more_worker_each_slot, wake=Wake.SLOT))


def test_an_elastic_job_progresses_at_the_rate_of_the_workers_it_has() -> None:
    # 2 s x 1 + 2 s x 2 + 2 s x 3 = 12.
    result = growing(0)
    assert result.loop_reason == "the compiled loop does not simulate these rigid jobs"
    assert times_of(result) == {"J1": (0, 6)}
    columns = result.timeline.select("time_s", "waiting", "running", "used_gpu")
    assert columns.rows() == [(0, 0, 1, 1), (2, 0, 1, 2), (4, 0, 1, 3), (6, 0, 0, 0)]


def test_resizing_costs_a_restart() -> None:
    # 0.5 s lost at each resize: 2 + 1.5 x 2 + 1.5 x 3 = 9.5 until 6 s; then 4 workers from 6.5 s on for
    # the 2.5 left: 6.5 + 2.5 / 4 = 7.125 s.
    result = growing(0.5)
    assert times_of(result) == {"J1": (0, 7.125)}
    assert column_of(result, "restarts") == {"J1": 3}
    assert column_of(result, "preemptions") == {"J1": 0}
    moves = [event for event in events_of(result, "J1") if event[1] in ("start", "move")]
    assert moves == [(0, "start", "s0", 1), (2, "move", "s0", 2), (4, "move", "s0", 3), (6, "move", "s0", 4)]


def test_an_elastic_job_without_workers_waits_and_keeps_its_progress() -> None:
    # 2 workers 0-1 s (2 done of 6), none until 4 s, then 4 workers: 4 / 4 = 1 s.
    script = {
        0.0: Decision.of({J1: [(0, 0, 2)]}),
        1.0: Decision.of({J1: []}),
        4.0: Decision.of({J1: [(0, 0, 4)]}),
    }
    world = world_with(WorkersRule, [Job(0, 1, 6)], [8], elastic=True)
    result = replay(world, scripted(at_times(script), wake=EVENTS | Wake.REVIEW))
    assert times_of(result) == {"J1": (0, 5)}
    assert (column_of(result, "queue_s")["J1"], column_of(result, "run_s")["J1"]) == (3, 2)


def start_all(view: View) -> Decision:
    """Everyone who comes gets one GPU of the first server."""
    return Decision.of({job: [(0, 0, 1)] for job in view.arrived.tolist()})


@pytest.mark.parametrize("elastic", [True, False])
@pytest.mark.parametrize("wake", [EVENTS, Wake.ARRIVAL])
def test_a_newcomer_slows_its_neighbour_and_a_leaver_speeds_it_up(elastic: bool, wake: Wake) -> None:
    # Alone a job progresses at 1, two on a server at 1/2. J1 (4 s) does 2 by 2 s, then 1/2 per second: it
    # ends at 2 + 2 / (1/2) = 6 s. J2 (4 s) has done 2 by then, and goes on alone: 6 + 2 = 8 s. Whether
    # the policy is woken when J1 ends is all the same.
    world = world_with(CrowdedRule, [Job(0, 1, 4), Job(2, 1, 4)], [8], elastic=elastic)
    assert times_of(replay(world, scripted(start_all, wake=wake))) == {"J1": (0, 6), "J2": (2, 8)}


def test_an_evicted_neighbour_disturbs_no_longer() -> None:
    # J2 is evicted at 4 s: J1 has done 2 + 1 of 4 by then and ends at 5 s.
    evict = Decision(evict=np.array([J2]))
    script = {0.0: Decision.of({J1: [(0, 0, 1)]}), 2.0: Decision.of({J2: [(0, 0, 1)]}), 4.0: evict}
    world = world_with(CrowdedRule, [Job(0, 1, 4), Job(2, 1, 4)], [8], elastic=True)
    result = replay(world, scripted(at_times(script), wake=Wake.ARRIVAL | Wake.REVIEW))
    assert times_of(result) == {"J1": (0, 5), "J2": (2, 4)}
    assert column_of(result, "status") == {"J1": "completed", "J2": "evicted"}
    assert column_of(result, "jct_s") == {"J1": 5, "J2": None}


def test_a_neighbour_that_moves_away_or_stops_disturbs_no_longer() -> None:
    # J2 leaves s0 at 4 s, to s1 or to wait: J1 has done 3 of 4 by then and ends at 5 s.
    for away in ([(1, 0, 1)], []):
        script = {0.0: Decision.of({J1: [(0, 0, 1)]}), 2.0: Decision.of({J2: [(0, 0, 1)]})}
        script[4.0] = Decision.of({J2: away})
        world = world_with(CrowdedRule, [Job(0, 1, 4), Job(2, 1, 4)], [8, 8], elastic=False)
        result = replay(world, scripted(at_times(script), wake=Wake.ARRIVAL | Wake.REVIEW))
        assert times_of(result)["J1"] == (0, 5)


def test_jobs_that_nobody_serves_are_reported_as_stalled() -> None:
    # Nobody gives J1 workers: the run ends by itself when nothing more can happen.
    world = world_with(WorkersRule, [Job(0, 1, 4), Job(2, 1, 4)], [8], elastic=True)
    result = replay(world, scripted(lambda view: Decision()))
    assert column_of(result, "status") == {"J1": "unfinished", "J2": "unfinished"}
    assert column_of(result, "reason") == {"J1": "stalled", "J2": "stalled"}
    # It has waited since 0 s when the last thing happens, at 2 s.
    assert column_of(result, "queue_s") == {"J1": 2, "J2": 0}
