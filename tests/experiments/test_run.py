"""One simulation, from Python or from a scenario: the same answer by either way."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ray_sim.cli import main
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.layer_file import load_announcement_draws
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.prepare import Offer, prepare, realise
from ray_sim.experiments.run import simulate
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, parse_scenario
from ray_sim.model.errors import InvalidScenarioError, InvalidWorkloadError
from ray_sim.model.metrics import Trim
from ray_sim.policies.fifo import Fifo
from tests.entered_modules import Entered
from tests.figures import welfare_of
from workloads.announcements.announce import announce
from workloads.convert import convert
from workloads.describe import tally_rows
from workloads.job_table import frame_to_table
from workloads.layers.fill import EnrichmentLayer, fill_file
from workloads.store import load_workload, read_frame, write_workload
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.drawn_jobs import synth_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.synth import DrawRequest, synth, synth_file
from workloads.trace_format import ConvertOptions
from workloads.training.enrich import enrich


def _scenario(**changes: object) -> Scenario:
    return parse_scenario({"workload": "week.parquet", "cluster": "small.yaml", **changes}, "test")


def test_names_and_objects_give_the_same_run(at_desk: Path) -> None:
    by_name = simulate("week.parquet", "small.yaml", "fifo", {"placement": "pooled"})
    servers = load_cluster("small.yaml")
    jobs = load_workload(Path("week.parquet"), servers.resources)
    assert_frame_equal(by_name.jobs, simulate(jobs, servers, Fifo(placement="pooled")).jobs)


def test_parameters_for_an_object_are_refused(at_desk: Path) -> None:
    with pytest.raises(InvalidScenarioError, match="params"):
        simulate("week.parquet", "small.yaml", Fifo(), {"placement": "pooled"})


def test_a_scenario_runs_as_simulate_does(at_desk: Path) -> None:
    finished = prepare(_scenario(policy="las", params={"knob": 2})).run()
    assert_frame_equal(finished.result.jobs, simulate("week.parquet", "small.yaml", "las", {"knob": 2}).jobs)


def test_the_same_scenario_gives_the_same_bytes(at_desk: Path) -> None:
    resampled = _scenario(workload={"path": "week.parquet", "resample": "days"}, seed=5)
    once, again = (prepare(resampled).run().files() for _ in range(2))
    assert {name for name in once if once[name] != again[name]} <= {"timing.json"}


def test_days_are_those_of_the_zone_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four local days of two jobs, at 15:00 and 22:00, which UTC spreads over five days.
    monkeypatch.chdir(tmp_path)
    rows = [f"2024-03-0{day} {hour}:00,60,1" for day in range(4, 8) for hour in (15, 22)]
    Path("jobs.csv").write_text("\n".join(["submit_s,duration_s,num_gpus", *rows]) + "\n")
    Path("map.yaml").write_text("time_zone: America/Los_Angeles\n")
    convert(
        "csv", [Path("jobs.csv")], Path("plain.parquet"), options=ConvertOptions(mapping=Path("map.yaml"))
    )
    layers = [EnrichmentLayer(load_training_draws("pd_ors"))]
    fill_file("plain.parquet", Path("enriched.parquet"), layers, 1)
    for path in ("plain.parquet", "enriched.parquet"):
        spec = _scenario(workload={"path": path, "resample": "days"}).workload
        base = HashedInputs().base(spec)
        for seed in range(5):
            names = realise(spec, seed, base, Offer(("gpu", "cpu"))).table.job_id
            assert [name.split("@")[1] for name in names] == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_another_seed_draws_another_workload(at_desk: Path) -> None:
    synthetic = {"synth": {"profile": "philly", "jobs": 30}}
    first, second = (prepare(_scenario(workload=synthetic, seed=seed)).run().result.jobs for seed in (0, 1))
    assert first["submit_s"].to_list() != second["submit_s"].to_list()


def test_jobs_like_those_of_a_file_are_the_ones_that_synth_draws(at_desk: Path) -> None:
    drawn = synth_file("week.parquet", DrawRequest(25, arrivals=ArrivalKind.ALTERNATING), seed=3)
    write_workload(drawn.frame, drawn.provenance, Path("like.parquet"))
    given = {"like": "week.parquet", "jobs": 25, "arrivals": "alternating"}
    finished = prepare(_scenario(workload={"synth": given}, seed=3)).run()
    assert finished.result.jobs.equals(simulate("like.parquet", "small.yaml").jobs)
    manifest = json.loads(finished.files()["manifest.json"])
    assert manifest["inputs"]["workload"] == {
        "synth": {**given, "load_scale": 1.0, "feasible_only": False},
        "load_scale": 1.0,
        "unsuccessful": "keep",
    }


def test_whole_jobs_of_a_run_are_the_ones_that_synth_draws(at_desk: Path) -> None:
    request = HorizonRequest(20, 36_000.0, feasible_only=True)
    drawn = synth_jobs(load_training_draws("pd_ors"), request, seed=3)
    write_workload(drawn.frame, drawn.provenance, Path("drawn.parquet"))
    given = {"profile": "pd_ors", "jobs": 20, "horizon_s": 36_000, "feasible_only": True}
    finished = prepare(_scenario(workload={"synth": given}, seed=3)).run()
    assert finished.result.jobs.equals(simulate("drawn.parquet", "small.yaml").jobs)
    digest = json.loads(finished.files()["manifest.json"])["inputs"]["training_sha256"]
    assert digest == drawn.provenance.options["profile_sha256"]


def test_a_file_to_be_like_that_has_no_rate_is_named(at_desk: Path) -> None:
    frame, provenance = synth("philly", 4, seed=1)
    write_workload(frame.with_columns(submit_s=pl.lit(7.0)), provenance, Path("once.parquet"))
    with pytest.raises(
        InvalidWorkloadError, match=r"synth:like-once:5: every job \(of 4\) is submitted at one"
    ):
        prepare(_scenario(workload={"synth": {"like": "once.parquet", "jobs": 5}})).run()


def test_every_job_is_reported_to_the_progress(at_desk: Path) -> None:
    reports: list[tuple[int, int]] = []
    prepare(_scenario()).run(progress=lambda ended, jobs: reports.append((ended, jobs)))
    assert all(ended <= jobs == 40 for ended, jobs in reports)


def test_a_realised_workload_runs_and_the_manifest_counts_what_was_left_out(at_desk: Path) -> None:
    frame, provenance = synth("philly", 40, seed=1, load_scale=0.01)
    status = pl.Series(["Pass", "Failed", "Pass", "mystery"] * 10)
    write_workload(frame.with_columns(status=status), provenance, Path("status.parquet"))
    end_s = float(read_frame(Path("status.parquet"))["submit_s"].to_numpy()[20])
    workload = {"path": "status.parquet", "unsuccessful": "drop", "window": [0, end_s], "load_scale": 2}
    finished = prepare(_scenario(workload=workload)).run()
    # Of 40 jobs 10 failed. 20 come before the 21st, of which 5 failed: 15, and 5 of these are a mystery.
    manifest = json.loads(finished.files()["manifest.json"])
    assert manifest["jobs"] == {
        "read": 40,
        "unsuccessful": 10,
        "outside_window": 15,
        "replayed": 15,
        "unknown_status": 10,
        "infeasible": 0,
        "unknown_statuses": {"mystery": 10},
    }
    assert manifest["inputs"]["workload"] == {**workload, "window": [0.0, end_s], "load_scale": 2.0}
    assert len(finished.result.jobs) == 15
    assert ("left out, unsuccessful", 10) in tally_rows(finished.tally)


def test_a_window_of_a_synthetic_workload_is_cut_from_the_draw(at_desk: Path) -> None:
    synthetic = {"synth": {"profile": "philly", "jobs": 30}}
    whole = prepare(_scenario(workload=synthetic)).run().result.jobs
    early = prepare(_scenario(workload={**synthetic, "window": [0, 3000]})).run().result.jobs
    assert early["job_id"].to_list() == whole.filter(pl.col("submit_s") < 3000)["job_id"].to_list()


def test_how_jobs_train_is_drawn_with_the_seed_last_of_all(at_desk: Path) -> None:
    # The jobs of the window as they are with the whole file enriched: a job's draws are its own.
    end_s = float(read_frame("week.parquet")["submit_s"].to_numpy()[20])
    spec = _scenario(workload={"path": "week.parquet", "window": [0, end_s], "enrich": "pd_ors"}).workload
    jobs = realise(spec, 4, HashedInputs().base(spec), Offer(("gpu", "cpu"))).table
    whole, _ = enrich(read_frame("week.parquet"), load_training_draws("pd_ors"), 4)
    assert jobs.training is not None
    assert jobs.training.samples.tolist() == whole["samples"].to_list()[: len(jobs)]
    assert len(jobs) == 20


def test_infeasible_jobs_are_left_out_and_counted(at_desk: Path) -> None:
    enriched = {"profile": "pd_ors", "feasible_only": True, "horizon_s": 1e5}
    finished = prepare(_scenario(workload={"path": "week.parquet", "enrich": enriched})).run()
    tally = json.loads(finished.files()["manifest.json"])["jobs"]
    assert tally["read"] == 40
    assert 0 < tally["infeasible"] < 40
    assert tally["replayed"] == len(finished.result.jobs) == 40 - tally["infeasible"]
    assert ("left out, infeasible", tally["infeasible"]) in tally_rows(finished.tally)
    inputs = json.loads(finished.files()["manifest.json"])["inputs"]
    assert inputs["training_sha256"] == load_training_draws("pd_ors").sha256


def test_a_synthetic_workload_can_be_enriched_and_trained_in_chunks(at_desk: Path) -> None:
    workload = {"synth": {"profile": "philly", "jobs": 5}, "enrich": "jsac_edge_cloud"}
    world = {"truth": "a_online", "slot_s": 3600}
    asked = _scenario(workload=workload, policy="chunk_fifo", world=world, seed=2)
    once, again = (prepare(asked).run() for _ in range(2))
    assert once.result.summary.completed == 5
    assert_frame_equal(once.result.jobs, again.result.jobs)


def test_statements_are_drawn_with_the_seed_and_the_replayed_jobs_stay(at_desk: Path) -> None:
    spec = _scenario(workload={"path": "week.parquet", "enrich": "announced"}).workload
    whole, _ = announce(read_frame("week.parquet"), load_announcement_draws("announced"), 4)
    jobs, others = (
        realise(spec, seed, HashedInputs().base(spec), Offer(("gpu", "cpu"))).table for seed in (4, 5)
    )
    expected = frame_to_table(whole, ("gpu", "cpu"))
    assert jobs.statements is not None
    assert others.statements is not None
    assert expected.statements is not None
    assert jobs.statements.birth_us.tolist() == expected.statements.birth_us.tolist()
    assert list(jobs.statements.values) == list(expected.statements.values)
    assert list(jobs.statements.values) != list(others.statements.values)
    assert jobs.work_us.tolist() == others.work_us.tolist()


def test_announced_jobs_run_from_a_scenario_and_name_their_profile(at_desk: Path) -> None:
    workload = {"synth": {"profile": "philly", "jobs": 5}, "enrich": "announced"}
    world = {"truth": "announced", "slot_s": 3600, "clip_statements": True, "most_value": 1000}
    finished = prepare(_scenario(workload=workload, policy="announced_fifo", world=world, seed=2)).run()
    assert welfare_of(finished.result).bound > 0
    manifest = json.loads(finished.files()["manifest.json"])
    assert manifest["inputs"]["announcement_sha256"] == load_announcement_draws("announced").sha256
    assert manifest["jobs"]["replayed"] == 5


def test_a_workload_that_says_how_it_trains_is_not_enriched_again(at_desk: Path) -> None:
    frame, _ = enrich(read_frame("week.parquet"), load_training_draws("pd_ors"), 0)
    write_workload(frame, synth("philly", 1, 0)[1], Path("trained.parquet"))
    with pytest.raises(InvalidWorkloadError, match=r"trained.parquet: the workload already says epochs, "):
        prepare(_scenario(workload={"path": "trained.parquet", "enrich": "pd_ors"})).run()


@pytest.mark.slow
def test_layers_are_drawn_in_order_and_one_in_a_list_is_the_same_run_as_alone(at_desk: Path) -> None:
    both = _scenario(workload={"path": "week.parquet", "enrich": ["pd_ors", "announced"]})
    assert both.workload.label == "week/pd_ors+announced"
    jobs = realise(both.workload, 4, HashedInputs().base(both.workload), Offer(("gpu",))).table
    assert jobs.training is not None
    assert jobs.statements is not None
    alone, listed = (
        prepare(_scenario(workload={"path": "week.parquet", "enrich": given})).run()
        for given in ("pd_ors", [{"profile": "pd_ors"}])
    )
    assert alone.files()["manifest.json"] == listed.files()["manifest.json"]
    assert json.loads(alone.files()["manifest.json"])["inputs"]["workload"]["enrich"]["profile"] == "pd_ors"
    digests = prepare(both).run().identity.manifest()["inputs"]
    assert isinstance(digests, dict)
    assert len(digests["layers_sha256"]) == 2


def test_a_window_without_jobs_is_the_users_mistake(at_desk: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="window: no job is submitted from"):
        prepare(_scenario(workload={"path": "week.parquet", "window": [1e9, 2e9]})).run()


def test_a_trimmed_scenario_counts_as_simulate_does(at_desk: Path) -> None:
    finished = prepare(_scenario(trim={"warm_up_s": 86_400, "cool_down_s": 3600})).run()
    trim = Trim(warm_up_s=86_400, cool_down_s=3600)
    assert finished.result.summary == simulate("week.parquet", "small.yaml", trim=trim).summary
    assert finished.result.summary.trimmed_jobs
    assert json.loads(finished.files()["manifest.json"])["trim"] == {"warm_up_s": 86_400, "cool_down_s": 3600}


def test_a_run_enters_at_most_22_modules_above_the_engine(at_desk: Path) -> None:
    """The way from a command to the engine goes through each part of a scenario once."""
    ran: list[int] = []
    command = ["run", "--workload", "week.parquet", "--cluster", "small.yaml", "--policy", "srtf"]
    found = Entered().during(lambda: ran.append(main(command)))
    assert ran == [0]
    assert len(found.above_the_engine()) <= 22
    assert len(found.entries) <= 38
    assert found.entries["ray_sim.experiments.rehearsal"] == 0


def _with_order(at_desk: Path, pods: str, servers: str) -> Scenario:
    lines = f"pod_list,seed,what,order\nweek,3,pods,{pods}\nweek,3,servers,{servers}\n"
    (at_desk / "orders.csv").write_text(lines)
    stream = {"order": "orders.csv", "seed": 3}
    return _scenario(workload={"path": "week.parquet", "stream": stream})


def test_jobs_and_servers_come_in_the_order_of_a_file(at_desk: Path) -> None:
    number = read_frame(Path("week.parquet"))["trace_order"].to_list()
    names = dict(zip(number, read_frame(Path("week.parquet"))["job_id"], strict=True))
    servers = load_cluster("small.yaml")
    backwards = sorted(number, reverse=True)
    turned = range(len(servers) - 1, -1, -1)
    scenario = _with_order(at_desk, " ".join(map(str, backwards)), " ".join(map(str, turned)))
    prepared = prepare(scenario)
    assert prepared.world.cluster.server_names == tuple(reversed(servers.server_names))
    assert prepared.jobs.table.job_id.to_list() == [names[each] for each in backwards]
    assert prepared.jobs.table.submit_us.tolist() == [1_000_000 * t for t in range(len(names))]
    digest = prepared.identity.facts["order_sha256"]
    again = prepare(_with_order(at_desk, " ".join(map(str, number)), " ".join(map(str, turned))))
    assert digest != again.identity.facts["order_sha256"]


def test_orders_of_other_clusters_and_seeds_are_refused(at_desk: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match=r"expected each of the cluster's \d servers once"):
        _ = prepare(_with_order(at_desk, "0", "0 0")).jobs
    other = {"path": "week.parquet", "stream": {"order": "orders.csv"}}
    with pytest.raises(InvalidWorkloadError, match="has no order of seed 8; its seeds: 3"):
        _ = prepare(_scenario(workload=other, seed=8)).jobs
