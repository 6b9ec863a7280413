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
