"""Enrichment: drawn from the profile, consistent with the row, the same for a job whatever the others are."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.job import Exchange
from ray_sim.model.parameter_blocks import parse_blocks
from ray_sim.model.step_time import ChunkTimes
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.training_progress import Nic, placement_progress
from tests.proofs import instances, quick_first
from tests.training import rows
from tests.training_profiles import PROFILES, SMALL, Jobs, of_yaml, philly
from workloads.job_table import frame_to_table, role_demand
from workloads.layers.fill import EnrichmentLayer, fill_file
from workloads.provenance import Counts, Provenance
from workloads.realisation import Window, cut_window, resample_days
from workloads.schema import SCHEMA, with_all_columns
from workloads.store import load_workload, read_frame, read_provenance, write_workload
from workloads.training.enrich import enrich

STEP_TIME = ["harmony_types", "optimus_nine_models", "pd_ors"]


RESOURCES = ("gpu", "cpu", "memory_gib", "disk_gib")


MADE = Provenance(converter="test", converter_version="1", counts=Counts(read=1, kept=1))


def test_the_samples_make_the_bundle_take_the_traced_time(tmp_path: Path, jobs: Jobs) -> None:
    # 4 workers of 1 GPU and 2 PSs fit on one server of 4 GPUs. A step trains F samples in F x 0.5 / 4 s and
    # exchanges 2 x (4 x 0.4) / 2 = 1.6 s. With K samples and 10 epochs: 10 K / F x (F / 8 + 1.6) = 1000 s.
    # 6 workers and 3 PSs need two servers, 3 + 3 and 2 + 1: the PS of the second has 3 far workers of 4 s and
    # 3 near ones of 0.4 s, (12 + 1.2) / 3 = 4.4 s one way.
    frame, report = enrich(
        jobs(2, num_gpus=[4.0, 6.0], duration_s=[1000.0, 1000.0]), of_yaml(tmp_path, SMALL), 0
    )
    batch = frame["batch"].to_numpy()
    steps_s = np.array([batch[0] / 8 + 1.6, batch[1] / 12 + 8.8])
    np.testing.assert_allclose(10 * frame["samples"] / batch * steps_s, [1000, 1000])
    assert frame["num_workers"].to_list() == [4, 6]
    assert frame["num_ps"].to_list() == [2, 3]
    assert report.read == report.kept == 2


def test_the_nine_models_have_their_published_blocks_and_sizes(tmp_path: Path) -> None:
    """157 blocks of ResNet-50, as the paper counts; 4 bytes a parameter are the gradients, to 3 %."""
    frame, _ = enrich(philly(200), load_training_draws("optimus_nine_models"), seed=1)
    models = frame.select("model", "blocks", "gradient_mb").unique()
    assert models.height == 9
    blocks = {model: parse_blocks(text) for model, text, _ in models.iter_rows()}
    assert len(blocks["resnet-50"]) == 157
    for model, _, gradient_mb in models.iter_rows():
        assert 4e-6 * sum(blocks[model]) == pytest.approx(gradient_mb, rel=0.03)
    write_workload(frame, MADE, tmp_path / "w.parquet")
    found = load_workload(tmp_path / "w.parquet").blocks
    assert found is not None
    assert [found.lists[i] for i in found.of_job] == [blocks[model] for model in frame["model"]]


def test_blocks_are_asked_for_where_jobs_have_parameter_servers() -> None:
    frame, _ = enrich(philly(20), load_training_draws("optimus_nine_models"), seed=1)
    first = pl.int_range(pl.len()) < 3
    some = frame.with_columns(blocks=pl.when(~first).then("blocks"))
    assert frame_to_table(some).blocks is None
    name = some["job_id"][0]
    assert frame_to_table(some).gaps["blocks"] == (f"blocks: is null for 3 of 20 jobs, first for {name}",)
    ring = some.with_columns(exchange=pl.when(first).then(pl.lit("all_reduce")).otherwise("exchange"))
    found = frame_to_table(ring).blocks
    assert found is not None
    assert found.of_job.tolist()[:3] == [-1, -1, -1]
    assert found.of_job.min() == -1
    assert (found.of_job[3:] >= 0).all()


@pytest.mark.parametrize("profile", STEP_TIME)
def test_every_jobs_bundle_takes_its_traced_time_on_as_few_reference_servers_as_hold_it(profile: str) -> None:
    draws = load_training_draws(profile)
    frame, report = enrich(philly(300), draws, seed=1)
    table = frame_to_table(frame, tuple(draws.reference_server))
    assert table.training is not None
    training = table.training
    truth = placement_progress(training, np.ones(64))
    quanta = {"gpu": 1000, "cpu": 1000, "memory_gib": 1024, "disk_gib": 1024}
    capacity = np.array([amount * quanta[name] for name, amount in draws.reference_server.items()])
    for job in range(len(table)):
        w, p = int(training.num_workers[job]), int(training.num_ps[job])
        for k in range(1, 65):
            spread = [(len(range(s, w, k)), len(range(s, p, k))) for s in range(k)]
            load = [a * training.worker_demand[job] + b * training.ps_demand[job] for a, b in spread]
            if all((of_server <= capacity).all() for of_server in load):
                break
        rate = truth.samples_per_s(np.array([job]), rows(spread))[0]
        assert training.work[job] / rate == pytest.approx(float(frame["duration_s"][job]), rel=1e-9)
    assert not report.infeasible


@pytest.mark.parametrize("profile", quick_first(PROFILES, 2))
def test_an_enrichment_is_a_workload_whose_rows_are_those_of_the_trace(profile: str, tmp_path: Path) -> None:
    before = philly(500)
    after, report = enrich(before, load_training_draws(profile), seed=1)
    trace = [name for name in before.columns if before[name].null_count() < before.height]
    assert after.select(trace).equals(before.select(trace))
    gpus = after["num_workers"] * after["worker_gpu"]
    np.testing.assert_allclose(gpus, after["num_gpus"])
    write_workload(after, MADE, tmp_path / "w.parquet")
    assert read_frame(tmp_path / "w.parquet").equals(after.sort("submit_s", "trace_order", "vc"))
    assert report.kept == 500


@pytest.mark.parametrize("profile", quick_first(PROFILES, 2))
def test_a_jobs_draws_do_not_depend_on_the_other_jobs(profile: str) -> None:
    frame, draws, window = philly(400), load_training_draws(profile), Window(0, 20_000)
    cut_after = cut_window(enrich(frame, draws, seed=2)[0], window)
    cut_before, _ = enrich(cut_window(frame, window), draws, seed=2)
    assert 0 < cut_after.height < 400
    assert cut_before.equals(cut_after)


@pytest.mark.slow
@given(
    ids=st.lists(st.text(max_size=6), min_size=2, max_size=8, unique=True),
    gone=st.integers(0, 7),
    order=st.randoms(use_true_random=False),
    profile=st.sampled_from(PROFILES),
)
@settings(max_examples=instances(25), deadline=None)
def test_a_record_may_be_deleted_or_moved_and_all_other_jobs_keep_their_draws(
    ids: list[str], gone: int, order: random.Random, profile: str
) -> None:
    def enriched(names: list[str]) -> dict[str, tuple[object, ...]]:
        rows = pl.DataFrame({"job_id": names, "num_gpus": 4.0, "duration_s": 600.0, "submit_s": 0.0})
        frame = with_all_columns(rows.with_columns(trace_order=pl.int_range(pl.len(), dtype=pl.Int64)))
        filled, _ = enrich(frame, load_training_draws(profile), seed=1)
        return {row[0]: row[1:] for row in filled.drop("trace_order").iter_rows()}

    whole = enriched(ids)
    some = [name for index, name in enumerate(ids) if index != gone]
    order.shuffle(some)
    assert enriched(some) == {name: whole[name] for name in some}


def test_jobs_of_other_names_draw_independently_and_evenly() -> None:
    # Kolmogorov's 1 % point is 1.63 / sqrt(n). Neighbouring names correlate by less than 4 / sqrt(n).
    n = 20_000
    one, other = (
        Streams(seed).uniforms("enrich-epochs", text_entities(map(str, range(n)))) for seed in (1, 2)
    )
    for drawn in (one, other):
        assert kstest(drawn, "uniform").statistic < 1.63 / np.sqrt(n)
        assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 4 / np.sqrt(n)
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(n)


def test_a_job_that_is_resampled_twice_draws_twice() -> None:
    # One job a day: of 40 drawn days some come twice, and their jobs have names of their own.
    rows = pl.DataFrame(
        {"submit_s": [float(86_400 * day) for day in range(40)], "num_gpus": 4.0, "duration_s": 600.0}
    )
    number = pl.int_range(pl.len(), dtype=pl.Int64)
    days = with_all_columns(rows.with_columns(job_id=number.cast(pl.String), trace_order=number))
    frame, _ = enrich(resample_days(days, seed=3), load_training_draws("pd_ors"), seed=1)
    assert frame["job_id"].str.split("@").list.first().n_unique() < 40
    assert frame["sample_s"].n_unique() == 40


@pytest.mark.slow
def test_how_many_rows_are_filled_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, draws = philly(250), load_training_draws("optimus_nine_models")
    together, _ = enrich(frame, draws, seed=1)
    monkeypatch.setattr("workloads.training.enrich.ROWS_AT_ONCE", 100)
    seen: list[tuple[int, int, str]] = []
    assert enrich(frame, draws, 1, progress=lambda *report: seen.append(report))[0].equals(together)
    assert seen == [*((done, 250, "drawing") for done in (0, 100, 200)), (250, 250, "judging")]


def test_another_seed_draws_another_realisation_and_the_same_seed_the_same() -> None:
    frame, draws = philly(200), load_training_draws("pd_ors")
    one, again, other = (enrich(frame, draws, seed)[0] for seed in (1, 1, 2))
    assert one.equals(again)
    assert (one["sample_s"] != other["sample_s"]).all()


def test_the_published_ranges_of_pd_ors_are_those_of_the_draws() -> None:
    frame, _ = enrich(philly(5000), load_training_draws("pd_ors"), seed=3)
    ranges = {
        "epochs": (50, 200), "batch": (1, 200), "gradient_mb": (30, 575), "workers_per_ps": (1, 10),
        "sample_s": (1e-5 * 3600, 1e-4 * 3600), "worker_cpu": (1, 10), "ps_memory_gib": (2, 32),
        "utility_max": (1, 100), "utility_due_s": (3600, 15 * 3600),
    }  # fmt: skip
    for name, (low, high) in ranges.items():
        column = frame[name].to_numpy()
        assert low <= column.min() < low + 0.02 * (high - low) + (column.dtype.kind == "i"), name
        assert high - 0.02 * (high - low) < column.max() <= high, name
    per_slot = frame["utility_decay_per_s"].to_numpy() * 3600
    shares = [(per_slot == 0).mean(), ((per_slot > 0) & (per_slot < 1.01)).mean(), (per_slot > 3.9).mean()]
    # Classes of 10, 55 and 35 %: 5,000 draws stray by at most 0.7 percentage points (one sigma).
    np.testing.assert_allclose(shares, [0.10, 0.55, 0.35], atol=0.03)
    np.testing.assert_allclose(frame["internal_bandwidth_mbps"], 10 * frame["bandwidth_mbps"])


def test_workers_are_the_tasks_of_the_trace_or_share_its_gpus_out(tmp_path: Path, jobs: Jobs) -> None:
    # 6 GPUs at up to 4 each: 1, 2 or 3 each. 5 GPUs: one each. 2.5 and 0 GPUs: one worker. 8 tasks: 8.
    draws = of_yaml(
        tmp_path, SMALL.replace("worker_gpu: 1", "worker_gpu: [0, 4]").replace("gpu: 4", "gpu: 8")
    )
    frame, _ = enrich(jobs(300, num_gpus=[6.0] * 300), draws, 0)
    assert set(frame["num_workers"]) == {2, 3, 6}
    others = jobs(4, num_gpus=[5.0, 2.5, 0.0, 16.0], num_tasks=[None, None, None, 8])
    frame, report = enrich(others, draws, 0)
    assert frame["num_workers"].to_list() == [5, 1, 1, 8]
    assert frame["worker_gpu"].to_list() == [1, 2.5, 0, 2]
    assert not any("worker_gpu" in where for where in report.outside_range)


def test_workers_without_gpus_are_as_many_as_those_with_one_each(tmp_path: Path, jobs: Jobs) -> None:
    rows = jobs(4, num_gpus=[4.0, 2.5, 0.0, 16.0], num_tasks=[None, None, None, 8])
    with_one, _ = enrich(rows, of_yaml(tmp_path, SMALL), 0)
    without, report = enrich(rows, of_yaml(tmp_path, SMALL.replace("worker_gpu: 1", "worker_gpu: 0")), 0)
    assert without["num_workers"].to_list() == with_one["num_workers"].to_list() == [4, 1, 1, 8]
    assert without["worker_gpu"].to_list() == [0, 0, 0, 0]
    assert without["num_gpus"].to_list() == [0, 0, 0, 0]
    assert without["num_tasks"].to_list() == [4, 1, None, 8]
    assert not any("worker_gpu" in where for where in report.outside_range)
    # Draws do not depend on worker_gpu: a worker of any size trains as fast on the reference server.
    assert without["batch"].to_list() == with_one["batch"].to_list()


def test_what_the_row_decides_is_kept_and_counted_where_it_leaves_its_range(
    tmp_path: Path, jobs: Jobs
) -> None:
    # A batch of at most 100 for 128 workers: 128. A worker of 0.5 GPUs is below 1. K of a second is below 1.
    draws = of_yaml(tmp_path, SMALL)
    frame, report = enrich(jobs(3, num_gpus=[128.0, 0.5, 1.0], duration_s=[1e3, 1e3, 1.0]), draws, 0)
    assert frame["batch"][0] == 128
    assert report.outside_range == {"batch above": 1, "worker_gpu below": 1, "samples below": 1}


def test_families_may_tell_their_columns_in_any_order(tmp_path: Path, jobs: Jobs) -> None:
    # sample_s and gradient_mb move from the common columns to those of the families, one way and the other.
    common = SMALL.replace("  sample_s: 0.5\n  gradient_mb: 50\n", "")
    families = """
