"""Sweeps on a real Ray cluster, logged to a real MLflow store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest
import ray
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run
from pydantic import TypeAdapter

from ray_sim.cli.console import print_sweep
from ray_sim.experiments.compare import compare_results
from ray_sim.experiments.fanout import fan_out
from ray_sim.experiments.mlflow_records import MAX_TIMELINE_POINTS
from ray_sim.experiments.result_files import read_manifest, read_result, sealed_json
from ray_sim.experiments.run import run_scenario, simulate
from ray_sim.experiments.run_identity import Inputs
from ray_sim.experiments.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.tracking import (
    HASH_TAG,
    SWEEP_RUN_TAG,
    log_run,
    log_store,
    log_sweep,
)
from ray_sim.model.errors import InvalidInputError, RunFailedError

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]

RESAMPLED = {"path": "week.parquet", "resample": "days"}


def _file(directory: Path, name: str, **changes: object) -> Path:
    content = {"workloads": ["week.parquet"], "clusters": ["small.yaml"], "policies": ["fifo", "sjf"]}
    path = directory / "sweep.yaml"
    path.write_text(yaml.safe_dump({"name": name, **content, **changes}, sort_keys=False))
    return path


def _children(experiment: str, client: MlflowClient | None = None) -> list[Run]:
    client = client or MlflowClient()
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
    like = {"synth": {"like": "week.parquet", "jobs": 30, "arrivals": "alternating"}}
    sweep = _file(tmp_path, "realised", workloads=[workload, like], trim={"warm_up_s": 3600}, seeds=[3])
    assert run_sweep(sweep, tmp_path / "store").ok
    store = ResultStore(tmp_path / "store")
    for configuration in read_sweep(sweep, Inputs()).configurations:
        alone = run_scenario(configuration.identity.scenario)
        stored = read_result(store.run_directory(configuration.entry.content_hash))
        assert stored.summary == alone.result.summary
        assert stored.summary.trimmed_jobs
    params = [run.data.params for run in _children("realised")]
    assert {each["trim.warm_up_s"] for each in params} == {"3600.0"}
    assert {each["workload"] for each in params} == {
        "week/0-200000s/days",
        "week/0-200000s/days/x2.0",
        "synth:like-week:30:alternating",
    }


SERVERS = """
name: servers
servers:
  - {name: c5n, count: 30, gpus: 8, cpus: 72, memory_gib: 192, disk_gib: 500}
