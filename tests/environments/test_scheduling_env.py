"""The environments of gymnasium: what they show, allow, reward and repeat."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium
from gymnasium.utils.env_checker import check_env

from ray_sim.agents.round import Observation
from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.contract.rigid_worlds import busy_world, failing_world
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.run_meter import RunMeter
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.environments import Episode, Interval, PlacementAgent, PlacementEnv, QueueEnv
from ray_sim.environments.vector import PlacementVector, QueueVector
from ray_sim.model.errors import (
    ForbiddenActionError,
    InvalidInputError,
    InvalidScenarioError,
    UnknownNameError,
)
from ray_sim.model.units import US_PER_S
from ray_sim.policies.registry import create_policy
from tests.command_line import python
from tests.elastic_worlds import elastic_world
from tests.environments.rules import InTurn, LeastLoaded, at_random, first_valid, in_turn, least_loaded, play
from tests.proofs import quick_first
from tests.training import profile
from tests.worlds import DOWN, UP, Job, availability, cluster_of, job_table, world_of


def last_valid(observation: Observation) -> int:
    return int(np.flatnonzero(observation["action_mask"])[-1])


@pytest.mark.parametrize(
    ("name", "world"), [("ray_sim/Placement-v1", busy_elastic(12)), ("ray_sim/Queue-v1", busy_world(12))]
)
def test_gymnasium_finds_no_fault(name: str, world: World) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, episodes=world).unwrapped)


def test_they_are_registered_once_however_often_it_is_asked_for() -> None:
    from ray_sim.environments import register_envs

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_envs()
    env = gymnasium.make("ray_sim/Queue-v1", episodes=busy_world(5))
    assert isinstance(env.unwrapped, QueueEnv)


def test_stable_baselines_makes_a_vector_without_its_render_mode() -> None:
    env_util = pytest.importorskip("stable_baselines3.common.env_util", reason="it is not installed")
    with pytest.warns(UserWarning, match="'rgb_array' that is not in the possible render_modes"):
        vector = env_util.make_vec_env("ray_sim/Queue-v1", 2, env_kwargs={"episodes": busy_world(12)})
    vector.reset()
    masks = np.array(vector.env_method("action_masks"))
    _, _, _, _ = vector.step(masks.argmax(axis=1))
    with pytest.raises(TypeError, match="render_mode: there is none but None, got 'rgb_array'"):
        gymnasium.make("ray_sim/Queue-v1", episodes=busy_world(12), render_mode="rgb_array")
    gymnasium.make("ray_sim/Queue-v1", episodes=busy_world(12), render_mode=None)


@pytest.mark.slow
def test_an_id_with_its_module_needs_no_import() -> None:
    """Gymnasium 1.0 reads no entry points of packages: it imports the module that the id names."""
    code = """
