from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ray_sim import simulate
from ray_sim.cli import main
from ray_sim.experiments.conversion import write_cluster
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.errors import InvalidWorkloadError
from tests.workloads.conversions import Trace, converted
from workloads.convert import convert
from workloads.store import load_workload, read_frame
from workloads.trace_format import ConvertOptions

PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"


def pod(
    name: str = "p",
    gpus: str = "1",
    share: str = "1000",
    times: str = "0,20,10",
    cpu: str = "4000",
    memory: str = "2048",
    phase: str = "Succeeded",
    spec: str = "",
) -> str:
    """A line; times are creation, deletion, scheduled."""
    return f"{name},{cpu},{memory},{gpus},{share},{spec},LS,{phase},{times}\n"


def test_a_pod_is_one_task_that_waits_and_runs(trace: Trace) -> None:
    report, frame = converted(trace(PODS + pod("a", gpus="8", times="5,107.5,7.5")), format_name="gpu-pods")
    row = frame.row(0, named=True)
    assert (row["job_id"], row["submit_s"], row["wait_s"], row["duration_s"]) == ("a", 5, 2.5, 100)
    assert (row["num_gpus"], row["num_tasks"], row["cpu_per_task"], row["memory_gib_per_task"]) == (
        8,
        1,
        4,
        2,
    )
    assert (row["status"], row["attempts"], report.warnings) == ("Succeeded", 1, ())


def test_a_share_is_of_one_gpu(trace: Trace) -> None:
    lines = (
        pod("a", share="810"),
        pod("b", gpus="0", share="0"),
        pod("c", gpus="0", share=""),
        pod("d", gpus="2"),
    )
    report, frame = converted(trace(PODS + "".join(lines)), format_name="gpu-pods")
    assert frame["num_gpus"].to_list() == [0.81, 0, 0, 2]
    assert report.notes["pods_with_a_share_of_a_gpu"] == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (pod(times="0,,"), "never_started"),
        (pod(times="0,20,"), "never_started"),
        (pod(times="0,,10"), "missing_end"),
        (pod(times=",20,10"), "missing_submit_s"),
        (pod(times="0,9,10"), "negative_duration_s"),
        (pod(times="0,20,x"), "invalid_start"),
        (pod(times="0,1e30,10"), "absurd_end"),
        (pod(gpus="2", share="500"), "invalid_gpu_milli"),
        (pod(share="0"), "invalid_gpu_milli"),
        (pod(share="1001"), "absurd_gpu_milli"),
        (pod(share=""), "missing_gpu_milli"),
        (pod(gpus="0.5"), "invalid_num_gpus"),
        (pod(gpus=""), "missing_num_gpus"),
        (pod(gpus="-1"), "negative_num_gpus"),
        (pod(cpu="-1"), "negative_cpu_per_task"),
        (pod(memory="9" * 30), "absurd_memory_gib_per_task"),
        (pod(name=""), "missing_job_id"),
        (pod(name="good"), "duplicate_job_id"),
        ("p,1\n", "wrong_field_count"),
        (",,,,,,,,,,\n", "empty_row"),
    ],
)
def test_every_fault_has_its_reason(trace: Trace, line: str, reason: str) -> None:
    report, frame = converted(trace(PODS + pod("good") + line), format_name="gpu-pods")
    assert report.rejected == {reason: 1}
    assert frame["job_id"].to_list() == ["good"]


def test_what_is_odd_and_kept_is_noted(trace: Trace) -> None:
    lines = (
        pod("a", phase="Running", spec="V100M16|V100M32"),
        pod("b", times="10,10,10"),
        pod("c", times="10,20,9"),
        pod("d", cpu="", memory=""),
    )
    report, frame = converted(trace(PODS + "".join(lines)), format_name="gpu-pods")
    assert report.notes == {
        "started_before_creation": 1,
        "running_with_a_deletion_time": 1,
        "pods_with_a_share_of_a_gpu": 0,
        "pods_that_name_gpu_types": 1,
    }
    assert frame["gpu_types"].to_list() == ["V100M16|V100M32", None, None, None]
    assert dict(frame.select("job_id", "duration_s").iter_rows()) == {"a": 10, "b": 0, "c": 11, "d": 10}
    assert frame.filter(pl.col("job_id") == "c")["wait_s"].to_list() == [None]


def test_nodes_are_servers(trace: Trace, tmp_path: Path) -> None:
    nodes = trace(
        NODES + "n1,96000,393216,8,V100\nn2,32000,131072,0,\n,1,1,1,\nn1,1,1,1,\nn3,x,1,1,\n", "nodes.csv"
    )
    report = convert(
        "gpu-pods",
        [trace(PODS + pod(), "pods.csv"), nodes],
        tmp_path / "w.parquet",
        options=ConvertOptions(cluster=True),
    )
    assert report.warnings == (
        "node list: 3 rows without a name and amounts, or of a node again, are left out",
    )
    assert report.cluster is not None
    write_cluster(report.cluster, tmp_path / "c.yaml")
    found = load_cluster(tmp_path / "c.yaml")
    assert found.server_names == ("n1", "n2")
    assert found.gpu_type == ("V100", None)
    assert dict(zip(found.resources, found.capacity[0].tolist(), strict=True)) == {
        "gpu": 8000,
        "cpu": 96_000,
        "memory_gib": 384 * 1024,
    }


