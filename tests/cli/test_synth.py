"""The command synth: jobs like those of a profile or a workload, and whole jobs within a horizon."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import answer, complaint


def test_synth_and_info_agree_on_the_number_of_jobs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "synth", "philly", "-n", "25", "--seed", "3", "-o", "drawn.parquet")
    assert answer(capsys, "info", "drawn.parquet", "--cluster", "small.yaml")["jobs"] == 25


@pytest.mark.slow
def test_synth_fits_a_workload_and_says_how_well(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    like = ["synth", "--like", "week.parquet", "-n", "60", "-o", "like.parquet"]
    told = answer(capsys, *like, "--arrivals", "poisson", "--load-scale", "2")
    assert (told["like"], told["arrivals"], told["jobs"]) == ("week.parquet", "poisson", 60)
    assert set(told["ks"]) == {"num_gpus", "duration_s", "inter_arrival_s"}
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
    infeasible = told["infeasible"]["it cannot end by the horizon"]
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