"""


def test_a_sweep_draws_whole_jobs_anew_for_each_seed(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "servers.yaml").write_text(SERVERS)
    drawn = {"profile": "pd_ors", "jobs": [5, 10], "horizon_s": 36_000, "feasible_only": True}
    sweep = _file(
        tmp_path,
        "drawn",
        workloads=[{"synth": drawn}],
        clusters=["servers.yaml"],
        policies=["fifo", "pd_ors"],
        world={"truth": "pd_ors", "slot_s": 3600, "horizon_s": 36_000},
        seeds=[0, 1],
    )
    report = run_sweep(sweep, tmp_path / "store")
    assert report.ok
    assert report.table["seeds"].to_list() == [2] * 4
    assert report.table["workload"].unique().sort().to_list() == [
        "synth:pd_ors:10:within-36000s:feasible",
        "synth:pd_ors:5:within-36000s:feasible",
    ]
    store = ResultStore(tmp_path / "store")
    summaries = [row.summary for row in store.rows(store.read_plan()[1])]
    assert sorted(summary.jobs for summary in summaries) == [5] * 4 + [10] * 4
    for summary in summaries:
        assert summary.utility_certificate is not None
        assert 0 <= (summary.utility or 0.0) <= summary.utility_certificate.bound
    bounds = {summary.utility_certificate.bound for summary in summaries if summary.utility_certificate}
    assert len(bounds) == 4  # of two sizes and two seeds, whatever the policy


def test_a_profile_without_workers_is_refused_before_anything_runs(tmp_path: Path) -> None:
    drawn = {"profile": "harmony_types", "jobs": 5, "horizon_s": 36_000}
    sweep = _file(tmp_path, "refused", workloads=[{"synth": drawn}])
    with pytest.raises(
        InvalidInputError, match=r"workloads\[0\]: training profile harmony_types: .*num_workers"
    ):
        run_sweep(sweep, tmp_path / "store")


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


def test_a_process_that_dies_is_tried_again_and_the_reason_is_kept(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "died").unlink(missing_ok=True)
    report = run_sweep(_file(tmp_path, "mortal", policies=["mine:DeadlyOnce", "fifo"]), tmp_path / "store")
    assert report.ok
    (retried,) = report.retried
    assert retried.entry.policy == "mine:DeadlyOnce"
    assert [reason.split(":")[0] for reason in retried.lost] == ["WorkerCrashedError"]
    tags = {run.info.run_name: run.data.tags.get("ray_sim.lost_attempts") for run in _children("mortal")}
    assert tags == {"fifo": None, "mine:DeadlyOnce": retried.lost[0]}
    assert json.loads(json.dumps(report.to_dict()))["retried"][0]["lost_attempts"] == list(retried.lost)


def test_what_always_kills_its_process_fails_after_three_attempts_and_the_others_finish(
    tmp_path: Path,
) -> None:
    sweep = _file(tmp_path, "deadly", policies=["mine:Deadly", "fifo", "mine:Leaving", "sjf"])
    report = run_sweep(sweep, tmp_path / "store")
    errors = {failure.entry.policy: failure.error or "" for failure in report.failures}
    assert "its process died in each of 3 attempts" in errors["mine:Deadly"]
    assert "SystemExit: 3" in errors["mine:Leaving"]
    assert [len(outcome.lost) for outcome in report.retried] == [3]
    assert report.table["policy"].to_list() == ["fifo", "sjf"]


def test_a_lost_task_costs_only_the_run_that_was_under_way(tmp_path: Path, at_desk: Path) -> None:
    # A run takes milliseconds, so a task has many; of 60 runs one kills it, and is made once more. The policy
    # starts once before, when the sweep is checked.
    (at_desk / "diary").unlink(missing_ok=True)
    sweep = _file(tmp_path, "midway", policies=["mine:DeadlyMidway"], seeds={"count": 60}, log="numbers")
    report = run_sweep(sweep, tmp_path / "store")
    assert (report.ok, report.table["seeds"].to_list()) == (True, [60])
    (retried,) = report.retried
    assert len(retried.lost) == 1
    assert len((at_desk / "diary").read_text().splitlines()) == 1 + 60 + 1


def test_a_lost_task_is_made_up_for_where_its_worker_saw_no_store(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "diary").unlink(missing_ok=True)
    file = _file(tmp_path, "far-midway", policies=["mine:DeadlyMidway"], seeds={"count": 60})
    sweep = read_sweep(file)
    store = ResultStore(tmp_path / "store")  # no sweep holds it
    (tmp_path / "store" / "runs").mkdir(parents=True)
    ended = list(fan_out(sweep.configurations, sweep.inputs, store))
    assert len(ended) == 60
    assert [outcome.error for outcome in ended if outcome.error] == []
    assert [len(outcome.lost) for outcome in ended if outcome.lost] == [1]
    assert all(store.has(outcome.entry.content_hash) for outcome in ended)


def test_configurations_on_the_same_jobs_come_together_and_are_the_single_runs(tmp_path: Path) -> None:
    # Seeds vary fastest in the file; two policies on the jobs of one seed are run one after the other.
    sweep = read_sweep(_file(tmp_path, "together", workloads=[RESAMPLED], seeds={"count": 12}))
    store = ResultStore(tmp_path / "store")
    with store.writing("together"):
        running = fan_out(sweep.configurations, sweep.inputs, store, max_in_flight=1)
        ended = [outcome.entry.seed for outcome in running]
    assert [each.entry.seed for each in sweep.configurations] == [*range(12), *range(12)]
    assert ended == [seed for seed in range(12) for _policy in ("fifo", "sjf")]
    for configuration in sweep.configurations[::5]:
        stored = read_result(store.run_directory(configuration.entry.content_hash))
        assert stored.jobs.equals(run_scenario(configuration.identity.scenario).result.jobs)


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
    assert done == [1, 2, 3]  # the first before anything runs
    assert (store.run_directory(fifo.content_hash) / "timing.json").stat().st_mtime_ns == old


OTHER_CODE = """
from ray_sim.policies.fifo import Fifo

class Mine(Fifo):
    name = "mine"
