"""Bad arguments of `gymnasium.make`: the error names the argument, what is wrong and what to give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("gymnasium", reason="gymnasium is not installed")

import gymnasium

import ray_sim.environments
from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.model.errors import RaySimError
from tests.proofs import quick_first
from tests.worlds import Job, world_of

IDS = [name for name in ray_sim.environments.ENVIRONMENTS if name.endswith("-v1")]
PLACEMENT, QUEUE = IDS

ELASTIC: dict[str, object] = {
    "workload": {"synth": {"profile": "philly", "jobs": 12}, "enrich": "harmony_types"},
    "cluster": "edge-cloud",
    "world": {"truth": "placement", "slot_s": 600},
}


def scenario(**changes: object) -> dict[str, object]:
    return {**ELASTIC, **changes}


def world(**changes: object) -> dict[str, object]:
    return scenario(world={"truth": "placement", "slot_s": 600, **changes})


def refusal(id_: str, **arguments: Any) -> str:
    """The error's text, which names no private class and no option of the command line."""
    with pytest.raises(RaySimError) as refused:
        gymnasium.make(id_, **arguments)
    text = str(refused.value)
    for private in ("_FromOutside", " -w ", " -p "):
        assert private not in text
    return text


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize(
    ("given", "said"),
    quick_first(
        [
            (scenario(clster="toy"), "scenario: 1 problem\n  clster: unknown key; did you mean 'cluster'?"),
            (scenario(cluster="edge-clod"), "scenario: cluster: unknown cluster 'edge-clod'. Did you mean"),
            (scenario(cluster="no.yaml"), "scenario: cluster: no.yaml: no such file"),
            (scenario(workload="no.parquet"), "scenario: workload: no.parquet: no such file"),
            (scenario(partition="vc"), "scenario: world: partition vc: server edge-small-0 of cluster"),
            (scenario(world="slot_s=600"), "scenario: 1 problem\n  world: must be a mapping"),
            (
                world(slots=60),
                "scenario: world: unknown parameter of the world 'slots'. Did you mean 'slot_s'?",
            ),
            (world(interferenc="x"), "'interferenc'. Did you mean 'interference'?"),
            (
                world(slot_s="long"),
                "scenario: world: parameters of the world: 1 problem\n  slot_s: must be a number",
            ),
            (world(truth="placment"), "truth: must be one of rigid, placement"),
            (
                world(truth="rigid", interference="harmony_types"),
                "interference: has no effect on rigid jobs; set",
            ),
            (
                world(interference="harmony"),
                "scenario: world: unknown interference profile 'harmony'. Did you",
            ),
            (world(links="no.csv"), "scenario: world: no.csv: cannot be read"),
            (
                world(truth="pd_ors", optimum_nodes=9),
                "exact optimum: the workload does not say what its jobs are",
            ),
            (
                world(truth="a_online"),
                "scenario: world: truth=a_online has chunked jobs, and environments are for",
            ),
            (
                world(truth="announced"),
                "has announced jobs, and environments are for rigid and elastic jobs: set",
            ),
            (5, "scenario: must be a mapping, or the path of a file, got 5"),
            ("no.yaml", "no.yaml: cannot be read"),
        ]
    ),
)
def test_a_part_of_a_scenario_is_named(id_: str, given: object, said: str) -> None:
    assert said in refusal(id_, scenario=given)


def test_all_models_that_the_interference_of_the_world_lacks_are_named() -> None:
    draws = {"synth": {"profile": "philly", "jobs": 40}, "enrich": "optimus_nine_models"}
    said = refusal(PLACEMENT, scenario={**world(interference="harmony_types"), "workload": draws})
    assert said.startswith("scenario: world: interference=harmony_types: 4 problems\n")
    for model in ("cnn-rand", "deepspeech2", "kaggle-ndsb", "rnn-lstm"):
        assert f"model {model}: has no type" in said
    assert "`enrich` of the workload" in said


