"""A sweep as a whole in MLflow: findings, inputs, lines over an axis, and several sweeps side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Experiment, Run

from ray_sim.cli import main
from ray_sim.experiments.results.store import ConfigurationOutcome
from ray_sim.experiments.tracking.experiment import HASH_TAG, NOTE_TAG, SWEEP_TAG
from ray_sim.experiments.tracking.log import log_stores, log_sweep
from ray_sim.experiments.tracking.overview import MOST_CHARACTERS, description
from ray_sim.experiments.tracking.views import (
    CONFIGURATION_TAG,
    CONFIGURATIONS_VIEW_TAG,
    LINE_TAG,
    TIME_CHARTS,
    VIEW_TAG,
)
from ray_sim.model.errors import InvalidInputError
from tests.command_line import complaint
from tests.stored_sweeps import WORKLOAD_SHA256, numbered, scaled, scenarios, store_sweep
from tests.sweeps import logged_experiment, logged_runs, prepared_page

pytestmark = pytest.mark.slow
LONG = pytest.mark.long
"""For tests that log to MLflow several times."""

SCALES = (0.8, 1.0, 1.25)


def _runs(client: MlflowClient, tag: str, name: str = "study") -> dict[str, Run]:
    """The runs with a tag, by name."""
    return {str(run.info.run_name): run for run in logged_runs(client, name, f"tags.`{tag}` LIKE '%'")}


def _inputs(run: Run) -> list[DatasetInput]:
    assert run.inputs is not None
    return list(run.inputs.dataset_inputs)


def _state(experiment: Experiment, tag: str = VIEW_TAG) -> dict[str, object]:
    return prepared_page(experiment.tags[tag])


def test_the_description_has_the_findings_and_follows_the_sweep(client: MlflowClient, tmp_path: Path) -> None:
    # Mean JCTs: fifo 25.0 and 25.5 s, sjf 26.0 and 26.5 s.
    entries = numbered(scenarios(["fifo", "sjf"], 2))
    store = store_sweep(tmp_path / "results", "study", entries)
    whole = list(entries)
    log_sweep("study", store, whole, map(ConfigurationOutcome, whole[:1]), "numbers")
    first = logged_experiment(client, "study").tags[NOTE_TAG]
    assert "Sweep **study**: 1 of 4 runs done." in first
    assert "- fifo: mean JCT 25 s (one run)." in first
    log_stores([store.root])
    second = logged_experiment(client, "study").tags[NOTE_TAG]
    assert "Sweep **study**: 4 of 4 runs done." in second
    assert "- fifo has the least mean JCT: 25 s (" in second
    assert "- Too few seeds for a verdict against fifo: sjf +" in second
    assert (
        f"(#/experiments/{logged_experiment(client, 'study').experiment_id}/runs?viewStateShareKey=ray_sim&"
        in second
    )


@LONG
def test_a_description_that_a_user_edited_stays(client: MlflowClient, tmp_path: Path) -> None:
    entries = numbered(scenarios(["fifo", "sjf"], 1))
    store = store_sweep(tmp_path / "results", "study", entries)
    log_sweep("study", store, list(entries), [ConfigurationOutcome(next(iter(entries)))], "numbers")
    client.set_experiment_tag(logged_experiment(client, "study").experiment_id, NOTE_TAG, "mine")
    log_stores([store.root])
    assert logged_experiment(client, "study").tags[NOTE_TAG] == "mine"


def test_names_are_text_in_the_description_and_long_findings_are_cut_at_a_line() -> None:
    places = {("<b>w</b>_x_", f"cluster {index}", ""): ("[a](b) " + "wins " * 20,) for index in range(200)}
    text = description("study", "7", "1 of 2 runs done, 1 failed", places, "cluster.gpu_small.count")
    assert "&lt;b&gt;w&lt;/b&gt;\\_x\\_" in text
    assert "- \\[a\\](b) wins" in text
    assert "<b>" not in text
    assert "[Lines over cluster&#46;gpu\\_small&#46;count](#/experiments/7/" in text
    assert len(text) <= MOST_CHARACTERS
    assert "\n\nMore findings: `ray-sim report`.\n\n" in text


def test_the_first_line_of_a_description_has_the_first_finding_of_any_place() -> None:
    places = {("week", "one policy", ""): (), ("week", "two", ""): ("sjf is ahead of fifo.",)}
    text = description("study", "7", "3 of 3 runs done", places, None)
    assert text.split("\n")[0].endswith("3 of 3 runs done. week, two: sjf is ahead of fifo.")
    assert text.count("\n- ") == 1
    assert "one policy" not in text


@LONG
def test_a_sweep_over_a_number_has_lines_with_a_point_per_value(client: MlflowClient, tmp_path: Path) -> None:
    store = store_sweep(tmp_path / "results", "study", numbered(scaled(["fifo", "sjf"], SCALES, 5)))
    log_stores([store.root])
    lines = _runs(client, LINE_TAG)
    assert sorted(lines) == ["fifo", "sjf"]
    history = {
        key: [(each.step, each.value) for each in client.get_metric_history(lines["sjf"].info.run_id, key)]
        for key in ("workload.load_scale", "jct_s.mean", "jct_s.mean.ci95_low")
    }
    assert history["workload.load_scale"] == list(enumerate(SCALES))
    # Runs of sjf are 5 to 9, 15 to 19 and 25 to 29: mean JCTs (10 + 40 + i) / 2, so (50 + 7) / 2 at first.
    assert history["jct_s.mean"] == [(0, 28.5), (1, 33.5), (2, 38.5)]
    assert len(history["jct_s.mean.ci95_low"]) == 3
    state = _state(logged_experiment(client, "study"))
    charts = state["compareRunCharts"]
    assert isinstance(charts, list)
    assert {chart["type"] for chart in charts} == {"LINE"}
    assert {chart["selectedXAxisMetricKey"] for chart in charts} == {"workload.load_scale"}
    assert len(_runs(client, CONFIGURATION_TAG)) == len(SCALES) * 2
    bars = _state(logged_experiment(client, "study"), CONFIGURATIONS_VIEW_TAG)
    assert bars["searchFilter"] == f"tags.`{CONFIGURATION_TAG}` LIKE '%'"


@LONG
def test_lines_are_logged_once_and_anew_where_their_points_change(
    client: MlflowClient, tmp_path: Path
) -> None:
    runs = []
    for scales in (SCALES[:2], SCALES[:2], SCALES):
        store = store_sweep(tmp_path / "results", "study", numbered(scaled(["fifo"], scales, 1)))
        log_stores([store.root])
        (line,) = _runs(client, LINE_TAG).values()
        runs.append(line.info.run_id)
    assert runs[0] == runs[1] != runs[2]
    history = client.get_metric_history(runs[2], "workload.load_scale")
    assert [each.value for each in history] == [*SCALES]


@LONG
def test_inputs_are_datasets_with_digest_and_source(client: MlflowClient, tmp_path: Path) -> None:
    given = {"path": "week.parquet", "resample": "days"}
    store = store_sweep(tmp_path / "results", "study", numbered(scenarios(["fifo"], 2, workload=given)))
    log_stores([store.root])
    log_stores([store.root])
    sweep_run = _runs(client, SWEEP_TAG)["study"]
    workload, cluster = _inputs(sweep_run)
    assert (workload.dataset.name, cluster.dataset.name) == ("week/days", "edge")
    assert workload.dataset.digest == WORKLOAD_SHA256[:36]
    assert json.loads(workload.dataset.source) == {"uri": "week.parquet", "sha256": WORKLOAD_SHA256}
    assert '"resample": "days"' in str(workload.dataset.profile)
    assert {tag.key: tag.value for tag in workload.tags} == {"mlflow.data.context": "workload"}


@LONG
def test_in_full_detail_a_configuration_has_lines_over_time_and_the_sweep_a_report(
    client: MlflowClient, tmp_path: Path
) -> None:
    entries = numbered(scenarios(["fifo", "sjf"], 2))
    store = store_sweep(tmp_path / "results", "study", entries, "full")
    log_stores([store.root])
    fifo = _runs(client, CONFIGURATION_TAG)["fifo"]
    # a ends at 10 s and b at 30 s.
    completed = client.get_metric_history(fifo.info.run_id, "timeline.completed")
    assert [(each.timestamp, each.value) for each in completed][-1] == (30_000, 2)
    assert len(_inputs(fifo)) == 2
    run_id = _runs(client, SWEEP_TAG)["study"].info.run_id
    files = {file.path for file in client.list_artifacts(run_id)}
    assert files == {"comparison.csv", "jct_cdf_0.png", "report.html"}
    charts = _state(logged_experiment(client, "study"))["compareRunCharts"]
    assert isinstance(charts, list)
    assert [chart["metricKey"] for chart in charts[-3:]] == [*TIME_CHARTS]


@LONG
def test_lines_over_time_go_with_the_run_that_they_are_of(client: MlflowClient, tmp_path: Path) -> None:
    found, configurations = scenarios(["fifo"], 2), []
    for begin in (0, 8):  # the second time by other code
        store = store_sweep(tmp_path / "results", "study", numbered(found, begin), "full")
        log_stores([store.root])
        configurations.append(_runs(client, CONFIGURATION_TAG)["fifo"].info.run_id)
    first, second = configurations
    assert first != second
    seeds = _runs(client, HASH_TAG).values()
    assert [run.data.tags["mlflow.parentRunId"] for run in seeds] == [second] * len(seeds)
    completed = client.get_metric_history(second, "timeline.completed")
    assert [each.value for each in completed] == [0, 0, 1, 2]


@LONG
def test_several_sweeps_stand_side_by_side_in_one_experiment(client: MlflowClient, tmp_path: Path) -> None:
    one = store_sweep(tmp_path / "one", "one", numbered(scenarios(["fifo"], 2)))
    both = numbered(scenarios(["sjf"], 2), begin=8)
    other = store_sweep(tmp_path / "other", "other", {**numbered(scenarios(["fifo"], 1)), **both})
    assert main(["log", str(one.root), str(other.root), "--experiment", "both"]) == 0
    assert sorted(_runs(client, CONFIGURATION_TAG, "both")) == ["fifo", "sjf"]
    assert len(_runs(client, HASH_TAG, "both")) == 4  # the run that both have counts once
    assert "- fifo has the least mean JCT" in logged_experiment(client, "both").tags[NOTE_TAG]


@LONG
def test_different_runs_under_one_label_have_the_names_of_their_directories(
    client: MlflowClient, tmp_path: Path
) -> None:
    monday = store_sweep(tmp_path / "monday", "study", numbered(scenarios(["fifo"], 2)))
    tuesday = store_sweep(tmp_path / "tuesday", "study", numbered(scenarios(["fifo"], 2), begin=8))
    log_stores([monday.root, tuesday.root], "both")
    found = _runs(client, CONFIGURATION_TAG, "both")
    assert sorted(found) == [f"fifo, from={store.root}" for store in (monday, tuesday)]
    assert {run.data.metrics["seeds"] for run in found.values()} == {2}


def test_several_sweeps_need_the_name_of_an_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "2 sweeps for one experiment; name it with --experiment" in complaint(
        capsys, "log", str(tmp_path / "a"), str(tmp_path / "b")
    )
    with pytest.raises(InvalidInputError, match="not the results of a sweep"):
        log_stores([tmp_path / "a"], "x")
