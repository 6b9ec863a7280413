from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.errors import InvalidWorkloadError
from workloads.convert import convert
from workloads.describe import describe_frame, describe_workload, never_fits
from workloads.store import frame_to_table

Jobs = Callable[..., pl.DataFrame]


def cluster(gpus: list[int], vcs: list[str | None] | None = None, cpus: int = 64) -> Cluster:
    n = len(gpus)
    return Cluster(
        name="small",
        server_names=tuple(f"s{i}" for i in range(n)),
        resources=("cpu", "gpu"),
        capacity=np.array([[cpus * 1000, g * 1000] for g in gpus], np.int64),
        speed=np.ones(n),
        vc=tuple(vcs or [None] * n),
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=(None,) * n,
    )


def test_offered_load_is_gpu_seconds_over_gpus_times_span(jobs: Jobs) -> None:
    frame = jobs(3, submit_s=[100.0, 100.0, 200.0], num_gpus=[1.0, 2.0, 4.0], duration_s=[60.0, 120.0, 180.0])
    found = describe_frame(frame, "w", cluster=cluster([4, 8]))
    # 1 x 60 + 2 x 120 + 4 x 180 = 1,020 GPU-seconds on 12 GPUs within 100 s.
    assert found.gpu_hours == pytest.approx(1020 / 3600)
    assert (found.span_s, found.first_submit_s, found.ties) == (100.0, 100.0, 1)
    assert found.load is not None
    assert found.load.offered_load == pytest.approx(1020 / (12 * 100))
    assert (found.load.gpus, found.load.servers) == (12, 2)
    assert found.jobs_by_gpus == {"1": 1, "2": 1, "4": 1}
    assert (found.duration_s["min"], found.duration_s["p50"], found.duration_s["max"]) == (60, 120, 180)
    assert found.duration_s["mean"] == 120


def test_load_by_vc_needs_vcs_on_both_sides(jobs: Jobs) -> None:
    frame = jobs(3, vc=["a", "b", None], submit_s=[0.0, 10.0, 100.0], duration_s=[50.0, 100.0, 10.0])
    found = describe_frame(frame, "w", cluster=cluster([1, 2], ["a", None]))
    # vc a: 50 GPU-seconds on 1 GPU in 100 s. The cluster has no vc b, and no one's servers are no vc.
    loads = {name: share.offered_load for name, share in found.vcs.items()}
    assert loads == {"": None, "a": 0.5, "b": None}
    assert found.load is not None
    assert found.load.never_fit_vc == 1
    alone = describe_frame(jobs(2), "w", cluster=cluster([1], ["a"]))
    assert alone.vcs == {}
    assert alone.load is not None
    assert alone.load.never_fit_vc is None


def test_without_span_or_gpus_there_is_no_load(jobs: Jobs) -> None:
    for frame, servers in ((jobs(1), [4]), (jobs(2), [0])):
        found = describe_frame(frame, "w", cluster=cluster(servers))
        assert found.load is not None
        assert found.load.offered_load is None


def test_a_job_never_fits_when_the_empty_servers_cannot_hold_its_gang(jobs: Jobs) -> None:
    # Servers of 4 and 2 GPUs, 8 cores each.
    frame = jobs(
        7,
        num_gpus=[6.0, 7.0, 8.0, 2.5, 4.5, 0.0, 2.0],
        num_tasks=[None, None, 2, None, None, None, None],
        cpu_per_task=[None, None, None, None, None, 8.0, 9.0],
    )
    table = frame_to_table(frame, ("cpu", "gpu"))
    # 6 tasks of 1: 4 + 2. 7 tasks: no. 2 tasks of 4: one fits. 2.5 on the first server. 4.5 nowhere.
    # No GPU and 8 cores: yes. 9 cores: no.
    assert never_fits(table, cluster([4, 2], cpus=8).capacity).tolist() == [
        False,
        True,
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_job_without_demands_fits_any_server_but_not_none(jobs: Jobs) -> None:
    table = frame_to_table(jobs(1, num_gpus=[0.0]))
    assert never_fits(table, np.zeros((1, 1), np.int64)).tolist() == [False]
    assert never_fits(table, np.zeros((0, 1), np.int64)).tolist() == [True]


def test_a_file_is_described_with_its_provenance_as_json_and_as_lines(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "w.parquet"
    source.write_text("submit_s,duration_s,num_gpus,vc\n0,1,1,a\n9,1,0.25,\n9,-1,1,a\n")
    convert("csv", [source], out)
    found = describe_workload(out, cluster([1]))
    content = json.loads(json.dumps(found.to_dict()))
    rejected = {"negative_duration_s": 1}
    assert content["provenance"]["counts"] == {
        "read": 3,
        "kept": 2,
        "rejected": rejected,
        "outside_window": 0,
    }
    assert content["jobs_by_gpus"] == {"0.25": 1, "1": 1}
    lines = dict(found.rows())
    assert lines["jobs"] == "2"
    assert lines["rows"] == "3 read, 2 kept, 1 rejected"
    assert lines["rejected as negative_duration_s"] == "1"
    assert lines["without a vc"].startswith("1 jobs")
    assert lines["cluster"] == "small: 1 servers, 1 GPUs"


def test_a_file_without_provenance_says_so(jobs: Jobs, tmp_path: Path) -> None:
    jobs(1).write_parquet(tmp_path / "w.parquet")
    found = describe_workload(tmp_path / "w.parquet", None)
    assert found.to_dict()["provenance"] is None
    assert ("made by", "unknown, the file does not say") in found.rows()


def test_rare_sizes_are_counted_and_not_listed(jobs: Jobs) -> None:
    frame = jobs(30, num_gpus=[float(i) for i in range(1, 16)] * 2)
    assert len(describe_frame(frame, "w").jobs_by_gpus) == 15
    assert dict(describe_frame(frame, "w").rows())["jobs by GPUs"].endswith("3 rarer sizes")


def test_a_broken_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="no such file"):
        describe_workload(tmp_path / "none.parquet", None)
