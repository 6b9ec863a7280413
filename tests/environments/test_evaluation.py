"""Paired evaluation of agents: by hand, against runs of the same jobs, and against `ray_sim.compare`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium

import ray_sim as rs
from ray_sim.agents.round import Observation
from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.engine.run import run_world
from ray_sim.environments import Episode, FlatObservations, PlacementEnv, QueueAgent, QueueEnv, evaluate
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError, RaySimError
from tests.environments.rules import InTurn, first_valid, in_turn
from tests.worlds import Job, world_of


def shortest_that_fits(observation: Observation) -> int:
    mask = observation["action_mask"]
    return int(np.where(mask[:-1], observation["duration_s"], np.inf).argmin())


def env_by_hand(seconds: tuple[float, ...] = (2, 5, 8, 11, 14)) -> QueueEnv:
    """One GPU. J1 runs 0 to 30 s; J2 (20 s) and J3 (of these seconds, by draw) wait from 1 and 2 s on."""
    worlds = [world_of([Job(0, 1, 30), Job(1, 1, 20), Job(2, 1, each)], [1]) for each in seconds]
    return QueueEnv([Episode(world, seed) for seed, world in enumerate(worlds)])


def busy_queue(draws: int = 5) -> QueueEnv:
    workload = {"synth": {"profile": "philly", "jobs": 30, "load_scale": 3.0}}
    return QueueEnv(scenario={"workload": workload, "cluster": "toy"}, seeds=range(7, 7 + draws))


def test_the_difference_by_hand() -> None:
    # The oldest first: completion times 30, 49 and 48 + c, on average (127 + c) / 3, of c = 8 on average 45.
    # The shortest first: 30, 49 + c and 28 + c. J3 gains 20, J2 loses c: (c - 20) / 3 = -6, -5, -4, -3, -2.
    # Their variance is 10 / 4, and the quantile of Student's t with 4 degrees of freedom is 2.776.
    found = evaluate(shortest_that_fits, env_by_hand(), [first_valid])
    against = found.baselines["first_valid"]
    assert (found.mean, against.mean, against.difference) == pytest.approx((41, 45, -4))
    half_width = 2.776445 * math.sqrt(10 / 4 / 5)
    assert against.interval is not None
    assert (against.interval.low, against.interval.high) == pytest.approx((-4 - half_width, -4 + half_width))


def test_it_prints_and_shows_a_table() -> None:
    found = evaluate(shortest_that_fits, env_by_hand(), [first_valid])
    assert str(found).splitlines() == [
        "jct_s.mean, 5 draws of jobs",
        "             mean  agent minus this [95 %]  wins",
        "agent        41 s  -                        -",
        "first_valid  45 s  -4 s [-5.96 s, -2.04 s]  1",
        "wins: share of seeds with the better value, equal ones half; intervals over 5 seeds hold the true "
        "value in 95 % of cases if the differences are normal, 88 % if exponential, 83 % if log-normal, "
        "78 % if Pareto with tail index 2.5 (docs/compare.md, Cover)",
    ]
    assert "<td" in found._repr_html_()
    assert "first_valid" in found._repr_html_()


def test_fewer_than_five_draws_have_no_interval() -> None:
    found = evaluate(shortest_that_fits, env_by_hand((2, 5)), [first_valid])
    assert found.baselines["first_valid"].interval is None
    assert "too few seeds" in str(found)


def test_another_metric() -> None:
    # Mean waits are 17 1/3 s and less: the difference is that of the completion times.
    found = evaluate(shortest_that_fits, env_by_hand(), [first_valid], metric="queue_s.mean")
    assert found.baselines["first_valid"].difference == pytest.approx(-4)


@pytest.mark.slow
def test_wins_are_the_share_of_draws_with_the_better_value_whatever_one_draw_does_to_the_mean() -> None:
    # J3 gains 20 s and J2 loses J3's run time: a third of -18, -15, 0, -1 and -2 s.
    found = evaluate(shortest_that_fits, env_by_hand((2, 5, 20, 19, 18)), [first_valid])
    assert found.baselines["first_valid"].wins == pytest.approx(4.5 / 5)
    slower = evaluate(first_valid, env_by_hand((2, 5, 20, 19, 18)), [shortest_that_fits])
    assert slower.baselines["shortest_that_fits"].wins == pytest.approx(0.5 / 5)
    better = evaluate(shortest_that_fits, env_by_hand(), [first_valid], metric="utilisation.gpu")
    [group] = rs.compare(better.results, metric="utilisation.gpu", baseline="first_valid").groups
    assert better.baselines["first_valid"].wins == group.comparison.policies[0].superiority


def test_equal_agents_do_not_differ() -> None:
    def same(observation: Observation) -> int:
        return first_valid(observation)

    against = evaluate(first_valid, busy_queue(), [same]).baselines["same"]
    assert against.difference == 0
    assert against.interval is not None
    assert (against.interval.low, against.interval.high) == (0, 0)


@pytest.mark.slow
def test_policies_run_on_the_draws_of_the_agent() -> None:
    env = busy_queue()
    found = evaluate(in_turn, env, ["fifo", "srtf"])
    assert evaluate("fifo", env, "srtf").baselines == {"srtf": found.baselines["srtf"]}
    for policy, against in found.baselines.items():
        runs = [
            rs.simulate(world.table, world.cluster, policy, seed=seed or 0) for world, seed in env.episodes
        ]
        means = [run.summary.flat()["jct_s.mean"] for run in runs]
        assert len(set(means)) == len(means)  # other jobs in each draw
        assert against.mean == pytest.approx(np.mean(means))
    assert found.baselines["fifo"].difference == 0  # the oldest job or none is fifo
    assert found.baselines["srtf"].difference > 0


class ShortestAtFirst(QueueAgent):
    """The shortest job that fits in its first ten actions, then the oldest: a run spoils it for the next."""

    observe = ("tasks", "duration_s")

    def __init__(self) -> None:
        self.actions = 0

    def act(self, observation: Observation) -> int:
        self.actions += 1
        return shortest_that_fits(observation) if self.actions <= 10 else first_valid(observation)


@pytest.mark.slow
def test_policies_are_names_with_parameters_classes_and_objects() -> None:
    env = busy_queue()
    backfill = {"name": "sjf", "params": {"backfill": True}}
    found = evaluate("fifo", env, [backfill, {**backfill, "label": "SJF"}, ShortestAtFirst])
    assert list(found.baselines) == ["sjf(backfill=True)", "SJF", "ShortestAtFirst"]
    runs = [rs.simulate(w.table, w.cluster, "sjf", {"backfill": True}, seed=s or 0) for w, s in env.episodes]
    expected = np.mean([run.summary.jct_s.mean for run in runs])
    assert (
        found.baselines["SJF"].mean == found.baselines["sjf(backfill=True)"].mean == pytest.approx(expected)
    )
    of_object = evaluate(ShortestAtFirst(), env, ShortestAtFirst())
    assert of_object.mean == found.baselines["ShortestAtFirst"].mean
    assert of_object.baselines["ShortestAtFirst"].difference == 0


def test_an_object_that_has_run_may_not_be_copied() -> None:
    env, used = env_by_hand(), ShortestAtFirst()
    run_world(env.episodes[0].world, used)
    with pytest.raises(InvalidInputError, match="give an object that has not run"):
        evaluate(used, env)


class NeedsAFile(InTurn):
    """Cannot be constructed without an argument."""

    def __init__(self, network: str) -> None:
        self.network = network


def test_compare_takes_the_results() -> None:
    found = evaluate(shortest_that_fits, env_by_hand(), [first_valid])
    [group] = rs.compare(found.results, baseline="first_valid").groups
    [compared] = group.comparison.policies
    assert compared.difference == pytest.approx(-4)
    assert compared.interval == found.baselines["first_valid"].interval


def test_observations_are_those_of_the_wrapped_environment() -> None:
    """The placement of the first valid task, with joined observations and by an environment of `make`."""
    episodes = [Episode(busy_elastic(12, seed), seed) for seed in range(2)]
    shapes = set()

    def joined(observation: Any) -> int:
        shapes.add(observation["observations"].ndim)
        return int(observation["action_mask"].argmax())

    flat = evaluate(joined, FlatObservations(PlacementEnv(episodes)), ["fifo"])
    made = evaluate(first_valid, gymnasium.make("ray_sim/Placement-v1", episodes=episodes), ["fifo"])
    assert shapes == {1}
    assert (flat.mean, flat.baselines) == (made.mean, made.baselines)


def test_runs_that_complete_other_numbers_of_jobs_are_told() -> None:
    # At 35 s: the shortest first completes J1 and J3, the oldest first only J1.
    jobs = [Job(0, 1, 30), Job(1, 1, 20), Job(2, 1, 4)]
    world = world_of(jobs, [1], params={"horizon_s": 35})
    found = evaluate(shortest_that_fits, QueueEnv(Episode(world, 0)), [first_valid])
    assert "different numbers of completed jobs, on average 1 (first_valid) to 2 (agent)" in str(found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((first_valid, "toy", []), "env: must be a QueueEnv or a PlacementEnv, got 'toy'"),
        (
            (first_valid, QueueEnv(world_of([Job(0, 1, 1)], [1])), []),
            "env: episode 0 has no seed; give Episode",
        ),
        ((3, env_by_hand(), []), "agent, baselines: must be functions, or policies: a name, {'name': 'sjf'"),
        ((first_valid, env_by_hand(), [3]), "an object or a class; got 3"),
        ((int, env_by_hand(), []), "an object or a class; got <class 'int'>"),
        (
            (NeedsAFile, env_by_hand(), []),
            "NeedsAFile'> for each draw: TypeError: NeedsAFile.__init__() missing 1",
        ),
        ((first_valid, env_by_hand(), {"name": "sjf", "parms": {}}), "parms: unknown key; did you mean"),
        ((first_valid, env_by_hand(), {"name": "sjf", "params": {"bakfill": 1}}), "policy sjf 'bakfill'"),
        ((first_valid, env_by_hand(), {"name": "sjf", "world": {"slot_s": 1}}), "world: only in a sweep"),
        ((first_valid, env_by_hand(), ["sjff"]), "unknown policy 'sjff'. Did you mean"),
        ((first_valid, env_by_hand(), ["sjf", "sjf"]), "baselines: two are named 'sjf'; give other names"),
        ((first_valid, env_by_hand(), [], "jct"), "unknown metric 'jct'"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(RaySimError) as refused:
        evaluate(*arguments)
    assert said in str(refused.value)


def test_a_forbidden_action_ends_the_evaluation() -> None:
    with pytest.raises(ForbiddenActionError, match="the row has no job"):
        evaluate(lambda _: 5, env_by_hand())
