"""Reports of stored results: found by what is in a directory, whole or not at all, damage named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.report import write_report
from ray_sim.experiments.results.result_directories import write_files
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.model.errors import InvalidInputError
from tests.results_by_hand import three_jobs
from tests.stored_by_hand import manifest, store_run, store_sweep


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's directory."""
    return store_run(tmp_path / "run")


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Results of a sweep of two policies done, one failed, one not yet run."""
    return store_sweep(tmp_path / "sweep")


@pytest.mark.slow
def test_a_run_is_reported_with_what_made_it(run: Path, tmp_path: Path) -> None:
    written = write_report(run, tmp_path / "report.html")
    assert (written.kind, written.done) == ("run", 1)
    html = (tmp_path / "report.html").read_text()
    for part in (
        "las(knob=2) on edge",
        "3 jobs of workload traces/week/days",
        "ab" * 32,
        "11" * 32,
        "compiled",
    ):
        assert part in html


def test_a_sweep_is_reported_with_what_failed_and_what_is_missing(sweep: Path, tmp_path: Path) -> None:
    report = write_report(sweep, tmp_path / "report.html")
    [finding] = report.findings.values()
    assert finding.startswith(
        "fifo and sjf have the same, least mean JCT: 25 s (one run). Not tested against fifo: sjf +0 %."
    )
    written = report.to_dict()
    assert written.pop("findings") == {"week/days, edge": finding}
    assert written == {
        "report": str(tmp_path / "report.html"),
        "kind": "sweep",
        "configurations": 4,
        "done": 2,
        "failed": 1,
        "missing": 1,
    }
    html = (tmp_path / "report.html").read_text()
    assert "4 configurations: 2 done, 1 failed, 1 missing" in html
    assert "ZeroDivisionError: no luck" in html
    assert f"runs/{'ab' * 8}" in html


def test_a_sweep_is_compared_by_the_metric_that_is_named(sweep: Path, run: Path, tmp_path: Path) -> None:
    [finding] = write_report(sweep, tmp_path / "report.html", "completed").findings.values()
    assert finding.startswith("fifo and sjf have the same, highest completed: 2 (one run)")
    with pytest.raises(InvalidInputError, match=r"unknown metric 'complete'\. Did you mean 'completed'"):
        write_report(sweep, tmp_path / "report.html", "complete")
    with pytest.raises(InvalidInputError, match="only for the report of a sweep"):
        write_report(run, tmp_path / "report.html", "completed")


@pytest.mark.slow
def test_a_report_depends_on_the_results_and_not_on_where_they_are(sweep: Path, tmp_path: Path) -> None:
    write_report(sweep, tmp_path / "here.html")
    moved = sweep.rename(tmp_path / "elsewhere")
    write_report(moved, tmp_path / "there.html")
    assert (tmp_path / "here.html").read_bytes() == (tmp_path / "there.html").read_bytes()


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_result_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=rf"{name}: not a result of ray-sim"):
        write_report(tmp_path / name, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_an_output_that_cannot_be_is_refused_before_the_results_are_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"the folder .*none does not exist"):
        write_report(tmp_path / "nowhere", tmp_path / "none" / "report.html")
    with pytest.raises(InvalidInputError, match=r"is a folder"):
        write_report(tmp_path / "nowhere", tmp_path)


@pytest.mark.slow
def test_a_failure_leaves_an_older_report_alone(run: Path, tmp_path: Path) -> None:
    write_report(run, tmp_path / "report.html")
    older = (tmp_path / "report.html").read_bytes()
    (run / "jobs.parquet").write_bytes(b"not Parquet")
    with pytest.raises(InvalidInputError, match=r"jobs.parquet: changed since it was written"):
        write_report(run, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == older
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run"]


def test_a_damaged_run_of_a_sweep_is_named(sweep: Path, tmp_path: Path) -> None:
    (sweep / "runs" / ("cd" * 8) / "jobs.parquet").unlink()
    with pytest.raises(InvalidInputError, match=r"cdcd/jobs.parquet: cannot be read"):
        write_report(sweep, tmp_path / "report.html")


def test_a_manifest_without_a_key_of_the_report_is_named(tmp_path: Path) -> None:
    lacking = manifest("ab" * 32, "las")
    lacking["inputs"] = {"workload": {"path": "week.parquet"}, "cluster_sha256": "22" * 32}
    write_files(tmp_path / "run", encode_result(three_jobs(), lacking))
    with pytest.raises(InvalidInputError, match=r"manifest.json: damaged: inputs.cluster: Field required"):
        write_report(tmp_path / "run", tmp_path / "report.html")
