"""`ray-sim arena` from the file to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ray_sim.cli import main
from tests.command_line import answer, complaint

ARENA = {
    "name": "duel",
    "seeds": {"count": 2},
    "world": {"truth": "placement", "slot_s": 600},
    "policies": {
        "drf": {},
        "chunk_fifo": {"world": {"truth": "a_online", "slot_s": 60}},
        "announced_fifo": {"world": {"truth": "announced", "horizon_s": 10_000_000, "clip_statements": True}},
    },
    "places": [
        {
            "name": place,
            "workload": {"synth": {"profile": "philly", "jobs": 10, "load_scale": scale}, "enrich": "common"},
            "cluster": "arena-edge-cloud",
            "changes": changes,
        }
        for place, scale, changes in (("calm", 0.1, None), ("dense", 10.0, "calm"))
    ],
    "knowledge": [{"blind": "drf", "told": "chunk_fifo", "what": "chunk times"}],
}


@pytest.mark.long
@pytest.mark.ray
def test_an_arena_runs_scores_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    Path("duel.yaml").write_text(json.dumps(ARENA))
    content = answer(capsys, "arena", "duel.yaml")
    assert len(content["scores"]) == 12
    for row in content["scores"]:
        assert row["jobs"] == row["completed"] == 10
        assert row["welfare"] <= row["utility"] * (1 + 1e-9)  # the same worth, which ends earlier
    assert "Mean completion time: how many times worse" in Path("results/duel/arena.html").read_text()
    assert main(["arena", "duel.yaml", "--resume"]) == 0
    printed = capsys.readouterr()
    assert "runs                            12 of 12" in printed.out
    assert "calm" in printed.out


def test_the_arena_is_shown_and_a_missing_file_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "--show"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["name"] == "arena"
    assert "nowhere.yaml: cannot be read" in complaint(capsys, "arena", "nowhere.yaml")
