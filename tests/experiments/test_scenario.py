"""Scenarios: parsed once, all problems at once, one hash for one result."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from ray_sim.experiments.inputs.layer_file import ANNOUNCEMENT_PROFILES
from ray_sim.experiments.inputs.profile_files import ProfileFiles
from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, TrimSpec, key_values, parse_scenario, read_scenario
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from workloads.store import write_workload
from workloads.synthetic.synth import synth

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
        {"synth": {"profile": "philly", "jobs": 5}, "load_scale": 2},
        {"synth": {"profile": "philly", "jobs": 5}, "unsuccessful": "drop"},
    ],
)
def test_a_workload_has_one_origin(workload: object) -> None:
    with pytest.raises(InvalidScenarioError, match="workload:"):
        _scenario(workload=workload)


@pytest.mark.parametrize(
    ("realisation", "problem"),
    [
        ({"window": 5}, r"workload.window: must be \[FROM, TO\] in seconds; in a sweep"),
        ({"window": [5]}, r"workload.window: must be \[FROM, TO\] in seconds"),
        ({"window": [5, 5]}, "workload.window: FROM must be below TO"),
        ({"window": [-1, 5]}, r"workload.window\[0\]: must be >= 0"),
        ({"window": [0, "x"]}, r"workload.window\[1\]: must be a number"),
        ({"load_scale": 0}, "workload.load_scale: must be >= 1e-06"),
        ({"unsuccessful": "cut"}, "workload.unsuccessful: must be 'keep' or 'drop', got 'cut'"),
        ({"enrich": 5}, "workload.enrich: must be a mapping, got 5"),
        ({"enrich": {"feasible_only": True}}, "workload.enrich.profile: is missing"),
        ({"enrich": {"profile": "pd_ors", "horizon": 5}}, "unknown key; did you mean 'horizon_s'"),
        ({"resample": "weeks"}, "workload.resample: must be 'days', got 'weeks'"),
    ],
)
def test_a_wrong_realisation_is_named(realisation: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidScenarioError, match=problem):
        _scenario(workload={"path": "week.parquet", **realisation})


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        ({"jobs": 5}, "workload.synth: expected either a `profile`, or a workload to be `like`"),
        ({"jobs": 5, "profile": "philly", "like": "week.parquet"}, "workload.synth: expected either"),
        ({"jobs": 5, "profile": "phily"}, "workload.synth.profile: .*Did you mean 'philly'"),
        ({"jobs": 5, "profile": "philly", "arivals": "poisson"}, "arivals: unknown key; .*'arrivals'"),
        (
            {"jobs": 5, "profile": "philly", "arrivals": "poison"},
            "synth.arrivals: must be 'poisson'",
        ),
        ({"jobs": 5, "profile": "philly", "arrivals": "resampled"}, "resampled needs a workload to be like"),
        ({"jobs": 5, "profile": "google", "arrivals": "diurnal"}, "diurnal needs .*; take poisson"),
        ({"jobs": 5, "profile": "philly", "slot_s": 60}, "`slot_s`: only with `arrivals: alternating`"),
        (
            {"jobs": 5, "profile": "philly", "arrivals": "alternating", "slot_s": 0},
            "workload.synth.slot_s: must be > 0",
        ),
        ({"jobs": 5, "profile": "pdors"}, "Did you mean 'pd_ors'.* pd_ors_mix, philly"),
        ({"jobs": 5, "profile": "pd_ors"}, "workload.synth: horizon: is missing"),
        ({"jobs": 5, "profile": "pd_ors", "horizon_s": 60}, "horizon: must be at least a slot"),
        (
            {"jobs": 5, "profile": "pd_ors", "horizon_s": 7200, "load_scale": 2},
            "load_scale: the number of jobs and the horizon set the load",
        ),
        (
            {"jobs": 5, "profile": "pd_ors", "horizon_s": 7200, "arrivals": "diurnal"},
            "must be alternating or",
        ),
        ({"jobs": 5, "profile": "philly", "horizon_s": 7200}, "horizon: only for jobs drawn from a training"),
        ({"jobs": 5, "like": "week.parquet", "feasible_only": True}, "feasible_only: only for jobs drawn"),
    ],
)
def test_a_wrong_draw_is_named(draw: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidScenarioError, match=problem):
        _scenario(workload={"synth": draw})


def test_every_draw_has_a_label_of_its_own() -> None:
    drawn: list[dict[str, object]] = [
        {"profile": "philly"},
        {"profile": "philly", "load_scale": 2},
        {"profile": "philly", "arrivals": "poisson"},
        {"profile": "philly", "arrivals": "alternating", "slot_s": 60},
        {"like": "week.parquet", "arrivals": "resampled"},
        {"profile": "pd_ors", "horizon_s": 72000},
        {"profile": "pd_ors", "horizon_s": 72000, "feasible_only": True, "slot_s": 1800},
        {"profile": "pd_ors", "horizon_s": 72000, "arrivals": "poisson"},
    ]
    assert [_scenario(workload={"synth": {"jobs": 5, **given}}).workload.label for given in drawn] == [
        "synth:philly:5",
        "synth:philly:5x2.0",
        "synth:philly:5:poisson",
        "synth:philly:5:alternating:60s",
        "synth:like-week:5:resampled",
        "synth:pd_ors:5:within-72000s",
        "synth:pd_ors:5:within-72000s:feasible:1800s",
        "synth:pd_ors:5:within-72000s:poisson",
    ]


@pytest.mark.parametrize(
    ("trim", "problem"),
    [
        ({"warm_up_s": -1}, "trim.warm_up_s: must be >= 0, got -1"),
        ({"cooldown_s": 1}, "trim.cooldown_s: unknown key; did you mean 'cool_down_s'"),
        (3600, "trim: must be a mapping"),
    ],
)
def test_a_wrong_trim_is_named(trim: object, problem: str) -> None:
    with pytest.raises(InvalidScenarioError, match=problem):
        _scenario(trim=trim)


@pytest.mark.parametrize("pair", ["quantum", "=3"])
def test_an_option_that_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(InvalidScenarioError, match=f"-p {pair}: expected key=value"):
        key_values([pair], "-p")


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(InvalidScenarioError, match="a is given twice"):
        key_values(["a=1", "a=2"], "-p")


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


def test_options_go_before_the_entries_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "workload: {path: a.parquet, load_scale: 2}\ncluster: philly\npolicy: las\nparams: {knob: 2}\n"
        "world: {restart_cost_s: 30}\ntrim: {warm_up_s: 5}\nseed: 1\n"
    )
    given = {
        "workload": {"unsuccessful": "drop"}, "params": {"placement": "spread"}, "world": {"slot_s": "600"},
        "trim": {"cool_down_s": 7.0}, "seed": 2, "sites": 4, "fleet": "actors",
    }  # fmt: skip
    scenario = read_scenario(path, given)
    assert scenario.workload.model_dump(exclude_defaults=True) == {
        "path": "a.parquet", "load_scale": 2.0, "unsuccessful": "drop",
    }  # fmt: skip
    assert (scenario.policy, scenario.params) == ("las", {"knob": 2, "placement": "spread"})
    assert scenario.world == {"restart_cost_s": 30, "slot_s": "600"}
    assert scenario.trim == TrimSpec(warm_up_s=5, cool_down_s=7)
    assert (scenario.seed, scenario.sites, scenario.fleet) == (2, 4, "actors")
    assert read_scenario(path, {}) == read_scenario(path)
    # Parameters are of a policy, and a draw is of a workload.
    assert read_scenario(path, {"policy": "srtf"}).params == {}
    assert read_scenario(path, {"policy": "las", "params": {"knob": "3"}}).params == {"knob": "3"}
    path.write_text("workload: {synth: {profile: philly, jobs: 5}}\ncluster: philly\n")
    assert read_scenario(path, {"workload": {"path": "b.parquet"}}).workload.path == "b.parquet"
    path.write_text("workload: a.parquet\ncluster: philly\n")
    assert read_scenario(path, {"workload": {"load_scale": 3.0}}).workload.label == "a/x3.0"


def test_a_problem_of_options_beside_a_file_names_both(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("workload: a.parquet\ncluster: philly\n")
    with pytest.raises(
        InvalidScenarioError, match=r"s.yaml with the options for sites: 1 problem\n  sites: must be >= 1"
    ):
        read_scenario(path, {"sites": 0})