@pytest.mark.slow
def test_the_lists_are_told_apart_and_one_of_pods_is_needed(trace: Trace, tmp_path: Path) -> None:
    nodes, pods = trace(NODES + "n,1,1,1,\n", "nodes.csv"), trace(PODS + pod(), "pods.csv")
    with pytest.raises(InvalidWorkloadError, match="no list of pods; name one with the columns name"):
        convert("gpu-pods", [nodes], tmp_path / "w.parquet")
    with pytest.raises(InvalidWorkloadError, match="no list of nodes given"):
        convert("gpu-pods", [pods], tmp_path / "w.parquet", options=ConvertOptions(cluster=True))
    with pytest.raises(InvalidWorkloadError, match="required columns missing: pod_phase"):
        convert("gpu-pods", [trace("name\na\n", "x.csv")], tmp_path / "w.parquet")


@pytest.mark.slow
def test_shares_that_make_one_gpu_run_on_it_together(trace: Trace, tmp_path: Path) -> None:
    # 0.5 + 0.25 + 0.25 = 1 GPU: all three start at 0. A fourth of 0.3 fits when the first is gone, at 100 s:
    # 0.25 + 0.25 + 0.3 = 0.8. One of a whole GPU waits for all of them, until 100 + 50 = 150 s (the quarters
    # run to 130 s).
    shares = ("500", "0,100,0"), ("250", "0,130,0"), ("250", "0,130,0"), ("300", "1,51,1"), ("1000", "2,12,2")
    lines = [pod(f"p{i}", share=share, times=times) for i, (share, times) in enumerate(shares)]
    report = convert("gpu-pods", [trace(PODS + "".join(lines))], tmp_path / "w.parquet")
    (tmp_path / "c.yaml").write_text("name: one\nservers: [{name: s, gpus: 1, cpus: 64, memory_gib: 64}]\n")
    result = simulate(report.out, tmp_path / "c.yaml", policy="fifo")
    assert result.jobs["start_s"].to_list() == [0, 0, 0, 100, 150]
    assert result.jobs["finish_s"].to_list() == [100, 130, 130, 150, 160]


def test_shares_go_through_convert_run_and_diff(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = trace(PODS + "".join(pod(f"p{i}", share="250", times=f"{i},100,{i}") for i in range(9)))
    workload, cluster = tmp_path / "w.parquet", tmp_path / "c.yaml"
    cluster.write_text("name: one\nservers: [{name: s, gpus: 1, cpus: 64, memory_gib: 64}]\n")
    assert main(["convert", "gpu-pods", str(source), "-o", str(workload)]) == 0
    for run in ("a", "b"):
        options = ["--workload", str(workload), "--cluster", str(cluster), "--policy", "fifo"]
        assert main(["run", *options, "-o", str(tmp_path / run)]) == 0
    capsys.readouterr()
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert load_workload(workload).demand[:, 0].tolist() == [250] * 9


KEEPING = ConvertOptions(keep_pending=True)


def test_pods_that_never_started_are_kept_where_one_asks_for_them(trace: Trace) -> None:
    path = trace(
        PODS + pod("a") + pod("b", times="7,,", phase="Pending") + pod("c", times="8,9,", phase="Pending")
    )
    report = convert("gpu-pods", [path], path.with_name("w.parquet"), options=KEEPING)
    frame = read_frame(report.out)
    assert (report.rejected, report.notes["pods_that_never_started"]) == ({}, 2)
    assert frame.select("job_id", "submit_s", "wait_s", "duration_s").rows() == [
        ("a", 0, 10, 10),
        ("b", 7, None, 0),
        ("c", 8, None, 0),
    ]


@pytest.mark.slow
def test_a_list_of_demands_alone_is_taken_with_pods_that_never_started(trace: Trace) -> None:
    path = trace("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1000,2048,1,500\na,2000,,0,\nc,1,1,1,\n")
    with pytest.raises(InvalidWorkloadError, match="required columns missing: pod_phase, creation_time"):
        converted(path, format_name="gpu-pods")
    report = convert("gpu-pods", [path], path.with_name("w.parquet"), options=KEEPING)
    assert report.rejected == {"missing_gpu_milli": 1}
    columns = ("job_id", "trace_order", "submit_s", "duration_s", "num_gpus", "cpu_per_task", "status")
    assert read_frame(report.out).select(columns).rows() == [
        ("b", 0, 0, 0, 0.5, 1, None),
        ("a", 1, 0, 0, 0, 2, None),
    ]


def test_keeping_pending_pods_changes_no_other_row(trace: Trace) -> None:
    path = trace(PODS + pod("a") + pod("b", times="1,,") + pod("c", times="2,,5") + pod("d", times="3,4,5"))
    report, frame = converted(path, format_name="gpu-pods")
    kept = convert("gpu-pods", [path], path.with_name("k.parquet"), options=KEEPING)
    assert report.rejected == {"never_started": 1, "missing_end": 1, "negative_duration_s": 1}
    assert kept.rejected == {"missing_end": 1, "negative_duration_s": 1}
    assert read_frame(kept.out).filter(pl.col("job_id") != "b").equals(frame)
