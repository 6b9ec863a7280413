"""One simulation, from Python or from a scenario: the same answer by either way."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ray_sim.experiments.cluster_file import load_cluster
from ray_sim.experiments.run import run_scenario, simulate
from ray_sim.experiments.scenario import Scenario, parse_scenario
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.fifo import Fifo
from workloads.store import load_workload


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
    finished = run_scenario(_scenario(policy="las", params={"knob": 2}))
    assert_frame_equal(finished.result.jobs, simulate("week.parquet", "small.yaml", "las", {"knob": 2}).jobs)


def test_the_same_scenario_gives_the_same_bytes(at_desk: Path) -> None:
    resampled = _scenario(workload={"path": "week.parquet", "resample": "days"}, seed=5)
    once, again = (run_scenario(resampled).files() for _ in range(2))
    assert {name for name in once if once[name] != again[name]} <= {"timing.json"}


def test_another_seed_draws_another_workload(at_desk: Path) -> None:
    synthetic = {"synth": {"profile": "philly", "jobs": 30}}
    first, second = (run_scenario(_scenario(workload=synthetic, seed=seed)).result.jobs for seed in (0, 1))
    assert first["submit_s"].to_list() != second["submit_s"].to_list()


def test_every_job_is_reported_to_the_progress(at_desk: Path) -> None:
    reports: list[tuple[int, int]] = []
    run_scenario(_scenario(), progress=lambda ended, jobs: reports.append((ended, jobs)))
    assert all(ended <= jobs == 40 for ended, jobs in reports)
