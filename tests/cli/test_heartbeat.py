"""Lines on a command's work where its output is piped."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import heartbeat as beats
from ray_sim.cli import main
from ray_sim.cli.heartbeat import Heartbeat, beating, heartbeat
from tests.patience import until


def test_a_beat_says_what_the_work_is_and_since_when() -> None:
    now, lines = [0.0], list[str]()
    beat = Heartbeat("ray-sim sweep", lines.append, lambda: now[0])
    now[0] = 8
    beat.beat()
    beat.announce("starting Ray")
    with beat.step("sweep") as report:
        now[0] = 16
        beat.beat()  # Ray is not there yet: no report
        report(0, 4)
        now[0] = 24
        beat.beat()
        report(4, 4)
    now[0] = 3632
    beat.beat()
    assert lines == [
        "ray-sim sweep (0:00:08 so far)",
        "starting Ray",
        "starting Ray (0:00:16 so far)",
        "sweep: 0 of 4 (0:00:24 so far)",
        "sweep: 4 of 4",
        "ray-sim sweep (1:00:32 so far)",
    ]


def test_a_step_that_ends_before_a_beat_prints_nothing() -> None:
    lines: list[str] = []
    with Heartbeat("ray-sim run", lines.append).step("las") as report:
        report(1, 2)
        report(2, 2)
    assert lines == []


def test_the_end_of_a_step_does_not_repeat_what_was_announced() -> None:
    lines: list[str] = []
    beat = Heartbeat("ray-sim sweep", lines.append, lambda: 0.0)
    with beat.step("sweep") as report:
        report(4, 4)
        beat.beat()
        beat.announce("logging")
    assert lines == ["sweep: 4 of 4 (0:00:00 so far)", "logging"]


def test_beats_come_until_the_block_ends_also_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "LINE_INTERVAL_S", 0.001)
    lines: list[str] = []
    with beating("ray-sim report", lines.append):
        until(lambda: len(lines) > 2, "three beats")
        heartbeat(lines.append).announce("drawing")
        until(lambda: "drawing (0:00:00 so far)" in lines, "a beat with the new text")
    assert lines[0] == "ray-sim report (0:00:00 so far)"
    ended = len(lines)
    heartbeat(lines.append).announce("another")
    assert lines[ended:] == ["another"]


@pytest.mark.parametrize(("options", "said"), [([], True), (["--json"], False)])
def test_a_command_beats_in_a_pipe_and_with_json_prints_its_document_alone(
    options: list[str],
    said: bool,
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(beats, "LINE_INTERVAL_S", 0.0001)
    run = ["run", "--workload", "week.parquet", "--cluster", "small.yaml", "--policy", "las", "-o", "las"]
    assert main([*run, *options]) == 0
    assert ("ray-sim run (0:00:00 so far)" in capsys.readouterr().err.splitlines()) == said
