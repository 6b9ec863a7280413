"""A result with any changed byte is refused by whoever reads that file, and named."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.compare import compare_results
from ray_sim.experiments.report import write_report
from ray_sim.experiments.results.result_directories import write_files
from ray_sim.experiments.results.result_files import check_result, encode_result, json_bytes, read_summary
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.tracking.experiment import DIRECTORY_TAG, HASH_TAG
from ray_sim.experiments.tracking.log import log_run
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from tests.command_line import answer, complaint
from tests.proofs import instances
from tests.results_by_hand import three_jobs
from tests.stored_by_hand import manifest, store_run, store_sweep

READ_BY_INFO = {
    "manifest.json",
    "summary.json",
    "jobs.parquet",
    "events.parquet",
    "timeline.parquet",
    "timing.json",
}
READ_BY_REPORT = READ_BY_INFO - {"timing.json"}
READ_BY_COMPARE = {"manifest.json", "summary.json", "jobs.parquet"}  # of two runs, job by job
COMPARED_OF_A_SWEEP = {"sweep.json", "failures.json", "manifest.json", "summary.json", "jobs.parquet"}
SHOWN_OF_A_SWEEP = COMPARED_OF_A_SWEEP | {"timeline.parquet", "events.parquet"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run, beside that of another."""
    write_files(tmp_path / "other", encode_result(three_jobs(30.0), manifest("cd" * 32, "sjf")))
    return store_run(tmp_path / "run")


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of a sweep of two policies done, one failed, one not yet run."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)  # a fixture of the session may have set it
    return store_sweep(tmp_path / "sweep")


def _damages(sound: bytes, name: str, flips: int) -> Iterator[bytes]:
    """Single bits turned round, and what is left of a file that is cut off or emptied."""
    draw = Streams(0).generator(name)
    for bit in draw.choice(8 * len(sound), size=min(flips, 8 * len(sound)), replace=False):
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)
    for length in (0, *draw.integers(len(sound), size=10)):
        yield sound[:length]


def _refused(read: Callable[[], object], *names: str) -> bool:
    """Whether a reader refuses what it reads, in a message that has one of the names."""
    try:
        read()
    except InvalidInputError as error:
        problem = str(error)
    else:
        return False
    assert any(name in problem for name in names), problem
    return True


