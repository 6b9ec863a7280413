"""Scenarios: parsed once, all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.scenario import Scenario, TrimSpec, key_values, parse_scenario, read_scenario
from ray_sim.model.errors import InvalidScenarioError

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


REALISATIONS: list[tuple[dict[str, object], str]] = [
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
]
DRAWS: list[tuple[dict[str, object], str]] = [
    ({}, "workload.synth: expected either a `profile`, or a workload to be `like`"),
    ({"profile": "philly", "like": "week.parquet"}, "workload.synth: expected either"),
    ({"profile": "phily"}, "workload.synth.profile: .*Did you mean 'philly'"),
    ({"profile": "philly", "arivals": "poisson"}, "arivals: unknown key; .*'arrivals'"),
    ({"profile": "philly", "arrivals": "poison"}, "synth.arrivals: must be 'poisson'"),
    ({"profile": "philly", "arrivals": "resampled"}, "resampled needs a workload to be like"),
    ({"profile": "google", "arrivals": "diurnal"}, "diurnal needs .*; take poisson"),
    ({"profile": "philly", "slot_s": 60}, "`slot_s`: only with `arrivals: alternating`"),
    ({"profile": "philly", "arrivals": "alternating", "slot_s": 0}, "workload.synth.slot_s: must be > 0"),
    ({"profile": "pdors"}, "Did you mean 'pd_ors'.* pd_ors_mix, philly"),
    ({"profile": "pd_ors"}, "workload.synth: horizon: is missing"),
    ({"profile": "pd_ors", "horizon_s": 60}, "horizon: must be at least a slot"),
    (
        {"profile": "pd_ors", "horizon_s": 7200, "load_scale": 2},
        "load_scale: the number of jobs and the horizon set the load",
    ),
    ({"profile": "pd_ors", "horizon_s": 7200, "arrivals": "diurnal"}, "must be alternating or"),
    ({"profile": "philly", "horizon_s": 7200}, "horizon: only for jobs drawn from a training"),
    ({"like": "week.parquet", "feasible_only": True}, "feasible_only: only for jobs drawn"),
]
TRIMS: list[tuple[object, str]] = [
    ({"warm_up_s": -1}, "trim.warm_up_s: must be >= 0, got -1"),
    ({"cooldown_s": 1}, "trim.cooldown_s: unknown key; did you mean 'cool_down_s'"),
    (3600, "trim: must be a mapping"),
]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        *(({"workload": {"path": "week.parquet", **each}}, problem) for each, problem in REALISATIONS),
        *(({"workload": {"synth": {"jobs": 5, **each}}}, problem) for each, problem in DRAWS),
        *(({"trim": each}, problem) for each, problem in TRIMS),
    ],
)
def test_a_wrong_realisation_draw_or_trim_is_named(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidScenarioError, match=problem):
        _scenario(**given)


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


def test_an_option_that_is_no_pair_or_comes_twice_is_refused() -> None:
    for pairs, told in (
        (["quantum"], "-p quantum: expected key=value"),
        (["=3"], "-p =3: expected key=value"),
        (["a=1", "a=2"], "a is given twice"),
    ):
        with pytest.raises(InvalidScenarioError, match=told):
            key_values(pairs, "-p")


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
