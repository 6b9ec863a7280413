"""The command diff: silent on equal schedules, a table of first differences, and the delays of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import WEEK, answer, complaint


@pytest.mark.slow
def test_diff_is_silent_on_equal_runs_and_fails_on_others(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for sites in ("1", "2"):
        answer(capsys, "run", *WEEK, "--sites", sites, "-o", f"sites{sites}")
    assert answer(capsys, "diff", "sites1", "sites2")["same"] is True
    answer(capsys, "run", *WEEK, "--policy", "sjf", "-o", "sjf")
    told = answer(capsys, "diff", "sites1", "sjf", code=1)
    assert told["compared"] == 30
    assert main(["diff", "sites1", "sjf"]) == 1
    assert "first differences" in capsys.readouterr().out


def test_diff_shows_a_microsecond(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("here.csv").write_text("job_id,start_s,finish_s\na,0,30000\n")
    Path("there.csv").write_text("job_id,start_s,finish_s\na,0,30000.000001\n")
    assert main(["diff", "here.csv", "there.csv"]) == 1
    assert "30,000.000001" in capsys.readouterr().out


def test_diff_with_the_trace_prints_tables_and_writes_a_page(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"j{each},{1 + each},5,4,{each % 3},{each % 2}\n" for each in range(12))
    Path("jobs.csv").write_text(f"job_id,submit_s,duration_s,num_gpus,wait_s,priority\n{rows}")
    answer(capsys, "convert", "csv", "jobs.csv", "-o", "jobs.parquet")
    answer(capsys, "run", "--workload", "jobs.parquet", "--cluster", "small.yaml", "-o", "run")
    told = answer(capsys, "diff", "run", "--trace", "-o", "page.html")
    assert told["jobs"] == 12
    assert b"</html>" in Path("page.html").read_bytes()
    assert main(["diff", "run", "--trace"]) == 0
    printed = capsys.readouterr().out
    assert "priority 1" in printed
    assert "share in the trace" in printed


def test_diff_takes_either_another_table_or_the_trace(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    either = "compares RUN with either OTHER or --trace"
    assert either in complaint(capsys, "diff", "run")
    assert either in complaint(capsys, "diff", "run", "other", "--trace")
    assert "only for --trace" in complaint(capsys, "diff", "run", "other", "-o", "page.html")
    assert "nowhere: not a result of ray-sim" in complaint(capsys, "diff", "nowhere", "--trace")
