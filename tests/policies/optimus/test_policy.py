"""Optimus in whole runs: what it sees, what it keeps, what it replaces, and how it fares.

A step of the job of `tests.training.profile` trains 100 samples in 10 s of one worker; a job has 2000.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.view import ElasticContext
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Outages
from ray_sim.model.errors import BlindPolicyError, InvalidScenarioError
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.loss import last_epoch
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.policies.optimus.allocation import step_s
from ray_sim.policies.optimus.knowledge import (
    MEMORY,
    carried_over,
    fit_speeds,
    note_speeds,
    nothing_known,
)
from ray_sim.policies.optimus.policy import Optimus
from ray_sim.policies.optimus.speed_fit import TrialRuns, few_of_each_kind
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.figures import elastic_of
from tests.training import ONE, Placement, profile, rows

CURVE = {"loss_b0": 0.2, "loss_b1": 1.0, "loss_b2": 0.1, "loss_threshold": 0.01, "loss_patience": 2.0}
SLOT_S = 60.0


def world_of(
    jobs: list[TrainingProfile],
    gpus: list[float],
    params: Mapping[str, object] | None = None,
    submit_s: list[float] | None = None,
) -> World:
    facts = {"slot_s": SLOT_S, **(params or {})}
    return elastic_world(submit_s or [0.0] * len(jobs), jobs, gpus, facts, loss=CURVE)


def run(world: World, seed: int = 0, **params: object) -> RunResult:
    return run_world(world, create_policy("optimus", params), seed=seed)


def moves(result: RunResult) -> list[float]:
    """When jobs were placed again."""
    return sorted(set(result.events.filter(pl.col("event") == "move")["time_s"].to_list()))


def test_a_job_alone_gets_what_lets_it_train_fastest_and_keeps_it() -> None:
    """On one server, three and one of four tasks take 3.33 + 2.4 s a step, two and two 5 + 0.8 s.

    Tried on four servers, one for each task, two and two would take 5 + 8 s, three and one 3.33 + 24 s.
    """
    result = run(world_of([profile()], [4.0]))
    first = result.events.filter(event="start").select("role", "count").rows()
    assert first == [("worker", 3), ("ps", 1)]
    assert result.jobs["finish_s"][0] == pytest.approx(20 * (10 / 3 + 2.4), abs=1e-5)
    assert moves(result) == []


def test_small_gains_go_to_the_job_with_more_left() -> None:
    """Two alike jobs but for their data, room for two pairs and two workers: 10.8, 6.6, 5.73 s a step."""
    jobs = [profile(samples=1000), profile(samples=50_000)]
    result = run(world_of(jobs, [6.0]), remaining="known")
    starts = result.events.filter(pl.col("time_s") == 0.0, event="start", role="worker")
    assert starts.sort("job_id")["count"].to_list() == [1, 3]


def test_jobs_whose_numbers_stay_keep_their_places() -> None:
    """A second job arrives when the first, of batch 1 and thus one worker, is at home on server 0."""
    small = profile(batch=1, samples=50, sample_s=10, gradient_mb=0)
    world = world_of([small, small], [2.0, 2.0], submit_s=[0.0, 90.0])
    result = run(world)
    assert moves(result) == []
    held = result.events.filter(event="start", role="worker").sort("time_s")
    assert held.select("time_s", "job_id", "server", "count").rows() == [
        (0.0, "J1", "s0", 1),
        (120.0, "J2", "s1", 1),
    ]


def test_a_slow_worker_is_replaced_when_it_was_slow_for_an_interval() -> None:
    """Slow from 60 s on, seen then and at 120 s, replaced; slow again at 180 s, replaced at 240 s."""
    slow = {"straggler_probability": 1, "straggler_slowdown": 3, "straggler_every_s": 60}
    small = profile(batch=1, samples=50, sample_s=10, gradient_mb=0)
    result = run(world_of([small], [2.0], {**slow, "restart_cost_s": 5, "horizon_s": 250}))
    assert moves(result) == [120.0, 240.0]
    # A job, two tasks; a server put in order, found to hold a pair and all tasks, put back: 7 steps.
    counts = {"slow_workers_replaced": 2, "shrunk_for_room": 0, "without_room": 0}
    assert result.summary.policy_counts == {**counts, "most_tasks": 2, "most_steps": 7}
    assert moves(run(world_of([small], [2.0], {**slow, "horizon_s": 250}), slow_above=3.0)) == []


def test_a_job_stays_as_long_as_it_is_told_to() -> None:
    """A second job takes half of the servers from the first, in the next interval or after five minutes."""
    jobs = [profile(samples=50_000), profile(samples=50_000)]
    world = world_of(jobs, [8.0], {"horizon_s": 600}, submit_s=[0.0, 30.0])
    at_once, later = run(world), run(world, least_stay_s=300)
    assert moves(at_once)[0] == 60.0
    assert moves(later)[0] == 300.0
    assert at_once.jobs["start_s"].to_list() == [0.0, 60.0]
    assert later.jobs["start_s"].to_list() == [0.0, 300.0]


def test_what_it_expects_comes_true() -> None:
    """The drop 0.2 / (u (u - 0.2)), u = 1 + 0.2 k, is below 0.01 in epochs 18 and 19. Before 5, 20 more.

    An epoch takes 20 steps of 3 workers on one server. At 600 s five are over, and of the sixth a part.
    """
    b0, b1 = np.array(CURVE["loss_b0"]), np.array(CURVE["loss_b1"])
    end = float(last_epoch(b0, b1, np.array(CURVE["loss_threshold"]), np.array(CURVE["loss_patience"])))
    job, epoch_s = profile(epochs=end, samples=2000), 20 * (10 / 3 + 2.4)
    errors = run(world_of([job], [4.0])).timeline.filter(pl.col("time_s") < end * epoch_s)
    of_time = dict(errors.select("time_s", "convergence_error").rows())
    assert of_time[0] == pytest.approx(20 / end - 1)
    assert of_time[600] == pytest.approx((600 / epoch_s - 5) / end)
    # The pair was not tried, but (1, 1), (1, 2), (2, 1) and (2, 2) on one server; then it is seen.
    speed = dict(errors.select("time_s", "speed_error").rows())
    assert 0.01 < speed[0] < 0.05
    assert speed[60] < 0.01


def test_what_it_misjudges_shows_in_its_errors() -> None:
    """Alone and seen at its only speed, the job is expected to train 30 % faster or slower than it does."""
    world = world_of([profile(batch=1, samples=50, sample_s=10, gradient_mb=0)], [2.0])
    exact = run(world, remaining="known")
    wrong = run(world, remaining="known", speed_error=0.3, convergence_error=0.2)
    assert elastic_of(exact).speed_error == pytest.approx(0, abs=1e-6)
    assert elastic_of(exact).convergence_error == 0
    assert elastic_of(wrong).speed_error == pytest.approx(0.3, abs=1e-6)
    # Of 1, 0.94, ... 0.04 that is left.
    assert elastic_of(wrong).convergence_error == pytest.approx(0.2 * 0.52)


def test_it_needs_losses_slots_and_elastic_jobs() -> None:
    no_losses = elastic_world([0.0], [profile()], [4.0], {"slot_s": SLOT_S})
    with pytest.raises(InvalidScenarioError, match="the workload has no loss curves"):
        run(no_losses)
    assert run(no_losses, remaining="known").summary.completed == 1
    with pytest.raises(InvalidScenarioError, match="decides on slots"):
        run(elastic_world([0.0], [profile()], [4.0]))


def test_what_it_sees_depends_on_what_it_predicts() -> None:
    assert create_policy("optimus").sees == {"losses", "training_speed", "slow_workers"}
    known = create_policy("optimus", {"remaining": "known"})
    assert known.sees == {"work_left", "training_speed", "slow_workers"}
    assert Optimus.sees == {"losses", "training_speed", "slow_workers"}


def test_losses_come_with_the_owners_terms_and_trial_runs_with_speeds() -> None:
    world = world_of([profile()], [4.0])
    nobody_slow = ElasticFacts.in_world(world).progress(np.ones(1), None)
    granted = ElasticContext(world, frozenset({"losses", "training_speed"}), "p", nobody_slow)
    assert granted.jobs.samples.tolist() == [1000]
    assert granted.jobs.loss_threshold.tolist() == [0.01]
    assert granted.jobs.loss_patience.tolist() == [2]
    apart = rows([(1, 0), (0, 1)])
    assert granted.trial_speed(ONE, apart) == pytest.approx(100 / (10 + 8))
    with pytest.raises(BlindPolicyError, match=r"jobs\.epochs"):
        _ = granted.jobs.epochs
    blind = ElasticContext(world, frozenset(), "p", nobody_slow)
    with pytest.raises(BlindPolicyError, match="`sees` lacks training_speed"):
        blind.trial_speed(ONE, apart)
    with pytest.raises(BlindPolicyError, match=r"jobs\.samples"):
        _ = blind.jobs.samples


def test_trial_runs_stand_as_the_policy_places_and_only_where_there_is_room() -> None:
    """Two servers of three GPUs: a pair on one, two and two on one each, (4, 4) and (6, 1) nowhere.

    Three and one: k = 1 does not fit, k = 2 puts two workers beside the server. Five and one: four tasks
    do not fit beside each other, so that tasks go in turn: the server and two workers, then three.
    """
    world = world_of([profile()], [3.0, 3.0])
    truth = ElasticFacts.in_world(world).progress(np.ones(1), None)
    trials = TrialRuns(ElasticContext(world, frozenset({"training_speed"}), "p", truth))
    pairs = np.array([(1, 1), (2, 2), (3, 1), (5, 1), (4, 4), (6, 1)])
    placements: list[Placement] = [[(1, 1)], [(1, 1), (1, 1)], [(2, 1), (1, 0)], [(2, 1), (3, 0)]]
    found = trials.samples_per_s(np.zeros(6, np.int64), pairs[:, 0], pairs[:, 1])
    np.testing.assert_allclose(found[:4], truth.samples_per_s(np.zeros(4, np.int64), rows(*placements)))
    assert np.isnan(found[4:]).all()


def test_trials_need_no_more_servers_of_a_kind_than_they_have_tasks() -> None:
    capacity = np.array([[1, 2], [1, 3]] * 20)
    assert few_of_each_kind(capacity).tolist() == [[1, 2], [1, 3]] * 16


def test_observed_speeds_replace_trials_of_the_same_pair() -> None:
    """All trials say a step takes 8 / w + 1 s; then (2, 1) is seen to take 10 s, and (3, 3) 3 s."""

    def trial(jobs: object, workers: np.ndarray, ps: object) -> np.ndarray:
        return 64.0 / (8.0 / workers + 1.0)

    known, new = carried_over(nothing_known(np.array([4])), np.array([4, 7]))
    assert new.tolist() == [False, True]
    kind, batch, most = np.array([Exchange.SYNC] * 2), np.full(2, 64.0), np.full(2, 64)
    both = np.array([0, 1])
    fit_speeds(known, both, kind, batch, most, trial)
    np.testing.assert_allclose(known.time[1], [8, 1, 0, 0, 0, 0, 0], atol=1e-9)
    pairs = np.array([[2, 1], [3, 3]])
    assert note_speeds(known, np.array([1, 1])[:1], pairs[:1], np.array([0.1])).tolist() == [1]
    assert note_speeds(known, np.array([1]), pairs[:1], np.array([0.1])).tolist() == []
    fit_speeds(known, np.array([1]), kind[1:], batch[1:], most[1:], trial)
    assert step_s(known.time[1], 2, 1) > step_s(known.time[0], 2, 1)
    np.testing.assert_allclose(known.time[0], [8, 1, 0, 0, 0, 0, 0], atol=1e-9)


def test_the_oldest_speeds_are_forgotten_first() -> None:
    known = nothing_known(np.array([0]))
    for w in range(1, MEMORY + 3):
        note_speeds(known, ONE, np.array([[w, 1]]), np.array([1.0 / w]))
    assert sorted(known.seen[0, :, 0].tolist()) == list(range(3, MEMORY + 3))
    carried, _ = carried_over(known, np.array([0, 5]))
    np.testing.assert_array_equal(carried.seen[0], known.seen[0])
    assert carried.seen_pairs.tolist() == [MEMORY + 2, 0]


def test_errors_are_as_large_as_asked_for_and_the_jobs_own() -> None:
    """Each job is over- or underestimated by 30 %, always the same way; both happen."""
    policy = Optimus(speed_error=0.3)
    world = world_of([profile()] * 20, [40.0])
    simulation = Simulation(world, policy, seed=5)
    assert isinstance(simulation.world, ElasticContext)
    policy.start(simulation.world, simulation.streams)
    jobs = np.arange(20)
    factors = policy._misjudged("speed", 0.3, jobs)
    assert set(factors.tolist()) == {0.7, 1.3}
    np.testing.assert_array_equal(policy._misjudged("speed", 0.3, jobs[7:9]), factors[7:9])
    np.testing.assert_array_equal(policy._misjudged("speed", 0.0, jobs), 1.0)


def mixed_world(seed: int, params: Mapping[str, object] | None = None) -> World:
    """Twenty jobs of three sizes of model, in step and not, on six servers of 8 GPUs."""
    draw = Streams(seed).generator("optimus-test")
    jobs = [
        profile(
            exchange=int(draw.integers(0, 2)),
            epochs=float(draw.integers(10, 40)),
            samples=float(draw.integers(500, 4000)),
            gradient_mb=float(draw.choice([5, 20, 60])),
            bandwidth_mbps=1000,
            internal_bandwidth_mbps=10_000,
            step_s=0.1,
            step_s_per_worker=0.02,
            step_s_per_ps=0.02,
            num_workers=int(draw.integers(1, 5)),
        )
        for _ in range(20)
    ]
    submit_s = np.sort(draw.integers(0, 3000, 20)).astype(float).tolist()
    return world_of(jobs, [8.0] * 6, {"slot_s": 300.0, **(params or {})}, submit_s)


def mean_jct(policy: str, facts: Mapping[str, object] | None = None, **params: object) -> float:
    """Over five seeds."""
    runs = [
        run_world(mixed_world(seed, facts), create_policy(policy, params), seed=seed) for seed in range(5)
    ]
    assert all(result.summary.completed == 20 for result in runs)
    return float(np.mean([result.summary.jct_s.mean for result in runs]))


@pytest.mark.slow
def test_jobs_end_sooner_than_with_the_gangs_they_ask_for() -> None:
    assert mean_jct("optimus") < mean_jct("fifo")


@pytest.mark.slow
def test_restarts_cost_time() -> None:
    assert mean_jct("optimus") < mean_jct("optimus", {"restart_cost_s": 200})


@pytest.mark.slow
def test_even_placement_beats_its_alternatives() -> None:
    even = mean_jct("optimus")
    assert even < mean_jct("optimus", placement="spread")
    assert even < mean_jct("optimus", placement="pack")


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        {"remaining": "known", "normalise": "amount"},
        {"as_published": True},
        {"keep_places": False, "job_order": "tasks"},
        {"allocation": "drf"},
        {"allocation": "tetris", "least_stay_s": 900, "least_stay_by": "length"},
        {"speed_error": 0.3, "convergence_error": 0.3},
    ],
)
def test_every_choice_lets_all_jobs_end(params: dict[str, object]) -> None:
    result = run_world(mixed_world(1, {"restart_cost_s": 20}), create_policy("optimus", params))
    assert result.summary.completed == 20
    share = elastic_of(result).restart_share
    assert share is not None
    assert 0 < share < 0.2


@pytest.mark.slow
def test_as_published_is_the_paper_s_options_and_each_may_be_given_otherwise() -> None:
    published = {"normalise": "amount", "misfit": "wait", "keep_places": False}
    ours = {"normalise": "share", "misfit": "shrink", "keep_places": True}
    world = mixed_world(1, {"restart_cost_s": 20})

    def events(**params: object) -> pl.DataFrame:
        return run_world(world, create_policy("optimus", params)).events

    assert events(as_published=True).equals(events(**published))
    assert events(as_published=True, **ours).equals(events())
    assert not events(as_published=True).equals(events())


def test_a_run_without_servers_ends() -> None:
    """The only server goes at 90 s for good: nothing happens any more after the next slot."""
    world = world_of([profile(samples=5000)], [4.0])
    world = replace(world, outages=_gone_at_90s())
    result = run(world)
    assert result.jobs.select("status", "reason").row(0) == ("unfinished", "stalled")
    assert result.timeline["time_s"].max() == 120.0


def _gone_at_90s() -> Outages:
    """Server 0 goes and stays away."""
    return Outages(np.array([90_000_000]), np.array([0]), np.array([False]))


def test_tasks_that_take_nothing_are_lost_with_their_server() -> None:
    """Parameter servers without demand, two servers of which the first goes at 90 s and stays away."""
    free_ps = replace(profile(samples=5000), ps_demand=np.array([[0]]))
    world = world_of([free_ps], [2.0, 1.0])
    result = run(replace(world, outages=_gone_at_90s()))
    held = result.events.filter((pl.col("time_s") >= 120) & pl.col("event").is_in(["start", "move"]))
    assert set(held["server"].to_list()) == {"s1"}
    assert result.jobs["status"][0] == "completed"
