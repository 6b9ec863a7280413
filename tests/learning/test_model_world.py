"""The batched world: with true speeds its episodes are those of the engine, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import COMPLETED, NEVER
from ray_sim.learning.model_world import ModelWorld
from ray_sim.learning.speeds import Running, true_speeds
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError, InvalidScenarioError
from ray_sim.model.job import Exchange
from tests.elastic_worlds import elastic_world
from tests.interfering_worlds import interfering_world
from tests.learning.batch_worlds import MODELS, SLOT_S, SLOWING, random_worlds
from tests.training import profile
from tests.worlds import Job, world_of

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

from ray_sim.environments import PlacementEnv

Actions = npt.NDArray[np.int64]
Rule = Callable[[np.random.Generator, npt.NDArray[np.int8]], Actions]


def at_random(draw: np.random.Generator, mask: npt.NDArray[np.int8]) -> Actions:
    """A valid action for each episode."""
    chosen: Actions = (draw.random(mask.shape) * mask).argmax(axis=1)
    return chosen


def same_as_engine(
    worlds: Sequence[World], seed: int, most_jobs: int, most_new: int, rule: Rule = at_random
) -> int:
    """Step both with the same actions and compare them; returns the number of placements."""
    count, twice = len(worlds), [*worlds, *worlds]  # a lane goes on with set e + E, which keeps those of e
    batch = ModelWorld(
        twice, true_speeds(twice), episodes=count, most_jobs=most_jobs, most_new=most_new, models=MODELS
    )
    engines = [
        PlacementEnv(world, most_jobs=most_jobs, most_new=most_new, scaled=True, models=MODELS)
        for world in worlds
    ]
    seen = [env.reset(seed=0)[0] for env in engines]
    draw, open_lanes, placements = np.random.default_rng(seed), set(range(count)), 0
    while open_lanes:
        shown = batch.observations()
        for e in open_lanes:
            assert seen[e].keys() == shown.keys()
            for name, entry in seen[e].items():
                np.testing.assert_array_equal(shown[name][e], entry, err_msg=name)
        actions = rule(draw, batch.mask)
        answer = batch.step(actions)
        for e in sorted(open_lanes):
            seen[e], reward, terminated, truncated, info = engines[e].step(actions[e])
            assert answer.rewards[e] == reward
            assert answer.interval_ended[e] == bool(info)
            assert answer.episode_ended[e] == (terminated or truncated)
            placements += 1
            if answer.episode_ended[e]:
                open_lanes.remove(e)
                ledger = engines[e].simulation.core.ledger
                ended = np.where(ledger.status == COMPLETED, ledger.end, NEVER)
                of_set = slice(*batch.sets.first[e : e + 2])
                np.testing.assert_array_equal(batch.sets.completion[of_set], ended)
    return placements


CASES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without interference": {"slowing": None},
    "with a horizon": {"horizon_s": 4 * SLOT_S + 37},
    "with a horizon at a slot boundary": {"horizon_s": 6 * SLOT_S},
    "own load counted": {"slowing": replace(SLOWING, own_tasks=1)},
    "oversubscribed": {"overcommit": 2},
    "more jobs than fit": {"gpus": (2, 1), "jobs": 14},
    "each pair has its own bandwidth": {"nic": "per_link"},
    "with time for requests": {"request_s": 0.01},
    "with restart costs, which a job that never moves does not pay": {"restart_cost_s": 30},
}


@pytest.mark.parametrize("case", CASES)
def test_observations_rewards_and_completions_are_those_of_the_engine(case: str) -> None:
    worlds = random_worlds(1, 10, **CASES[case])
    assert same_as_engine(worlds, seed=2, most_jobs=6, most_new=6) > 50


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(1, 1), (3, 2), (12, 12)])
@pytest.mark.parametrize("case", CASES)
def test_they_are_in_hundreds_of_worlds_and_for_any_number_of_rows(case: str, rows: tuple[int, int]) -> None:
    worlds = random_worlds(3, 25, **CASES[case])
    same_as_engine(worlds, seed=4, most_jobs=rows[0], most_new=rows[1])


def test_an_episode_in_which_nothing_is_ever_completed_ends_as_in_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Two rings of 3 workers on 3 GPUs. The agent gives each in turn a worker: neither is ever complete.
    job = profile(exchange=Exchange.ALL_REDUCE, num_workers=3, num_ps=0)
    world = interfering_world([0.0, 0.0], [("none", job)] * 2, [3], SLOWING, params={"slot_s": SLOT_S})

    def in_turn(draw: np.random.Generator, mask: npt.NDArray[np.int8]) -> Actions:
        given[0] += 1
        return np.array([2 * (given[0] % 3 % 2)])  # A, B, A

    monkeypatch.setattr("ray_sim.engine.simulation.MOST_IDLE", 100)
    monkeypatch.setattr("ray_sim.learning.model_world.MOST_IDLE", 100)
    given = [-1]
    assert same_as_engine([world], seed=0, most_jobs=2, most_new=2, rule=in_turn) == 3 * 101


def test_a_lane_goes_on_with_the_set_that_follows_by_the_number_of_lanes() -> None:
    worlds = random_worlds(5, 4)
    alone = ModelWorld([worlds[2]], true_speeds([worlds[2]]), models=MODELS)
    batch = ModelWorld(worlds, true_speeds(worlds), episodes=2, models=MODELS)
    ended = False
    while not ended:
        ended = bool(batch.step(batch.mask.argmax(axis=1)).episode_ended[0])
    for name, entry in alone.observations().items():
        np.testing.assert_array_equal(batch.observations()[name][0], entry[0])


def test_the_rewards_of_an_episode_without_horizon_add_up_to_the_jobs_that_fit() -> None:
    worlds = random_worlds(6, 8)
    batch = ModelWorld(worlds, true_speeds(worlds))
    draw, total = np.random.default_rng(7), np.zeros(8)
    open_lanes = np.ones(8, dtype=np.bool_)
    while open_lanes.any():
        answer = batch.step(at_random(draw, batch.mask))
        total += np.where(open_lanes, answer.rewards, 0.0)
        open_lanes &= ~answer.episode_ended
    fitting = [batch.sets.fits[slice(*batch.sets.first[e : e + 2])].sum() for e in range(8)]
    np.testing.assert_allclose(total, fitting, rtol=1e-12)


def test_times_in_the_system_add_up_to_the_completion_times_and_lengths_to_the_episode() -> None:
    worlds = random_worlds(10, 8)
    twice = [*worlds, *worlds]
    batch = ModelWorld(twice, true_speeds(twice), episodes=8)
    draw, present, length = np.random.default_rng(11), np.zeros(8), np.zeros(8)
    open_lanes, compared = np.ones(8, dtype=np.bool_), 0
    while open_lanes.any():
        answer = batch.step(at_random(draw, batch.mask))
        present += np.where(open_lanes, answer.present_us, 0.0)
        length += np.where(open_lanes, answer.lengths_us, 0.0)
        for e in np.flatnonzero(open_lanes & answer.episode_ended):
            of_set = slice(*batch.sets.first[e : e + 2])
            if batch.sets.fits[of_set].all():  # others wait for the first decision, which rejects them
                ends = batch.sets.completion[of_set]
                assert present[e] == (ends - batch.sets.submit[of_set]).sum()
                # From second 0 to the slot boundary that would have had a decision if a job had waited.
                assert ends.max() <= length[e] < ends.max() + SLOT_S * 1_000_000
                compared += 1
        open_lanes &= ~answer.episode_ended
    assert compared >= 4


def test_a_forbidden_action_is_refused_and_changes_nothing() -> None:
    worlds = random_worlds(8, 2)
    batch = ModelWorld(worlds, true_speeds(worlds))
    mask = batch.mask.copy()
    valid = mask.argmax(axis=1)
    for wrong in (-1, mask.shape[1], int((mask[1] == 0).argmax())):
        with pytest.raises(ForbiddenActionError, match=rf"action {wrong} is forbidden in episode 1"):
            batch.step(np.array([valid[0], wrong]))
    with pytest.raises(ForbiddenActionError, match=r"must be \(2,\) of int64, are \(1,\)"):
        batch.step(valid[:1])
    np.testing.assert_array_equal(batch.mask, mask)


def test_an_equal_seed_of_actions_gives_equal_bytes() -> None:
    worlds = random_worlds(9, 6)

    def traces() -> list[bytes]:
        batch, draw, bytes_seen = ModelWorld(worlds, true_speeds(worlds)), np.random.default_rng(1), []
        for _ in range(60):
            answer = batch.step(at_random(draw, batch.mask))
            bytes_seen += [answer.rewards.tobytes(), batch.observations()["placement"].tobytes()]
        return bytes_seen

    assert traces() == traces()


def test_a_job_that_gets_the_rate_of_a_model_takes_its_work_over_this_rate() -> None:
    # One job of 2 x 1000 samples at 4 samples/s, placed at second 0: 500 s, whatever the truth is.
    world = elastic_world([0.0], [profile()], gpus=[2], params={"slot_s": SLOT_S})

    class Four:
        def rates(self, running: Running) -> npt.NDArray[np.float64]:
            return np.where(running.job >= 0, 4e-6, 0.0)

    batch = ModelWorld([world, world], Four(), episodes=1)
    batch.step(batch.mask.argmax(axis=1))
    answer = batch.step(batch.mask.argmax(axis=1))
    assert answer.episode_ended.all()
    assert answer.rewards[0] == 1.0
    assert batch.sets.completion[0] == 500_000_000


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "they are placed at slot|give slot_s"),
        ({"slot_s": 100, "straggler_probability": 0.5, "straggler_slowdown": 2}, "no straggler_probability"),
        ({"slot_s": 100, "nic": "per_server"}, "no nic=per_server"),
        ({"slot_s": 100, "truth": "pd_ors"}, "by truth=placement, not pd_ors"),
    ],
)
def test_worlds_that_a_batch_does_not_know_are_refused(given: dict[str, object], problem: str) -> None:
    world = elastic_world([0.0], [profile()], gpus=[4], params=given)
    with pytest.raises(InvalidScenarioError, match=problem):
        ModelWorld([world], true_speeds(random_worlds(1, 1)))


def test_sets_of_other_servers_rigid_jobs_and_jobs_that_never_fit_are_refused() -> None:
    one, other = random_worlds(1, 1), random_worlds(1, 1, gpus=(5, 5))
    with pytest.raises(InvalidScenarioError, match="number 1 has other servers"):
        ModelWorld([*one, *other], true_speeds(one))
    with pytest.raises(InvalidScenarioError, match="truth=placement, not rigid"):
        ModelWorld([world_of([Job(0, 1, 10)], [1])], true_speeds(one))
    huge = elastic_world([0.0], [profile(num_workers=50)], gpus=[4], params={"slot_s": SLOT_S})
    with pytest.raises(InvalidScenarioError, match="number 0 has no job that fits"):
        ModelWorld([huge], true_speeds(one))


def test_numbers_out_of_range_and_unknown_models_are_refused() -> None:
    worlds = random_worlds(1, 2)
    truth = true_speeds(worlds)
    with pytest.raises(InvalidInputError, match="most_jobs=3, most_new=4"):
        ModelWorld(worlds, truth, most_jobs=3, most_new=4)
    with pytest.raises(InvalidInputError, match="episodes: must be at least 1, got 0"):
        ModelWorld(worlds, truth, episodes=0)
    with pytest.raises(InvalidInputError, match="which is not one of nothing"):
        ModelWorld(worlds, truth, models=["nothing"])
    with pytest.raises(InvalidInputError, match="there must be at least one"):
        ModelWorld([], truth)
