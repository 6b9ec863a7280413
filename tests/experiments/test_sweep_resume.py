"""Sweeps that go on: what is missing, damaged, of other code or no longer in the file."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest
import ray
from pydantic import TypeAdapter

from ray_sim.cli.console import print_sweep
from ray_sim.experiments.compare import compare_results
from ray_sim.experiments.results.result_files import checksummed_json, read_manifest, read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_info import describe_sweep
from ray_sim.experiments.tracking.experiment import HASH_TAG, SWEEP_RUN_TAG
from ray_sim.experiments.tracking.log import log_stores
from ray_sim.model.errors import InvalidInputError
from tests.command_line import process
from tests.sweeps import children, sweep_file

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]


def test_resume_runs_only_what_is_missing(tmp_path: Path) -> None:
    run_sweep(sweep_file(tmp_path, "resume"), tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    fifo, sjf = store.read_plan()[1]
    old = (store.run_directory(fifo.content_hash) / "timing.json").stat().st_mtime_ns
    for file in store.run_directory(sjf.content_hash).iterdir():
        file.unlink()
    done: list[int] = []
    report = run_sweep(
        sweep_file(tmp_path, "resume", policies=["fifo", "sjf", "srtf"]),
        tmp_path / "store",
        resume=True,
        progress=lambda ended, failed, total: done.append(ended),
    )
    assert (report.resumed, report.configurations, report.ok) == (1, 3, True)
    assert done == [1, 2, 3]  # the first before anything runs
    assert (store.run_directory(fifo.content_hash) / "timing.json").stat().st_mtime_ns == old


OTHER_CODE = """
from ray_sim.policies.fifo import Fifo
from tests.command_line import process

class Mine(Fifo):
    name = "mine"
