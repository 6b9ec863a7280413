"""The command info, on clusters, workloads and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import WEEK, answer, complaint, process


def test_info_knows_a_cluster_and_a_run(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "info", "small.yaml")["servers"] == 2
    answer(capsys, "run", *WEEK, "-o", "fifo")
    told = answer(capsys, "info", "fifo")
    assert told["summary"] == json.loads(Path("fifo/summary.json").read_text())
    assert main(["info", "fifo"]) == 0
    assert "JCT, mean" in capsys.readouterr().out


def test_info_deals_out_the_blocks_of_models(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = ["--profile", "optimus_nine_models", "--seed", "1"]
    answer(capsys, "enrich", "week.parquet", "-o", "nine.parquet", *profile)
    assert "blocks" in answer(capsys, "info", "nine.parquet", "--blocks", "10")
    assert main(["info", "nine.parquet", "--blocks", "10"]) == 0
    assert "blocks of resnet-50" in capsys.readouterr().out
    assert "week.parquet has no column blocks" in complaint(capsys, "info", "week.parquet", "--blocks", "2")
    assert "only with a workload" in complaint(capsys, "info", "small.yaml", "--blocks", "2")


def test_info_names_what_each_system_reads_ignores_and_lacks(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", "week.parquet", "--views"]) == 0
    told = capsys.readouterr().out
    assert "lacks value, outlook; filled by --profile common or announced" in told
    answer(capsys, "enrich", "week.parquet", "-o", "training.parquet", "--profile", "common")
    views = answer(capsys, "info", "training.parquet", "--views")["views"]
    assert {view["name"]: view["missing"] for view in views} == {
        name: []
        for name in ("rigid", "placement", "optimus", "interference", "pd_ors", "a_online", "announced")
    }
    assert "only with a workload" in complaint(capsys, "info", "small.yaml", "--views")


@pytest.mark.slow
def test_info_warns_of_jobs_that_must_wait_and_draws_for_any_terminal(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,9000,8\n3600,9000,8\n7200,3600,16\n")
    answer(capsys, "convert", "csv", "jobs.csv", "-o", "jobs.parquet")
    told = answer(capsys, "info", "jobs.parquet", "-c", "small.yaml")
    # The jobs of 8 GPUs can do 2 h and 1 h before the last, on 8 GPUs in 2 h; the job of 16 never fits.
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] == 1.5
    assert told["load"]["whole"]["never_fit"] == 1
    assert len(told["warnings"]) == 2
    ended = process("info", "jobs.parquet", "-c", "small.yaml", PYTHONIOENCODING="ascii")
    assert "warning: cluster small: offered load 1.50 (gpu), so some job waits" in ended.stderr
    assert "########" in ended.stdout


@pytest.mark.slow
def test_info_compares_two_workloads(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "synth", "--like", "week.parquet", "-n", "60", "-o", "like.parquet")
    compare = ["info", "--compare", "week.parquet", "like.parquet", "--cluster", "small.yaml"]
    told = answer(capsys, *compare, "-o", "compared.html")
    assert (told["a"]["jobs"], told["b"]["jobs"]) == (30, 60)
    assert "Two workloads side by side" in Path("compared.html").read_text()
    assert main(compare) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["quantity", "A", "B", "B", "against", "A"]
    assert [line.split()[1:] for line in shown if line.startswith("jobs  ")] == [["30", "60", "x", "2"]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["info"], "no FILE is given"),
        (["info", "week.parquet", "-o", "page.html"], "--out page.html: only with --compare"),
        (["info", "--compare", "week.parquet", "week.parquet", "--views"], "leave out the rest"),
        (["info", "--compare", "week.parquet", "small.yaml"], "small.yaml: not a readable Parquet file"),
        (["info", "--compare", "week.parquet", "week.parquet", "-o", "small.yaml"], "not overwritten"),
    ],
)
def test_what_info_cannot_compare_is_told(
    desk: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert told in complaint(capsys, *arguments)
