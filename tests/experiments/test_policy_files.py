"""Files that a policy reads are part of a run's identity by their content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.source_digest import input_files_sha256
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.policies.registry import create_policy
from ray_sim.policies.task_placement.least_interference import BUNDLED
from ray_sim.policy_api import Decision, ElasticPolicy, ElasticView

JOBS = {
    "name": "few",
    "base": "harmony_types",
    "columns": {"epochs": [1, 2], "samples": [1000, 2000], "num_workers": [1, 2]},
}
SERVERS = {
    "name": "two",
    "servers": [{"name": "server", "count": 2, "gpus": 4, "cpus": 16, "memory_gib": 96}],
}
WORLD = {"truth": "placement", "slot_s": 600}
SYNTH = {"synth": {"profile": "few.yaml", "jobs": 4, "horizon_s": 3600}}


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A profile of jobs, two servers, and two copies of the bundled coefficients, one with another number."""
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(JOBS))
    (tmp_path / "two.yaml").write_text(yaml.safe_dump(SERVERS))
    (tmp_path / "same.json").write_bytes(BUNDLED.read_bytes())
    content = json.loads(BUNDLED.read_bytes())
    content["linear"]["a"][0][0] = 7.0
    (tmp_path / "other.json").write_text(json.dumps(content))
    return tmp_path


def scenario(**params: str) -> Scenario:
    return Scenario.model_validate(
        {"workload": SYNTH, "cluster": "two.yaml", "policy": "lif_linear", "params": params, "world": WORLD}
    )


def test_contents_and_not_names_are_part_of_the_identity(bench: Path) -> None:
    with chdir(bench):
        bundled, same, other = (
            HashedInputs().identify(scenario(**params))
            for params in ({}, {"coefficients": "same.json"}, {"coefficients": "other.json"})
        )
        assert bundled.content_hash == same.content_hash
        assert other.content_hash != same.content_hash
        assert other.scenario_hash != same.scenario_hash
        finished = prepare(scenario(coefficients="other.json")).run()
    manifest = json.loads(finished.files()["manifest.json"])
    assert manifest["parameters"] == {"coefficients": "other.json"}
    assert manifest["inputs"]["policy_files_sha256"] == dict(other.facts["policy_files_sha256"])  # type: ignore[call-overload]


def test_policies_without_files_have_the_identity_that_they_had(bench: Path) -> None:
    with chdir(bench):
        asked = scenario().model_copy(update={"policy": "load_balance"})
        assert "policy_files_sha256" not in HashedInputs().identify(asked).facts


def test_a_worker_that_finds_another_file_than_was_planned_refuses_the_run(bench: Path) -> None:
    with chdir(bench):
        planned = prepare(scenario(coefficients="same.json"))
        assert planned.identity.facts["policy_files_sha256"]
        Path("same.json").write_bytes(Path("other.json").read_bytes())
        with pytest.raises(InvalidScenarioError, match="'lif_linear': the files that its parameters name"):
            planned.run()


def test_a_file_that_cannot_be_read_is_named_before_any_run(bench: Path) -> None:
    with (
        chdir(bench),
        pytest.raises(
            InvalidInputError, match=r"policy lif_linear: coefficients: no\.json: cannot be read: No"
        ),
    ):
        HashedInputs().identify(scenario(coefficients="no.json"))


class Odd(ElasticPolicy):
    """Names its files wrongly."""

    def input_files(self) -> Mapping[str, Path]:
        return {"coefficients": None}  # type: ignore[dict-item]

    def decide(self, view: ElasticView) -> Decision:
        return Decision()


def test_a_policy_that_names_no_path_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="policy Odd: input_files failed: TypeError"):
        input_files_sha256(Odd())
    assert input_files_sha256(create_policy("lif_quad")).keys() == {"coefficients"}


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster", "mlflow_uri")
def test_workers_of_a_sweep_read_the_file(bench: Path) -> None:
    sweep = {
        "name": "coefficients",
        "workloads": [SYNTH],
        "clusters": ["two.yaml"],
        "world": WORLD,
        "policies": ["lif_linear", {"name": "lif_linear", "params": {"coefficients": "other.json"}}],
    }
    with chdir(bench):
        Path("sweep.yaml").write_text(yaml.safe_dump(sweep))
        report = run_sweep(Path("sweep.yaml"), bench / "results")
    assert [failure.error for failure in report.failures] == []
    assert report.configurations == 2
