"""Whole jobs of a training profile: in its ranges, within the horizon, and the inverse of an enrichment."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import BoolArray, FloatArray
from ray_sim.solvers.planning.slot_job import slot_job
from tests.proofs import instances
from tests.training_profiles import JUNK, SMALL, of_yaml
from workloads.checks import check_frame
from workloads.job_table import frame_to_table
from workloads.schema import with_all_columns
from workloads.store import read_frame, read_provenance, write_workload
from workloads.synthetic import drawn_jobs
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.drawn_jobs import MAX_DRAWS, check_whole, draw_jobs, synth_jobs
from workloads.synthetic.horizon_request import HorizonRequest, request_of
from workloads.training.draws import Constant
from workloads.training.enrich import enrich
from workloads.training.profile import Family, TrainingDraws

HOUR_S = 3600.0
PD_ORS = load_training_draws("pd_ors")


def within(slots: float, jobs: int, **options: object) -> HorizonRequest:
    return HorizonRequest(jobs, slots * HOUR_S, **options)  # type: ignore[arg-type]  # as above


def whole_jobs(folder: Path, **columns: object) -> TrainingDraws:
    """Of 2 to 4 workers, 100 to 1000 samples and steps of 100, unless said otherwise; see `SMALL`."""
    content = yaml.safe_load(SMALL)
    content["columns"].update({"num_workers": [2, 4], "samples": [100, 1000], "batch": 100, **columns})
    return of_yaml(folder, yaml.safe_dump(content))


def can_end(frame: pl.DataFrame, slots: int) -> BoolArray:
    """Whether PD-ORS thinks that each job can end by the horizon, alone."""
    table = frame_to_table(frame, ("gpu",))
    assert table.training is not None
    assert table.utility is not None
    verdicts = []
    for job in range(len(table)):
        arrival = -(-int(table.submit_us[job]) // int(HOUR_S * 1e6))
        verdicts.append(
            arrival < slots and slot_job(job, arrival, slots, HOUR_S, table.training, table.utility).can_end
        )
    return np.array(verdicts)


def test_every_column_is_in_its_published_range() -> None:
    frame, _ = draw_jobs(PD_ORS, within(20, 2000), seed=3)
    ranges = {
        "epochs": (50, 200), "samples": (2e4, 5e5), "gradient_mb": (30, 575), "sample_s": (0.036, 0.36),
        "workers_per_ps": (1, 10), "batch": (1, 200), "num_workers": (1, 30), "bandwidth_mbps": (100, 5000),
        "worker_gpu": (0, 4), "worker_cpu": (1, 10), "worker_memory_gib": (2, 32), "worker_disk_gib": (5, 10),
        "ps_gpu": (0, 0), "ps_cpu": (1, 10), "ps_memory_gib": (2, 32), "ps_disk_gib": (5, 10),
        "utility_max": (1, 100), "utility_due_s": (3600, 15 * 3600),
    }  # fmt: skip
    for name, (low, high) in ranges.items():
        column = frame[name].to_numpy()
        assert low <= column.min() <= low + 0.02 * (high - low), name
        assert high - 0.02 * (high - low) <= column.max() <= high, name
    whole = ("epochs", "samples", "batch", "worker_gpu", "worker_cpu", "worker_memory_gib", "ps_disk_gib")
    assert all((frame[name] == frame[name].round()).all() for name in whole)
    np.testing.assert_allclose(frame["internal_bandwidth_mbps"], 10 * frame["bandwidth_mbps"])


def test_a_bundle_is_at_most_a_worker_for_each_sample_and_the_ratios_parameter_servers() -> None:
    frame, _ = draw_jobs(PD_ORS, within(20, 2000), seed=3)
    workers = frame["num_workers"].to_numpy()
    np.testing.assert_array_equal(frame["num_ps"], np.ceil(workers / frame["workers_per_ps"]))
    np.testing.assert_array_equal(frame["num_gpus"], workers * frame["worker_gpu"])
    np.testing.assert_array_equal(frame["num_tasks"], workers)
    assert (frame["num_workers"] <= frame["batch"]).all()
    # 1 to 30, each as likely: of the batches from 30 on, 15.5 on average, give or take 8.7 / sqrt(n).
    free = frame.filter(pl.col("batch") >= 30)["num_workers"]
    assert abs(free.to_numpy().mean() - 15.5) < 5 * 8.7 / np.sqrt(len(free))


@pytest.mark.parametrize(
    ("profile", "mix"), [("pd_ors", [0.10, 0.55, 0.35]), ("pd_ors_mix", [0.30, 0.69, 0.01])]
)
def test_the_three_classes_of_utility_come_in_the_profiles_mix(profile: str, mix: list[float]) -> None:
    frame, _ = draw_jobs(load_training_draws(profile), within(20, 20_000), seed=1)
    per_slot = frame["utility_decay_per_s"].to_numpy() * HOUR_S
    shares = [
        (per_slot == 0).mean(),
        ((per_slot >= 0.01) & (per_slot < 1.01)).mean(),
        (per_slot > 3.9).mean(),
    ]
    np.testing.assert_allclose(shares, mix, atol=5 * 0.5 / np.sqrt(20_000))


def test_the_run_time_is_what_the_bundle_takes_on_the_fewest_reference_servers(tmp_path: Path) -> None:
    # 4 workers and 2 PSs on one server: a step of 100 samples takes 100 x 0.5 / 4 + 1.6 = 14.1 s.
    draws = whole_jobs(tmp_path, num_workers=[4, 4], samples={"whole": [100, 1000]})
    frame, _ = draw_jobs(draws, within(20, 50), seed=1)
    np.testing.assert_allclose(frame["duration_s"], 10 * frame["samples"] / 100 * 14.1)
    assert frame["samples"].n_unique() > 40


@pytest.mark.slow
def test_an_enrichment_of_a_drawn_jobs_gpus_and_run_time_finds_its_samples() -> None:
    frame, _ = draw_jobs(PD_ORS, within(20, 40), seed=5)
    for row in frame.iter_slices(1):
        known = {name: Constant(row[name][0]) for name in PD_ORS.columns}
        draws = TrainingDraws("of_one", "", "", (Family(columns=known),), PD_ORS.reference_server)
        trace = ["job_id", "trace_order", "submit_s", "num_gpus", "duration_s", "num_tasks"]
        found, _ = enrich(with_all_columns(row.select(trace)), draws, seed=0)
        assert found["samples"][0] == pytest.approx(row["samples"][0], rel=1e-14)
        bundle = ["num_workers", "num_ps", "worker_gpu", "batch"]
        assert found.select(bundle).equals(row.select(bundle))


def test_jobs_without_gpus_are_jobs_of_a_workload_file(tmp_path: Path) -> None:
    drawn = synth_jobs(PD_ORS, within(20, 200), seed=2)
    write_workload(drawn.frame, drawn.provenance, tmp_path / "w.parquet")
    back = read_frame(tmp_path / "w.parquet")
    assert back.equals(drawn.frame)
    without = back.filter(pl.col("num_gpus") == 0)
    assert 0 < without.height < 200
    assert (without["worker_gpu"] == 0).all()


def shares(submit_s: FloatArray, boundaries: list[float]) -> FloatArray:
    return np.histogram(submit_s, bins=np.array(boundaries) * HOUR_S)[0] / len(submit_s)


@pytest.mark.slow
def test_alternating_slots_of_a_horizon_take_one_and_two_thirds() -> None:
    submit_s = draw_jobs(PD_ORS, within(20, 20_000), seed=1)[0]["submit_s"].to_numpy()
    assert submit_s[0] == 0
    assert (np.diff(submit_s) >= 0).all()
    assert submit_s[-1] < 20 * HOUR_S
    of_slot = shares(submit_s, list(range(21)))
    expected = np.tile([1 / 30, 2 / 30], 10)
    np.testing.assert_allclose(of_slot, expected, atol=5 * np.sqrt(2 / 30 / 20_000))
    # Slots of half an hour, of which a horizon of 1.25 h has two and a half: weights 1, 2 and 1 / 2.
    cut = draw_jobs(PD_ORS, within(1.25, 20_000, slot_s=1800.0), seed=1)[0]["submit_s"].to_numpy()
    np.testing.assert_allclose(shares(cut, [0, 0.5, 1, 1.25]), np.array([2, 4, 1]) / 7, atol=0.02)


def test_other_arrivals_have_no_slots_and_move_nothing_else() -> None:
    poisson, _ = draw_jobs(PD_ORS, within(20, 20_000, arrivals=ArrivalKind.POISSON), seed=1)
    np.testing.assert_allclose(
        shares(poisson["submit_s"].to_numpy(), [0, 5, 10, 15, 20]), 0.25, atol=5 * np.sqrt(0.25 / 20_000)
    )
    alternating, _ = draw_jobs(PD_ORS, within(20, 20_000), seed=1)
    unmoved = [frame.sort("trace_order").drop("submit_s") for frame in (poisson, alternating)]
    assert unmoved[0].equals(unmoved[1])


@pytest.mark.parametrize("feasible_only", [False, True])
def test_more_jobs_are_the_same_jobs_and_others(feasible_only: bool) -> None:
    many, _ = draw_jobs(PD_ORS, within(20, 50, feasible_only=feasible_only), seed=4)
    few, _ = draw_jobs(PD_ORS, within(20, 10, feasible_only=feasible_only), seed=4)
    assert many.filter(pl.col("trace_order") < 10).equals(few)
    assert not many.equals(draw_jobs(PD_ORS, within(20, 50, feasible_only=feasible_only), seed=5)[0])


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1, 2, 20, 80])
@pytest.mark.parametrize("seed", range(3))
def test_who_is_feasible_is_who_pd_ors_thinks_can_end(slots: int, seed: int) -> None:
    everyone, report = draw_jobs(PD_ORS, within(slots, 100), seed)
    late = int((~can_end(everyone, slots)).sum())
    assert report.infeasible == {"it cannot end by the horizon": late}
    assert report.redraws == 0
    feasible, report = draw_jobs(PD_ORS, within(slots, 100, feasible_only=True), seed)
    assert can_end(feasible, slots).all()
    assert feasible.height == 100
    assert report.redraws >= sum(report.infeasible.values()) > 0
    assert feasible["submit_s"].max() <= (slots - 1) * HOUR_S  # type: ignore[operator]  # a number


@pytest.mark.parametrize(("slots", "published", "instants"), [(20, 0.32, 0.296), (80, 0.65, 0.642)])
def test_as_many_jobs_are_feasible_as_published(slots: int, published: float, instants: float) -> None:
    """Jobs that come with a slot have 0 to T - 1 slots behind them, those that come within one 1 to T."""
    jobs = 20_000
    frame, report = draw_jobs(PD_ORS, within(slots, jobs, arrivals=ArrivalKind.POISSON), seed=7)
    assert report.feasible_share == pytest.approx(instants, abs=0.012)
    training = frame_to_table(frame, ("gpu",)).training
    assert training is not None
    theta = training.sample_s + training.workers_per_ps / training.batch * (
        2 * 8 * training.gradient_mb / training.internal_bandwidth_mbps
    )
    shortest = np.ceil(training.work * theta / HOUR_S / training.batch)
    with_slots = np.clip(slots - shortest + 1, 0, slots) / slots
    assert with_slots.mean() == pytest.approx(published, abs=0.01)
    within_slots = np.clip(slots - shortest, 0, slots) / slots
    assert within_slots.mean() == pytest.approx(report.feasible_share, abs=5 * 0.5 / np.sqrt(jobs))


def test_workers_that_fit_no_reference_server_are_drawn_again(tmp_path: Path) -> None:
    draws = whole_jobs(tmp_path, worker_gpu=[1, 8])
    frame, report = draw_jobs(draws, within(20, 400), seed=0)
    large = int((frame["worker_gpu"] > 4).sum())
    assert report.infeasible["a worker fits no server"] == large > 0
    again, _ = draw_jobs(draws, within(20, 400, feasible_only=True), seed=0)
    assert again["worker_gpu"].max() == 4


@pytest.mark.slow
def test_how_many_draws_are_looked_at_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    request = within(5, 30, feasible_only=True)
    together, report = draw_jobs(PD_ORS, request, seed=2)
    monkeypatch.setattr(drawn_jobs, "_DRAWS_AT_ONCE", 1)
    one_job_at_a_time, again = draw_jobs(PD_ORS, request, seed=2)
    assert one_job_at_a_time.equals(together)
    assert again == report


def test_a_job_that_is_never_feasible_is_named() -> None:
    with pytest.raises(
        InvalidInputError, match=rf"feasible_only: job 0, submitted at 0 s, .* {MAX_DRAWS:,} draws"
    ):
        draw_jobs(PD_ORS, HorizonRequest(3, 60.0, slot_s=60.0, feasible_only=True), seed=0)


def test_a_profile_must_say_what_a_trace_would(tmp_path: Path) -> None:
    check_whole(PD_ORS)
    for name, column in (("harmony_types", "num_workers"), ("jsac_edge_cloud", "samples")):
        with pytest.raises(InvalidInputError, match=f"training profile {name}: columns.{column}: is missing"):
            draw_jobs(load_training_draws(name), within(20, 5), 0)
    with pytest.raises(InvalidInputError, match=r"columns.num_workers: .*must be \[LOW, HIGH\]"):
        whole_jobs(tmp_path, num_workers=4)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "horizon: is missing; .* --horizon 72000, or horizon_s in a file"),
        ({"horizon_s": 60.0}, "horizon: must be at least a slot .* of 3600 s .*, is 60"),
        ({"horizon_s": float("nan")}, "horizon: must be"),
        ({"horizon_s": 7200.0, "jobs": 0}, "jobs: must be at least 1, at most 100,000,000, is 0"),
        ({"horizon_s": 7200.0, "slot_s": 0.0}, "slot_s: must be from"),
        (
            {"horizon_s": 7200.0, "load_scale": 2.0},
            "load_scale: the number of jobs and the horizon set the load",
        ),
        ({"horizon_s": 7200.0, "arrivals": ArrivalKind.DIURNAL}, "arrivals: must be alternating or poisson"),
        ({"whole": False, "horizon_s": 7200.0}, "horizon: only for jobs drawn from a training profile"),
        (
            {"whole": False, "feasible_only": True},
            "feasible_only: only for jobs drawn from a training profile",
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{problem}"):
        request_of(**{"whole": True, "jobs": 5, **options})  # type: ignore[arg-type]  # as above


@pytest.mark.slow
def test_provenance_says_how_to_draw_it_again_and_how_feasible_it_was(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.parquet", "two.parquet")]
    for path in paths:
        drawn = synth_jobs(PD_ORS, within(20, 50, feasible_only=True), seed=1)
        write_workload(drawn.frame, drawn.provenance, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    made = read_provenance(paths[0])
    assert made is not None
    assert (made.converter, made.seed, made.counts.kept) == ("synth", 1, 50)
    assert made.options["profile_sha256"] == PD_ORS.sha256
    assert made.options["horizon_s"] == 20 * HOUR_S
    told = json.loads(json.dumps(drawn.to_dict()))
    assert {name: made.notes[name] for name in ("infeasible", "redraws")} == {
        name: told[name] for name in ("infeasible", "redraws")
    }
    assert sum(told["infeasible"].values()) == round(50 * (1 - told["feasible_share"]))
    known = {name for key in ("drawn", "following") for name in json.loads(json.dumps(made.notes[key]))}
    filled = {name for name in drawn.frame.columns if drawn.frame[name].null_count() < 50}
    assert known == filled - {"job_id", "trace_order"}


def test_families_have_epochs_by_their_curves(tmp_path: Path) -> None:
    text = "{name: nine, base: optimus_nine_models, columns: {num_workers: [1, 8]}}"
    draws = of_yaml(tmp_path, text)
    drawn = synth_jobs(draws, within(100, 300), seed=1)
    assert drawn.frame["model"].n_unique() == 9
    ring = drawn.frame["exchange"] == "all_reduce"
    assert (drawn.frame.filter(ring)["num_ps"] == 0).all()
    assert "epochs" in json.loads(json.dumps(drawn.provenance.notes["following"]))


@given(
    column=st.sampled_from([*yaml.safe_load(SMALL)["columns"], "num_workers", "utility_max", "loss_b0"]),
    value=JUNK,
    slots=st.sampled_from([1.0, 2.5, 1e6]),
    feasible_only=st.booleans(),
)
@settings(max_examples=instances(200), deadline=None)
def test_any_profile_is_drawn_from_or_refused_with_a_message(
    column: str, value: object, slots: float, feasible_only: bool
) -> None:
    with TemporaryDirectory() as folder:
        try:
            draws = whole_jobs(Path(folder), **{column: value})
            frame, _ = draw_jobs(draws, within(slots, 5, feasible_only=feasible_only), 0)
        except InvalidInputError:
            return
    check_frame(frame, "drawn")