"""


def test_results_of_other_code_are_run_again_and_replaced(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "edited.py").write_text(OTHER_CODE)
    sweep, folder = sweep_file(tmp_path, "edited", policies=["fifo", "edited:Mine"]), tmp_path / "store"
    run_sweep(sweep, folder)
    before = {run.data.tags[HASH_TAG] for run in children("edited")}
    (at_desk / "edited.py").write_text(OTHER_CODE + "    edition = 2\n")
    with pytest.raises(InvalidInputError, match="edited:Mine: its files have changed since this process"):
        run_sweep(sweep, folder, resume=True)
    address = ray.get_runtime_context().gcs_address
    resumed = process("sweep", str(sweep), "-o", str(folder), "--resume", RAY_ADDRESS=address)
    assert "1 results are of other code and run again" in resumed.stderr
    store = ResultStore(folder)
    now = {entry.content_hash for entry in store.read_plan()[1]}
    assert len(now & before) == 1
    assert {path.name for path in (folder / "runs").iterdir()} == {each[:16] for each in now}
    assert {run.data.tags[HASH_TAG] for run in children("edited")} == now  # the older child is gone


def test_results_of_other_versions_are_kept_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = sweep_file(tmp_path, "versions")
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    content = read_manifest(directory)
    older = {**TypeAdapter(dict[str, str]).validate_python(content["versions"]), "scipy": "1.14.0"}
    (directory / "manifest.json").write_bytes(checksummed_json({**content, "versions": older}))
    report = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (report.resumed, report.ok) == (2, True)
    assert report.other_versions == (f"scipy 1.14.0 in 1 of 2, {version('scipy')} now",)
    print_sweep(report)
    assert f"other versions made: scipy 1.14.0 in 1 of 2, {version('scipy')} now" in capsys.readouterr().err
    assert compare_results([str(tmp_path / "store")]).differing_versions == (
        f"scipy: 1.14.0 in 1 runs, {version('scipy')} in 1 runs, {version('scipy')} now",
    )
    told = f"scipy 1.14.0 in 1 of 2, {version('scipy')} now"
    assert describe_sweep(tmp_path / "store").other_versions == (told,)
    assert log_stores([tmp_path / "store"]).other_versions == (told,)


def test_what_the_sweep_no_longer_has_is_said_and_removed_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    las = {"name": "las", "params": {"knob": [0, 2]}}
    run_sweep(sweep_file(tmp_path, "dropped", policies=["fifo", "sjf", las]), tmp_path / "store")
    runs = tmp_path / "store" / "runs"
    (runs / "notes").mkdir()
    smaller = sweep_file(tmp_path, "dropped", policies=["fifo", "sjf"])
    report = run_sweep(smaller, tmp_path / "store", resume=True)
    assert sorted(each.label for each in report.dropped) == [
        "week, small.yaml, las(knob=0)",
        "week, small.yaml, las(knob=2)",
    ]
    assert (report.resumed, len(list(runs.iterdir())), len(children("dropped"))) == (2, 5, 4)
    print_sweep(report)
    said = capsys.readouterr().err
    assert "no longer in the sweep: 2 results, 2 in MLflow; remove them with --prune" in said
    assert "  week, small.yaml, las(knob=2): 1\n" in said
    pruned = run_sweep(smaller, tmp_path / "store", resume=True, prune=True)
    assert (pruned.resumed, pruned.to_dict()["dropped_in_mlflow"]) == (2, 2)
    assert len(list(runs.iterdir())) == 3  # with what is not ours
    assert len(children("dropped")) == 2
    assert run_sweep(smaller, tmp_path / "store", resume=True).dropped == ()
    (sweep_run,) = {run.data.tags[SWEEP_RUN_TAG] for run in children("dropped")}
    from mlflow import MlflowClient  # takes seconds

    table = MlflowClient().download_artifacts(sweep_run, "comparison.csv", str(tmp_path))
    assert pl.read_csv(table)["policy"].to_list() == ["fifo", "sjf"]


def test_a_sweep_refuses_to_replace_a_result_with_a_users_file_in_it(tmp_path: Path) -> None:
    run_sweep(sweep_file(tmp_path, "notes", policies=["fifo", "sjf"]), tmp_path / "store")
    (tmp_path / "store" / "README").write_text("mine")  # beside the results it disturbs nothing
    store = ResultStore(tmp_path / "store")
    fifo, sjf = (store.run_directory(entry.content_hash) for entry in store.read_plan()[1])
    (sjf / "notes.md").write_text("mine")
    plan = (tmp_path / "store" / "sweep.json").read_bytes()
    with pytest.raises(InvalidInputError, match=r"notes\.md: is no file of a result"):
        run_sweep(sweep_file(tmp_path, "notes", policies=["fifo", "sjf", "las"]), tmp_path / "store")
    dropping = sweep_file(tmp_path, "notes", policies=["fifo"])
    with pytest.raises(InvalidInputError, match=r"notes\.md: is no file of a result"):
        run_sweep(dropping, tmp_path / "store", resume=True, prune=True)
    assert (tmp_path / "store" / "sweep.json").read_bytes() == plan
    assert (sjf / "notes.md").read_text() == (tmp_path / "store" / "README").read_text() == "mine"
    whole = sweep_file(tmp_path, "notes", policies=["fifo", "sjf"])
    assert run_sweep(whole, tmp_path / "store", resume=True).resumed == 2  # nothing is replaced
    assert read_result(fifo).summary.completed > 0


def test_an_interrupted_sweep_keeps_what_is_done_and_resumes(tmp_path: Path) -> None:
    def interrupt(ended: int, failed: int, total: int) -> None:
        if ended:
            raise KeyboardInterrupt

    sweep = sweep_file(tmp_path, "interrupt", policies=["fifo", "sjf", "srtf", "las"])
    cut = run_sweep(sweep, tmp_path / "store", max_in_flight=1, progress=interrupt)
    assert (cut.missing, cut.ok, cut.table.height) == (3, False, 1)
    whole = run_sweep(sweep, tmp_path / "store", resume=True)
    assert (whole.resumed, whole.missing, whole.ok, whole.table.height) == (1, 0, True, 4)


def test_results_that_were_damaged_are_found_on_resume_and_run_again(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, "damaged", policies=["fifo", "sjf", "srtf", "las"])
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
    assert len(children("damaged")) == 4


def test_damaged_results_are_overwritten_without_resume_too(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, "overwrite", policies=["fifo"])
    run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    directory = store.run_directory(store.read_plan()[1][0].content_hash)
    (directory / "manifest.json").write_text("{")
    assert run_sweep(sweep, tmp_path / "store").ok
    assert read_result(directory).summary.completed > 0
