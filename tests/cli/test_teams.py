"""`ray-sim teams` shows what a run tells of each team."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import answer
from workloads.store import write_workload
from workloads.synthetic.synth import synth

CLUSTER = """name: two-teams
servers: [{name: s, count: 8, gpus: 8, cpus: 64, memory_gib: 512}]
"""
TEAMS = 'teams: {"*": {quota: {gpu: 32}, slo_wait_s: 3600}}\n'


def test_a_run_is_shown_by_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_workload(*synth("philly", 30, 1), Path("w.parquet"))
    for name, content in (("with", CLUSTER + TEAMS), ("without", CLUSTER)):
        Path(f"{name}.yaml").write_text(content)
        for policy, out in (("fifo", name), ("sjf", f"{name}-sjf")):
            options = ["--workload", "w.parquet", "--cluster", f"{name}.yaml", "--policy", policy, "-o", out]
            assert main(["run", *options]) == 0
    capsys.readouterr()
    [row] = answer(capsys, "teams", "with")["with"]
    assert (row["team"], row["jobs"], row["completed"]) == ("*", 30, 30)
    assert main(["teams", "with"]) == 0
    assert "held, GPU-h" in capsys.readouterr().out
    for command in (["teams", "without"], ["compare", "without", "without-sjf", "--by", "team"]):
        assert main(command) == 2
        assert "its cluster has no teams" in capsys.readouterr().err
    report = answer(capsys, "compare", "with", "with-sjf", "--by", "team", "--baseline", "fifo")
    [breakdown] = report["groups"][0]["breakdowns"]
    assert [(each["label"], each["jobs"]) for each in breakdown["classes"]] == [("*", 30)]
