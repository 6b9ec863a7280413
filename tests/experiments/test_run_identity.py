"""Identity of a run: one hash for one result, by the contents of its files and not by their names."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

import pytest
import yaml

from ray_sim.experiments.inputs.layer_file import ANNOUNCEMENT_PROFILES
from ray_sim.experiments.inputs.profile_files import ProfileFiles
from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, parse_scenario
from ray_sim.experiments.source_digest import input_files_sha256
from ray_sim.experiments.sweep import run_sweep
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError
from ray_sim.policies.registry import create_policy
from ray_sim.policies.task_placement.least_interference import BUNDLED
from ray_sim.policy_api import Decision, ElasticPolicy, ElasticView
from workloads.store import write_workload
from workloads.synthetic.synth import synth
from workloads.training.speed_tables import bundled_speeds

WEEK = {"workload": "week.parquet", "cluster": "small.yaml"}


def _scenario(**changes: object) -> Scenario:
    return parse_scenario({**WEEK, **changes}, "test")


def _hash(**changes: object) -> str:
    return HashedInputs().identify(_scenario(**changes)).content_hash


def test_what_does_not_change_the_result_does_not_change_the_hash(at_desk: Path) -> None:
    shutil.copy("week.parquet", "copy.parquet")
    shutil.copy("small.yaml", "copy.yaml")
    plain = _hash()
    assert _hash(workload="copy.parquet", cluster="copy.yaml") == plain  # contents, not paths
    assert _hash(sites=2) == plain  # any number of sites gives the same bytes
    assert _hash(seed=7) == plain  # nothing here draws
    assert _hash(policy="fifo", params={"placement": "consolidate"}) == plain  # the default, spelled out
    spelled_out = {"path": "week.parquet", "unsuccessful": "keep", "load_scale": 1, "window": None}
    assert _hash(workload=spelled_out) == plain
    assert _hash(trim={"warm_up_s": 5}) == _hash(trim={"warm_up_s": 5.0, "cool_down_s": 0})


def test_text_of_the_command_line_and_numbers_of_yaml_are_one_scenario(at_desk: Path) -> None:
    assert _hash(policy="las", params={"knob": "2"}) == _hash(policy="las", params={"knob": 2.0})


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "sjf"},
        {"params": {"placement": "pooled"}},
        {"world": {"horizon_s": 1000}},
        {"workload": {"path": "week.parquet", "resample": "days"}},
        {"workload": {"path": "week.parquet", "window": [0, 86400]}},
        {"workload": {"path": "week.parquet", "load_scale": 2}},
        {"workload": {"path": "week.parquet", "unsuccessful": "drop"}},
        {"workload": {"path": "week.parquet", "enrich": "pd_ors"}},
        {"workload": {"synth": {"like": "week.parquet", "jobs": 40}}},
        {"trim": {"warm_up_s": 3600}},
        {"trim": {}},
        {"cluster": "toy"},
    ],
)
def test_what_changes_the_result_changes_the_hash(at_desk: Path, changes: dict[str, object]) -> None:
    assert _hash(**changes) != _hash()


def test_the_content_of_the_workload_file_is_in_the_hash(at_desk: Path) -> None:
    identity = HashedInputs().identify(_scenario())
    digest = hashlib.sha256(Path("week.parquet").read_bytes()).hexdigest()
    assert identity.facts["workload_sha256"] == digest
    assert json.loads(json.dumps(identity.manifest()))["inputs"]["workload_sha256"] == digest


@pytest.mark.parametrize(
    ("files", "name", "old", "new", "other"),
    [
        (TRAINING_PROFILES, "pd_ors", "[50, 200]", "[50, 201]", "harmony_types"),
        (ANNOUNCEMENT_PROFILES, "announced", "[1, 16]", "[1, 17]", "announced_history"),
    ],
)
def test_the_content_of_a_profile_is_in_the_hash_and_its_place_is_not(
    at_desk: Path, files: ProfileFiles, name: str, old: str, new: str, other: str
) -> None:
    def enriched(profile: str) -> str:
        return _hash(workload={"path": "week.parquet", "enrich": {"profile": profile}})

    bundled = files.bundled()[name].read_text()
    Path("mine.yaml").write_text(bundled)
    assert enriched("mine.yaml") == enriched(name)
    Path("mine.yaml").write_text(bundled.replace(old, new))
    assert enriched("mine.yaml") != enriched(name) != enriched(other)
    with pytest.raises(UnknownNameError, match=f"Did you mean '{name}'"):
        enriched(name.replace("_", "").replace("nn", "n"))


def test_the_speeds_of_an_enrichment_are_in_the_hash_and_their_file_is_not(at_desk: Path) -> None:
    def enriched(profile: str) -> str:
        return _hash(workload={"path": "week.parquet", "enrich": profile})

    bundled = bundled_speeds()["gavel_simulation"].read_text()
    Path("mine.csv").write_text(bundled)
    assert enriched("mine.csv") == enriched("gavel_simulation") != enriched("gavel_physical")
    Path("mine.csv").write_text(bundled.replace("A3C", "A3D"))
    assert enriched("mine.csv") != enriched("gavel_simulation")


def test_statements_of_feasible_jobs_only_are_refused(at_desk: Path) -> None:
    with pytest.raises(InvalidScenarioError, match="profile announced announces every job; leave out"):
        _hash(workload={"path": "week.parquet", "enrich": {"profile": "announced", "feasible_only": True}})


def test_jobs_like_those_of_a_file_are_known_by_its_content(at_desk: Path) -> None:
    def like(path: str, **given: object) -> str:
        return _hash(workload={"synth": {"like": path, "jobs": 5, **given}})

    shutil.copy("week.parquet", "copy.parquet")
    write_workload(*synth("philly", 20, seed=9), Path("other.parquet"))
    assert like("week.parquet") == like("copy.parquet")
    different = {
        like("week.parquet"),
        like("other.parquet"),
        like("week.parquet", arrivals="poisson"),
        like("week.parquet", arrivals="alternating"),
        like("week.parquet", arrivals="alternating", slot_s=60),
    }
    assert len(different) == 5
    scenario = _scenario(workload={"synth": {"like": "week.parquet", "jobs": 5}})
    manifest = json.loads(json.dumps(HashedInputs().identify(scenario).manifest()))
    digest = hashlib.sha256(Path("week.parquet").read_bytes()).hexdigest()
    assert manifest["inputs"]["workload_sha256"] == digest


def test_whole_jobs_are_known_by_their_options_and_the_content_of_their_profile(at_desk: Path) -> None:
    def drawn(**given: object) -> str:
        whole = {"profile": "pd_ors", "jobs": 5, "horizon_s": 7200, **given}
        return _hash(workload={"synth": whole})

    Path("mine.yaml").write_text(TRAINING_PROFILES.bundled()["pd_ors"].read_text())
    assert drawn(profile="mine.yaml") == drawn()
    assert drawn(arrivals="alternating", slot_s=3600) == drawn()  # the defaults, spelled out
    different = {
        drawn(),
        drawn(jobs=6),
        drawn(horizon_s=7201),
        drawn(feasible_only=True),
        drawn(slot_s=1800),
        drawn(arrivals="poisson"),
        drawn(profile="pd_ors_mix"),
    }
    assert len(different) == 7


@pytest.mark.parametrize(
    ("changes", "seed_free"),
    [
        ({}, True),
        ({"workload": {"path": "week.parquet", "resample": "days"}}, False),
        ({"workload": {"synth": {"profile": "philly", "jobs": 5}}}, False),
        ({"workload": {"synth": {"like": "week.parquet", "jobs": 5}}}, False),
        ({"workload": {"synth": {"profile": "pd_ors", "jobs": 5, "horizon_s": 7200}}}, False),
        ({"workload": {"path": "week.parquet", "window": [0, 9], "load_scale": 2}}, True),
        ({"workload": {"path": "week.parquet", "unsuccessful": "drop"}, "trim": {"warm_up_s": 1}}, True),
        ({"workload": {"path": "week.parquet", "window": [0, 9], "resample": "days"}}, False),
        ({"workload": {"path": "week.parquet", "enrich": "pd_ors"}}, False),
        ({"workload": {"path": "week.parquet", "enrich": "announced"}}, False),
        ({"policy": "mine:Lottery"}, False),
        ({"world": {"truth": "placement", "straggler_every_s": 60}}, True),
        ({"world": {"truth": "placement", "straggler_probability": 0.1}}, False),
        ({"world": {"truth": "placement", "parameter_blocks": "paa"}}, True),
        ({"world": {"truth": "placement", "parameter_blocks": "mxnet"}}, False),
        ({"policy": "drf", "params": {"parameter_blocks": "mxnet"}}, False),
        ({"policy": "drf", "params": {"parameter_blocks": "paa"}}, True),
    ],
)
def test_a_run_is_seed_free_when_nothing_in_workload_policy_or_world_draws(
    at_desk: Path, changes: dict[str, object], seed_free: bool
) -> None:
    identity = HashedInputs().identify(_scenario(seed=3, **changes))
    assert identity.seed_free is seed_free
    assert identity.seed == (None if seed_free else 3)


def test_a_misspelt_policy_is_met_with_the_nearest_name(at_desk: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'srtf'"):
        HashedInputs().identify(_scenario(policy="srft"))


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
    assert manifest["inputs"]["policy_files_sha256"] == dict(other.facts["policy_files_sha256"])  # type: ignore[call-overload]  # facts are JSON


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
        return {"coefficients": None}  # type: ignore[dict-item]  # what is tested

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
