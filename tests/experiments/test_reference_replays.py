"""Other simulators' schedules of the same real jobs: every job starts and ends at the same second."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.run import simulate
from ray_sim.experiments.scenario import Partition
from ray_sim.reports.diff import diff_jobs, read_job_times
from workloads.convert import convert


@pytest.mark.parametrize(
    ("file", "jobs", "policy", "cluster", "placement", "partition"),
    [
        ("philly_week_pool.csv", 10_650, "fifo", "pool-368", "pooled", "none"),
        ("philly_week_6vc.csv", 2_020, "fifo", "philly-week-6vc", "consolidate", "vc"),
        ("philly_week_6vc.csv", 2_020, "sjf", "philly-week-6vc", "consolidate", "vc"),
    ],
)
def test_every_job_starts_and_ends_as_in_the_other_simulator(
    file: str,
    jobs: int,
    policy: str,
    cluster: str,
    placement: str,
    partition: Partition,
    shared_data: Path,
    tmp_path: Path,
) -> None:
    reference = shared_data / "reference" / "replay" / file
    convert("csv", [reference], tmp_path / "week.parquet")
    ours = simulate(tmp_path / "week.parquet", cluster, policy, {"placement": placement}, partition=partition)
    found = diff_jobs(ours.jobs, read_job_times(reference), f"{policy}_start_s", f"{policy}_finish_s")
    assert found.compared == jobs
    assert found.same, found
