"""Layers of an enrichment, and the record that is common to all systems."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.run import run_world
from ray_sim.experiments.inputs.layer_file import load_announcement_draws, load_profiles
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import (
    InvalidInputError,
    InvalidScenarioError,
    InvalidWorkloadError,
    UnknownNameError,
)
from ray_sim.model.job import Exchange, JobTable
from ray_sim.model.parameter_blocks import parse_blocks
from ray_sim.model.step_time import ChunkTimes
from ray_sim.model.training_progress import SpeedProgress, pd_ors_progress, placement_progress
from ray_sim.model.units import FloatArray
from ray_sim.model.utility import utility
from ray_sim.policies.registry import create_policy
from tests.proofs import instances, quick_first
from tests.scripted import at_times, scripted
from tests.training import rows
from tests.training_profiles import philly
from tests.worlds import cluster_of
from workloads.announcements.announce import announce
from workloads.job_table import frame_to_table
from workloads.layers.fill import EnrichmentLayer, fill, fill_file
from workloads.provenance import Counts, Provenance
from workloads.store import read_frame, read_provenance, write_workload
from workloads.training.enrich import Feasibility, enrich

MADE = Provenance(converter="test", converter_version="1", counts=Counts(read=9, kept=9))


def test_layers_are_filled_one_after_the_other(tmp_path: Path) -> None:
    write_workload(philly(9), MADE, tmp_path / "in.parquet")
    layers = load_profiles(["pd_ors", "announced"])
    reports = fill_file(str(tmp_path / "in.parquet"), tmp_path / "out.parquet", layers, 3)
    assert [type(report).__name__ for report in reports] == ["EnrichReport", "AnnouncementReport"]
    trained, _ = enrich(read_frame(tmp_path / "in.parquet"), load_training_draws("pd_ors"), 3)
    both, _ = announce(trained, load_announcement_draws("announced"), 3)
    assert read_frame(tmp_path / "out.parquet").equals(both)


def test_the_provenance_has_every_layer_down_to_the_source(tmp_path: Path) -> None:
    write_workload(philly(9), MADE, tmp_path / "in.parquet")
    fill_file(
        str(tmp_path / "in.parquet"), tmp_path / "out.parquet", load_profiles(["announced", "pd_ors"]), 3
    )
    last = read_provenance(tmp_path / "out.parquet")
    assert last is not None
    first = Provenance.model_validate(last.notes["source_provenance"])
    assert (last.options["profile"], first.options["profile"]) == ("pd_ors", "announced")
    assert first.notes["source_provenance"] == MADE.model_dump(mode="json")
    assert last.sources == first.sources


def test_two_layers_that_fill_a_column_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError) as error:
        load_profiles(["jsac_edge_cloud", "optimus_nine_models"])
    assert "layers jsac_edge_cloud and optimus_nine_models: both fill epochs, gradient_mb" in str(error.value)
    assert "leave out one of the two" in str(error.value)
    with pytest.raises(InvalidInputError, match="both fill birth_s, value, outlook"):
        load_profiles(["announced", "announced_history"])


def test_a_layer_on_columns_that_have_values_is_refused_by_name() -> None:
    frame, _ = enrich(philly(9), load_training_draws("pd_ors"), 1)
    with pytest.raises(
        InvalidWorkloadError, match=r"already says epochs, .* so profile harmony_types can only"
    ):
        fill(frame, EnrichmentLayer(load_training_draws("harmony_types")), 1)
    announced, _ = fill(frame, EnrichmentLayer(load_announcement_draws("announced")), 1)
    assert announced.drop("birth_s", "value", "outlook").equals(frame.drop("birth_s", "value", "outlook"))


def test_a_layered_profile_stands_for_those_that_it_names(tmp_path: Path) -> None:
    own = tmp_path / "both.yaml"
    own.write_text("{name: both, layers: [pd_ors, announced]}")
    layers = load_profiles([str(own)], Feasibility(only=True))
    assert [layer.draws.name for layer in layers] == ["pd_ors", "announced"]
    assert [layer.feasibility.only for layer in layers] == [True, False]
    with pytest.raises(InvalidScenarioError, match="profile announced announces every job; leave out"):
        load_profiles(["announced"], Feasibility(only=True))
    own.write_text("{name: both, layers: []}")
    with pytest.raises(InvalidInputError, match="layers"):
        load_profiles([str(own)])
    with pytest.raises(UnknownNameError, match="Did you mean 'pd_ors'"):
        load_profiles(["pdors"])


RESOURCES = ("gpu", "cpu", "memory_gib", "disk_gib")
REFERENCE = np.array([8 * 1000, 72 * 1000, 192 * 1024, 500 * 1024])
WITHIN = 1e-9
"""Relative; a clock of microseconds adds half of one, and chunks are rounded up to one."""


def common(frame: pl.DataFrame, seed: int = 1) -> pl.DataFrame:
    for layer in load_profiles(["common"]):
        frame, _ = fill(frame, layer, seed)
    return frame


@cache
def jobs(count: int) -> tuple[pl.DataFrame, JobTable]:
    frame = common(philly(count)).sort("submit_s", "trace_order", "vc")
    return frame, frame_to_table(frame, RESOURCES)


def spread(table: JobTable, job: int, servers: int) -> list[tuple[int, int]]:
    """Workers and parameter servers on each server, task i on server i mod the number of servers."""
    assert table.training is not None
    w, p = int(table.training.num_workers[job]), int(table.training.num_ps[job])
    return [(len(range(s, w, servers)), len(range(s, p, servers))) for s in range(servers)]


def traced_placement(table: JobTable, job: int) -> list[tuple[int, int]]:
    """The placement on the fewest reference servers; on one where none hold it."""
    assert table.training is not None
    worker, ps = table.training.worker_demand[job], table.training.ps_demand[job]
    for servers in range(1, 2 + int(table.training.num_workers[job])):
        placed = spread(table, job, servers)
        if all((w * worker + p * ps <= REFERENCE).all() for w, p in placed):
            return placed
    return spread(table, job, 1)


def apart(table: JobTable, job: int) -> list[tuple[int, int]]:
    assert table.training is not None
    w, p = int(table.training.num_workers[job]), int(table.training.num_ps[job])
    return [(1, 0)] * w + [(0, 1)] * p


def rates(table: JobTable, rule: SpeedProgress, place: object) -> FloatArray:
    assert callable(place)
    found = [rule.samples_per_s(np.array([job]), rows(place(table, job)))[0] for job in range(len(table))]
    return np.array(found)


def test_every_view_takes_the_traced_time() -> None:
    frame, table = jobs(instances(10_000, 150))
    n, traced_s = len(table), frame["duration_s"].to_numpy()
    assert table.training is not None
    assert table.pairs is not None
    assert table.chunk_profile is not None
    np.testing.assert_array_equal(table.work_us, np.rint(traced_s * 1e6))  # rigid and announced jobs
    speed = np.ones(int((table.training.num_workers + table.training.num_ps).max()))
    general = placement_progress(table.training, speed)
    np.testing.assert_allclose(
        table.training.work / rates(table, general, traced_placement), traced_s, rtol=WITHIN
    )
    of_pairs = pd_ors_progress(table.pairs.of_training(table.training), speed)
    np.testing.assert_allclose(
        table.training.work / rates(table, of_pairs, traced_placement), traced_s, rtol=WITHIN
    )
    everybody, at_one = np.arange(n), np.ones(n)
    chunk_us = ChunkTimes(table.chunk_profile, grid_us=1).chunk_us(everybody, at_one, np.zeros(n, bool))
    np.testing.assert_allclose(chunk_us / 1e6, traced_s, rtol=WITHIN, atol=1e-6)
    np.testing.assert_array_equal(table.chunk_profile.chunks, table.training.num_workers)


def test_the_forms_agree_on_one_server_for_any_number_of_workers_with_their_share() -> None:
    """W = gamma p workers, whatever p: what makes PD-ORS's plans come true on the general form."""
    _, table = jobs(instances(2000, 50))
    assert table.training is not None
    general, plain = (form(table.training, np.ones(1)) for form in (placement_progress, pd_ors_progress))
    for job in range(len(table)):
        gamma = int(table.training.workers_per_ps[job])
        for ps in (1, 2, 5):
            if gamma * ps <= table.training.batch[job]:
                placed = rows([(gamma * ps, ps)])
                speeds = [form.samples_per_s(np.array([job]), placed)[0] for form in (general, plain)]
                assert speeds[0] == pytest.approx(speeds[1], rel=1e-12)


