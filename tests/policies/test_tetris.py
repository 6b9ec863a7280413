"""tetris, worked out by hand. Every worker and parameter server of `tests.training.profile` takes one GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.model.cluster import Availability
from ray_sim.model.job import TrainingProfile
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.training import profile


def tetris(
    jobs: list[TrainingProfile], gpus: list[float], submit_s: list[float], **params: object
) -> RunResult:
    """In slots of 50 s."""
    world = elastic_world(submit_s, jobs, gpus, {"slot_s": 50})
    return run_world(world, create_policy("tetris", params))


def starts(result: RunResult) -> list[tuple[str, float, str, str, int]]:
    rows = result.events.filter(event="start").select("job_id", "time_s", "server", "role", "count")
    return rows.rows()


def test_the_least_work_left_goes_first() -> None:
    """Room for one of three alike: the one that runs has the least left in every slot; it takes 216 s."""
    result = tetris([profile(), profile(), profile()], [2], [0, 10, 10])
    assert [(job, time_s) for job, time_s, *_ in starts(result)][::2] == [("J1", 0), ("J2", 250), ("J3", 500)]
    assert result.jobs["restarts"].sum() == 0


def test_a_job_gets_at_most_what_it_asks_for() -> None:
    """Three workers asked for, in bundles of two and a parameter server: one bundle."""
    result = tetris([profile(num_workers=3, workers_per_ps=2)], [9], [0])
    assert starts(result) == [("J1", 0, "s0", "worker", 2), ("J1", 0, "s0", "ps", 1)]


def test_a_bundle_goes_where_most_is_free() -> None:
    """Two bundles of two GPUs; on a server of 4, (2/4)(4/4) = 1/2, on one of 8, (2/8)(8/8) = 1/4."""
    result = tetris([profile(num_workers=2)], [8, 4], [0], work_weight=0)
    # Then (2/4)(2/4) = 1/4 too: the lower number.
    assert {row[2] for row in starts(result)} == {"s0", "s1"}


def test_what_happens_inside_a_slot_waits_for_the_next_one() -> None:
    result = tetris([profile(), profile()], [8], [0, 10])
    assert [time_s for _, time_s, *_ in starts(result)] == [0, 0, 50, 50]


def test_or_is_decided_at_once() -> None:
    """J2 starts when it comes, and J3 when J1 ends, at 216 s; the run needs no slots."""
    jobs, submit_s = [profile(), profile(), profile()], [0.0, 10.0, 20.0]
    result = tetris(jobs, [4], submit_s, when="event")
    assert [(job, time_s) for job, time_s, *_ in starts(result)][::2] == [("J1", 0), ("J2", 10), ("J3", 216)]
    without = run_world(elastic_world(submit_s, jobs, [4]), create_policy("tetris", {"when": "event"}))
    assert without.events.equals(result.events)


def test_a_run_ends_where_a_job_waits_for_a_server_that_never_comes_back() -> None:
    world = elastic_world([0], [profile()], [4], {"slot_s": 60})
    gone = Availability(time_us=np.array([1]), server=np.array([0]), up=np.array([False]))
    world = build_world(
        world.table, replace(world.cluster, availability=gone), params={"truth": "placement", "slot_s": 60}
    )
    result = run_world(world, create_policy("tetris"))
    assert result.jobs.select("status", "reason").row(0) == ("unfinished", "stalled")