def _readers_of_a_run(run: Path, tmp_path: Path) -> dict[str, tuple[Callable[[], object], set[str]]]:
    page = tmp_path / "report.html"
    return {
        "info, log, --resume": (lambda: check_result(run), READ_BY_INFO),
        "report": (lambda: write_report(run, page), READ_BY_REPORT),
        "compare": (
            lambda: compare_results([str(run), str(run.with_name("other"))]).to_dict(),
            READ_BY_COMPARE,
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(READ_BY_INFO))
def test_no_changed_byte_of_a_run_is_believed(run: Path, tmp_path: Path, name: str) -> None:
    readers = _readers_of_a_run(run, tmp_path)
    sound = (run / name).read_bytes()
    for index, damaged in enumerate(_damages(sound, name, flips=instances(300))):
        (run / name).write_bytes(damaged)
        assert _refused(lambda: check_result(run), str(run / name), f"run: not a result of ray-sim: {name}")
        if index % 150 == 0:  # these take tens of milliseconds
            for read, names in readers.values():
                assert _refused(read, str(run / name), name) == (name in names)


def _outcomes(store: ResultStore) -> list[ConfigurationOutcome]:
    return store.outcomes(store.read_plan()[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sweep.json", "failures.json", *(f"runs/{'ab' * 8}/{name}" for name in sorted(READ_BY_INFO))]
)
def test_no_changed_byte_of_a_sweep_is_believed(sweep: Path, name: str) -> None:
    file = sweep / name
    sound = file.read_bytes()
    readers = (
        (partial(compare_results, [str(sweep)]), COMPARED_OF_A_SWEEP),
        (partial(write_report, sweep, sweep.with_name("report.html")), SHOWN_OF_A_SWEEP),
    )
    for index, damaged in enumerate(_damages(sound, name, flips=instances(100))):
        file.write_bytes(damaged)
        store = ResultStore(sweep)
        if file.parent == sweep:
            assert _refused(partial(_outcomes, store), file.name)
        else:
            _, entries = store.read_plan()
            (found,) = store.damaged(entries)  # which --resume runs again, and log leaves out
            assert str(file.parent) in (found.error or "")
        if index % 100 == 0:
            for read, names in readers:
                assert _refused(read, file.name) == (file.name in names)
    file.write_bytes(sound)
    assert compare_results([str(sweep)]).runs == 2


def test_the_commands_name_the_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "manifest.json").write_bytes((run / "manifest.json").read_bytes().replace(b'"las"', b'"lax"'))
    for command in (["info", str(run)], ["log", str(run)], ["diff", str(run), str(run)]):
        assert f"{run}/manifest.json: changed since it was written" in complaint(capsys, *command)
    with pytest.raises(InvalidInputError, match=r"manifest.json: changed"):
        log_run(run)


@pytest.mark.parametrize("name", ["manifest.json", "summary.json"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    for read in (lambda: check_result(run), lambda: read_summary(run), lambda: log_run(run)):
        assert _refused(read, f"{run / name}: not a file")


def test_a_pipe_in_place_of_the_lock_of_a_store_is_refused(sweep: Path) -> None:
    (sweep / ".lock").unlink()
    os.mkfifo(sweep / ".lock")
    with pytest.raises(InvalidInputError, match=r"\.lock: not a file"), ResultStore(sweep).writing("demo"):
        pass


def test_a_folder_in_place_of_the_database_of_mlflow_is_named(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweep / "mlflow.db").mkdir()
    assert f"mlflow.db: {sweep}/mlflow.db is not a file; the results are kept" in complaint(
        capsys, "log", str(sweep), code=1
    )


@pytest.mark.slow
def test_results_that_were_swapped_are_named(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = sorted((sweep / "runs").iterdir())
    one.rename(sweep / "aside")
    other.rename(one)
    (sweep / "aside").rename(other)
    assert main(["log", str(sweep)]) == 1
    errors = capsys.readouterr().err
    for directory, found in ((one, other), (other, one)):
        assert f"{directory}: holds the result of another run, {found.name}" in errors
    _one_is_named_by_every_reader(sweep, f"holds the result of another run, {other.name}", capsys)


def _one_is_named_by_every_reader(sweep: Path, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = min((sweep / "runs").iterdir())
    for command in (["info"], ["compare"], ["report", "-o", str(sweep.with_name("page.html"))]):
        assert main([command[0], str(sweep), *command[1:]]) == 1
        told = capsys.readouterr().err
        assert f"error: {one}: {fault}" in told
        assert "; run it again with ray-sim sweep --resume" in told


def test_a_result_that_was_emptied_is_named(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in min((sweep / "runs").iterdir()).iterdir():
        file.unlink()
    _one_is_named_by_every_reader(sweep, "holds no result files", capsys)


def test_a_link_that_leads_nowhere_is_no_missing_result(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = min((sweep / "runs").iterdir())
    files = {file.name: file.read_bytes() for file in one.iterdir()}
    content_hash = str(json.loads(files["manifest.json"])["content_hash"])
    shutil.rmtree(one)
    one.symlink_to("gone")
    _one_is_named_by_every_reader(sweep, "is a link that leads nowhere", capsys)
    ResultStore(sweep).put(content_hash, files)  # as --resume does
    assert ResultStore(sweep).has(content_hash)
    assert not one.is_symlink()


@pytest.mark.slow
def test_a_copied_sweep_is_logged_where_it_is_now(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(sweep)]) == 0
    copy = sweep.with_name("copy").resolve()
    shutil.copytree(sweep, copy)
    shutil.rmtree(sweep)
    pages = [copy.with_name("before.html"), copy.with_name("after.html")]
    assert main(["report", str(copy), "-o", str(pages[0])]) == 0
    capsys.readouterr()
    told = answer(capsys, "log", str(copy))
    assert told["moved_from"] == (sweep / "mlartifacts").as_uri()
    assert (told["created"], told["present"]) == (0, 3)
    from mlflow import MlflowClient  # takes seconds

    client = MlflowClient(tracking_uri=f"sqlite:///{copy}/mlflow.db")
    experiment = client.get_experiment_by_name("demo")
    assert experiment is not None
    runs = [run for run in client.search_runs([experiment.experiment_id]) if HASH_TAG in run.data.tags]
    assert len(runs) == 3
    finished = [run for run in runs if run.info.status == "FINISHED"]
    for run in finished:
        listed = client.list_artifacts(run.info.run_id)
        assert "summary.json" in {file.path for file in listed}
        assert run.data.tags[DIRECTORY_TAG].startswith(str(copy))
    assert answer(capsys, "log", str(copy))["moved_from"] is None
    assert main(["report", str(copy), "-o", str(pages[1])]) == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()


@pytest.mark.slow
def test_a_database_that_cannot_be_written_is_told_in_a_line(
    sweep: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", str(sweep)]) == 0
    with closing(sqlite3.connect(sweep / "mlflow.db")) as database:
        database.execute("DELETE FROM tags")
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        database.commit()
    capfd.readouterr()
    assert main(["log", str(sweep)]) == 1
    told = capfd.readouterr().err
    problem = f"MLflow store sqlite:///{sweep}/mlflow.db: (sqlite3.IntegrityError) disk full"
    assert told == f"error: {problem}; the results are kept, log them later with `ray-sim log`\n"


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"format": 2, "errors": []}', "[" * 100_000])
def test_failures_that_are_no_list_of_ours_are_named(sweep: Path, text: str) -> None:
    (sweep / "failures.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"failures.json|store format unknown"):
        write_report(sweep, sweep.with_name("report.html"))


def test_a_manifest_with_another_meaning_and_the_old_seal_is_refused(run: Path) -> None:
    content = json.loads((run / "manifest.json").read_text())
    for key, value in (("seed", 1), ("policy", "\ud800"), ("seed", float("nan")), ("seed", 10**5000)):
        text = json.dumps({**content, key: value}) if value != 10**5000 else '{"seed": 1' + "0" * 5000 + "}"
        (run / "manifest.json").write_text(text)
        assert _refused(lambda: check_result(run), "manifest.json")


def test_a_seal_is_of_the_bytes_and_not_of_their_meaning(run: Path) -> None:
    content = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(content))  # the same, written in one line
    assert _refused(lambda: check_result(run), "manifest.json: changed since")
    (run / "manifest.json").write_bytes(json_bytes(content))
    check_result(run)
