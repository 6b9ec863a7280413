"""Configurations in MLflow: means over seeds on top, seeds beneath, a prepared page, nothing twice."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from ray_sim.cli import main
from ray_sim.experiments.results.result_files import read_summary
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.tracking.experiment import HASH_TAG, SWEEP_TAG
from ray_sim.experiments.tracking.log import log_run, log_stores, log_sweep
from ray_sim.experiments.tracking.views import (
    CONFIGURATION_TAG,
    INTERVAL_ENDS,
    VIEW_TAG,
    configurations,
    view_state,
)
from tests.sweeps import logged_experiment, logged_runs, prepared_page, run_here

pytestmark = pytest.mark.slow

Finished = tuple[ResultStore, list[Entry]]
LAS = "las(knob=2)"
PARENT_TAG = "mlflow.parentRunId"


@pytest.fixture(scope="module")
def finished(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """FIFO and LAS over three seeds, in the order of the sweep."""
    content = {
        "name": "study",
        "workloads": [{"path": str(desk / "week.parquet"), "resample": "days"}],
        "clusters": [str(desk / "small.yaml")],
        "policies": ["fifo", {"name": "las", "params": {"knob": 2}}],
        "seeds": {"count": 3},
        "log": "numbers",
    }
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    store = run_here(read_sweep(folder / "study.yaml"), folder / "results")
    return store, store.read_plan()[1]


def _runs(client: MlflowClient) -> list[Run]:
    return logged_runs(client, "study")


def _tree(client: MlflowClient) -> dict[str, list[str]]:
    """Names of the runs by the names of those above them."""
    runs = _runs(client)
    names = {run.info.run_id: str(run.info.run_name) for run in runs}
    tree: dict[str, list[str]] = {}
    for run in runs:
        above = run.data.tags.get(PARENT_TAG)
        tree.setdefault("" if above is None else names[above], []).append(str(run.info.run_name))
    return {above: sorted(below) for above, below in sorted(tree.items())}


WHOLE = {
    "": ["fifo", LAS, "study"],
    "fifo": ["fifo seed 0", "fifo seed 1", "fifo seed 2"],
    LAS: ["las seed 0", "las seed 1", "las seed 2"],
}


def _view(client: MlflowClient) -> dict[str, object]:
    return prepared_page(logged_experiment(client, "study").tags[VIEW_TAG])


def test_configurations_stand_on_top_with_means_over_their_seeds(
    finished: Finished, client: MlflowClient
) -> None:
    store, entries = finished
    logged = log_stores([store.root])
    assert (logged.created, logged.present) == (6, 0)
    assert _tree(client) == WHOLE
    (las,) = [run for run in _runs(client) if run.info.run_name == LAS]
    values = [row.summary.jct_s.mean or 0.0 for row in store.rows(entries[3:])]
    metrics = las.data.metrics
    assert metrics["seeds"] == 3
    assert metrics["jct_s.mean"] == pytest.approx(sum(values) / 3, rel=1e-12)
    assert "jct_s.mean.ci95_low" not in metrics  # three seeds are too few for an interval
    assert (las.info.status, las.data.params["parameters.knob"]) == ("FINISHED", "2")
    assert {"seed", "hash"}.isdisjoint(las.data.params)


def test_the_prepared_page_shows_the_configurations_best_first_with_five_charts(
    finished: Finished, client: MlflowClient
) -> None:
    log_stores([finished[0].root])
    view = _view(client)
    experiment = logged_experiment(client, "study")
    direction = "ASC" if view["orderByAsc"] else "DESC"
    shown = client.search_runs(
        [experiment.experiment_id], str(view["searchFilter"]), order_by=[f"{view['orderByKey']} {direction}"]
    )
    assert sorted(str(run.info.run_name) for run in shown) == ["fifo", LAS]
    means = [run.data.metrics["jct_s.mean"] for run in shown]
    assert means == sorted(means)
    charts = view["compareRunCharts"]
    assert isinstance(charts, list)
    metrics = [chart["metricKey"] for chart in charts]
    assert metrics == ["jct_s.mean", "jct_s.p99", "queue_s.mean", "utilisation.gpu", "certificate.gap"]
    assert set(metrics) <= set(shown[0].data.metrics)


def test_a_run_by_itself_is_on_the_prepared_page(finished: Finished, client: MlflowClient) -> None:
    store, entries = finished
    log_run(store.run_directory(entries[0].content_hash))
    experiment = logged_experiment(client, "ray_sim")
    view = prepared_page(experiment.tags[VIEW_TAG])
    shown = client.search_runs([experiment.experiment_id], str(view["searchFilter"]))
    assert [run.info.run_name for run in shown] == ["fifo seed 0"]


def test_where_utility_is_earned_its_chart_comes_first_and_more_is_better() -> None:
    view = prepared_page(view_state(["makespan_s", "jct_s.mean", "utility"]))
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`utility`", False)
    charts = view["compareRunCharts"]
    assert isinstance(charts, list)
    assert [chart["metricKey"] for chart in charts] == ["utility", "jct_s.mean", "makespan_s"]


def test_the_chart_of_welfare_comes_before_those_of_completion_times() -> None:
    view = prepared_page(view_state(["jct_s.mean", "welfare.welfare"]))
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`welfare.welfare`", False)


def test_logging_again_changes_nothing_and_gives_the_address_of_the_page(
    finished: Finished, client: MlflowClient, capsys: pytest.CaptureFixture[str]
) -> None:
    log_stores([finished[0].root])
    before = {run.info.run_id: run.to_dictionary() for run in _runs(client)}
    assert main(["log", str(finished[0].root), "--json"]) == 0
    assert {run.info.run_id: run.to_dictionary() for run in _runs(client)} == before
    experiment = logged_experiment(client, "study")
    assert experiment.experiment_id != "1"
    page = f"#/experiments/{experiment.experiment_id}/runs?viewStateShareKey={VIEW_TAG.rpartition('.')[2]}"
    told = json.loads(capsys.readouterr().out)
    assert (told["created"], told["present"]) == (0, 6)
    assert page in told["charts"]


@pytest.mark.parametrize("logged", [0, 1, 3, 4, 6])
def test_logging_that_was_cut_off_goes_on_and_doubles_nothing(
    finished: Finished, client: MlflowClient, logged: int
) -> None:
    store, entries = finished

    def cut_off() -> Iterator[ConfigurationOutcome]:
        yield from map(ConfigurationOutcome, entries[:logged])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log_sweep("study", store, entries, cut_off(), "numbers")
    again = log_stores([store.root])
    assert (again.created, again.present) == (6 - logged, logged)
    assert _tree(client) == WHOLE
    assert {run.info.status for run in _runs(client)} == {"FINISHED"}
    assert sum(SWEEP_TAG in run.data.tags for run in _runs(client)) == 1


def test_means_that_were_cut_off_before_they_were_whole_are_given_again(
    finished: Finished, client: MlflowClient
) -> None:
    store, _ = finished
    log_stores([store.root])
    (las,) = [run for run in _runs(client) if run.info.run_name == LAS]
    client.update_run(las.info.run_id, status="RUNNING")
    client.delete_tag(las.info.run_id, "ray_sim.members")
    log_stores([store.root])
    again = client.get_run(las.info.run_id)
    assert (again.info.status, again.data.metrics) == ("FINISHED", las.data.metrics)
    assert _tree(client) == WHOLE


def test_a_sweep_that_gets_more_seeds_has_other_means_and_its_single_runs_beneath(
    finished: Finished, client: MlflowClient
) -> None:
    store, entries = finished
    first = [entries[0], entries[3]]
    log_sweep("study", store, first, map(ConfigurationOutcome, first), "numbers")
    assert _tree(client) == {"": ["fifo", LAS, "study"]}  # single runs are configurations by themselves
    two = [*entries[:2], *entries[3:5]]
    log_sweep("study", store, two, map(ConfigurationOutcome, two), "numbers")
    means = [
        run.data.metrics["jct_s.mean"]
        for run in _runs(client)
        if run.info.run_name == LAS and HASH_TAG not in run.data.tags
    ]
    log_stores([store.root])
    tops = [run for run in _runs(client) if CONFIGURATION_TAG in run.data.tags]
    assert len(tops) == 2
    assert all(HASH_TAG not in run.data.tags for run in tops)
    assert sum(HASH_TAG in run.data.tags and PARENT_TAG in run.data.tags for run in _runs(client)) == 6
    (las,) = [run for run in tops if run.info.run_name == LAS]
    assert las.data.metrics["seeds"] == 3
    assert [las.data.metrics["jct_s.mean"]] != means


def test_what_a_sweep_drops_goes_with_its_configuration(finished: Finished, client: MlflowClient) -> None:
    store, entries = finished
    log_stores([store.root])
    fifo = entries[:3]
    assert log_sweep("study", store, fifo, map(ConfigurationOutcome, fifo), "numbers").dropped == 3
    assert _tree(client) == WHOLE
    assert (
        log_sweep("study", store, fifo, map(ConfigurationOutcome, fifo), "numbers", prune=True).dropped == 3
    )
    assert _tree(client) == {"": ["fifo", "study"], "fifo": WHOLE["fifo"]}


def test_a_configuration_with_a_failed_seed_has_the_means_of_the_others(
    finished: Finished, client: MlflowClient
) -> None:
    store, entries = finished
    outcomes = [ConfigurationOutcome(entries[0], "no luck"), *map(ConfigurationOutcome, entries[1:])]
    log_sweep("study", store, entries, outcomes, "numbers")
    found = {
        run.info.run_name: (run.info.status, run.data.metrics["seeds"])
        for run in _runs(client)
        if CONFIGURATION_TAG in run.data.tags
    }
    assert found == {"fifo": ("FAILED", 2), LAS: ("FINISHED", 3)}


def test_a_damaged_result_changes_no_means_that_are_logged(
    finished: Finished, client: MlflowClient, tmp_path: Path
) -> None:
    store, entries = finished
    copy = ResultStore(Path(shutil.copytree(store.root, tmp_path / "copy")))
    log_stores([copy.root])
    before = {run.info.run_id: run.data.metrics for run in _runs(client)}
    path = copy.run_directory(entries[0].content_hash) / "jobs.parquet"
    path.write_bytes(path.read_bytes()[:-3])
    logged = log_stores([copy.root])
    assert len(logged.damaged) == 1
    assert {run.info.run_id: run.data.metrics for run in _runs(client)} == before


def test_a_configuration_that_is_left_with_one_seed_has_no_interval_any_more(
    finished: Finished, client: MlflowClient
) -> None:
    store, entries = finished
    log_sweep("study", store, entries, map(ConfigurationOutcome, entries), "numbers")
    fifo = entries[0]
    assert fifo.policy == "fifo"
    (run,) = (run for run in _runs(client) if run.info.run_name == "fifo")
    for end in INTERVAL_ENDS:  # as of an earlier version, which gave intervals over three seeds
        client.log_metric(run.info.run_id, f"jct_s.mean{end}", 1.0)
    log_sweep("study", store, entries, [ConfigurationOutcome(fifo)], "numbers")
    run = client.get_run(run.info.run_id)
    alone = _mean_jct_s(store, fifo)
    assert (run.data.metrics["seeds"], run.data.metrics["jct_s.mean"]) == (1, alone)
    assert math.isnan(run.data.metrics["jct_s.mean.ci95_low"])
    assert math.isnan(run.data.metrics["jct_s.mean.ci95_high"])


def _mean_jct_s(store: ResultStore, entry: Entry) -> float:
    """Mean JCT of a stored run."""
    return float(read_summary(store.run_directory(entry.content_hash)).flat()["jct_s.mean"])


def test_names_have_what_varies_in_the_sweep() -> None:
    entries = [
        Entry(f"{policy}{cluster}{seed}", "week", cluster, setting, policy, seed, f"{policy}{cluster}{seed}")
        for cluster, setting in (("pool", ""), ("pool", "slot_s=60"), ("edge", ""))
        for policy in ("fifo", LAS)
        for seed in (0, 1)
    ]
    assert [each.name for each in configurations(entries)] == [
        "fifo, pool",
        "las(knob=2), pool",
        "fifo, pool, slot_s=60",
        "las(knob=2), pool, slot_s=60",
        "fifo, edge",
        "las(knob=2), edge",
    ]
    assert [len(each.entries) for each in configurations(entries)] == [2] * 6
    assert [each.name for each in configurations(entries[:4])] == ["fifo", LAS]
    assert configurations([]) == []
