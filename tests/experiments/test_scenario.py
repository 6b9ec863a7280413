"""Scenarios: parsed once, all problems at once, one hash for one result."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from ray_sim.experiments.content import Inputs
from ray_sim.experiments.scenario import Scenario, key_values, parse_scenario, read_scenario
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError

WEEK = {"workload": "week.parquet", "cluster": "small.yaml"}


def _scenario(**changes: object) -> Scenario:
    return parse_scenario({**WEEK, **changes}, "test")


def test_a_path_alone_is_a_workload(at_desk: Path) -> None:
    assert _scenario() == _scenario(workload={"path": "week.parquet"})


def test_every_problem_is_reported_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "workload: {synth: {profile: philly, jobs: 0}}\npolcy: fifo\nseed: -1\nsites: two\n"
    )
    with pytest.raises(InvalidScenarioError) as raised:
        read_scenario(tmp_path / "s.yaml")
    text = str(raised.value)
    assert text.startswith(f"{tmp_path / 's.yaml'}: 5 problems")
    for part in (
        "workload.synth.jobs",
        "cluster",
        "polcy: unknown key; did you mean 'policy'?",
        "seed",
        "sites",
    ):
        assert part in text


@pytest.mark.parametrize(
    "workload",
    [
        {},
        {"path": "week.parquet", "synth": {"profile": "philly", "jobs": 5}},
        {"synth": {"profile": "philly", "jobs": 5}, "resample": "days"},
    ],
)
def test_a_workload_has_one_origin(workload: object) -> None:
    with pytest.raises(InvalidScenarioError, match="workload:"):
        _scenario(workload=workload)


@pytest.mark.parametrize("pair", ["quantum", "=3"])
def test_an_option_that_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(InvalidScenarioError, match=f"-p {pair}: expected key=value"):
        key_values([pair], "-p")


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(InvalidScenarioError, match="a is given twice"):
        key_values(["a=1", "a=2"], "-p")


def _hash(**changes: object) -> str:
    return Inputs().content(_scenario(**changes)).content_hash


def test_what_does_not_change_the_result_does_not_change_the_hash(at_desk: Path) -> None:
    shutil.copy("week.parquet", "copy.parquet")
    shutil.copy("small.yaml", "copy.yaml")
    plain = _hash()
    assert _hash(workload="copy.parquet", cluster="copy.yaml") == plain  # contents, not paths
    assert _hash(sites=2) == plain  # any number of sites gives the same bytes
    assert _hash(seed=7) == plain  # nothing here draws
    assert _hash(policy="fifo", params={"placement": "consolidate"}) == plain  # the default, spelled out


def test_text_of_the_command_line_and_numbers_of_yaml_are_one_scenario(at_desk: Path) -> None:
    assert _hash(policy="las", params={"knob": "2"}) == _hash(policy="las", params={"knob": 2.0})


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "sjf"},
        {"params": {"placement": "pooled"}},
        {"world": {"horizon_s": 1000}},
        {"workload": {"path": "week.parquet", "resample": "days"}},
        {"cluster": "toy"},
    ],
)
def test_what_changes_the_result_changes_the_hash(at_desk: Path, changes: dict[str, object]) -> None:
    assert _hash(**changes) != _hash()


def test_the_content_of_the_workload_file_is_in_the_hash(at_desk: Path) -> None:
    content = Inputs().content(_scenario())
    digest = hashlib.sha256(Path("week.parquet").read_bytes()).hexdigest()
    assert content.facts["workload_sha256"] == digest
    assert json.loads(json.dumps(content.manifest()))["inputs"]["workload_sha256"] == digest


def test_editing_a_policy_of_ones_own_makes_another_run(at_desk: Path) -> None:
    before = _hash(policy="mine:Lottery")
    source = Path("mine.py")
    text = source.read_text()
    source.write_text(text + "\n# a change\n")
    assert _hash(policy="mine:Lottery") != before
    source.write_text(text)


@pytest.mark.parametrize(
    ("changes", "seed_free"),
    [
        ({}, True),
        ({"workload": {"path": "week.parquet", "resample": "days"}}, False),
        ({"workload": {"synth": {"profile": "philly", "jobs": 5}}}, False),
        ({"policy": "mine:Lottery"}, False),
    ],
)
def test_a_run_is_seed_free_when_neither_workload_nor_policy_draws(
    at_desk: Path, changes: dict[str, object], seed_free: bool
) -> None:
    content = Inputs().content(_scenario(seed=3, **changes))
    assert content.seed_free is seed_free
    assert content.seed == (None if seed_free else 3)


def test_a_misspelt_policy_is_met_with_the_nearest_name(at_desk: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'srtf'"):
        Inputs().content(_scenario(policy="srft"))
