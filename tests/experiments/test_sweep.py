"""Sweeps on a real Ray cluster, logged to a real MLflow store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from ray_sim.experiments.content import Inputs
from ray_sim.experiments.fanout import fan_out
from ray_sim.experiments.result_files import read_result
from ray_sim.experiments.run import run_scenario, simulate
from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.tracking import HASH_TAG, MAX_TIMELINE_POINTS, log_run, log_sweep
from ray_sim.model.errors import InvalidInputError, RunFailedError

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]

RESAMPLED = {"path": "week.parquet", "resample": "days"}


def _file(directory: Path, name: str, **changes: object) -> Path:
    content = {"workloads": ["week.parquet"], "clusters": ["small.yaml"], "policies": ["fifo", "sjf"]}
    path = directory / "sweep.yaml"
    path.write_text(yaml.safe_dump({"name": name, **content, **changes}, sort_keys=False))
    return path


def _children(experiment: str) -> list[Run]:
    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    return [run for run in client.search_runs([found.experiment_id]) if HASH_TAG in run.data.tags]


def test_a_sweep_gives_what_single_runs_give(tmp_path: Path) -> None:
    report = run_sweep(_file(tmp_path, "alike", seeds=[0, 1]), tmp_path / "store")
    assert report.ok
    assert report.configurations == 2  # nothing draws, so the second seed adds nothing
    store = ResultStore(tmp_path / "store")
    for entry in store.read_plan()[1]:
        stored = read_result(store.run_directory(entry.content_hash))
        assert stored.jobs.equals(simulate("week.parquet", "small.yaml", entry.policy).jobs)
    assert report.table["policy"].to_list() == ["fifo", "sjf"]


def test_a_resampled_workload_gives_one_run_per_seed_and_the_table_their_mean(tmp_path: Path) -> None:
    sweep = _file(tmp_path, "seeds", workloads=[RESAMPLED], policies=["fifo"], seeds={"count": 3})
    report = run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    rows = store.rows(store.read_plan()[1])
    means = [row.summary.jct_s.mean or 0.0 for row in rows]
    assert len(set(means)) > 1
    assert report.table["seeds"].to_list() == [3]
    assert report.table["jct_s.mean"].to_list() == [pytest.approx(sum(means) / 3, rel=1e-12)]


def test_realised_and_trimmed_runs_of_a_sweep_are_those_of_single_scenarios(tmp_path: Path) -> None:
    workload = {**RESAMPLED, "window": [[0, 200_000]], "load_scale": [1, 2]}
    sweep = _file(tmp_path, "realised", workloads=[workload], trim={"warm_up_s": 3600}, seeds=[3])
    assert run_sweep(sweep, tmp_path / "store").ok
    store = ResultStore(tmp_path / "store")
    for configuration in read_sweep(sweep, Inputs()).configurations:
        alone = run_scenario(configuration.content.scenario)
        stored = read_result(store.run_directory(configuration.entry.content_hash))
        assert stored.summary == alone.result.summary
        assert stored.summary.trimmed_jobs
    params = [run.data.params for run in _children("realised")]
    assert {each["trim.warm_up_s"] for each in params} == {"3600.0"}
    assert {each["workload"] for each in params} == {"week/0-200000s/days", "week/0-200000s/days/x2.0"}


def test_one_failing_configuration_is_reported_and_takes_no_other_with_it(tmp_path: Path) -> None:
    sweep = _file(tmp_path, "broken", policies=["fifo", "mine:Broken", "sjf"])
    report = run_sweep(sweep, tmp_path / "store")
    assert not report.ok
    assert [failure.entry.policy for failure in report.failures] == ["mine:Broken"]
    assert "ZeroDivisionError: no luck" in (report.failures[0].error or "")
    assert "mine.py, line" in (report.failures[0].error or "")
    assert report.table["policy"].to_list() == ["fifo", "sjf"]
    statuses = {run.info.run_name: run.info.status for run in _children("broken")}
    assert statuses == {"fifo": "FINISHED", "sjf": "FINISHED", "mine:Broken": "FAILED"}


def test_results_come_back_from_workers_that_do_not_see_the_store(tmp_path: Path) -> None:
    inputs = Inputs()
    sweep = read_sweep(_file(tmp_path, "far"), inputs)
    store = ResultStore(tmp_path / "store")  # no sweep holds it, so no worker takes it for its own
    (tmp_path / "store" / "runs").mkdir(parents=True)
    ended = list(fan_out(sweep.configurations, inputs, store))
    assert [outcome.error for outcome in ended] == [None, None]
    assert all(store.has(outcome.entry.content_hash) for outcome in ended)


def test_an_address_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"--address 10\.0\.0\.1: must be local, auto or ray://"):
        run_sweep(_file(tmp_path, "lost"), tmp_path / "store", address="10.0.0.1")
    assert not (tmp_path / "store").exists()


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "resume"), tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    fifo, sjf = store.read_plan()[1]
    old = (store.run_directory(fifo.content_hash) / "timing.json").stat().st_mtime_ns
    for file in store.run_directory(sjf.content_hash).iterdir():
        file.unlink()
    done: list[int] = []
    report = run_sweep(
        _file(tmp_path, "resume", policies=["fifo", "sjf", "srtf"]),
        tmp_path / "store",
        resume=True,
        progress=lambda ended, failed, total: done.append(ended),
    )
    assert (report.resumed, report.configurations, report.ok) == (1, 3, True)
    assert done == [2, 3]
    assert (store.run_directory(fifo.content_hash) / "timing.json").stat().st_mtime_ns == old


def test_an_interrupted_sweep_keeps_what_is_done_and_resumes(tmp_path: Path) -> None:
    def interrupt(ended: int, failed: int, total: int) -> None:
        raise KeyboardInterrupt

    sweep = _file(tmp_path, "interrupt", policies=["fifo", "sjf", "srtf", "las"])
    cut = run_sweep(sweep, tmp_path / "store", max_in_flight=1, progress=interrupt)
    assert (cut.missing, cut.ok, cut.table.height) == (3, False, 1)
    whole = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (whole.resumed, whole.missing, whole.ok, whole.table.height) == (1, 0, True, 4)


def test_logging_again_creates_nothing_twice(tmp_path: Path) -> None:
    first = run_sweep(_file(tmp_path, "twice"), tmp_path / "store")
    assert first.logged is not None
    assert (first.logged.created, first.logged.present) == (2, 0)
    store = ResultStore(tmp_path / "store")
    name, entries = store.read_plan()
    again = log_sweep(name, store, entries, store.outcomes(entries))
    assert (again.created, again.present) == (0, 2)
    assert len(_children("twice")) == 2


def test_a_run_in_mlflow_holds_parameters_metrics_and_files(tmp_path: Path) -> None:
    policy = {"name": "las", "params": {"knob": 2}}
    run_sweep(
        _file(tmp_path, "fields", workloads=[RESAMPLED], policies=[policy], seeds=[4]), tmp_path / "store"
    )
    (run,) = _children("fields")
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
    client = MlflowClient()
    series = [key for key in run.data.metrics if key.startswith("timeline.")]
    points = sum(len(client.get_metric_history(run.info.run_id, key)) for key in series)
    assert 0 < points <= MAX_TIMELINE_POINTS
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"jobs.parquet", "events.parquet", "timeline.parquet", "summary.json", "jct_cdf.png"} <= files


def test_the_sweep_in_mlflow_is_the_parent_with_the_comparison(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "parent"), tmp_path / "store")
    children = _children("parent")
    (parent,) = {run.data.tags["mlflow.parentRunId"] for run in children}
    client = MlflowClient()
    assert client.get_run(parent).info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(parent)} == {"comparison.csv", "jct_cdf_0.png"}


def test_a_single_result_is_logged_by_its_directory(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "single", policies=["fifo"]), tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    assert log_run(directory).created + log_run(directory).created == 1


def test_results_are_kept_when_mlflow_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'file' / 'no.db'}")
    report = run_sweep(_file(tmp_path, "deaf"), tmp_path / "store")
    assert not report.ok
    assert report.tracking_error is not None
    assert "ray-sim log" in report.tracking_error
    assert report.table.height == 2
    store = ResultStore(tmp_path / "store")
    with pytest.raises(RunFailedError, match="MLflow store"):
        log_sweep("deaf", store, [], [])


def test_a_problem_of_the_file_leaves_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        run_sweep(_file(tmp_path, "bad", policies=["fofi"]), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_report_is_json(tmp_path: Path) -> None:
    report = run_sweep(_file(tmp_path, "json", policies=["mine:Broken"]), tmp_path / "store")
    content = json.loads(json.dumps(report.to_dict()))
    assert content["failures"][0]["policy"] == asdict(report.failures[0].entry)["policy"]


KILLER = '''
"""Kills the sweep that runs it, as a power cut would, while `driver.pid` is there."""

import os
import signal
from pathlib import Path

from ray_sim.policies.fifo import Fifo


class Killer(Fifo):
    name = "killer"

    def order(self, world):
        driver = Path("driver.pid")
        if driver.exists():
            os.kill(int(driver.read_text()), signal.SIGKILL)
        return super().order(world)
'''

DRIVER = """
import os, sys
from pathlib import Path
from ray_sim.cli import main
Path("driver.pid").write_text(str(os.getpid()))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_sweep_killed_in_its_middle_loses_nothing_that_was_done(tmp_path: Path, at_desk: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    for name in ("week.parquet", "small.yaml"):
        (tmp_path / name).write_bytes((at_desk / name).read_bytes())
    sweep = _file(tmp_path, "killed", policies=["fifo", "killer:Killer", "sjf"])
    command = ["sweep", str(sweep), "-o", "store", "--json", "--max-in-flight", "1"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
        ),
    }
    killed = subprocess.run(
        [sys.executable, "-c", DRIVER, *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / "driver.pid").unlink()
    resumed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from ray_sim.cli import main; sys.exit(main(sys.argv[1:]))",
            *command,
            "--resume",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    report = json.loads(resumed.stdout)
    assert report["resumed"] >= 1  # a worker may outlive its driver long enough to finish
    assert (report["configurations"], report["missing"], report["failures"]) == (3, 0, [])
    assert len(_children("killed")) == 3