def test_apart_the_form_of_pd_ors_takes_what_the_general_form_takes() -> None:
    """OASiS never puts a worker and a parameter server together: its jobs take longer, by so much."""
    frame, table = jobs(instances(2000, 50))
    assert table.training is not None
    assert table.pairs is not None
    speed = np.ones(int((table.training.num_workers + table.training.num_ps).max()))
    general = rates(table, placement_progress(table.training, speed), apart)
    of_pairs = rates(table, pd_ors_progress(table.pairs.of_training(table.training), speed), apart)
    one = np.array([len(traced_placement(table, job)) == 1 for job in range(len(table))])
    assert one.mean() > 0.9
    np.testing.assert_allclose(of_pairs[one], general[one], rtol=WITHIN)
    traced = table.training.work / frame["duration_s"].to_numpy()
    np.testing.assert_allclose(of_pairs[~one], traced[~one], rtol=WITHIN)
    assert (of_pairs <= traced * (1 + WITHIN)).all()


def test_an_announced_job_is_worth_its_utility() -> None:
    frame, table = jobs(instances(2000, 50))
    assert table.utility is not None
    assert table.statements is not None
    lead_s = (table.statements.arrival_us - table.statements.birth_us) / 1e6
    for job in range(len(table)):
        value = table.statements.values[table.statements.value_row[job]]
        last_s = value.end_s - lead_s[job]
        delay_s = np.linspace(0, last_s * (1 - 1e-9), 7)
        expected = utility(table.utility, np.full(7, job), delay_s)
        np.testing.assert_allclose(value.at(delay_s + lead_s[job]), expected, rtol=1e-7)
        assert expected[0] >= 1
        assert expected[-1] >= 1 - 1e-6
        assert value.at(np.array([value.end_s + 1])) == 0
        cut = last_s - table.utility.utility_due_s[job]
        assert cut == pytest.approx(604_800, abs=1) or expected[-1] == pytest.approx(1, rel=1e-3)
    assert frame["birth_s"].null_count() == 0


