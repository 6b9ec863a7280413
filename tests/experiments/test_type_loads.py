"""Loads of the sets of GPU types that jobs accept, and what `ray-sim info --cluster` says of them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import polars as pl

from ray_sim.experiments.type_loads import TypeLoad, type_loads
from ray_sim.experiments.workload_info import describe_workload
from ray_sim.model.cluster import Cluster
from tests.small_workloads import stored
from tests.worlds import Job, cluster_of, job_table
from workloads.convert import convert
from workloads.store import load_workload
from workloads.trace_format import ConvertOptions

JOBS = [Job(0, 2, 10), Job(0, 3, 10), Job(1, 1, 10), Job(1, 4, 10), Job(2, 5, 10), Job(2, 0, 10)]
LISTS = ["T4", "V100|T4", "T4|V100|T4", None, "P100|H100", "H100"]
SERVERS = replace(cluster_of([2, 3, 4]), gpu_type=("T4", "V100", "A100"))


def test_a_set_has_the_load_of_all_jobs_that_can_use_no_other_servers() -> None:
    found = type_loads(job_table(JOBS, columns={"gpu_types": LISTS}), SERVERS)
    assert found is not None
    assert found.sets == (
        TypeLoad("H100|P100", jobs=1, gpus=5, gpus_within=5, capacity=0),
        TypeLoad("", jobs=1, gpus=4, gpus_within=15, capacity=9),  # any: 2 + 3 + 1 + 4 + 5
        TypeLoad("T4|V100", jobs=2, gpus=4, gpus_within=6, capacity=5),  # 3 + 1, and 2 of T4
        TypeLoad("T4", jobs=1, gpus=2, gpus_within=2, capacity=2),
    )
    # The last job asks for no GPU, so that its H100 counts for nothing.
    assert (found.jobs_by_unknown_type, found.jobs_without_server) == ({"H100": 1, "P100": 1}, 1)


def described(folder: Path, cluster: Cluster) -> tuple[dict[str, object], list[str]]:
    path = stored(folder / "w.parquet", JOBS, columns={"gpu_types": LISTS})
    found = describe_workload(path, cluster)
    return dict(found.rows()), found.warnings


def test_info_shows_loads_unknown_names_and_jobs_without_a_server(tmp_path: Path) -> None:
    rows, warnings = described(tmp_path, SERVERS)
    assert rows["GPU types T4, V100"] == "1.20 at once (6 / 5 GPUs); 2 jobs ask for 4 GPUs"
    assert rows["GPU types H100, P100"] == "no server; 1 jobs ask for 5 GPUs"
    assert "cluster small: no server has the GPU types H100 (1 jobs), P100 (1 jobs)" in warnings
    assert "cluster small: 1 jobs accept no GPU type of a server; a replay rejects them" in warnings


def test_info_on_servers_without_types_leaves_types_out_and_says_so(tmp_path: Path) -> None:
    rows, warnings = described(tmp_path, cluster_of([2, 3, 4]))
    assert not [row for row in rows if row.startswith("GPU types")]
    assert "jobs name GPU types, and no server has one" in " ".join(warnings)


def test_the_published_pod_list_asks_for_more_t4_than_there_are(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "data" / "fgd"
    pods = pl.read_csv(folder / "pods_gpuspec33.csv.gz", infer_schema=False)
    # All 8,152 pods at once: those that never started are given a time.
    started = pods.with_columns(
        scheduled_time="creation_time", deletion_time=(pl.col("creation_time").cast(float) + 1).cast(str)
    )
    started.write_csv(tmp_path / "pods.csv")
    (tmp_path / "nodes.csv").write_bytes(gzip.decompress((folder / "nodes_openb_gpu.csv.gz").read_bytes()))
    report = convert(
        "gpu-pods",
        [tmp_path / "pods.csv", tmp_path / "nodes.csv"],
        tmp_path / "pods.parquet",
        options=ConvertOptions(cluster=True),
    )
    assert report.cluster is not None
    assert report.notes["pods_that_name_gpu_types"] == 2388
    servers = report.cluster
    found = type_loads(load_workload(report.out, servers.resources), servers)
    assert found is not None
    loads = {
        each.types: (round(each.gpus_within), round(each.capacity), f"{each.load:.2f}") for each in found.sets
    }
    assert len(loads) == 16  # 15 different sets, and none
    assert loads["T4"] == (1028, 842, "1.22")
    assert loads["P100|T4|V100M16|V100M32"] == (1536, 1506, "1.02")
    assert loads[""] == (6087, 6212, "0.98")
    assert (found.jobs_by_unknown_type, found.jobs_without_server) == ({}, 0)
