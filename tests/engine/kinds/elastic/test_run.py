"""Elastic jobs, worked out by hand.

A step of the job of `tests.training.profile` trains 100 samples in 10 s of one worker and moves 50 MB, in
0.4 s within a server and 4 s between two, there and back; it has 20 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.run import run_world
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER, WorldArrays
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import TrainingProfile
from ray_sim.model.progress_rule import ProgressRule
from ray_sim.model.result import RunResult
from ray_sim.model.training_progress import pd_ors_progress, placement_progress
from ray_sim.model.units import US_PER_S, FloatArray
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import ElasticView
from tests.elastic_worlds import elastic_world
from tests.figures import elastic_of
from tests.scripted import EVENTS, at_times, scripted
from tests.toys import PartialFacts
from tests.training import profile, together
from tests.worlds import Job, cluster_of, job_table, replay, times_of, world_of

STEPS = 20
Row = tuple[int, int, int]


def on(server: int, workers: int = 0, ps: int = 0) -> list[Row]:
    """Placements on one server."""
    rows = [(server, WORKER, workers), (server, PARAMETER_SERVER, ps)]
    return [row for row in rows if row[2]]


def placed(script: dict[float, list[Row]]) -> Policy:
    """Give the only job these placements at these seconds."""
    decide = at_times({second: Decision.of({0: rows}) for second, rows in script.items()})
    return scripted(decide, wake=EVENTS, elastic=True)


def finish_s(result: RunResult) -> float:
    return float(result.jobs["finish_s"][0])


@pytest.mark.parametrize(
    ("rows", "step_s"),
    [
        (on(0, 1, 1), 10 + 2 * 0.4),
        (on(0, 1) + on(1, 0, 1), 10 + 2 * 4),
        (on(0, 2, 1), 10 / 2 + 2 * (2 * 0.4)),  # the parameter server serves two workers, one after the other
        (on(0, 2, 2), 10 / 2 + 2 * (2 * 0.4 / 2)),  # each of two serves half to both
        (on(0, 1, 1) + on(1, 1, 1), 10 / 2 + 2 * (4 + 0.4) / 2),
    ],
)
def test_a_job_trains_as_fast_as_its_tasks_and_their_places_allow(rows: list[Row], step_s: float) -> None:
    result = run_world(elastic_world([0], [profile()], [4, 4]), placed({0: rows}))
    assert finish_s(result) == pytest.approx(STEPS * step_s, abs=1e-5)


def test_a_resize_costs_a_restart_and_the_move_of_the_data_that_change_hands() -> None:
    """Ten steps by one worker, 10 s of restart, half of 40 s for half of the data, ten steps by two."""
    world = elastic_world([0], [profile()], [4], {"restart_cost_s": 10, "data_move_s": 40})
    result = run_world(world, placed({0: on(0, 1, 1), 108: on(0, 2, 1)}))
    assert finish_s(result) == pytest.approx(108 + 10 + 20 + 10 * 6.6, abs=1e-5)
    assert result.jobs["restarts"][0] == 1
    assert elastic_of(result).restart_share == pytest.approx(30 / 204)


@pytest.mark.parametrize("restart_s", [0, 10])
def test_another_change_does_not_cut_a_move_of_data_short(restart_s: int) -> None:
    """Half of 40 s for half of the data, from 108 s on; ten seconds later the two workers change servers."""
    world = elastic_world([0], [profile()], [4, 4], {"restart_cost_s": restart_s, "data_move_s": 40})
    result = run_world(world, placed({0: on(0, 1, 1), 108: on(0, 2, 1), 118: on(1, 2, 1)}))
    assert finish_s(result) == pytest.approx(108 + restart_s + 20 + 10 * 6.6, abs=1e-5)


def test_data_stay_where_they_are_while_a_job_waits() -> None:
    """Back to two workers after a pause without any: nothing moves, only the restart is paid."""
    world = elastic_world([0], [profile()], [4], {"restart_cost_s": 10, "data_move_s": 40})
    result = run_world(world, placed({0: on(0, 2, 1), 66: [], 100: on(0, 2, 1)}))
    assert finish_s(result) == pytest.approx(100 + 10 + 66, abs=1e-5)


def test_a_slow_worker_holds_up_its_job_until_it_is_replaced() -> None:
    """10 steps, one of 30.8 s, restart, then 67.2 s of sound steps until a worker is slow again."""
    params = {
        "restart_cost_s": 10,
        "straggler_probability": 1,
        "straggler_slowdown": 3,
        "straggler_every_s": 108,
    }
    world = elastic_world([0], [profile()], [4], params)
    left = 20 - 10 - 1 - 67.2 / 10.8
    never_replaced = run_world(world, placed({0: on(0, 1, 1)}))
    assert finish_s(never_replaced) == pytest.approx(108 + 10 * 30.8, abs=1e-5)
    replaced = run_world(world, placed({0: on(0, 1, 1), 138.8: on(0, 1, 1)}))
    assert finish_s(replaced) == pytest.approx(216 + left * 30.8, abs=1e-5)


def test_what_goes_from_server_to_server_is_counted() -> None:
    """Ten steps apart move 2 x 50 MB each; ten steps on one server move nothing."""
    world = elastic_world([0], [profile()], [4, 4])
    result = run_world(world, placed({0: on(0, 1) + on(1, 0, 1), 180: on(0, 1, 1)}))
    assert finish_s(result) == pytest.approx(180 + 108, abs=1e-5)
    assert elastic_of(result).cross_server_gb == pytest.approx(10 * 100 / 1000)


@pytest.mark.parametrize("name", ["fifo", "sjf", "srtf", "las"])
def test_policies_for_gangs_give_every_job_what_it_asks_for(name: str) -> None:
    """Two jobs of two workers and one parameter server, one after the other on the only server."""
    jobs = [profile(num_workers=2), profile(num_workers=2)]
    result = run_world(elastic_world([0, 1], jobs, [4]), create_policy(name))
    assert result.jobs["finish_s"].to_list() == pytest.approx([132, 264], abs=1e-5)
    rows = result.events.filter(job_id="J1", event="start").select("server", "role", "count").rows()
    assert rows == [("s0", "worker", 2), ("s0", "ps", 1)]
    assert result.timeline["used_gpu"].max() == 3.0


def test_a_gang_keeps_its_place_only_if_all_its_roles_on_a_server_do() -> None:
    """Two and two of five GPUs; a shorter job claims two: two are left for each role, but not for both."""
    jobs = [profile(num_workers=2, num_ps=2), profile()]
    world = elastic_world([0, 1], jobs, [5], duration_s=[100.0, 10.0])
    result = run_world(world, create_policy("srtf", {"placement": "pooled"}))
    stops = result.events.filter(event="stop").select("time_s", "job_id").rows()
    assert stops == [(1.0, "J1")]


@pytest.mark.parametrize(
    ("placement", "rows"),
    [
        ("consolidate", [("s1", "worker", 2), ("s1", "ps", 2)]),  # the fullest server that holds all four
        ("first_fit", [("s1", "worker", 2), ("s1", "ps", 2)]),
        ("pooled", [("s0", "worker", 2), ("s0", "ps", 1), ("s1", "ps", 1)]),
        # Workers to the freest, then to the next; parameter servers where most is left, first s2 with 4.
        ("spread", [("s0", "ps", 1), ("s1", "worker", 1), ("s2", "worker", 1), ("s2", "ps", 1)]),
    ],
)
def test_a_gang_of_two_roles_is_placed_by_the_rule(placement: str, rows: list[tuple[str, str, int]]) -> None:
    world = elastic_world([0], [profile(num_workers=2, num_ps=2)], [3, 4, 5])
    result = run_world(world, create_policy("fifo", {"placement": placement}))
    starts = result.events.filter(event="start").select("server", "role", "count").rows()
    assert starts == rows


def test_a_bundle_that_can_never_fit_is_rejected_by_those_who_give_bundles_only() -> None:
    """Five tasks on four GPUs; with one worker and one parameter server the job runs all the same."""
    world = elastic_world([0], [profile(num_workers=4)], [4])
    fifo = run_world(world, create_policy("fifo"))
    assert fifo.jobs.select("status", "reason").row(0) == ("rejected", "never_fits")
    assert finish_s(run_world(world, placed({0: on(0, 1, 1)}))) == pytest.approx(216, abs=1e-5)


@pytest.mark.parametrize(("gpus", "fits"), [([1, 1], True), ([2], True), ([1], False), ([0.5, 3], True)])
def test_the_least_that_a_job_needs_is_a_place_for_one_task_of_each_role(
    gpus: list[float], fits: bool
) -> None:
    result = run_world(elastic_world([0], [profile()], gpus), create_policy("fifo", {"placement": "pooled"}))
    assert result.jobs["status"][0] == ("completed" if fits else "rejected")


def test_a_job_without_samples_ends_at_once_and_leaves_fairness_to_the_others() -> None:
    """Traced to take 100 s, it takes none: its JCT over its fair run time says nothing."""
    world = elastic_world([0, 0], [profile(samples=0), profile()], [4])
    summary = run_world(world, create_policy("fifo")).summary
    assert summary.jct_s.mean == pytest.approx(216 / 2, abs=1e-5)
    assert summary.finish_time_fairness.mean == pytest.approx(216 / 100)


def test_losses_are_seen_epoch_by_epoch() -> None:
    seen: list[list[float]] = []

    def look(view: ElasticView) -> Decision:
        if len(view.arrived):
            return Decision.of({0: on(0, 1, 1)}, review_us=109_000_000)
        if view.reviewed:
            seen.append(view.losses(np.array([0]), np.array([1])).value.tolist())
        return Decision()

    world = elastic_world([0], [profile()], [4], loss={"loss_b0": 0.05, "loss_b1": 1.2, "loss_b2": 0.1})
    sees = frozenset({"losses"})
    run_world(world, scripted(look, wake=EVENTS | Wake.REVIEW, visible=sees, elastic=True))
    assert seen == [[pytest.approx(1 / 1.25 + 0.1)]]  # one epoch of two is over


def test_policies_and_worlds_of_other_kinds_do_not_go_together() -> None:
    with pytest.raises(
        InvalidScenarioError,
        match="is for elastic jobs, but truth=rigid has rigid",
    ):
        run_world(world_of([Job(0, 1, 10)], [4]), placed({0: on(0, 1, 1)}))
    with pytest.raises(InvalidScenarioError, match="is for chunked jobs, but truth=placement has"):
        run_world(elastic_world([0], [profile()], [4]), create_policy("chunk_fifo"))
    table = job_table([Job(0, 1, 10)])
    with pytest.raises(InvalidScenarioError, match="does not say how its jobs train"):
        build_world(table, cluster_of([4]), params={"truth": "placement"})
    with pytest.raises(InvalidScenarioError, match="nic: is about the places of elastic jobs"):
        build_world(table, cluster_of([4]), params={"nic": "per_link"})


J1, J2 = 0, 1
SAMPLES = 1000
"""Of each job; work is counted in samples."""


def with_two_roles(arrays: WorldArrays) -> WorldArrays:
    """Parameter servers demand what workers do."""
    both = {name: np.repeat(getattr(arrays, name), 2, axis=1) for name in ("demand", "class_pool")}
    return arrays._replace(**both)


@pytest.mark.parametrize(
    ("make", "packed_s", "split_s"),
    [
        # The first 30 s on one server: 30 x 100 / 6.6 = 454.545 samples, the other 545.455 apart at 100 / 21.
        (placement_progress, 66.0, 30 + (1000 - 30 * 100 / 6.6) * 21 / 100),
        # gamma = 2: theta = 0.116 s on one server, 0.26 s apart, two workers.
        (pd_ors_progress, 58.0, 30 + (1000 - 30 * 2 / 0.116) * 0.26 / 2),
    ],
)
def test_a_job_is_rated_anew_when_its_placement_changes(
    make: Callable[[TrainingProfile, FloatArray], ProgressRule], packed_s: float, split_s: float
) -> None:
    job = profile(workers_per_ps=2)
    both = together(job, job)
    script = {
        0.0: Decision.of({job: [(job, WORKER, 2), (job, PARAMETER_SERVER, 1)] for job in (J1, J2)}),
        30.0: Decision.of({J2: [(1, WORKER, 2), (2, PARAMETER_SERVER, 1)]}),
    }
    work_s = SAMPLES / US_PER_S
    world = world_of([Job(0, 1, work_s), Job(0, 1, work_s)], [8, 8, 8])
    truth = make(both, np.ones(3))
    gangs = world.facts
    facts = PartialFacts(with_two_roles(gangs.arrays), gangs.beyond_capacity, 16, gangs.resources, truth)
    world = replace(world, facts=facts)
    result = replay(world, scripted(at_times(script), wake=EVENTS | Wake.REVIEW))
    ends = {name: end for name, (_, end) in times_of(result).items()}
    assert ends == pytest.approx({"J1": packed_s, "J2": split_s}, abs=1e-5)