import gymnasium
scenario = {"workload": {"synth": {"profile": "philly", "jobs": 5}}, "cluster": "toy"}
print(gymnasium.make("ray_sim.environments:ray_sim/Queue-v1", scenario=scenario).spec.id)
"""
    assert python("-c", code).strip() == "ray_sim/Queue-v1"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [busy_elastic, failing_elastic])
def test_the_rewards_of_progress_add_up_to_the_jobs_that_complete(
    make: Callable[..., World], seed: int
) -> None:
    env = PlacementEnv(make(40, seed), most_jobs=6)
    steps = play(env, least_loaded)
    assert steps[-1][2]  # all jobs have come and gone
    assert sum(reward for _, reward, _, _ in steps) == pytest.approx(env.result().summary.completed)


def test_a_run_cut_by_its_horizon_is_truncated_and_counts_the_shares_of_work_done() -> None:
    # One GPU, slots of 10 s. Job 0 (40 s) runs from 0, job 1 (100 s) from 40 to the horizon: 1 + 30 / 100.
    world = world_of([Job(0, 1, 40), Job(0, 1, 100)], [1], params={"slot_s": 10, "horizon_s": 70})
    steps = play(PlacementEnv(world), first_valid)
    assert [step[1:] for step in steps] == [(1.0, False, False), (pytest.approx(0.3), False, True)]


def test_the_meter_in_the_example_of_the_reward() -> None:
    # Slots of 100 s, in which a server of speed 1 trains 2 epochs of 50 s. Job 0 has 4 epochs, job 1 has
    # 10; its server fails at 200 s, when one of speed 1.5 comes: 2, 2, 3, 3 epochs. Rewards 2/4 + 2/10, the
    # same, 3/10, 3/10; discounted by 0.9: 0.7 + 0.63 + 0.243 + 0.2187 = 1.7917.
    changes = [(0.0, 2, DOWN), (200.0, 1, DOWN), (200.0, 2, UP)]
    servers = replace(cluster_of([1, 1, 1], speed=[1, 1, 1.5]), availability=availability(changes))
    world = build_world(job_table([Job(0, 1, 200), Job(0, 1, 500)]), servers, params={"slot_s": 100})
    env = PlacementEnv(world)
    rewards = [reward for _, reward, _, _ in play(env, last_valid)]
    assert rewards == [0.0, pytest.approx(1.4), pytest.approx(0.6)]

    class LastValid(PlacementAgent):
        def act(self, observation: Observation) -> int:
            return last_valid(observation)

    agent = LastValid()
    simulation = Simulation(world, agent)
    agent.start(simulation.world, simulation.streams)
    meter, at, totals = RunMeter(world, simulation), [0, 100, 200, 300, 400], [0.0]
    simulation.apply(agent.decide(simulation.advance() or pytest.fail("no decision")))
    totals.append(meter.read(100 * US_PER_S, simulation.arrivals).progress)
    view = simulation.advance() or pytest.fail("no decision")
    totals.append(meter.read(view.now_us, simulation.arrivals).progress)
    simulation.apply(agent.decide(view))
    totals.append(meter.read(300 * US_PER_S, simulation.arrivals).progress)
    while (last := simulation.advance()) is not None:
        simulation.apply(agent.decide(last))
    totals.append(meter.read(400 * US_PER_S, simulation.arrivals).progress)
    by_interval = np.diff(totals)
    np.testing.assert_allclose(by_interval, [0.7, 0.7, 0.3, 0.3])
    assert (by_interval * 0.9 ** np.arange(len(at) - 1)).sum() == pytest.approx(1.7917)


@pytest.mark.parametrize("seed", range(4))
def test_the_rewards_of_the_queue_add_up_to_minus_all_completion_times(seed: int) -> None:
    env = QueueEnv(busy_world(40, seed), reward_scale_s=10.0)
    steps = play(env, at_random(seed))
    result = env.result()
    assert sum(reward for _, reward, _, _ in steps) == pytest.approx(
        -float(result.jobs["jct_s"].sum()) / 10.0
    )


def test_a_reward_of_ones_own_gets_the_interval() -> None:
    # One GPU: job 0 runs 0 to 30 s, job 1 (10 s) from 30 to 40. At 0 there is no choice but to start a job.
    told: list[Interval] = []

    def reward(interval: Interval) -> float:
        told.append(interval)
        return -float(interval.waiting)

    world = world_of([Job(0, 1, 30), Job(5, 1, 10)], [1])
    steps = play(QueueEnv(world, reward=reward), in_turn)
    assert told == [Interval(0, 30, 1, 1, 55, 1, 0), Interval(30, 40, 1, 1, 10, 0, 0)]
    assert [reward for _, reward, _, _ in steps] == [-1, 0]


def naive_mask(env: PlacementEnv, placed: dict[tuple[int, int], list[int]], free: np.ndarray) -> np.ndarray:
    """Valid actions from the definition: a row with a new job, a role with tasks left, room on the server."""
    world = env.episodes[0].world
    arrays, servers = world.arrays, len(world.cluster)
    mask = np.zeros(env.action_space.n, dtype=np.int8)  # type: ignore[attr-defined]
    for number in range(len(mask)):
        row, role, server = number // (2 * servers), number // servers % 2, number % servers
        job = env.new_job(row)
        if job is None or role >= arrays.gang.shape[1]:
            continue
        unfinished = len(placed.get((job, role), [])) < arrays.gang[job, role]
        here = arrays.server_part[server] == arrays.job_part[job]
        mask[number] = unfinished and here and (free[server] >= arrays.demand[job, role]).all()
    return mask


@pytest.mark.parametrize(
    "world",
    quick_first(
        [busy_elastic(40, 1, partition="vc"), failing_elastic(40, 0), busy_world(40, 2), busy_elastic(40, 2)],
        2,
    ),
)
def test_the_mask_is_what_the_definition_says_in_every_state(world: World) -> None:
    env = PlacementEnv(world, most_jobs=7, most_new=4)
    servers, rule = len(world.cluster), at_random(3)
    seen, _ = env.reset()
    placed: dict[tuple[int, int], list[int]] = {}
    begins = True
    for _ in range(3000):
        if begins:
            free, placed = env.simulation.core.placements.free.copy(), {}
        np.testing.assert_array_equal(seen["action_mask"], naive_mask(env, placed, free))
        np.testing.assert_array_equal(env.action_masks(), seen["action_mask"] == 1)
        action = rule(seen)
        job, role, server = env.new_job(action // (2 * servers)), action // servers % 2, action % servers
        assert job is not None
        placed.setdefault((job, role), []).append(server)
        free[server] -= world.arrays.demand[job, role]
        seen, _, terminated, truncated, info = env.step(action)
        begins = bool(info)
        if terminated or truncated:
            break


def test_a_forbidden_action_is_an_error_that_names_it_and_changes_nothing() -> None:
    env = PlacementEnv(busy_elastic(30), most_jobs=3)
    servers = len(env.episodes[0].world.cluster)
    seen, _ = env.reset()
    wrong = int(np.flatnonzero(seen["action_mask"] == 0)[0])
    for action, text in (
        (wrong, f"action {wrong} .* is forbidden: job .*"),
        (2 * 2 * servers, "row 2 on server .* is forbidden: row 2 has no new job"),
        (-1, "action -1 is none of Placement: a whole number from 0 to"),
        (1.0, "action 1.0 is none of"),
        (True, "action True is none of"),
    ):
        with pytest.raises(ForbiddenActionError, match=text):
            env.step(action)  # type: ignore[arg-type]
    for name, entry in env.round.observation().items():
        np.testing.assert_array_equal(entry, seen[name])
    env.step(first_valid(seen))


def test_why_an_action_is_forbidden() -> None:
    # One server of one GPU. Row 0: a job of one task; row 1: the same.
    env = PlacementEnv(world_of([Job(0, 1, 30), Job(0, 1, 10), Job(0, 1, 10)], [1], params={"slot_s": 10}))
    env.reset()
    with pytest.raises(ForbiddenActionError, match="asks for no parameter server"):
        env.step(1)
    queue = QueueEnv(world_of([Job(0, 1, 30), Job(5, 1, 10)], [1]), most_jobs=2)
    queue.reset()
    with pytest.raises(ForbiddenActionError, match=r"action 2 \(wait\) is forbidden: no job runs"):
        queue.step(2)
    with pytest.raises(ForbiddenActionError, match="row 1\\) is forbidden: the row has no job"):
        queue.step(1)
    play(queue, in_turn)
    with pytest.raises(ForbiddenActionError, match="the episode is over"):
        queue.step(0)


def test_a_task_that_demands_nothing_goes_to_a_server_that_is_there() -> None:
    # Servers 0 and 1; server 0 is away until 25 s. A worker may go to server 1 only.
    servers = replace(cluster_of([1, 1]), availability=availability([(0.0, 0, DOWN), (25.0, 0, UP)]))
    env = PlacementEnv(build_world(job_table([Job(5, 0, 20)]), servers, params={"slot_s": 10}), most_jobs=1)
    seen, _ = env.reset()
    assert seen["action_mask"].tolist() == [0, 1, 0, 0]
    with pytest.raises(ForbiddenActionError, match=r"worker of row 0 on server s0.*: it is not available"):
        env.step(0)


def test_a_task_goes_to_servers_of_the_types_that_its_job_accepts() -> None:
    servers = replace(cluster_of([1, 1]), gpu_type=("T4", "V100"))
    jobs = job_table([Job(0, 1, 20), Job(0, 1, 20)], columns={"gpu_types": ["V100", None]})
    env = PlacementEnv(build_world(jobs, servers, params={"slot_s": 10}), most_jobs=2)
    seen, _ = env.reset()
    assert seen["action_mask"].tolist() == [0, 1, 0, 0, 1, 1, 0, 0]
    with pytest.raises(ForbiddenActionError, match="job J1 accepts other GPU types"):
        env.step(0)


@pytest.mark.filterwarnings("ignore:.*is out of date")
@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec])
@pytest.mark.parametrize("name", ["ray_sim/Placement", "ray_sim/Queue"])
def test_version_0_refuses_types_and_version_1_masks_them(name: str, make: Callable[..., Any]) -> None:
    # The only job accepts V100: a worker on server 1, or row 0 of the queue; with -v0 an error or, without
    # types, the same spaces and mask as -v1.
    servers = replace(cluster_of([1, 1]), gpu_type=("T4", "V100"))
    jobs = job_table([Job(0, 1, 20)], columns={"gpu_types": ["V100"]})
    world, free = (
        build_world(jobs, servers, params={"slot_s": 10, "gpu_types": how}) for how in ("respect", "ignore")
    )
    with pytest.raises(InvalidScenarioError, match=f"{name}-v0 does not know: make {name}-v1, .*=ignore"):
        make(f"{name}-v0", episodes=world)
    old, new, typed = (
        make(f"{name}-v{version}", episodes=episodes, most_jobs=1).reset()[0]["action_mask"]
        for version, episodes in ((0, free), (1, free), (1, world))
    )
    assert old.tolist() == new.tolist()
    masked = [0, 1, 0, 0] if name.endswith("Placement") else [1, 0]
    assert typed.ravel().tolist() == masked


def test_shares_of_a_gpu_are_placed_by_the_rule_of_a_queue_and_refused_by_placements() -> None:
    jobs = [Job(0, 0.6, 20), Job(0, 0.6, 20), Job(0, 0.6, 20)]
    queue = QueueEnv(world_of(jobs, [2]), most_jobs=3, placement="pooled", observe=("waited_s",))
    seen, _ = queue.reset()
    assert seen["action_mask"].tolist()[:3] == [1, 1, 1]
    for _ in range(2):
        seen, *_ = queue.step(0)
    assert seen["waited_s"].tolist() == [20, 0, 0]  # till then each device had 0.4 GPU free
    with pytest.raises(InvalidScenarioError, match=r"does not know the devices of a server, .*=pooled"):
        PlacementEnv(world_of(jobs, [2], params={"slot_s": 10})).reset()


def test_a_seed_repeats_an_episode_and_another_draws_another() -> None:
    world = busy_elastic(30, 1)  # workers become slow at random
    episodes = [Episode(world), Episode(busy_elastic(30, 0), 5), Episode(world, 3)]
    one, other = PlacementEnv(episodes), PlacementEnv(episodes)
    runs = [play(env, least_loaded, seed=seed) for env in (one, other) for seed in (1, 2, 3, None)]
    assert runs[:4] == runs[4:]
    drawn = [play(one, least_loaded, seed=seed, options={"episode": 0}) for seed in (1, 2)]
    assert drawn[0] != drawn[1]
    fixed = [play(one, least_loaded, seed=seed, options={"episode": 2}) for seed in (1, 2)]
    assert fixed[0] == fixed[1]


@pytest.mark.slow
@pytest.mark.parametrize("vector", [PlacementVector, QueueVector])
def test_a_vector_steps_as_single_environments_do(vector: Any) -> None:
    id_ = {PlacementVector: "ray_sim/Placement-v1", QueueVector: "ray_sim/Queue-v1"}[vector]
    episodes = [Episode(busy_elastic(8, 0), 1), Episode(busy_elastic(12, 1))]
    names = ("waited_s", "duration_s", "free")
    options: dict[str, Any] = {"episodes": episodes, "most_jobs": 4, "observe": names, "scaled": True}
    ours = gymnasium.make_vec(id_, num_envs=3, **options)
    assert isinstance(ours, vector)
    theirs = gymnasium.make_vec(id_, num_envs=3, vectorization_mode="sync", **options)
    assert ours.observation_space == theirs.observation_space
    (seen, info), (expected, told) = ours.reset(seed=7), theirs.reset(seed=7)
    ended = 0
    for _ in range(150):
        assert seen.keys() == expected.keys()
        for name in seen:
            np.testing.assert_array_equal(seen[name], expected[name], err_msg=name)
        assert info.keys() == told.keys()
        for name in info:
            np.testing.assert_array_equal(info[name], told[name], err_msg=name)
        actions = seen["action_mask"].argmax(axis=1)
        seen, *flags, info = ours.step(actions)
        expected, *others, told = theirs.step(actions)
        np.testing.assert_array_equal(flags, others)
        ended += int(flags[1].sum())
    assert ended > 0


@pytest.mark.parametrize("world", [*(busy_world(60, seed) for seed in range(3)), failing_world(60, seed=1)])
def test_the_oldest_job_first_is_fifo(world: World) -> None:
    env = QueueEnv(world, most_jobs=4)
    play(env, in_turn)
    expected = run_world(world, create_policy("fifo"), loop="general")
    assert env.result().jobs.equals(expected.jobs)
    assert env.result().events.equals(expected.events)


@pytest.mark.parametrize("seed", range(3))
def test_a_rule_as_a_policy_does_what_it_does_in_the_environment(seed: int) -> None:
    world = failing_elastic(50, seed)
    placement = PlacementEnv(Episode(world, 0), most_jobs=LeastLoaded.most_jobs)
    play(placement, least_loaded)
    assert placement.result().events.equals(run_world(world, LeastLoaded()).events)
    queue = QueueEnv(Episode(world, 0), most_jobs=InTurn.most_jobs)
    play(queue, in_turn)
    assert queue.result().events.equals(run_world(world, InTurn()).events)


def test_the_result_of_an_episode_outlives_the_next_one() -> None:
    env = QueueEnv(busy_world(20))
    play(env, at_random(0))
    result = env.result()
    kept = [frame.clone().rows() for frame in (result.jobs, result.events, result.timeline)]
    play(env, at_random(1))
    assert [frame.rows() for frame in (result.jobs, result.events, result.timeline)] == kept
    env.reset()
    with pytest.raises(InvalidInputError, match="the episode is not over"):
        env.result()


def test_what_is_shown_of_a_job_of_two_roles() -> None:
    world = busy_elastic(20, 0)
    env = PlacementEnv(world, most_jobs=3)
    seen, _ = env.reset()
    job = env.new_job(0)
    gang, demand = world.arrays.gang[job], world.arrays.demand[job] / 1000
    expected = [gang[0], *demand[0], gang[1], *(demand[1] * (gang[1] > 0))]
    np.testing.assert_allclose(seen["demands"][0], expected)
    np.testing.assert_allclose(seen["free"], world.cluster.capacity / 1000)
    server = int(np.flatnonzero(seen["action_mask"])[0])
    after, *_ = env.step(server)
    assert after["workers"][0] == 1
    assert after["placement"][server, 0] == 1
    np.testing.assert_allclose(after["free"][server], seen["free"][server] - demand[0])


def test_the_largest_gang_is_in_the_space() -> None:
    gang = replace(
        profile(num_workers=2**20, num_ps=2**20), worker_demand=np.array([[0]]), ps_demand=np.array([[0]])
    )
    env = QueueEnv(elastic_world([0], [gang], [4]))
    seen, _ = env.reset()
    assert seen["tasks"][0] == 2**21
    assert env.observation_space.contains(seen)


def test_waiting_jobs_that_are_not_shown_are_counted() -> None:
    world = world_of([Job(0, 1, 30)] * 5, [1], params={"slot_s": 10})
    seen, _ = PlacementEnv(world, most_jobs=2).reset()
    assert seen["hidden"].tolist() == [3, 0]
    seen, _ = QueueEnv(world, most_jobs=2).reset()
    assert seen["waiting"].tolist() == [5]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"observe": ["type"]}, InvalidScenarioError, "observation 'type': jobs of this world"),
        ({"most_jobs": 1.5}, InvalidInputError, "most_jobs: must be a whole number from 1 to .*, got 1.5"),
        ({"most_jobs": "3"}, InvalidInputError, "most_jobs: must be a whole number from 1 to .*, got '3'"),
        ({"most_jobs": 10**12}, InvalidInputError, "most_jobs: must be a whole number from 1 to 1,048,576"),
        ({"most_jobs": 4, "most_new": 5}, InvalidInputError, "most_new: .* from 1 to 4, got 5"),
        ({"reward": "speed"}, UnknownNameError, "unknown reward 'speed'"),
        ({"seeds": [1]}, InvalidInputError, "seeds: only with a `scenario`"),
        ({"render_mode": "human"}, InvalidInputError, "render_mode"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], error: type[Exception], text: str) -> None:
    world = world_of([Job(0, 1, 30)], [1], params={"slot_s": 10})
    with pytest.raises(error, match=text):
        PlacementEnv(world, **options)


@pytest.mark.parametrize("seeds", [[1.5], ["2"], [True], [-1], [2**63], "12"])
def test_seeds_of_a_scenario_are_whole_numbers_and_not_rounded_to_them(seeds: Any) -> None:
    scenario = {"workload": {"synth": {"profile": "philly", "jobs": 5}}, "cluster": "toy"}
    with pytest.raises(InvalidInputError, match=r"seeds: must be a whole number from 0 to .*, got"):
        QueueEnv(scenario=scenario, seeds=seeds)


def test_rows_may_be_a_number_of_numpy() -> None:
    world = world_of([Job(0, 1, 30)], [1], params={"slot_s": 10})
    rows: Any = np.int64(3)
    for env in (PlacementEnv(world, most_jobs=rows, most_new=rows), QueueEnv(world, most_jobs=rows)):
        env.reset()


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), None, "much", 10**400])
def test_a_reward_that_is_no_finite_number_is_refused(value: Any) -> None:
    env = QueueEnv(world_of([Job(0, 1, 30)], [1]), reward=lambda interval: value)
    with pytest.raises(
        InvalidInputError, match=r"reward: must be a finite number, got .* for Interval\(begin_s=0"
    ):
        play(env, in_turn)


def test_bad_episodes_are_named() -> None:
    world, other = (world_of([Job(0, 1, 30)], gpus, params={"slot_s": 10}) for gpus in ([1], [1, 1]))
    with pytest.raises(InvalidInputError, match="number 0 must be a World or an Episode, got 'x'"):
        PlacementEnv("x")  # type: ignore[arg-type]  # what the check is for
    with pytest.raises(InvalidScenarioError, match="number 1 is on cluster"):
        PlacementEnv([world, other])
    with pytest.raises(InvalidScenarioError, match="no action is valid in the whole run"):
        PlacementEnv(world_of([Job(0, 2, 30)], [1], params={"slot_s": 10})).reset()
    with pytest.raises(InvalidInputError, match="episode: must be a whole number from 0 to 0, got 1"):
        PlacementEnv(world).reset(options={"episode": 1})


def test_a_scenario_gives_the_jobs_of_its_seeds() -> None:
    scenario = {"workload": {"synth": {"profile": "philly", "jobs": 20}}, "cluster": "toy"}
    env = QueueEnv(scenario=scenario, seeds=[3, 4])
    play(env, in_turn, options={"episode": 1})
    from ray_sim.environments import scenario_episodes

    [episode] = scenario_episodes({**scenario, "seed": 4})
    assert env.result().jobs.equals(run_world(episode.world, create_policy("fifo"), seed=4).jobs)