def test_placement_names_the_key_of_the_slots_that_it_needs() -> None:
    slotless = world_of([Job(0, 1, 30)], [1])
    for given in ({"scenario": scenario(world={"truth": "placement"})}, {"episodes": slotless}):
        said = refusal(PLACEMENT, **given)
        assert said.startswith("slot_s: the world of episode 0 has none")
        assert "in `world` of the scenario or `params` of build_world, e.g. {'slot_s': 600}" in said
    gymnasium.make(QUEUE, episodes=slotless)


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize(("made", "truth"), [(busy_chunks, "a_online"), (busy_announced, "announced")])
def test_worlds_of_other_jobs_are_refused_by_their_number(id_: str, made: Any, truth: str) -> None:
    assert refusal(id_, episodes=[busy_world(5), made(5)]).startswith(
        f"episodes: number 1: truth={truth} has"
    )


@pytest.mark.parametrize("id_", IDS)
@pytest.mark.parametrize(
    ("given", "said"),
    quick_first(
        [
            ({"seeds": 3}, "seeds: must be whole numbers, such as range(16), got 3"),
            ({"seeds": []}, "seeds: there must be at least one"),
            ({"most_jobs": 0}, "most_jobs: must be a whole number from 1 to"),
            ({"observe": "free"}, "observe: must be a list of names, got 'free'"),
            ({"observe": 5}, "observe: must be a list of names, got 5"),
            ({"observe": [5]}, "observe: must be a list of names, got [5]"),
            ({"observe": ["fre"]}, "unknown observation 'fre'. Did you mean 'free'?"),
            ({"scaled": "yes"}, "scaled: must be True or False, got 'yes'"),
            ({"reward": 5}, "reward: must be a name or a function of an Interval, got 5"),
            ({"reward_scale_s": "1"}, "reward_scale_s: must be a number above 0, got '1'"),
            ({"reward": "jct", "reward_scale_s": 0}, "reward_scale_s: must be a number above 0, got 0"),
            ({"reward_scale_s": float("nan")}, "reward_scale_s: must be a number above 0, got nan"),
        ]
    ),
)
def test_an_argument_is_named(id_: str, given: Mapping[str, Any], said: str) -> None:
    assert said in refusal(id_, scenario=ELASTIC, **given)


@pytest.mark.parametrize("id_", IDS)
def test_episodes_that_are_none_are_refused(id_: str) -> None:
    assert refusal(id_, episodes=5) == "episodes: must be a World, an Episode or a list of them, got 5"
    assert "either `episodes`, or a `scenario`" in refusal(id_)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("ctc", "models: must be a list of names, got 'ctc'"),
        (5, "models: must be a list of names, got 5"),
        (["ctc", "vgg-16", "ctc"], "models: each may be there once, got ctc, vgg-16, ctc"),
        (["resnet-50"], "models: lacks ctc, vgg-16, of which there are jobs; it has resnet-50"),
    ],
)
def test_models_of_placement_are_checked(models: Any, said: str) -> None:
    assert refusal(PLACEMENT, episodes=busy_elastic(5), models=models) == said


@pytest.mark.slow
def test_episodes_with_other_models_need_them_all() -> None:
    # Two jobs are of two of eight models at most, others in each draw: column 0 of `type` would mean another.
    few = scenario(workload={"synth": {"profile": "philly", "jobs": 2}, "enrich": "harmony_types"})
    said = refusal(PLACEMENT, scenario=few, seeds=range(3))
    assert said == (
        "models: episode 0 has jobs of resnet-50, seq2seq, and episode 1 of seq2seq, wlm: give those of all "
        "episodes, models=['inception-bn', 'resnet-50', 'seq2seq', 'wlm']"
    )
    known = ["inception-bn", "resnet-50", "seq2seq", "wlm"]
    gymnasium.make(PLACEMENT, scenario=few, seeds=range(3), models=known)
    gymnasium.make(PLACEMENT, scenario=few, seeds=range(3), observe=["free"])


@pytest.mark.parametrize("placement", ["consolidat", None])
def test_a_placement_rule_of_the_queue_is_checked(placement: Any) -> None:
    assert f"unknown placement '{placement}'" in refusal(QUEUE, scenario=ELASTIC, placement=placement)
