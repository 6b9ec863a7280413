"""Progress of a stored sweep: counts, and the best configuration so far."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_info import LiveNote, Standings, describe_sweep
from tests.sweeps import RESAMPLED, sweep_file

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]


def test_a_sweep_is_described_while_runs_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = ["fifo", "srtf", "mine:Broken"]
    sweep = sweep_file(tmp_path, "half", workloads=[RESAMPLED], policies=policies, seeds={"count": 2})
    report = run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    entries = store.read_plan()[1]
    info = describe_sweep(tmp_path / "store")
    assert (info.runs, info.done, info.failed) == (6, 4, 2)
    assert info.policies == ("fifo", "srtf", "mine:Broken")
    assert info.seeds == (0, 1)
    (best,) = info.best
    means = dict(report.table.select("policy", "jct_s.mean").rows())
    assert means["srtf"] < means["fifo"]
    assert (best.policy, best.runs, best.seeds) == ("srtf", 2, 2)
    assert best.mean_jct_s == pytest.approx(means["srtf"], rel=1e-12)
    assert best.interval is not None
    assert main(["info", str(tmp_path / "store")]) == 0
    assert "4 of 6" in capsys.readouterr().out

    seconds = [0.0]
    note = LiveNote(Standings(store, entries), lambda: seconds[0])
    lost = [entry for entry in entries if entry.policy == "srtf"]
    kept = tmp_path / "kept"
    for entry in lost:
        shutil.move(store.run_directory(entry.content_hash), kept / entry.content_hash)
    assert note.text(2).startswith("(2 failed) least mean JCT: fifo: ")
    for entry in lost:
        shutil.move(kept / entry.content_hash, store.run_directory(entry.content_hash))
    assert "fifo" in note.text(2)  # results are read every five seconds
    seconds[0] = 5.0
    assert note.text(0).startswith("least mean JCT: srtf: ")

    note = LiveNote(Standings(store, entries), lambda: 0.0)
    for entry in lost:
        shutil.move(store.run_directory(entry.content_hash), kept / entry.content_hash)
    note.text(0)
    for entry in lost:
        shutil.move(kept / entry.content_hash, store.run_directory(entry.content_hash))
    assert "fifo" in note.text(0)
    assert "srtf" in note.text(0, last=True)  # what stays on the screen is of all results
