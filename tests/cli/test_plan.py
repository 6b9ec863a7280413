"""The command plan: its refusals; plans themselves are tested in tests/experiments/capacity/test_plan.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import WEEK, answer, complaint

PLAN = ["plan", *WEEK]
GOAL = ["--goal", "mean_jct_s<7200"]
VARY = ["--vary", "gpu.count=1:3"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*GOAL], "Missing option '--vary'"),
        ([*VARY], "Missing option '--goal'"),
        (["--goal", "mean_jc_s<9", *VARY], "Did you mean 'mean_jct_s'?"),
        (["--goal", "soon", *VARY], "--goal soon: expected METRIC<NUMBER"),
        ([*GOAL, "--vary", "gpu.count=3:1"], "--vary gpu.count=3:1: expected FROM:TO with whole numbers"),
        ([*GOAL, "--vary", "gpu.count=x"], "--vary gpu.count=x: expected FROM:TO with whole numbers"),
        ([*GOAL, "--vary", "gpu.count=0:0"], "--vary: leaves no server; let a range reach above 0"),
        ([*GOAL, "--vary", "gpu.speed=1:2"], "--vary gpu.speed: expected NAME.count=FROM:TO"),
        ([*GOAL, "--vary", "policy=fifo,fifo"], "--vary policy=fifo,fifo: expected different names"),
        ([*GOAL, "--vary", "policy=fifo,none"], "unknown policy 'none'"),
        ([*GOAL, "--vary", "cpu.count=1:3"], "found 0 of this name; entries: gpu, or servers.count"),
        ([*GOAL, *VARY, "--price", "gpu=free"], "--price gpu=free: expected a number above 0"),
        ([*GOAL, *VARY, "--price", "cpu=1"], "--price cpu: expected an entry of the cluster: gpu"),
        ([*GOAL, *VARY, "--vary", "servers.count=1:3"], "servers.count and gpu.count are the same entry"),
        ([*GOAL, *GOAL, *VARY], "--goal: a plan has one goal, got 2: mean_jct_s<7200, mean_jct_s<7200"),
        ([*GOAL, "--vary", "gpu.count=1:999999"], "--vary: 999,999 mixes; at most 100,000, shorten a range"),
    ],
)
def test_wrong_options_are_refused_with_what_was_expected(
    options: list[str], said: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(capsys, *PLAN, *options)
    assert not (desk / "results").exists()


def test_a_directory_of_something_else_is_refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "mine").mkdir()
    (desk / "mine" / "letter.txt").write_text("dear")
    told = complaint(capsys, *PLAN, *GOAL, *VARY, "-o", "mine")
    assert "not the results of a sweep: it holds letter.txt" in told


def test_an_impossible_goal_is_answered_without_runs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, *PLAN, "--goal", "mean_jct_s<1", *VARY, code=1)
    assert told["least"] is None
    assert told["complete"]
    assert told["policies"][0]["points"] == []