families:
  - {name: a, columns: {sample_s: 0.5, gradient_mb: 50}}
  - {name: b, columns: {gradient_mb: 70, sample_s: 0.7}}
"""
    frame, _ = enrich(jobs(50), of_yaml(tmp_path, common + families), 0)
    by_model = dict(frame.group_by("model").agg(pl.struct("sample_s", "gradient_mb").unique()).iter_rows())
    assert by_model == {
        "a": [{"sample_s": 0.5, "gradient_mb": 50}],
        "b": [{"sample_s": 0.7, "gradient_mb": 70}],
    }


def test_a_ring_has_no_parameter_servers(tmp_path: Path, jobs: Jobs) -> None:
    mixed = "exchange: {mix: [{weight: 1, value: sync}, {weight: 1, value: all_reduce}]}"
    frame, _ = enrich(
        jobs(100, num_gpus=[4.0] * 100), of_yaml(tmp_path, SMALL.replace("exchange: sync", mixed)), 0
    )
    by_kind = dict(frame.group_by("exchange").agg(pl.col("num_ps").unique()).iter_rows())
    assert by_kind == {"sync": [2], "all_reduce": [0]}


def test_optimus_jobs_end_where_their_curve_has_converged() -> None:
    frame, _ = enrich(philly(200), load_training_draws("optimus_nine_models"), seed=1)
    b0, b1 = frame["loss_b0"].to_numpy(), frame["loss_b1"].to_numpy()
    last = frame["epochs"].to_numpy()

    def drop(epoch: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (b0 * (epoch - 1) + b1) - 1 / (b0 * epoch + b1))

    threshold = frame["loss_threshold"].to_numpy()
    assert (drop(last - 9) < threshold).all()
    assert ((drop(last - 10) >= threshold) | (last == 10)).all()
    assert frame["model"].n_unique() == 9
    table = frame_to_table(frame)
    assert table.loss is not None
    assert table.utility is None
    assert table.gaps["utility"][0] == "utility_max: is missing"


def test_jobs_whose_owners_kill_them_end_before_they_converge(tmp_path: Path) -> None:
    half = of_yaml(tmp_path, "{name: half, base: optimus_nine_models, columns: {trained_share: 0.5}}")
    whole, _ = enrich(philly(200), load_training_draws("optimus_nine_models"), seed=1)
    killed, _ = enrich(philly(200), half, seed=1)
    assert killed["epochs"].to_list() == [math.ceil(epochs / 2) for epochs in whole["epochs"]]


def test_a_learning_rate_that_is_lowered_keeps_jobs_going(tmp_path: Path) -> None:
    columns = "{loss_drop: 0.02, loss_drop_epoch: 8}"
    drops = of_yaml(tmp_path, f"{{name: drops, base: optimus_nine_models, columns: {columns}}}")
    smooth, _ = enrich(philly(200), load_training_draws("optimus_nine_models"), seed=1)
    frame, _ = enrich(philly(200), drops, seed=1)
    at_8 = 1 / (8 * frame["loss_b0"] + frame["loss_b1"])
    at_7 = 1 / (7 * frame["loss_b0"] + frame["loss_b1"])
    noticed = at_7 - at_8 * 0.98 >= frame["loss_threshold"]
    assert 0 < noticed.sum() < 200
    assert (frame["epochs"].filter(noticed) >= 8 + 10).all()
    assert frame["epochs"].filter(~noticed).equals(smooth["epochs"].filter(~noticed))


def test_chunked_jobs_have_a_chunk_for_each_worker() -> None:
    frame, report = enrich(philly(500), load_training_draws("jsac_edge_cloud"), seed=1)
    assert frame["chunks"].to_list() == frame["num_gpus"].cast(pl.Int64).to_list()
    assert report.outside_range == {"chunks above": int((frame["num_gpus"] > 10).sum())}
    table = frame_to_table(frame)
    assert table.chunk_profile is not None
    assert not np.isnan(table.chunk_profile.upload_cloud_s).any()


def test_uploads_of_the_edge_cloud_take_whole_slots() -> None:
    """1 to 4 and 10 to 15 slots of an hour, each as likely: 2.5 and 12.5 slots on average."""
    jobs = 5000
    frame, _ = enrich(philly(jobs), load_training_draws("jsac_edge_cloud"), seed=1)
    for column, slots in (("upload_edge_s", range(1, 5)), ("upload_cloud_s", range(10, 16))):
        drawn, counts = np.unique(frame[column].to_numpy() / 3600, return_counts=True)
        assert drawn.tolist() == [*slots]
        share = 1 / len(slots)
        assert (abs(counts - share * jobs) < 5 * np.sqrt(jobs * share * (1 - share))).all()


def test_chunked_jobs_train_as_fast_as_a_whole_with_a_worker_for_each_chunk() -> None:
    frame, _ = enrich(philly(500), load_training_draws("jsac_edge_cloud"), seed=1)
    table = frame_to_table(frame)
    assert table.chunk_profile is not None
    assert table.training is not None
    jobs, chunks = np.arange(500), frame["chunks"].to_numpy()
    chunk_us = ChunkTimes(table.chunk_profile, grid_us=1).chunk_us(jobs, np.ones(500), np.zeros(500, bool))
    # All tasks on servers of their own, the parameter server last; each pair has the bandwidth to itself.
    ptr = np.append(0, np.cumsum(chunks + 1))
    last = np.zeros(ptr[-1], dtype=bool)
    last[ptr[1:] - 1] = True
    server = np.arange(ptr[-1]) - np.repeat(ptr[:-1], chunks + 1)
    role = np.where(last, PARAMETER_SERVER, WORKER)
    rows = Rows(ptr, server, role, np.ones(ptr[-1], dtype=np.int64))
    truth = placement_progress(table.training, speed=np.ones(int(chunks.max()) + 1), nic=Nic.PER_LINK)
    samples_per_s = truth.samples_per_s(jobs, rows)
    assert table.training.work / samples_per_s * 1e6 == pytest.approx(chunk_us, rel=1e-9, abs=1)


@pytest.mark.slow
def test_the_file_says_what_was_drawn_from_what(tmp_path: Path) -> None:
    made = Provenance(
        converter="synth", converter_version="1", counts=Counts(read=50, kept=50), notes={"epoch_utc": "2017"}
    )
    write_workload(philly(50), made, tmp_path / "in.parquet")
    draws = load_training_draws("pd_ors")
    layers = [EnrichmentLayer(draws)]
    fill_file(str(tmp_path / "in.parquet"), tmp_path / "out.parquet", layers, 7)
    fill_file(str(tmp_path / "in.parquet"), tmp_path / "again.parquet", layers, 7)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()
    provenance = read_provenance(tmp_path / "out.parquet")
    assert provenance is not None
    assert (provenance.converter, provenance.seed) == ("enrich", 7)
    assert provenance.options["profile_sha256"] == draws.sha256
    notes = provenance.notes
    assert notes["epoch_utc"] == "2017"
    assert notes["solved"] == ["samples"]
    assert notes["following"] == ["num_workers", "num_ps"]
    filled = {name for key in ("drawn", "solved", "following") for name in json.loads(json.dumps(notes[key]))}
    out = read_frame(tmp_path / "out.parquet")
    trace = read_frame(tmp_path / "in.parquet")
    assert filled == {name for name in SCHEMA if out[name].null_count() < trace[name].null_count()}


def test_a_training_profile_is_in_the_table_without_nan(tmp_path: Path) -> None:
    frame, _ = enrich(philly(20), load_training_draws("pd_ors"), seed=1)
    table = frame_to_table(frame, RESOURCES)
    assert table.training is not None
    assert table.utility is not None
    assert table.training.exchange.tolist() == [Exchange.SYNC] * 20
    assert table.training.worker_demand.shape == (20, 4)
    np.testing.assert_array_equal(table.training.worker_demand[:, 0], 1000 * frame["worker_gpu"].to_numpy())
    np.testing.assert_array_equal(table.training.ps_demand[:, 2], 1024 * frame["ps_memory_gib"].to_numpy())
    np.testing.assert_array_equal(table.training.step_s, np.zeros(20))
    np.testing.assert_allclose(table.training.work, frame["epochs"] * frame["samples"])


def test_a_table_tells_what_a_training_profile_lacks() -> None:
    frame, _ = enrich(philly(3), load_training_draws("pd_ors"), seed=1)
    frame = frame.with_columns(batch=pl.when(pl.col("trace_order") != 1).then("batch"), sample_s=None)
    table = frame_to_table(with_all_columns(frame.with_columns(pl.col("sample_s").cast(pl.Float64))))
    assert table.training is None
    assert table.gaps["training"] == ("batch: is null for 1 of 3 jobs, first for 1", "sample_s: is missing")


def test_a_workload_without_training_columns_has_none(tmp_path: Path) -> None:
    write_workload(philly(5), MADE, tmp_path / "w.parquet")
    table = load_workload(tmp_path / "w.parquet")
    assert (table.training, table.utility, table.loss, table.chunk_profile) == (None, None, None, None)


def test_tasks_hold_nothing_of_a_resource_for_which_workloads_have_no_column() -> None:
    frame = pl.DataFrame({"worker_gpu": [2.0, None]})
    assert role_demand(frame, "worker", ("gpu", "cpu_norm")).tolist() == [[2000, 0], [0, 0]]
