"""Models, batches and steps drawn for the jobs of a trace from a table of speeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.experiments.inputs.layer_file import load_profiles
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, InvalidWorkloadError
from ray_sim.model.measured_speeds import SpeedRow, SpeedTable
from tests.training_profiles import philly
from workloads.job_table import frame_to_table
from workloads.layers.fill import fill, fill_file
from workloads.provenance import Counts, Provenance
from workloads.store import read_frame, read_provenance, write_workload
from workloads.training.enrich import Feasibility
from workloads.training.measured import FILLED, draw_models
from workloads.training.speed_tables import load_speeds

TABLE = SpeedTable(
    "by hand",
    (
        SpeedRow("big", 8, 2, "V100", True, 2.5),
        SpeedRow("net", 64, 1, "K80", True, 1.0),
        SpeedRow("net", 64, 1, "V100", True, 4.0),
        SpeedRow("still", None, 1, "V100", True, 0.0),
        SpeedRow("walk", None, 1, "V100", True, 0.25),
    ),
)


def jobs(*gpus: float, duration_s: float = 10.0) -> pl.DataFrame:
    """Jobs with these GPUs that run equally long."""
    return philly(len(gpus)).with_columns(
        num_gpus=pl.Series(gpus, dtype=pl.Float64), num_tasks=pl.lit(None, pl.Int64), duration_s=duration_s
    )


def test_steps_are_the_run_time_at_the_speed_on_v100_and_at_least_one() -> None:
    frame, report = draw_models(jobs(*[1] * 20, 2), TABLE, 1)
    drawn = set(frame.select(FILLED).rows())
    assert drawn == {("net", 64, 40), ("walk", None, 2), ("big", 8, 25)}  # 10 s x 4, 0.25 = 2.5, 2.5 steps/s
    assert (report.read, report.unmeasured) == (21, {})
    short, _ = draw_models(jobs(1, 1, 1, 1, duration_s=0.0), TABLE, 1)
    assert short["steps"].to_list() == [1] * 4


def test_jobs_with_other_gpus_are_left_without_and_counted() -> None:
    frame, report = draw_models(jobs(1, 3, 0.5, 3, 0), TABLE, 1)
    assert frame["steps"].is_null().to_list() == [False, True, True, True, True]
    assert report.unmeasured == {"0": 1, "0.5": 1, "3": 2}
    assert report.rows() == [
        ("jobs read", 5), ("jobs kept", 5), ("jobs with a model", 1),
        *(("without, 0 GPUs", 1), ("without, 0.5 GPUs", 1), ("without, 3 GPUs", 2)),
    ]  # fmt: skip
    measured = frame_to_table(frame).measured
    assert measured is not None
    assert np.isnan(measured.steps).tolist() == [False, True, True, True, True]


def test_jobs_without_a_model_are_left_out_where_one_asks(tmp_path: Path) -> None:
    made = Provenance(converter="t", converter_version="1", counts=Counts(read=3, kept=3))
    write_workload(jobs(1, 16, 2), made, tmp_path / "in.parquet")
    layers = load_profiles(["gavel_simulation"], Feasibility(only=True))
    fill_file(str(tmp_path / "in.parquet"), tmp_path / "out.parquet", layers, 3)
    kept = read_frame(tmp_path / "out.parquet")
    assert kept["num_gpus"].to_list() == [1, 2]
    assert frame_to_table(kept).measured is not None
    written = read_provenance(tmp_path / "out.parquet")
    assert written is not None
    assert written.counts == Counts(read=3, kept=2, rejected={"unmeasured": 1})
    with pytest.raises(InvalidWorkloadError, match="no job has a number of GPUs of which by hand"):
        draw_models(jobs(3), TABLE, 1, only=True)


def test_each_of_gavels_models_is_drawn_equally_often() -> None:
    frame, _ = draw_models(jobs(*[1] * 5200, *[8] * 3800), load_speeds(), 3)
    # 26 models and batches of one GPU and 19 of eight, each 200 times: a standard deviation of 14.
    counts = frame.group_by("num_gpus", "model", "batch").len()
    assert counts.group_by("num_gpus").len().sort("num_gpus").rows() == [(1, 26), (8, 19)]
    assert counts["len"].is_between(200 - 70, 200 + 70).all()


def test_a_draw_depends_on_seed_and_name_only() -> None:
    frame = jobs(*[1] * 30)
    one, _ = draw_models(frame, load_speeds(), 1)
    assert draw_models(frame[::-1], load_speeds(), 1)[0][::-1].equals(one)
    assert not draw_models(frame, load_speeds(), 2)[0].equals(one)


def test_a_run_on_v100_takes_the_time_of_the_trace() -> None:
    frame, _ = draw_models(jobs(*[1, 2, 4, 8] * 5, duration_s=3600), load_speeds(), 1)
    batch = frame["batch"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    gpus = frame["num_gpus"].cast(pl.Int64).to_numpy()
    speed = load_speeds().speeds(frame["model"].to_list(), batch, gpus, ["V100"])[:, 0, 0]
    # A step is the error: at least 0.3 steps/s.
    np.testing.assert_allclose(frame["steps"] / speed, 3600, atol=0.5 / speed.min())


def test_drawn_and_other_models_do_not_mix() -> None:
    frame, _ = draw_models(jobs(1, 2), TABLE, 1)
    with pytest.raises(InvalidWorkloadError, match=r"says model, batch, steps; .* so by hand can only"):
        draw_models(frame, TABLE, 1)
    with pytest.raises(InvalidInputError, match="layers gavel_simulation and pd_ors: both fill batch"):
        load_profiles(["gavel_simulation", "pd_ors"])


def test_a_table_is_a_profile_of_enrichment_by_name_or_file(tmp_path: Path) -> None:
    made = Provenance(converter="t", converter_version="1", counts=Counts(read=2, kept=2))
    write_workload(jobs(1, 16), made, tmp_path / "in.parquet")
    own = tmp_path / "own.csv"
    own.write_text("model,batch,gpus,gpu_type,consolidated,steps_per_s\nnet,64,16,V100,1,3\n")
    (layer,) = load_profiles([str(own)])
    assert fill(jobs(16), layer, 1)[0].select(FILLED).rows() == [("net", 64, 30)]
    layers = load_profiles(["gavel_simulation", "announced"])
    (report, _) = fill_file(str(tmp_path / "in.parquet"), tmp_path / "out.parquet", layers, 3)
    assert report.to_dict() == {"read": 2, "unmeasured": {"16": 1}, "kept": 2}
    assert read_frame(tmp_path / "out.parquet")["steps"].is_null().to_list() == [False, True]
    last = read_provenance(tmp_path / "out.parquet")
    assert last is not None
    first = Provenance.model_validate(last.notes["source_provenance"])
    assert (first.converter, first.options["profile"]) == ("measured", "gavel_simulation")
    assert (first.options["profile_sha256"], first.notes["unmeasured"]) == (
        layers[0].draws.sha256,
        {"16": 1},
    )
    with pytest.raises(InvalidScenarioError, match="gavel_simulation tells jobs apart by their GPUs only"):
        load_profiles(["gavel_simulation"], Feasibility(horizon_s=60))
