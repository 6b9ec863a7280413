"""Per-job starts and finishes of other simulators on a real week of Philly, to the second."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from ray_sim.engine.run import Loop
from ray_sim.engine.shop import Partition
from ray_sim.engine.world import World, build_world
from ray_sim.experiments.cluster_file import load_cluster
from tests.worlds import replay
from workloads.convert import convert
from workloads.store import load_workload


class Reference(NamedTuple):
    """A file of reference results, and the world in which they hold."""

    file: str
    cluster: str
    partition: Partition
    placement: str
    jobs: int


POOL = Reference("philly_week_pool.csv", "pool-368", "none", "pooled", 10_650)
SIX_VCS = Reference("philly_week_6vc.csv", "philly-week-6vc", "vc", "consolidate", 2_020)


def converted(source: Path, folder: Path, reference: Reference) -> World:
    """The jobs of a reference file, by way of the CSV converter and the store."""
    out = folder / "workload.parquet"
    convert("csv", [source], out)
    cluster = load_cluster(reference.cluster)
    return build_world(load_workload(out, cluster.resources), cluster, partition=reference.partition)


@pytest.mark.parametrize("loop", ["auto", "general"])
@pytest.mark.parametrize(
    ("reference", "policy", "mean_jct_s"),
    [(POOL, "fifo", 89_174.71), (SIX_VCS, "fifo", 95_587.72), (SIX_VCS, "sjf", 66_243.79)],
    ids=["pool-fifo", "6vc-fifo", "6vc-sjf"],
)
def test_every_job_starts_and_ends_in_the_same_second(
    reference: Reference, policy: str, mean_jct_s: float, loop: Loop, shared_data: Path, tmp_path: Path
) -> None:
    source = shared_data / "reference" / "replay" / reference.file
    result = replay(converted(source, tmp_path, reference), policy, loop=loop, placement=reference.placement)
    assert result.loop == ("compiled" if loop == "auto" else "general")
    columns = {"job_id": pl.String, **dict.fromkeys([f"{policy}_start_s", f"{policy}_finish_s"], pl.Float64)}
    theirs = pl.read_csv(source, columns=list(columns), schema_overrides=columns)
    both = result.jobs.join(theirs, on="job_id", how="full", validate="1:1")
    assert both.height == reference.jobs
    differ = both.filter(
        pl.col("start_s").ne_missing(pl.col(f"{policy}_start_s"))
        | pl.col("finish_s").ne_missing(pl.col(f"{policy}_finish_s"))
    )
    assert differ.height == 0, differ
    assert result.summary.jct_s.mean == pytest.approx(mean_jct_s, abs=0.005)
    if reference is POOL:
        assert result.summary.makespan_s == 2_512_479
