"""The toy scenarios of README.md, whose arithmetic is explained there."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop, run_world
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.policies.registry import create_policy
from workloads.convert import convert
from workloads.store import load_workload

HERE = Path(__file__).parent

CASES: dict[str, tuple[str, dict[str, object]]] = {
    "fifo": ("fifo", {}),
    "fifo-backfill": ("fifo", {"backfill": True}),
    "sjf": ("sjf", {}),
    "srtf": ("srtf", {}),
    "las": ("las", {"limits_gpu_s": 16}),
}


@pytest.mark.parametrize("loop", ["auto", "general"])
@pytest.mark.parametrize("case", CASES)
def test_the_toy_scenario_runs_as_worked_out_by_hand(case: str, loop: Loop, tmp_path: Path) -> None:
    convert("csv", [HERE / "jobs.csv"], tmp_path / "jobs.parquet")
    cluster = load_cluster("toy")
    world = build_world(load_workload(tmp_path / "jobs.parquet", cluster.resources), cluster)
    policy, params = CASES[case]
    jobs = run_world(world, create_policy(policy, params), loop=loop).jobs
    expected = pl.read_csv(HERE / "expected" / f"{case}.csv")
    assert_frame_equal(jobs.select(expected.columns), expected, check_dtypes=False, check_exact=True)
