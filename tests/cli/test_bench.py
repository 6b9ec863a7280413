"""The command bench: what it lists, writes and compares, and what it refuses before it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_sim.cli import bench, main
from tests.command_line import complaint
from tests.conftest import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


def test_bench_lists_its_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--json"]) == 0
    listed = {each["name"] for each in json.loads(capsys.readouterr().out)}
    assert listed == {path.stem for path in BENCHMARKS.glob("*.py") if "def test_" in path.read_text()}
    assert main(["bench", "--list", "replay"]) == 0
    assert "growth" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.long
def test_bench_writes_figures_and_compares_them_with_those_of_before(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_OPTIONS", (*bench._OPTIONS, "--small"))
    code = main(["bench", "replay", "-o", "before.json", "--json"])
    told = json.loads(capsys.readouterr().out)
    missed = [row for row in told["benchmarks"]["replay"]["rows"] if row["result"] == "FAILED"]
    assert code == (1 if missed else 0)
    assert json.loads(Path("before.json").read_text()) == told
    first, second, *_ = told["benchmarks"]["replay"]["rows"]
    assert (first["key"], first["unit"], first["budget"]) == ("fifo.jobs_per_cpu_s", "jobs/s", 200_000)
    first |= {"value": first["value"] * 100}  # jobs per second
    second |= {"key": "another.times_bare"}
    Path("before.json").write_text(json.dumps(told))
    assert main(["bench", "replay", "--against", "before.json"]) == 1
    printed = capsys.readouterr().out
    assert "replay.fifo.jobs_per_cpu_s" in printed.partition("worse by more than the tolerance: ")[2]


def test_bench_refuses_what_it_cannot_use_before_it_measures(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.json").write_text('{"mean": 3}')
    said = complaint(capsys, "bench", "replay", "--against", "odd.json")
    assert "odd.json: cannot be read, or is no report" in said
    assert "expected what `ray-sim bench -o FILE` writes" in said
    assert "none.json: cannot be read" in complaint(capsys, "bench", "replay", "--against", "none.json")
    assert "folder none does not exist" in complaint(capsys, "bench", "replay", "-o", "none/b.json")
    assert "Did you mean 'replay'" in complaint(capsys, "bench", "reply")
