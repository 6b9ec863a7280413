from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from workloads.convert import convert
from workloads.describe import Bin, Share, StatusCount, describe_frame
from workloads.status import Ending
from workloads.store import read_frame, read_provenance

Jobs = Callable[..., pl.DataFrame]


def test_the_example_of_three_jobs(jobs: Jobs) -> None:
    times: dict[str, list[object]] = {"submit_s": [100.0, 100.0, 200.0], "duration_s": [60.0, 120.0, 1800.0]}
    found = describe_frame(jobs(3, num_gpus=[1.0, 2.0, 4.0], **times), "w")
    # 1 x 60 + 2 x 120 + 4 x 1,800 = 7,500 GPU-seconds.
    assert found.gpu_hours == pytest.approx(7500 / 3600)
    assert (found.span_s, found.first_submit_s, found.ties, found.most_at_once) == (100.0, 100.0, 1, 2)
    assert found.jobs_by_gpus == {"1": 1, "2": 1, "4": 1}
    assert (found.duration_s["min"], found.duration_s["p50"], found.duration_s["max"]) == (60, 120, 1800)
    assert found.duration_s["mean"] == 660
    assert found.inter_arrival_s is not None
    assert (found.inter_arrival_s["min"], found.inter_arrival_s["mean"]) == (0, 50)
    # 60 s, then 120 s, none, and 1,800 s.
    assert found.duration_bins == [Bin(10, 100, 1), Bin(100, 1000, 1), Bin(1000, 10_000, 1)]


def test_bins_of_run_times_hold_every_job(jobs: Jobs) -> None:
    duration_s = [0.0, 0.5, 1.0, 9.99, 10.0, 1000.0]
    bins = describe_frame(jobs(6, duration_s=duration_s), "w").duration_bins
    assert bins == [Bin(0, 1, 2), Bin(1, 10, 2), Bin(10, 100, 1), Bin(100, 1000, 0), Bin(1000, 10_000, 1)]
    assert describe_frame(jobs(2, duration_s=[0.0, 0.0]), "w").duration_bins == [Bin(0, 1, 2)]


def test_one_job_has_no_gap(jobs: Jobs) -> None:
    found = describe_frame(jobs(1), "w")
    assert found.inter_arrival_s is None
    assert (found.span_s, found.ties, found.most_at_once) == (0, 0, 1)


def test_columns_of_demands_and_of_chunks_are_described_where_they_have_values(jobs: Jobs) -> None:
    frame = jobs(
        4,
        cpu_per_task=[2.0, 8.0, None, 4.0],
        chunks=[3, None, 5, None],
        upload_edge_s=[3600.0, None, 7200.0, None],
        bandwidth_mbps=[100.0, None, 300.0, None],
    )
    found = describe_frame(frame, "w")
    assert set(found.columns) == {"num_gpus", "cpu_per_task", "chunks", "upload_edge_s", "bandwidth_mbps"}
    assert found.columns["chunks"].jobs == 2
    assert found.columns["cpu_per_task"].quantiles["p50"] == 4
    assert found.columns["bandwidth_mbps"].quantiles["mean"] == 200
    assert dict(found.rows())["upload_edge_s"].endswith("max 7,200, mean 5,400 (2 jobs)")


def test_jobs_and_gpu_hours_by_vc(jobs: Jobs) -> None:
    frame = jobs(3, vc=["a", "b", None], duration_s=[3600.0, 7200.0, 1800.0])
    assert describe_frame(frame, "w").vcs == {"": Share(1, 0.5), "a": Share(1, 1.0), "b": Share(1, 2.0)}
    assert describe_frame(jobs(2), "w").vcs == {}


def test_a_file_is_described_with_its_provenance_as_json_and_as_lines(tmp_path: Path) -> None:
    source, out = tmp_path / "t.csv", tmp_path / "w.parquet"
    source.write_text("submit_s,duration_s,num_gpus,vc\n0,1,1,a\n9,1,0.25,\n9,-1,1,a\n")
    convert("csv", [source], out)
    found = describe_frame(read_frame(out), str(out), read_provenance(out))
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


def test_jobs_by_status_say_what_each_word_means(jobs: Jobs) -> None:
    words = ["Pass", "odd", "CANCELLED by 17", None, "odd"]
    found = describe_frame(jobs(5, status=words), "w")
    assert found.statuses == [
        StatusCount("odd", 2, None),
        StatusCount(None, 1, None),
        StatusCount("CANCELLED by 17", 1, Ending.KILLED),
        StatusCount("Pass", 1, Ending.PASSED),
    ]
    row = "'odd' (unknown): 2, none: 1, 'CANCELLED by 17' (killed): 1, 'Pass' (passed): 1"
    assert dict(found.rows())["jobs by status"] == row
    assert "jobs by status" not in dict(describe_frame(jobs(2), "w").rows())


def test_a_file_without_provenance_says_so(jobs: Jobs) -> None:
    found = describe_frame(jobs(1), "w")
    assert found.to_dict()["provenance"] is None
    assert ("made by", "unknown, the file does not say") in found.rows()


def test_rare_sizes_are_counted_and_not_listed(jobs: Jobs) -> None:
    frame = jobs(30, num_gpus=[float(i) for i in range(1, 16)] * 2)
    assert len(describe_frame(frame, "w").jobs_by_gpus) == 15
    assert dict(describe_frame(frame, "w").rows())["jobs by GPUs"].endswith("3 rarer sizes")


def test_users_with_the_most_gpu_hours_are_shown_at_most_one_for_each_vc(jobs: Jobs) -> None:
    hours = {"duration_s": [3600.0, 7200.0, 10800.0]}
    found = describe_frame(jobs(3, user=["x", "y", "z"], vc=["a", "b", "b"], **hours), "w")
    assert found.users == {"x": Share(1, 1.0), "y": Share(1, 2.0), "z": Share(1, 3.0)}
    rows = dict(found.rows())
    assert [name for name in rows if name.startswith("user")] == [
        "user z", "user y", "users with fewer GPU-hours"
    ]  # fmt: skip
    assert rows["user z"] == "1 jobs, 3.0 GPU-hours"
    assert "user x" in dict(describe_frame(jobs(3, user=["x", "y", "z"], **hours), "w").rows())
