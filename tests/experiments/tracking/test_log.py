"""Sweeps in a real MLflow store: runs, parameters, metrics and files, nothing twice."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.tracking.experiment import HASH_TAG, SWEEP_RUN_TAG
from ray_sim.experiments.tracking.log import log_run, log_stores, log_sweep
from ray_sim.experiments.tracking.records import MAX_CHART_POINTS, MAX_TIMELINE_POINTS
from ray_sim.experiments.tracking.views import TIME_CHARTS
from ray_sim.model.errors import InvalidInputError, RunFailedError
from tests.sweeps import RESAMPLED, children, run_here, sweep_file

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]


@pytest.fixture(scope="module")
def two_runs(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of FIFO and SJF, stored as a sweep does."""
    folder = tmp_path_factory.mktemp("two")
    with chdir(desk):
        return run_here(read_sweep(sweep_file(folder, "two")), folder / "store").root


@pytest.fixture
def store(two_runs: Path, tmp_path: Path) -> ResultStore:
    """A copy of these results."""
    return ResultStore(Path(shutil.copytree(two_runs, tmp_path / "store")))


def test_damaged_results_are_left_out_of_the_log_and_said(store: ResultStore) -> None:
    log_stores([store.root], "torn")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    (directory / "jobs.parquet").write_bytes(b"PAR1")
    logged = log_stores([store.root], "torn")
    assert (logged.created, logged.present, len(logged.damaged)) == (0, 1, 1)
    assert str(directory / "jobs.parquet") in logged.damaged[0]
    with pytest.raises(InvalidInputError, match=r"jobs\.parquet: changed since it was written"):
        log_run(directory)


def test_a_run_whose_logging_was_cut_off_is_logged_anew_and_once(store: ResultStore) -> None:
    log_stores([store.root], "cut")
    client = MlflowClient()
    cut, whole = children("cut")
    client.update_run(cut.info.run_id, status="RUNNING")  # as a driver killed inside of log_run leaves it
    client.delete_tag(cut.info.run_id, "mlflow.runName")
    logged = log_stores([store.root], "cut")
    assert (logged.created, logged.present) == (1, 1)
    by_hash = {run.data.tags[HASH_TAG]: run for run in children("cut")}
    assert len(children("cut")) == len(by_hash) == 2
    again = by_hash[cut.data.tags[HASH_TAG]]
    assert again.info.status == "FINISHED"
    assert again.data.metrics == cut.data.metrics
    assert again.data.tags[SWEEP_RUN_TAG] == whole.data.tags[SWEEP_RUN_TAG]


def test_what_failed_first_and_finished_later_is_logged_as_finished(store: ResultStore) -> None:
    _, entries = store.read_plan()
    failed = [ConfigurationOutcome(entries[0], "no luck"), ConfigurationOutcome(entries[1])]
    log_sweep("second-try", store, entries, failed)
    assert sorted(run.info.status for run in children("second-try")) == ["FAILED", "FINISHED"]
    told: list[tuple[int, int]] = []
    log_stores([store.root], "second-try", lambda done, total, _: told.append((done, total)))
    assert told == [(0, 2), (1, 2)]
    assert [run.info.status for run in children("second-try")] == ["FINISHED", "FINISHED"]


def test_a_run_in_mlflow_holds_parameters_metrics_and_files(tmp_path: Path) -> None:
    policy = {"name": "las", "params": {"knob": 2}}
    run_sweep(
        sweep_file(tmp_path, "fields", workloads=[RESAMPLED], policies=[policy], seeds=[4]),
        tmp_path / "store",
    )
    (run,) = children("fields")
    store = ResultStore(tmp_path / "store")
    (entry,) = store.read_plan()[1]
    result = read_result(store.run_directory(entry.content_hash))
    assert run.data.params["policy"] == "las"
    assert run.data.params["parameters.knob"] == "2"
    assert run.data.params["workload"] == "week/days"
    assert run.data.params["seed"] == "4"
    assert run.data.params["hash"] == entry.content_hash
    final = {key: value for key, value in run.data.metrics.items() if not key.startswith("timeline.")}
    assert final == result.summary.flat()
    assert result.summary.certificate is not None
    assert run.data.tags["ray_sim.bound"] == result.summary.certificate.binding_text
    client = MlflowClient()
    series = [key for key in run.data.metrics if key.startswith("timeline.")]
    points = sum(len(client.get_metric_history(run.info.run_id, key)) for key in series)
    assert 0 < points <= MAX_TIMELINE_POINTS + len(TIME_CHARTS) * MAX_CHART_POINTS
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"jobs.parquet", "events.parquet", "timeline.parquet", "summary.json", "jct_cdf.png"} <= files


def test_a_sweep_logged_as_numbers_has_no_timelines_and_files_now_or_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    report = run_sweep(
        sweep_file(tmp_path, "numbers", log="numbers"), tmp_path / "store", announce=told.append
    )
    assert [text for text in told if re.fullmatch(r"logging to MLflow: [0-2] of 2 runs", text)]
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'later.db'}")
        assert log_stores([tmp_path / "store"]).created == 2
        later = children("numbers", MlflowClient(tracking_uri=os.environ["MLFLOW_TRACKING_URI"]))
    for run in [*children("numbers"), *later]:
        directory = Path(run.data.tags["ray_sim.directory"])
        assert run.data.metrics == read_result(directory).summary.flat()
        assert run.data.params["hash"].startswith(directory.name)
    client = MlflowClient()
    runs = children("numbers")
    assert [client.list_artifacts(run.info.run_id) for run in runs] == [[], []]
    (sweep_run,) = {run.data.tags[SWEEP_RUN_TAG] for run in runs}
    assert [file.path for file in client.list_artifacts(sweep_run)] == ["comparison.csv"]
    assert report.ok


def test_a_single_result_is_logged_by_its_directory(store: ResultStore) -> None:
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    assert log_run(directory).created + log_run(directory).created == 1


def test_results_are_kept_when_mlflow_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'file' / 'no.db'}")
    report = run_sweep(sweep_file(tmp_path, "deaf"), tmp_path / "store")
    assert not report.ok
    assert report.tracking_error is not None
    assert "ray-sim log" in report.tracking_error
    assert report.table.height == 2
    store = ResultStore(tmp_path / "store")
    with pytest.raises(RunFailedError, match="MLflow store"):
        log_sweep("deaf", store, [], [])
