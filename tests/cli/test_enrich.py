"""The command enrich: layers of columns that it fills, what it leaves out, and the profiles that it lists."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from tests.command_line import answer, complaint

ENRICH = ["enrich", "week.parquet", "-o", "training.parquet", "--seed", "3"]


@pytest.mark.slow
def test_enrich_draws_how_jobs_train_and_says_so(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, *ENRICH, "--profile", "pd_ors")
    assert (told["read"], told["kept"], told["infeasible"]) == (30, 30, {})
    below = told["outside_range"]["samples below"]
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
    assert told["scores"]["covered"] == 1
    assert pl.read_parquet("training.parquet")["outlook"].null_count() == 0
    assert main([*ENRICH, "--profile", "announced_history"]) == 0
    assert "CRPS of log(duration)" in capsys.readouterr().out
    assert "leave out `feasible_only`" in complaint(
        capsys, *ENRICH, "--profile", "announced", "--horizon", "9"
    )


def test_enrich_puts_several_layers_on_a_workload(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, *ENRICH, "--profile", "pd_ors", "--profile", "announced")
    assert [layer["profile"] for layer in told["layers"]] == ["pd_ors", "announced"]
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
    announced = ("announced", "announced_history", "common_announced")
    assert names == ["common", *training, *announced, "gavel_physical", "gavel_simulation"]
    assert "Did you mean 'pd_ors'" in complaint(capsys, *ENRICH, "--profile", "pdors")
    Path("own.yaml").write_text("name: own\ncolumns: {sample_s: -1}\n")
    assert "columns.sample_s: must be a number from" in complaint(capsys, *ENRICH, "--profile", "own.yaml")
