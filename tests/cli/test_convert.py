"""The command convert: rows kept, rejected and outside the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import answer, complaint


def test_convert_counts_rows_by_reason(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,5,1,-3\nc,6,2,20\n")
    report = answer(capsys, "convert", "csv", "jobs.csv", "-o", "out.parquet")
    assert (report["read"], report["kept"]) == (3, 2)
    assert sum(report["rejected"].values()) == 1
    assert main(["convert", "csv", "jobs.csv", "-o", "out.parquet"]) == 0
    assert "rows kept" in capsys.readouterr().out


def test_convert_counts_what_is_outside_the_window(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,5,1,3\nc,6,2,20\n")
    report = answer(capsys, "convert", "csv", "jobs.csv", "-o", "out.parquet", "--window", "5", "6")
    assert (report["read"], report["kept"], report["outside_window"]) == (3, 1, 2)
    assert main(["convert", "csv", "jobs.csv", "-o", "out.parquet", "--window", "5", "6"]) == 0
    assert "rows outside the window" in capsys.readouterr().out
    assert "window: FROM" in complaint(
        capsys, "convert", "csv", "jobs.csv", "-o", "o.parquet", "--window", "6", "5"
    )


def test_convert_says_what_became_of_a_trace(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "a,45292.5,1,10\nb,45293.25,1,-3\nc,45293.5,2,20\n"
    Path("jobs.csv").write_text(f"job_id,submit_s,num_gpus,duration_s\n{rows}")
    command = ["convert", "csv", "jobs.csv", "-o", "out.parquet", "--html", "page.html"]
    assert main([*command, "--rebase"]) == 0
    printed = capsys.readouterr()
    assert "warning: submit_s looks like days of Excel for 2 of 2 jobs, such as job 'a'" in printed.err
    assert "rebased_by_s                   45292.5\n" in printed.out
    assert "page                           page.html\n" in printed.out
    page = Path("page.html").read_text()
    for text in ("days of Excel", "negative_duration_s", "line or record 3 of jobs.csv", "b,45293.25,1,-3"):
        assert text in page
    assert "submit_s looks like days of Excel" in str(answer(capsys, *command)["warnings"])
    Path("mine.html").write_text("mine")
    assert "mine.html" in complaint(capsys, *command[:-1], "mine.html")
