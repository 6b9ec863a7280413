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


GUESSED = "name,submitted,minutes,gpus\na,26.10.2023 08:05,10,1\nb,27.10.2023 08:05,20,2\n"


def test_guess_proposes_a_mapping_that_convert_takes(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text(GUESSED)
    told = answer(capsys, "convert", "--guess", "jobs.csv", "--time-zone", "Europe/Berlin")
    assert (told["preset"], told["doubts"], told["missing"]) == (None, [], [])
    assert told["workload"]["duration_s"]["max"] == 20 * 60  # type: ignore[index]  # JSON
    assert not Path("W.parquet").exists()
    assert main(str(told["command"]).split()[1:]) == 0
    # 08:05 in Berlin's summer is 06:05 UTC
    assert pl.read_parquet("W.parquet")["submit_s"][0] == 1_698_300_300


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
    assert "--guess: takes" in complaint(capsys, "convert", "--guess", "jobs.csv", "--rebase")
    assert "--map-out m.yaml: only with --guess" in complaint(
        capsys, "convert", "csv", "jobs.csv", "-o", "w.parquet", "--map-out", "m.yaml"
    )
    assert "Missing option '-o' / '--out'" in complaint(capsys, "convert", "csv", "jobs.csv")
