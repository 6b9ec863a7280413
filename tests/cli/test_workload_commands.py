"""The commands convert, synth, enrich and info."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from tests.command_line import RAY_SIM, WEEK, answer, complaint


def test_convert_counts_rows_by_reason(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,5,1,-3\nc,6,2,20\n")
    report = answer(capsys, "convert", "csv", "jobs.csv", "-o", "out.parquet")
    assert (report["read"], report["kept"]) == (3, 2)
    assert sum(report["rejected"].values()) == 1  # type: ignore[attr-defined]  # JSON
    assert main(["convert", "csv", "jobs.csv", "-o", "out.parquet"]) == 0
    assert "rows kept" in capsys.readouterr().out


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


def test_synth_and_info_agree_on_the_number_of_jobs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "synth", "philly", "-n", "25", "--seed", "3", "-o", "drawn.parquet")
    assert answer(capsys, "info", "drawn.parquet", "--cluster", "small.yaml")["jobs"] == 25


ENRICH = ["enrich", "week.parquet", "-o", "training.parquet", "--seed", "3"]


@pytest.mark.slow
def test_enrich_draws_how_jobs_train_and_says_so(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, *ENRICH, "--profile", "pd_ors")
    assert (told["read"], told["kept"], told["infeasible"]) == (30, 30, {})
    below = told["outside_range"]["samples below"]  # type: ignore[index]  # JSON
    assert 0 < below <= 30
    trained = pl.read_parquet("training.parquet")
    assert trained["sample_s"].null_count() == 0
    assert int((trained["samples"] < 20_000).sum()) == below
    assert main([*ENRICH, "--profile", "pd_ors"]) == 0
    assert f"outside the range, samples below  {below} (" in capsys.readouterr().out
    assert answer(capsys, "run", "--workload", "training.parquet", "--cluster", "small.yaml", "-o", "out")


def test_enrich_announces_jobs_and_reports_how_well_outlooks_predict(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, *ENRICH, "--profile", "announced")
    assert (told["read"], told["by_history"], told["profile"]) == (30, 0, "announced")
    assert told["scores"]["covered"] == 1  # type: ignore[index]  # JSON
    assert pl.read_parquet("training.parquet")["outlook"].null_count() == 0
    assert main([*ENRICH, "--profile", "announced_history"]) == 0
    assert "CRPS of log(duration)" in capsys.readouterr().out
    assert "leave out `feasible_only`" in complaint(
        capsys, *ENRICH, "--profile", "announced", "--horizon", "9"
    )


def test_enrich_puts_several_layers_on_a_workload(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, *ENRICH, "--profile", "pd_ors", "--profile", "announced")
    layers = told["layers"]
    assert isinstance(layers, list)
    assert [layer["profile"] for layer in layers] == ["pd_ors", "announced"]
    filled = pl.read_parquet("training.parquet")
    assert filled["sample_s"].null_count() == filled["outlook"].null_count() == 0
    again = ["enrich", "training.parquet", "-o", "again.parquet", "--profile"]
    assert "already says epochs" in complaint(capsys, *again, "harmony_types")
    both = complaint(capsys, *ENRICH, "--profile", "pd_ors", "--profile", "harmony_types")
    assert "layers pd_ors and harmony_types: both fill epochs" in both


def test_enrich_leaves_out_what_fits_no_server(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tiny.yaml").write_text("name: tiny\nservers: [{name: a, gpus: 2, cpus: 4}]\n")
    feasible = ["--profile", "optimus_nine_models", "--cluster", "tiny.yaml", "--feasible-only"]
    # A worker takes 2 cores, a parameter server 3 or 4: nobody's fit into 4 cores.
    told = complaint(capsys, *ENRICH, *feasible)
    assert "none of 30 jobs is feasible" in told
    assert not Path("training.parquet").exists()
    told_all = answer(capsys, *ENRICH, *feasible[:-1])
    assert told_all["infeasible"] == {"the cluster is too small": 30}


def test_enrich_lists_its_profiles_and_names_a_wrong_one(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["enrich", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    training = (
        "common_training",
        "harmony_types",
        "jsac_edge_cloud",
        "optimus_nine_models",
        "pd_ors",
        "pd_ors_mix",
    )
    assert names == ["common", *training, "announced", "announced_history", "common_announced"]
    assert "Did you mean 'pd_ors'" in complaint(capsys, *ENRICH, "--profile", "pdors")
    Path("own.yaml").write_text("name: own\ncolumns: {sample_s: -1}\n")
    assert "columns.sample_s: must be a number from" in complaint(capsys, *ENRICH, "--profile", "own.yaml")


@pytest.mark.slow
def test_synth_fits_a_workload_and_says_how_well(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    like = ["synth", "--like", "week.parquet", "-n", "60", "-o", "like.parquet"]
    told = answer(capsys, *like, "--arrivals", "poisson", "--load-scale", "2")
    assert (told["like"], told["arrivals"], told["jobs"]) == ("week.parquet", "poisson", 60)
    assert set(told["ks"]) == {"num_gpus", "duration_s", "inter_arrival_s"}  # type: ignore[call-overload]  # JSON
    assert main(like) == 0
    assert "KS distance, duration_s" in capsys.readouterr().out
    assert answer(capsys, "info", "like.parquet")["jobs"] == 60
    assert "either a PROFILE" in complaint(capsys, *like, "philly")
    assert "either a PROFILE" in complaint(capsys, "synth", "-n", "5", "-o", "x.parquet")
    assert "Did you mean 'poisson'" in complaint(capsys, *like, "--arrivals", "posson")


DRAW = ["synth", "pd_ors", "-n", "50", "--seed", "1", "-o", "drawn.parquet"]


@pytest.mark.slow
def test_synth_draws_whole_jobs_within_a_horizon(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    within = [*DRAW, "--horizon", "72000"]
    told = answer(capsys, *within, "--feasible-only")
    assert (told["profile"], told["arrivals"], told["jobs"]) == ("pd_ors", "alternating", 50)
    infeasible = told["infeasible"]["it cannot end by the horizon"]  # type: ignore[index]  # JSON
    assert told["feasible_share"] == (50 - infeasible) / 50
    assert told["redraws"] >= infeasible
    assert answer(capsys, "info", "drawn.parquet")["jobs"] == 50
    first = Path("drawn.parquet").read_bytes()
    assert main([*within, "--feasible-only"]) == 0
    assert "feasible as first drawn" in capsys.readouterr().out
    assert Path("drawn.parquet").read_bytes() == first
    assert answer(capsys, *within)["redraws"] == 0
    assert answer(capsys, *within, "--arrivals", "poisson", "--slot-s", "600")["slot_s"] == 600


def test_synth_says_what_is_wrong_with_a_draw(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    within = [*DRAW, "--horizon", "72000"]
    assert "horizon: is missing" in complaint(capsys, *DRAW)
    assert "horizon: must be at least a slot" in complaint(capsys, *DRAW, "--horizon", "60")
    assert "load_scale: the number of jobs and the horizon set the load" in complaint(
        capsys, *within, "--load-scale", "2"
    )
    assert "arrivals: must be alternating or poisson" in complaint(capsys, *within, "--arrivals", "diurnal")
    other = ["-n", "5", "-o", "drawn.parquet", "--horizon", "72000"]
    assert "horizon: only for jobs drawn from" in complaint(capsys, "synth", "philly", *other)
    told = complaint(capsys, "synth", "pdors", *other)
    assert "Did you mean 'pd_ors'" in told
    assert told.rstrip().endswith("pd_ors_mix, philly")
    assert "columns.num_workers: is missing" in complaint(capsys, "synth", "harmony_types", *other)
    assert "nowhere.yaml" in complaint(capsys, "synth", "nowhere.yaml", *other)
    assert not Path("drawn.parquet").exists()


def test_info_knows_a_cluster_and_a_run(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "info", "small.yaml")["servers"] == 2
    answer(capsys, "run", *WEEK, "-o", "fifo")
    told = answer(capsys, "info", "fifo")
    assert told["summary"] == json.loads(Path("fifo/summary.json").read_text())
    assert main(["info", "fifo"]) == 0
    assert "JCT s, mean" in capsys.readouterr().out


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
    answer(capsys, *ENRICH, "--profile", "common")
    views = answer(capsys, "info", "training.parquet", "--views")["views"]
    assert isinstance(views, list)
    assert {view["name"]: view["missing"] for view in views} == {
        name: []
        for name in ("rigid", "placement", "optimus", "interference", "pd_ors", "a_online", "announced")
    }
    assert "only with a workload" in complaint(capsys, "info", "small.yaml", "--views")


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
def test_info_warns_of_jobs_that_must_wait_and_draws_for_any_terminal(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,9000,8\n3600,9000,8\n7200,3600,16\n")
    answer(capsys, "convert", "csv", "jobs.csv", "-o", "jobs.parquet")
    told = answer(capsys, "info", "jobs.parquet", "-c", "small.yaml")
    # The jobs of 8 GPUs can do 2 h and 1 h before the last, on 8 GPUs in 2 h; the job of 16 never fits.
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] == 1.5  # type: ignore[index]  # JSON
    assert told["load"]["whole"]["never_fit"] == 1  # type: ignore[index]  # JSON
    assert len(told["warnings"]) == 2  # type: ignore[arg-type]  # JSON
    ended = subprocess.run(
        [*RAY_SIM, "info", str(desk / "jobs.parquet"), "-c", str(desk / "small.yaml")],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert b"warning: cluster small: offered load 1.50 (gpu), so some job waits" in ended.stderr
    assert b"########" in ended.stdout


def test_info_compares_two_workloads(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "synth", "--like", "week.parquet", "-n", "60", "-o", "like.parquet")
    compare = ["info", "--compare", "week.parquet", "like.parquet", "--cluster", "small.yaml"]
    told = answer(capsys, *compare, "-o", "compared.html")
    assert (told["a"]["jobs"], told["b"]["jobs"]) == (30, 60)  # type: ignore[index]  # JSON
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
