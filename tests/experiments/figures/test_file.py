"""Figure files: their runs by series and x, and problems told with their place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from ray_sim.cli import main
from ray_sim.experiments.figures.cells import without_folders
from ray_sim.experiments.figures.file import (
    STUDIES,
    Figure,
    bundled_figures,
    find_figures,
    places_of,
    read_figure,
)
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError
from ray_sim.reports.shape_samples import Samples
from tests.proofs import proofs, quick_first

SERVERS = (
    "name: servers-{0}\nservers:\n  - {{name: server, count: {0}, gpus: 8, cpus: 72, memory_gib: 192}}\n"
)
FIGURE: dict[str, Any] = {
    "title": "By servers",
    "source": "a paper, figure 1",
    "metric": "jct_s.mean",
    "x": {"of": "cluster", "label": "servers", "values": {"two.yaml": 2, "four.yaml": 4}},
    "y": {"label": "mean completion time", "unit": "s"},
    "series": {"FIFO": {"policy": "fifo"}, "LAS": {"label": "las"}},
}
SWEEP: dict[str, Any] = {
    "name": "by-servers",
    "workloads": [{"synth": {"profile": "philly", "jobs": 30}}],
    "clusters": ["four.yaml", "two.yaml"],
    "policies": ["fifo", {"name": "las", "params": {}}, {"name": "las", "params": {"knob": 2}}],
    "seeds": [3, 4],
}
CHECK = {"name": "LAS is faster", "order": ["LAS", "FIFO"]}


def _figure(folder: Path, *checks: object, quick: bool = False, **changes: Any) -> Figure:
    for name, count in (("two", 2), ("four", 4)):
        (folder / f"{name}.yaml").write_text(SERVERS.format(count))
    figure = {**FIGURE, **changes.pop("figure", {})}
    path = folder / "mine.yaml"
    path.write_text(json.dumps({**SWEEP, **changes, "figure": figure, "shape": list(checks) or [CHECK]}))
    return read_figure("mine", path, HashedInputs(), quick=quick)


@pytest.mark.slow
def test_a_figure_is_named_on_the_command_line_as_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "my figures").mkdir()
    assert _figure(tmp_path).given == str(tmp_path / "mine.yaml")
    assert _figure(tmp_path / "my figures").given == f"'{tmp_path}/my figures/mine.yaml'"
    name = "pd_ors/machines"
    assert read_figure(name, bundled_figures()[name], HashedInputs(), quick=True).given == name


def test_a_run_has_the_series_and_the_x_of_its_coordinates(tmp_path: Path) -> None:
    figure = _figure(tmp_path)
    assert figure.series == ("FIFO", "LAS")
    assert places_of(figure.cells) == [2, 4]
    assert [(cell.series, cell.x, cell.seed) for cell in figure.cells] == [
        (series, x, seed) for x in (4, 2) for series in ("FIFO", "LAS") for seed in (3, 4)
    ]
    assert len(figure.configurations) == 8  # the runs with knob 2 fit no series


def test_without_series_each_policy_is_one_and_has_no_parameter_that_is_x(tmp_path: Path) -> None:
    x = {"of": "policy.knob", "label": "knob"}
    policies = ["fifo", {"name": "las", "params": {"knob": [0, 1, 2]}}]
    clusters = ["two.yaml"]
    figure = _figure(
        tmp_path,
        {"name": "level", "range": {"of": "las", "between": [0, None]}},
        figure={"x": x, "series": {}},
        policies=policies,
        clusters=clusters,
    )
    assert figure.series == ("fifo", "las")
    assert places_of(figure.cells) == [0, 1, 2]
    assert {cell.everywhere for cell in figure.cells if cell.series == "fifo"} == {True}


def test_a_series_of_several_values_has_their_runs(tmp_path: Path) -> None:
    figure = _figure(
        tmp_path,
        {"name": "level", "range": {"of": "low", "between": [0, None]}, "at": "mean"},
        figure={
            "x": {"of": "policy.knob", "label": "draw"},
            "series": {"low": {"policy.knob": [0, 1]}, "high": {"policy.knob": 2}},
        },
        policies=[{"name": "las", "params": {"knob": [0, 1, 2]}}],
        clusters=["two.yaml"],
        seeds=[3],
    )
    assert {(cell.series, cell.x) for cell in figure.cells} == {("low", 0), ("low", 1), ("high", 2)}


def test_a_run_without_x_is_left_out_where_its_series_has_others(tmp_path: Path) -> None:
    policies = ["las", {"name": "las", "params": {"knob": [0, 1]}}]
    figure = _figure(
        tmp_path,
        {"name": "level", "range": {"of": "all", "between": [0, None]}},
        figure={
            "x": {"of": "policy.knob", "label": "knob"},
            "series": {"all": {"policy": "las"}, "bare": {"label": "las"}},
        },
        policies=policies,
        clusters=["two.yaml"],
    )
    assert {(cell.series, cell.x, cell.everywhere) for cell in figure.cells} == {
        ("all", 0, False),
        ("all", 1, False),
        ("bare", None, True),
    }


def test_a_cluster_may_have_other_numbers_of_servers(tmp_path: Path) -> None:
    x = {"of": "cluster", "label": "servers", "values": {"two.yaml": 2, "two.yaml@server.count=3": 3}}
    clusters = ["two.yaml", "two.yaml@server.count=3"]
    figure = _figure(tmp_path, figure={"x": x}, clusters=clusters)
    assert places_of(figure.cells) == [2, 3]


def test_a_quick_figure_has_one_seed_and_few_jobs(tmp_path: Path) -> None:
    figure = _figure(tmp_path, quick=True)
    assert {cell.seed for cell in figure.cells} == {0}
    assert {cell.coordinates["workload.synth.jobs"] for cell in figure.cells} == {5}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("data/w.parquet", "w.parquet"),
        ("./data/w.parquet", "data/w.parquet"),
        ("mydata/w.parquet", "mydata/w.parquet"),
        ("../w.parquet", "../w.parquet"),
        ("other/data/w.parquet", "other/data/w.parquet"),
        ("data/data/w.parquet", "data/w.parquet"),
        ("synth:like-data/w:30", "synth:like-w:30"),
        ("w//home/data/jobs.yaml+/home/data/b.yaml", "w/jobs.yaml+b.yaml"),
        ("agent(checkpoint=data/a.npz, other=data/b.npz)", "agent(checkpoint=a.npz, other=b.npz)"),
    ],
)
def test_a_folder_is_left_out_only_at_the_start_of_a_path(text: str, shown: str) -> None:
    assert without_folders([text], ["./", "data/", "/home/data/"]) == [shown]


def test_a_figure_without_its_data_has_no_runs(tmp_path: Path) -> None:
    source = "https://example.org/trace, and ray-sim convert"
    figure = _figure(tmp_path, figure={"data": {"trace.parquet": source}}, workloads=["trace.parquet"])
    assert (figure.cells, figure.missing) == ((), ("trace.parquet",))


@pytest.mark.parametrize(
    ("changes", "check", "problem"),
    [
        ({"x": {"of": "cluster"}}, CHECK, "figure.x.label: "),
        ({"axis": 1}, CHECK, "figure.axis: unknown key"),
        ({"x": {"of": "world.nothing", "label": "x"}}, CHECK, "no run has the coordinate 'world.nothing'"),
        (
            {"series": {"LAS": {"policy": "las"}, "FIFO": {"policy": "fifo"}}},
            CHECK,
            "differ in label, policy.knob",
        ),
        (
            {"series": {"LAS": {"policy": "srtf"}, "FIFO": {}}},
            CHECK,
            'figure.series.LAS: no run has {"policy": "srtf"}',
        ),
        ({"published": {"values": {"LAS": {3: 1.0}}}}, CHECK, "figure.published.values.LAS: no x"),
        (
            {"x": {**FIGURE["x"], "values": {"six.yaml": 6}}},
            CHECK,
            "figure.x.values: no run of a series has 'six",
        ),
        ({"data": {"trace.parquet": "there"}}, CHECK, "figure.data.trace.parquet: no run uses this file"),
        ({}, {"name": "a", "order": ["LAS", "LAS"]}, "shape[0].order.best_first: must name each once"),
        (
            {},
            {"name": "a", "equal": {"of": "LAS", "to": "LAS", "within": 0.1}},
            "shape[0].equal: LAS at 2 is compared with itself",
        ),
        (
            {},
            {"name": "a", "ratio": {"of": "LAS", "over": "LAS", "between": [1, 2]}},
            "shape[0].ratio: LAS at 2 is compared with itself",
        ),
        (
            {},
            {"name": "a", "grows": {"of": "LAS", "over": "LAS", "gap": "ratio"}},
            "LAS at 2 is compared with itself",
        ),
        (
            {},
            {**CHECK, "because": "so it is"},
            "must name another check, whose verdict tells; got 'so it is'",
        ),
        ({}, {"name": "a"}, "expected one of order, beats,"),
        ({}, {**CHECK, "range": {"of": "LAS", "between": [0, 1]}}, "found order and range"),
        ({}, {"name": "a", "order": ["LAS"]}, "shape[0].order.best_first"),
        (
            {},
            {"name": "a", "order": ["LAS", "SRTF"]},
            "shape[0].order: no series 'SRTF'; the figure has FIFO, LAS",
        ),
        ({}, {**CHECK, "at": [3]}, "shape[0].order: no x 3; the figure has 2, 4"),
        ({}, {**CHECK, "at": []}, "must name at least one x"),
        ({}, {"name": "a", "range": {"of": "LAS", "between": [2, 1]}}, "LOW below HIGH, got [2, 1]"),
        ({}, {"name": "a", "range": {"of": "LAS", "between": [None, None]}}, "a number at one end"),
        (
            {},
            {"name": "a", "linear": {"of": "LAS", "within": 0.1}},
            "linear: needs 3 values of x or more, got 2",
        ),
        (
            {},
            {"name": "a", "monotone": {"of": "LAS", "direction": "stays"}},
            "shape[0].monotone.direction: ",
        ),
        (
            {},
            {"name": "a", "at": "mean", "monotone": {"of": "LAS", "direction": "falls"}},
            "compares values of x",
        ),
        ({}, {"name": "a", "best_at": {"of": "LAS", "x": 2, "against": [2]}}, "compared with itself"),
        ({}, {"name": "a", "best_at": {"of": "LAS", "x": 2, "against": [4, 4]}}, "got 4 twice"),
        ({}, {"name": "a", "at": [2, 4, 2], "order": ["LAS", "FIFO"]}, "got 2 twice"),
    ],
)
def test_a_problem_is_told_with_its_place(
    changes: dict[str, object], check: object, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidScenarioError) as error:
        _figure(tmp_path, check, figure=changes)
    assert problem in str(error.value)
    assert "mine.yaml" in str(error.value)


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
@pytest.mark.parametrize(
    ("given", "key"),
    quick_first(
        [
            ("shape: [{name: a, range: {of: LAS, between: [NUMBER, null]}}]", "shape[0].range.between[0]"),
            ("shape: [{name: a, equal: {of: LAS, to: FIFO, within: NUMBER}}]", "shape[0].equal.within"),
            ("shape: [{name: a, order: [LAS, FIFO], at: [NUMBER]}]", "shape[0].at"),
            ("figure: {published: {values: {LAS: {2: NUMBER}}}}", "figure.published.values.LAS"),
            ("figure: {x: {of: cluster, label: x, values: {two.yaml: NUMBER}}}", "figure.x.values.two.yaml"),
            ("figure: {cpu_s: NUMBER}", "figure.cpu_s"),
        ]
    ),
)
def test_a_number_that_is_not_finite_is_refused(given: str, key: str, number: str, tmp_path: Path) -> None:
    changes = yaml.safe_load(given.replace("NUMBER", number))
    _figure(tmp_path)
    content = {**SWEEP, "shape": [CHECK], **changes, "figure": {**FIGURE, **changes.get("figure", {})}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(InvalidScenarioError) as error:
        read_figure("mine", tmp_path / "mine.yaml", HashedInputs())
    assert key in str(error.value)
    assert "mine.yaml" in str(error.value)


CHOICE = {"id": "C1", "ours": "two servers", "source": "none is named", "alternatives": {}}


def _with_choice(folder: Path, *alternatives: object, **changes: Any) -> Figure:
    given = {f"other {index}": each for index, each in enumerate(alternatives)}
    return _figure(folder, choices=[{**CHOICE, "alternatives": given}], **changes)


@pytest.mark.slow
def test_an_alternative_has_the_places_of_the_figure_and_runs_of_its_own(tmp_path: Path) -> None:
    # One check with two x, so two tests, for each of five alternatives: 10 x 2 / 2^9 is below 5 %.
    figure = _with_choice(
        tmp_path,
        {"clusters": {"two.yaml": "four.yaml"}},
        {"world": {"restart_cost_s": 60}},
        {"policies": {"las": {"knob": 3}}},
        {"workloads": {"synth": {"jobs": 20}}},
        {"workloads": {"synth": {"load_scale": 2}}},
    )
    by_name = {each.name: each.cells for each in figure.alternatives}
    assert {each.choice for each in figure.alternatives} == {"C1"}
    for cells in by_name.values():
        places = {(cell.series, cell.x) for cell in cells}
        assert places == {(series, x) for series in figure.series for x in (2, 4)}
        assert {cell.seed for cell in cells} == {*range(3, 12)}

    def scenarios(name: str, series: str, x: int) -> list[Any]:
        here = [cell for cell in by_name[name] if (cell.series, cell.x) == (series, x)]
        return [cell.configuration.identity.scenario for cell in here]

    assert {Path(str(each.cluster)).name for each in scenarios("other 0", "LAS", 2)} == {"four.yaml"}
    assert {each.world["restart_cost_s"] for each in scenarios("other 1", "LAS", 2)} == {60}
    assert {each.params["knob"] for each in scenarios("other 2", "LAS", 4)} == {3}
    assert not any(each.params for each in scenarios("other 2", "FIFO", 4))
    assert {each.workload.synth.jobs for each in scenarios("other 3", "FIFO", 4)} == {20}
    assert {each.workload.synth.load_scale for each in scenarios("other 4", "FIFO", 4)} == {2}


@pytest.mark.parametrize(
    ("alternative", "problem"),
    [
        ({"policies": {"srtf": {"knob": 3}}}, "choices.C1.alternatives.other 0: changes no run"),
        ({"world": {"restart_cost_s": [1, 2]}}, "choices: an alternative changes the number of runs"),
        ({"policy": {}}, "choices[0].alternatives.other 0.policy: unknown key"),
    ],
)
def test_an_alternative_that_is_none_is_refused(alternative: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidScenarioError) as error:
        _with_choice(tmp_path, alternative)
    assert problem in str(error.value)


def test_choices_have_ids_of_their_own(tmp_path: Path) -> None:
    given = {**CHOICE, "alternatives": {"other": {"world": {"restart_cost_s": 60}}}}
    with pytest.raises(InvalidScenarioError, match="'C1' is the id of two choices"):
        _figure(tmp_path, choices=[given, given])
    with pytest.raises(InvalidScenarioError, match=r"choices\[0\]\.id: "):
        _figure(tmp_path, choices=[{**given, "id": "mine"}])


def test_a_statement_may_be_a_function_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_statements.py").write_text(
        "from ray_sim.reports.shape_samples import difference\n"
        "def ahead(runs, of, over):\n"
        "    yield runs.compare(difference, 'first x', (of, (runs.xs[0],)), (over, (runs.xs[0],)))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    figure = _figure(tmp_path, {"name": "a", "own_statements:ahead": {"of": "LAS", "over": "FIFO"}})
    samples = Samples({("LAS", 2): {None: 3.0}, ("FIFO", 2): {None: 1.0}})
    (compared,) = figure.checks[0].compare(samples, figure.series, [2, 4], lower=True)
    assert (compared.estimate, compared.exact) == (2.0, True)
    with pytest.raises(InvalidScenarioError, match=r"own_statements:ahead: no series 'SRTF'"):
        _figure(tmp_path, {"name": "a", "own_statements:ahead": {"of": "LAS", "over": "SRTF"}})


def test_two_checks_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'LAS is faster' is the name of two checks"):
        _figure(tmp_path, CHECK, CHECK)


def test_a_run_without_a_seed_beside_runs_with_seeds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\n1,0,1,60\n")
    assert main(["convert", "csv", str(tmp_path / "jobs.csv"), "-o", str(tmp_path / "jobs.parquet")]) == 0
    workloads = [*SWEEP["workloads"], "jobs.parquet"]
    with pytest.raises(
        InvalidScenarioError, match=r"(?s)mine\.yaml.*'FIFO' has at x 4 a run that depends on no"
    ):
        _figure(tmp_path, workloads=workloads)


def test_a_figure_file_is_a_sweep_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _figure(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(read_sweep("mine.yaml").configurations) == 12


@pytest.fixture(scope="module")
def inputs() -> HashedInputs:
    return HashedInputs()


@pytest.mark.parametrize("name", quick_first(list(bundled_figures())[:: 1 if proofs() == "all" else 3], 2))
def test_a_bundled_figure_is_sound(name: str, inputs: HashedInputs) -> None:
    figure = read_figure(name, bundled_figures()[name], inputs, quick=True)
    assert figure.cells or figure.missing
    assert figure.spec.title[0].isupper()


SYSTEMS = sorted({path.parent.name for path in bundled_figures().values()})


@pytest.mark.parametrize("system", quick_first(SYSTEMS, 2))
def test_a_choice_of_a_model_is_run_in_another_way_or_said_to_be_untouched(system: str) -> None:
    pages = [STUDIES.parents[1] / "docs" / part / f"{system}.md" for part in ("models", "studies")]
    page = next(each for each in pages if each.exists()).read_text()  # the model's, if it has one of its own
    ids = re.findall(r"^\| (C\d+) \|", page, re.MULTILINE)
    figures = [yaml.safe_load(path.read_text()) for path in STUDIES.glob(f"{system}/*.yaml")]
    run = {choice["id"] for figure in figures for choice in figure.get("choices", [])}
    untouched = yaml.safe_load((STUDIES / system / "untouched.yaml").read_text())["untouched"]
    assert len(ids) == len(set(ids)) > 0
    assert sorted(ids) == sorted([*run, *untouched])
    assert all(untouched.values())


@pytest.mark.parametrize("csv", sorted(STUDIES.glob("*/*.csv")), ids=lambda path: path.stem)
def test_a_bundled_workload_is_its_csv_file_converted(csv: Path, tmp_path: Path) -> None:
    bundled = csv.with_suffix(".parquet")
    if not bundled.exists():
        pytest.skip(f"{csv.name} is no workload")
    assert main(["convert", "csv", str(csv), "-o", str(tmp_path / "made.parquet")]) == 0
    assert pl.read_parquet(tmp_path / "made.parquet").equals(pl.read_parquet(bundled))


@pytest.mark.slow
def test_figures_are_found_by_name_by_system_and_by_path(tmp_path: Path) -> None:
    bundled = bundled_figures()
    assert "pd_ors/machines" in bundled
    assert find_figures(["all"]) == bundled
    of_system = find_figures(["pd_ors"])
    assert of_system.keys() == {name for name in bundled if name.startswith("pd_ors/")}
    mine = tmp_path / "mine.yaml"
    assert find_figures(["pd_ors/machines", str(mine)]) == {
        "pd_ors/machines": bundled["pd_ors/machines"],
        "mine": mine,
    }
    with pytest.raises(InvalidInputError, match="has the name of"):
        find_figures([str(mine), "mine.yaml"])
    with pytest.raises(UnknownNameError, match="pd_ors/machines"):
        find_figures(["pd_ors/machine"])