def test_a_record_has_the_columns_of_all_systems_and_types_that_interference_knows() -> None:
    frame, table = jobs(100)
    for record in (
        table.chunk_profile,
        table.training,
        table.pairs,
        table.utility,
        table.loss,
        table.blocks,
        table.statements,
    ):
        assert record is not None
    assert table.gaps == {}
    assert table.measured is None
    assert set(frame["exchange"]) == {Exchange.ASYNC.name.lower()}
    harmony = {family.name for family in load_training_draws("harmony_types").families}
    assert set(frame["model"]) == harmony
    for text, gradient_mb in frame.select("blocks", "gradient_mb").unique().iter_rows():
        assert 4e-6 * sum(parse_blocks(text)) == pytest.approx(gradient_mb, rel=0.08)


def test_the_same_seed_gives_the_same_record_and_a_deleted_row_changes_no_other() -> None:
    frame = philly(60)
    whole = common(frame)
    assert common(frame).equals(whole)
    assert not common(frame, seed=2).equals(whole)
    some = sorted(random.Random(1).sample(range(60), 41))
    assert common(frame[some]).equals(whole[some])


def test_runs_of_no_length_and_of_many_servers_are_filled() -> None:
    frame = philly(3).with_columns(
        num_gpus=pl.Series([1.0, 64.0, 0.5]), duration_s=pl.Series([0.0, 2.0**30, 1e-3]), num_tasks=None
    )
    filled = common(frame.with_columns(pl.col("num_tasks").cast(pl.Int64)))
    assert filled["num_workers"].to_list() == [1, 64, 1]
    assert (filled["minibatch_s"] >= 0).all()
    assert filled["chunk_bandwidth_mbps"].max() <= 2**30  # type: ignore[operator]  # a number


def test_a_worth_of_utilities_needs_utilities() -> None:
    announced = load_announcement_draws("common_announced")
    with pytest.raises(
        InvalidWorkloadError, match=r"utility_max, .* have empty rows; put a training profile"
    ):
        announce(philly(3), announced, 1)
    frame, _ = enrich(philly(3), load_training_draws("pd_ors"), 1)
    some = frame.with_columns(utility_max=pl.when(pl.int_range(pl.len()) > 0).then("utility_max"))
    with pytest.raises(InvalidWorkloadError, match="utility_max have empty rows"):
        announce(some, announced, 1)


TRUTHS = ("rigid", "placement", "pd_ors", "a_online", "announced")


@pytest.mark.parametrize("truth", quick_first(TRUTHS, 2))
def test_the_engine_runs_each_job_alone_for_its_traced_time(truth: str) -> None:
    """Twelve jobs per commit, by a policy that puts them where the trace had them."""
    count = instances(60, 6)
    frame, table = jobs(300)
    for job in range(0, 300, 300 // count):
        run_s = _run_alone(frame[job], truth)
        assert run_s == pytest.approx(frame["duration_s"][job], rel=WITHIN, abs=2e-6)
    assert len(table) == 300


def _run_alone(job: pl.DataFrame, truth: str) -> float:
    """Seconds for which a job runs on the servers of its traced run; rounds are as long as the run."""
    table = frame_to_table(job, RESOURCES)
    placed = traced_placement(table, 0)
    of_truth: dict[str, dict[str, object]] = {
        "a_online": {"slot_fill": "fractional", "slot_s": 60.0},
        "announced": {"slot_s": float(job["duration_s"][0]), "clip_statements": True},
    }
    more = of_truth.get(truth, {})
    world = build_world(
        table, _servers(len(placed), int(job["num_gpus"][0])), params={"truth": truth, **more}
    )
    if truth in BUILT_IN:
        result = run_world(world, create_policy(BUILT_IN[truth], {}))
    else:
        held = [
            (server, role, tasks)
            for server, both in enumerate(placed)
            for role, tasks in zip((WORKER, PARAMETER_SERVER), both, strict=True)
            if tasks
        ]
        script = at_times({0.0: Decision.of({0: held})})
        result = run_world(world, scripted(script, elastic=True))
    return float(result.jobs["run_s"][0])


BUILT_IN = {"rigid": "fifo", "a_online": "chunk_fifo", "announced": "announced_fifo"}


def _servers(servers: int, gpus: int) -> Cluster:
    """Reference servers, as many as the bundle needs; chunks, a worker for each GPU, need no more."""
    each = max(8, -(-gpus // servers))
    return cluster_of(
        [each] * servers, cpu=[72] * servers, memory_gib=[192] * servers, disk_gib=[500] * servers
    )
