"""The command convert: rows kept, rejected and outside the window."""

from __future__ import annotations

from pathlib import Path

import polars as pl
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


@pytest.mark.slow
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


GUESSED = "name,submitted,minutes,gpus\na,26.10.2023 08:05,10,1\nb,27.10.2023 08:05,20,2\n"


def test_guess_proposes_a_mapping_that_convert_takes(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text(GUESSED)
    told = answer(capsys, "convert", "--guess", "jobs.csv", "--time-zone", "Europe/Berlin")
    assert (told["preset"], told["doubts"], told["missing"]) == (None, [], [])
    assert told["workload"]["duration_s"]["max"] == 20 * 60
    assert not Path("W.parquet").exists()
    assert main(str(told["command"]).split()[1:]) == 0
    # 08:05 in Berlin's summer is 06:05 UTC
    assert pl.read_parquet("W.parquet")["submit_s"][0] == 1_698_300_300


@pytest.mark.slow
def test_guess_writes_all_rows_only_without_a_doubt(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text(GUESSED)
    told = complaint(capsys, "convert", "--guess", "jobs.csv", "-o", "w.parquet")
    assert "w.parquet is not written before the doubts are settled in jobs.csv.map.yaml" in told
    assert not Path("w.parquet").exists()
    assert "# DOUBT: dates have no offset from UTC" in Path("jobs.csv.map.yaml").read_text()
    assert main(["convert", "--guess", "jobs.csv", "--time-zone", "UTC", "-o", "w.parquet"]) == 0
    assert "by the name, such as 10; 2 of 2 rows" in capsys.readouterr().out
    assert pl.read_parquet("w.parquet").height == 2


def test_guess_keeps_an_edited_mapping_and_names_what_is_missing(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text("job,created,colour\na,2024-01-01T00:00:00Z,red\n")
    told = answer(capsys, "convert", "--guess", "jobs.csv")
    assert told["problem"] == "duration_s, num_gpus not found; columns that are left: 'colour'"
    Path("jobs.csv.map.yaml").write_text("constants: {num_gpus: 1}\n")
    assert "is not overwritten" in complaint(capsys, "convert", "--guess", "jobs.csv")


def test_guess_takes_files_only_and_convert_still_needs_its_output(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text(GUESSED)
    assert "--guess: name at least one table" in complaint(capsys, "convert", "--guess")
    for option in (["--rebase"], ["--html", "page.html"], ["--address", "local"]):
        assert "--guess: takes" in complaint(capsys, "convert", "--guess", "jobs.csv", *option)
    assert "--map-out m.yaml: only with --guess" in complaint(
        capsys, "convert", "csv", "jobs.csv", "-o", "w.parquet", "--map-out", "m.yaml"
    )
    assert "Missing option '-o' / '--out'" in complaint(capsys, "convert", "csv", "jobs.csv")