"""


def test_results_of_other_code_are_run_again_and_replaced(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "edited.py").write_text(OTHER_CODE)
    sweep, folder = _file(tmp_path, "edited", policies=["fifo", "edited:Mine"]), tmp_path / "store"
    run_sweep(sweep, folder)
    before = {run.data.tags[HASH_TAG] for run in _children("edited")}
    (at_desk / "edited.py").write_text(OTHER_CODE + "    edition = 2\n")
    with pytest.raises(InvalidInputError, match="edited:Mine: its files have changed since this process"):
        run_sweep(sweep, folder, resume=True)
    resumed = subprocess.run(
        [sys.executable, "-m", "ray_sim.cli", "sweep", str(sweep), "-o", str(folder), "--resume"],
        env={**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 results are of other code and run again" in resumed.stderr
    store = ResultStore(folder)
    now = {entry.content_hash for entry in store.read_plan()[1]}
    assert len(now & before) == 1
    assert {path.name for path in (folder / "runs").iterdir()} == {each[:16] for each in now}
    assert {run.data.tags[HASH_TAG] for run in _children("edited")} == now  # the older child is gone


def test_results_of_other_versions_are_kept_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = _file(tmp_path, "versions")
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    content = read_manifest(directory)
    older = {**TypeAdapter(dict[str, str]).validate_python(content["versions"]), "scipy": "1.14.0"}
    (directory / "manifest.json").write_bytes(sealed_json({**content, "versions": older}))
    report = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (report.resumed, report.ok) == (2, True)
    assert report.other_versions == (f"scipy 1.14.0 in 1 of 2, {version('scipy')} now",)
    print_sweep(report)
    assert f"other versions made: scipy 1.14.0 in 1 of 2, {version('scipy')} now" in capsys.readouterr().err
    assert compare_results([str(tmp_path / "store")]).differing_versions == (
        f"scipy: 1.14.0 in 1 runs, {version('scipy')} in 1 runs",
    )


def test_what_the_sweep_no_longer_has_is_said_and_removed_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    las = {"name": "las", "params": {"knob": [0, 2]}}
    run_sweep(_file(tmp_path, "dropped", policies=["fifo", "sjf", las]), tmp_path / "store")
    runs = tmp_path / "store" / "runs"
    (runs / "notes").mkdir()
    smaller = _file(tmp_path, "dropped", policies=["fifo", "sjf"])
    report = run_sweep(smaller, tmp_path / "store", resume=True)
    assert sorted(each.label for each in report.dropped) == [
        "week, small.yaml, las(knob=0)",
        "week, small.yaml, las(knob=2)",
    ]
    assert (report.resumed, len(list(runs.iterdir())), len(_children("dropped"))) == (2, 5, 4)
    print_sweep(report)
    said = capsys.readouterr().err
    assert "no longer in the sweep: 2 results, 2 in MLflow; remove them with --prune" in said
    assert "  week, small.yaml, las(knob=2): 1\n" in said
    pruned = run_sweep(smaller, tmp_path / "store", resume=True, prune=True)
    assert (pruned.resumed, pruned.to_dict()["dropped_in_mlflow"]) == (2, 2)
    assert len(list(runs.iterdir())) == 3  # with what is not ours
    assert len(_children("dropped")) == 2
    assert run_sweep(smaller, tmp_path / "store", resume=True).dropped == ()
    (sweep_run,) = {run.data.tags[SWEEP_RUN_TAG] for run in _children("dropped")}
    table = MlflowClient().download_artifacts(sweep_run, "comparison.csv", str(tmp_path))
    assert pl.read_csv(table)["policy"].to_list() == ["fifo", "sjf"]


def test_a_sweep_refuses_to_replace_a_result_with_a_users_file_in_it(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "notes", policies=["fifo", "sjf"]), tmp_path / "store")
    (tmp_path / "store" / "README").write_text("mine")  # beside the results it disturbs nothing
    store = ResultStore(tmp_path / "store")
    fifo, sjf = (store.run_directory(entry.content_hash) for entry in store.read_plan()[1])
    (sjf / "notes.md").write_text("mine")
    plan = (tmp_path / "store" / "sweep.json").read_bytes()
    with pytest.raises(InvalidInputError, match=r"notes\.md: is no file of a result"):
        run_sweep(_file(tmp_path, "notes", policies=["fifo", "sjf", "las"]), tmp_path / "store")
    dropping = _file(tmp_path, "notes", policies=["fifo"])
    with pytest.raises(InvalidInputError, match=r"notes\.md: is no file of a result"):
        run_sweep(dropping, tmp_path / "store", resume=True, prune=True)
    assert (tmp_path / "store" / "sweep.json").read_bytes() == plan
    assert (sjf / "notes.md").read_text() == (tmp_path / "store" / "README").read_text() == "mine"
    whole = _file(tmp_path, "notes", policies=["fifo", "sjf"])
    assert run_sweep(whole, tmp_path / "store", resume=True).resumed == 2  # nothing is replaced
    assert read_result(fifo).summary.completed > 0


def test_an_interrupted_sweep_keeps_what_is_done_and_resumes(tmp_path: Path) -> None:
    def interrupt(ended: int, failed: int, total: int) -> None:
        if ended:
            raise KeyboardInterrupt

    sweep = _file(tmp_path, "interrupt", policies=["fifo", "sjf", "srtf", "las"])
    cut = run_sweep(sweep, tmp_path / "store", max_in_flight=1, progress=interrupt)
    assert (cut.missing, cut.ok, cut.table.height) == (3, False, 1)
    whole = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (whole.resumed, whole.missing, whole.ok, whole.table.height) == (1, 0, True, 4)


def test_results_that_were_damaged_are_found_on_resume_and_run_again(tmp_path: Path) -> None:
    sweep = _file(tmp_path, "damaged", policies=["fifo", "sjf", "srtf", "las"])
    whole = run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    fifo, sjf, srtf, las = (store.run_directory(entry.content_hash) for entry in store.read_plan()[1])
    (fifo / "jobs.parquet").write_bytes((fifo / "jobs.parquet").read_bytes()[:100])
    (sjf / "summary.json").write_text("{}")
    (srtf / "manifest.json").write_text("{")
    resumed = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (resumed.resumed, len(resumed.damaged), resumed.ok) == (1, 3, True)
    for file, problem in zip(
        (fifo / "jobs.parquet", sjf / "summary.json", srtf), resumed.damaged, strict=True
    ):
        assert str(file) in problem
    assert resumed.table.equals(whole.table)
    assert read_result(las).summary.completed > 0
    assert len(_children("damaged")) == 4


def test_damaged_results_are_overwritten_without_resume_too(tmp_path: Path) -> None:
    sweep = _file(tmp_path, "overwrite", policies=["fifo"])
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    (directory / "manifest.json").write_text("{")
    assert run_sweep(sweep, tmp_path / "store").ok
    assert read_result(directory).summary.completed > 0


def test_damaged_results_are_left_out_of_the_log_and_said(tmp_path: Path) -> None:
    sweep = _file(tmp_path, "torn")
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    (directory / "jobs.parquet").write_bytes(b"PAR1")
    logged = log_store(tmp_path / "store")
    assert (logged.created, logged.present, len(logged.damaged)) == (0, 1, 1)
    assert str(directory / "jobs.parquet") in logged.damaged[0]
    with pytest.raises(InvalidInputError, match=r"jobs\.parquet: changed since it was written"):
        log_run(directory)


def test_a_run_whose_logging_was_cut_off_is_logged_anew_and_once(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "cut"), tmp_path / "store")
    client = MlflowClient()
    cut, whole = _children("cut")
    client.update_run(cut.info.run_id, status="RUNNING")  # as a driver killed inside of log_run leaves it
    client.delete_tag(cut.info.run_id, "mlflow.runName")
    logged = log_store(tmp_path / "store")
    assert (logged.created, logged.present) == (1, 1)
    children = {run.data.tags[HASH_TAG]: run for run in _children("cut")}
    assert len(_children("cut")) == len(children) == 2
    again = children[cut.data.tags[HASH_TAG]]
    assert again.info.status == "FINISHED"
    assert again.data.metrics == cut.data.metrics
    assert again.data.tags[SWEEP_RUN_TAG] == whole.data.tags[SWEEP_RUN_TAG]


def test_what_failed_first_and_finished_later_is_logged_as_finished(tmp_path: Path, at_desk: Path) -> None:
    sweep = _file(tmp_path, "second-try", policies=["fifo", "sjf"])
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    name, entries = store.read_plan()
    failed = [ConfigurationOutcome(entries[0], "no luck"), ConfigurationOutcome(entries[1])]
    log_sweep(name, store, entries, failed)
    assert sorted(run.info.status for run in _children("second-try")) == ["FAILED", "FINISHED"]
    log_store(tmp_path / "store")
    assert [run.info.status for run in _children("second-try")] == ["FINISHED", "FINISHED"]


def test_logging_again_creates_nothing_twice(tmp_path: Path) -> None:
    first = run_sweep(_file(tmp_path, "twice"), tmp_path / "store")
    assert first.logged is not None
    assert (first.logged.created, first.logged.present) == (2, 0)
    again = log_store(tmp_path / "store")
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


def test_a_sweep_logged_as_numbers_has_no_timelines_and_files_now_or_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = run_sweep(_file(tmp_path, "numbers", log="numbers"), tmp_path / "store")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'later.db'}")
        assert log_store(tmp_path / "store").created == 2
        later = _children("numbers", MlflowClient(tracking_uri=os.environ["MLFLOW_TRACKING_URI"]))
    for run in [*_children("numbers"), *later]:
        directory = Path(run.data.tags["ray_sim.directory"])
        assert run.data.metrics == read_result(directory).summary.flat()
        assert run.data.params["hash"].startswith(directory.name)
    client = MlflowClient()
    runs = _children("numbers")
    assert [client.list_artifacts(run.info.run_id) for run in runs] == [[], []]
    (sweep_run,) = {run.data.tags[SWEEP_RUN_TAG] for run in runs}
    assert [file.path for file in client.list_artifacts(sweep_run)] == ["comparison.csv"]
    assert report.ok


def test_the_run_of_the_sweep_in_mlflow_has_the_comparison(tmp_path: Path) -> None:
    run_sweep(_file(tmp_path, "parent"), tmp_path / "store")
    children = _children("parent")
    (sweep_run,) = {run.data.tags[SWEEP_RUN_TAG] for run in children}
    client = MlflowClient()
    assert client.get_run(sweep_run).info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(sweep_run)} == {"comparison.csv", "jct_cdf_0.png"}


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
