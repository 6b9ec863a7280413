"""Worked examples of the presets: samples, variants of these, and foreign tables with right answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from ray_sim.model.errors import InvalidInputError
from tests.proofs import instances, quick_first
from tests.workloads.formats import opendc_sample
from workloads.convert import ConversionReport, convert
from workloads.formats.registry import all_formats, presets
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

SAMPLES = Path(__file__).parents[3] / "workloads" / "samples" / "presets"

GB = 10**9 / 2**30
"""GiB in a GB."""


def utc(text: str) -> float:
    """Seconds since 1970 of a date and time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def samples(name: str) -> list[Path]:
    """The sample of a format, which may be several files."""
    return sorted(
        [*SAMPLES.glob(f"{name}.*"), *SAMPLES.glob(f"{name}-task.*"), *SAMPLES.glob(f"{name}-job.*")]
    )


def converted(
    name: str, *files: Path, folder: Path, zone: str | None = None
) -> tuple[ConversionReport, dict[str, dict[str, object]]]:
    """Convert files, and return the report and the cells that are not null of each job, by its id."""
    out = folder / "w.parquet"
    report = convert(name, files or samples(name), out, options=ConvertOptions(time_zone=zone))
    rows = read_frame(out).drop("trace_order").rows(named=True)
    found = ({key: cell for key, cell in row.items() if cell is not None} for row in rows)
    return report, {str(row.pop("job_id")): row for row in found}


def test_every_preset_has_a_sample_and_a_section() -> None:
    page = (SAMPLES.parents[2] / "docs" / "traces" / "presets.md").read_text()
    for name in presets():
        assert samples(name), name
        assert f"\n## {name}\n" in page


def test_sacct(tmp_path: Path) -> None:
    report, jobs = converted("sacct", folder=tmp_path, zone="Europe/Berlin")
    assert report.left_out == {"step": 2, "running": 1, "pending": 1, "never_started": 1}
    # 107 ran 90 s and 1800 s: the longer run counts. The name of 108 has a bar, so it has a field too many.
    assert report.rejected == {"duplicate_job_id": 1, "wrong_field_count": 1}
    gang = {"num_tasks": 1, "vc": "gpu"}
    assert jobs == {
        # 1-02:03:04 are 86400 + 7200 + 180 + 4 s. Two nodes share 64 cores and 256 GiB.
        "101": {
            **gang, "user": "anna", "status": "COMPLETED", "submit_s": utc("2024-03-04T07:00:00"),
            "wait_s": 600,
            "duration_s": 93_784, "time_limit_s": 172_800, "priority": 4021, "gpu_types": "a100",
            "num_gpus": 16, "num_tasks": 2, "cpu_per_task": 32, "memory_gib_per_task": 128,
        },
        # No GPUs; 4000M are 4000 / 1024 GiB; UNLIMITED is no limit.
        "102_7": {
            **gang, "vc": "cpu", "user": "ben", "status": "FAILED", "submit_s": utc("2024-03-04T08:00:00"),
            "wait_s": 30, "duration_s": 300, "priority": 88,
            "num_gpus": 0, "cpu_per_task": 4, "memory_gib_per_task": 4000 / 1024,
        },
        # 4 A100 and 2 V100. Submitted at 02:30 in summer time, started at 02:10 in winter time: 40 min later.
        "104": {
            **gang, "user": "chen", "status": "TIMEOUT", "submit_s": utc("2024-10-27T00:30:00"),
            "wait_s": 2400,
            "duration_s": 7200, "time_limit_s": 7200, "priority": 300, "gpu_types": "a100",
            "num_gpus": 6, "cpu_per_task": 12, "memory_gib_per_task": 48,
        },
        "107": {
            **gang, "user": "dora", "status": "COMPLETED", "submit_s": utc("2024-10-27T11:02:00"),
            "wait_s": 60,
            "duration_s": 1800, "time_limit_s": 3600, "priority": 303,
            "num_gpus": 1, "cpu_per_task": 8, "memory_gib_per_task": 16,
        },
    }  # fmt: skip
    assert "submit_s: 1 of 4 dates" in report.warnings[0]


@pytest.mark.slow
def test_sacct_with_the_columns_it_cannot_do_without(tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text(
        "JobID|State|Submit|ElapsedRaw|TimelimitRaw|AllocTRES\n"
        "1|COMPLETED|2024-03-04T08:00:00|60|90|cpu=2,gres/gpu=1,mem=1T,node=1\n"
        "2|RUNNING|2024-03-04T08:00:00|60|90|cpu=2,node=1\n"
    )
    report, jobs = converted("sacct", file, folder=tmp_path)
    assert report.left_out == {"running": 1}
    assert jobs["1"] == {
        "status": "COMPLETED", "submit_s": utc("2024-03-04T08:00:00"), "duration_s": 60, "time_limit_s": 5400,
        "num_gpus": 1, "num_tasks": 1, "cpu_per_task": 2, "memory_gib_per_task": 1024,
    }  # fmt: skip
    file.write_text("JobID|State|Submit|ElapsedRaw\n1|COMPLETED|2024-03-04T08:00:00|60\n")
    with pytest.raises(InvalidInputError, match=r"cells.AllocTRES: few.txt has no column 'AllocTRES'"):
        converted("sacct", file, folder=tmp_path)


def test_swf(tmp_path: Path) -> None:
    report, jobs = converted("swf", folder=tmp_path)
    assert report.left_out == {"part_of_a_job": 1}
    # Job 4 has no run time, 7 no processors.
    assert report.rejected == {"missing_duration_s": 1, "missing_num_tasks": 1}
    core = {"num_gpus": 0, "cpu_per_task": 1}
    assert jobs == {
        # 2048 KiB for a processor are 1/512 GiB.
        "1": {
            **core, "user": "3", "vc": "1", "status": "completed", "submit_s": 0, "wait_s": 30,
            "duration_s": 3600, "time_limit_s": 7200, "num_tasks": 16, "memory_gib_per_task": 1 / 512,
        },
        # The processors and the memory asked for, as those held are unknown.
        "2": {
            **core, "user": "4", "vc": "1", "status": "failed", "submit_s": 10, "duration_s": 60,
            "num_tasks": 8, "memory_gib_per_task": 10 / 1024,
        },
        "3": {
            **core, "user": "4", "vc": "2", "status": "cancelled", "submit_s": 20, "wait_s": 5,
            "duration_s": 100, "time_limit_s": 600, "num_tasks": 4,
        },
        "5": {**core, "submit_s": 40, "wait_s": 0, "duration_s": 500, "num_tasks": 2},
    }  # fmt: skip


@pytest.mark.slow
def test_k8s_pods(tmp_path: Path) -> None:
    report, jobs = converted("k8s-pods", folder=tmp_path)
    assert report.left_out == {"running": 1, "pending": 1, "no_container_times": 1}
    assert report.rejected == {"invalid_memory_gib_per_task": 1}
    pod = {"num_tasks": 1, "attempts": 1, "priority": 0}
    day = utc("2025-03-03T08:00:00")
    assert jobs == {
        # From the first start, 08:00:30, to the last end, 09:00:10. The init container wants 4 cores, more
        # than the others' 0.75; their 16 + 0.5 GiB are more than its one.
        "train-0": {
            **pod, "vc": "ml", "status": "Succeeded", "submit_s": day, "wait_s": 30, "duration_s": 3580,
            "priority": 100, "num_gpus": 2, "cpu_per_task": 4, "memory_gib_per_task": 16.5,
        },
        "limits-only": {
            **pod, "vc": "ml", "status": "Failed", "submit_s": day + 600, "wait_s": 5, "duration_s": 120,
            "num_gpus": 1, "cpu_per_task": 2, "memory_gib_per_task": 8 * GB,
        },
        "amd": {
            **pod, "vc": "hpc", "status": "Succeeded", "submit_s": day + 1200, "wait_s": 0,
            "duration_s": 1800,
            "num_gpus": 4, "cpu_per_task": 8, "memory_gib_per_task": 64,
        },
        # Held from the start of the first run, 08:31, to the end of the second, 08:45.
        "restarted": {
            **pod, "vc": "hpc", "status": "Succeeded", "submit_s": day + 1800, "wait_s": 60,
            "duration_s": 840,
            "attempts": 2, "num_gpus": 0, "cpu_per_task": 1, "memory_gib_per_task": 1,
        },
    }  # fmt: skip


@pytest.mark.slow
def test_k8s_pods_that_request_nothing(tmp_path: Path) -> None:
    times = {"startedAt": "2025-03-03T08:00:10Z", "finishedAt": "2025-03-03T08:01:10Z"}
    pod = {
        "metadata": {"name": "p", "namespace": "n", "creationTimestamp": "2025-03-03T08:00:00Z"},
        "spec": {"containers": [{"name": "c", "resources": {}}]},
        "status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": times}}]},
    }
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"items": [pod]}))
    _, jobs = converted("k8s-pods", file, folder=tmp_path)
    assert jobs["p"] == {
        "vc": "n", "status": "Succeeded", "submit_s": utc("2025-03-03T08:00:00"), "wait_s": 10,
        "duration_s": 60, "num_gpus": 0, "num_tasks": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_k8s_jobs(tmp_path: Path) -> None:
    report, jobs = converted("k8s-jobs", folder=tmp_path)
    assert report.left_out == {"never_started": 1, "running": 1}
    # Names repeat in other namespaces: of the two jobs called train the longer one is kept.
    assert report.rejected == {"duplicate_job_id": 1}
    day = utc("2025-03-03T08:00:00")
    assert jobs == {
        # Four pods of 2 GPUs at once.
        "train": {
            "vc": "ml", "status": "Complete", "submit_s": day, "wait_s": 300, "duration_s": 3600,
            "num_gpus": 8, "num_tasks": 4, "cpu_per_task": 4, "memory_gib_per_task": 16,
        },
        # A hundred pods, ten at once.
        "sweep": {
            "vc": "ml", "status": "Complete", "submit_s": day + 600, "wait_s": 0, "duration_s": 1800,
            "num_gpus": 0, "num_tasks": 10, "cpu_per_task": 0.5, "memory_gib_per_task": 0.25,
        },
        # Eight at once are allowed, and there are two.
        "few": {
            "vc": "ml", "status": "Complete", "submit_s": day + 900, "wait_s": 2, "duration_s": 60,
            "num_gpus": 2, "num_tasks": 2, "cpu_per_task": 4, "memory_gib_per_task": 16,
        },
        # Ends when it became Failed. Its init container wants 8 cores, more than 2 + 1, and 1 GiB, not 4 + 1.
        "broken": {
            "vc": "hpc", "status": "Failed", "submit_s": day + 1200, "wait_s": 1, "duration_s": 600,
            "num_gpus": 1, "num_tasks": 1, "cpu_per_task": 8, "memory_gib_per_task": 5,
        },
    }  # fmt: skip


def test_kueue(tmp_path: Path) -> None:
    report, jobs = converted("kueue", folder=tmp_path)
    assert report.left_out == {"never_admitted": 2, "not_finished": 1}
    # What lost-admission used is not there any more: it is not taken for a job without GPUs.
    assert report.rejected == {"missing_num_gpus": 1}
    day = utc("2025-03-03T08:00:00")
    cluster = {"vc": "cq-gpu"}
    assert jobs == {
        # resourceUsage is that of all 4 pods.
        "job-train": {
            **cluster, "status": "Succeeded", "submit_s": day, "wait_s": 600, "duration_s": 3600,
            "priority": 50, "num_gpus": 16, "num_tasks": 4, "cpu_per_task": 8, "memory_gib_per_task": 32,
        },
        # A launcher of 0.5 cores and 0.5 GiB, 3 workers with 11.5 cores and 23 GiB in all: 12 / 4, 23.5 / 4.
        "mpi": {
            **cluster, "status": "Failed", "submit_s": day + 300, "wait_s": 1, "duration_s": 90,
            "priority": 0, "num_gpus": 3, "num_tasks": 4, "cpu_per_task": 3, "memory_gib_per_task": 23.5 / 4,
        },
        "cpu-only": {
            **cluster, "status": "JobFinished", "submit_s": day + 600, "wait_s": 0, "duration_s": 600,
            "num_gpus": 0, "num_tasks": 2, "cpu_per_task": 2, "memory_gib_per_task": 4,
        },
        # The last admission counts: 09:00 to 09:30.
        "evicted-once": {
            **cluster, "status": "Succeeded", "submit_s": day + 900, "wait_s": 2700, "duration_s": 1800,
            "num_gpus": 8, "num_tasks": 1, "cpu_per_task": 8, "memory_gib_per_task": 64,
        },
    }  # fmt: skip


def test_condor(tmp_path: Path) -> None:
    report, jobs = converted("condor", folder=tmp_path)
    assert report.left_out == {"not_ended": 1, "never_started": 1}
    assert report.rejected == {"invalid_num_gpus": 1}
    job = {"user": "anna", "wait_s": 60, "num_tasks": 1, "attempts": 1, "duration_s": 945}
    assert jobs == {
        "ap1#10.0#1700000010": {
            **job, "status": "completed", "submit_s": 1_700_000_010,
            "num_gpus": 1, "cpu_per_task": 4, "memory_gib_per_task": 8,
        },
        # No RequestGPUs, and a memory that is an expression.
        "ap1#11.0#1700000011": {
            **job, "status": "completed", "submit_s": 1_700_000_011, "num_gpus": 0, "cpu_per_task": 1,
        },
        "ap1#12.0#1700000012": {
            **job, "status": "removed", "submit_s": 1_700_000_012, "attempts": 2, "duration_s": 12,
            "num_gpus": 1, "cpu_per_task": 4, "memory_gib_per_task": 8,
        },
    }  # fmt: skip


def test_condor_without_gpus_in_any_ad(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    ads = [ad for ad in json.loads((SAMPLES / "condor.json").read_text()) if "RequestGPUs" not in ad]
    file.write_text("\n".join(map(json.dumps, ads)))
    _, jobs = converted("condor", file, folder=tmp_path)
    assert [job["num_gpus"] for job in jobs.values()] == [0]


def test_alibaba_2018(tmp_path: Path) -> None:
    report, jobs = converted("alibaba-2018", folder=tmp_path)
    assert report.left_out == {}
    # An end of 0 is none; Waiting without a start; no number of instances.
    assert report.rejected == {"missing_duration_s": 1, "missing_submit_s": 1, "missing_num_tasks": 1}
    assert jobs == {
        "0": {
            "group_id": "j_10", "status": "completed", "submit_s": 86_400, "duration_s": 60,
            "num_gpus": 0, "num_tasks": 3, "cpu_per_task": 1, "memory_norm_per_task": 0.005,
        },
        "1": {
            "group_id": "j_10", "status": "completed", "submit_s": 86_460, "duration_s": 60,
            "num_gpus": 0, "num_tasks": 1, "cpu_per_task": 0.5, "memory_norm_per_task": 0.0025,
        },
        "2": {
            "group_id": "j_11", "status": "failed", "submit_s": 86_500, "duration_s": 400,
            "num_gpus": 0, "num_tasks": 1, "memory_norm_per_task": 0.39 / 100,
        },
        "3": {
            "group_id": "j_12", "status": "Running", "submit_s": 86_600, "duration_s": 100,
            "num_gpus": 0, "num_tasks": 2, "cpu_per_task": 2, "memory_norm_per_task": 0.01,
        },
    }  # fmt: skip


def test_a_task_of_alibaba_2018_without_a_memory_plan_is_kept(tmp_path: Path) -> None:
    (tmp_path / "batch_task.csv").write_text("M1,1,j_1,1,Terminated,86400,86460,100.0,\n")
    _, jobs = converted("alibaba-2018", tmp_path / "batch_task.csv", folder=tmp_path)
    assert "memory_norm_per_task" not in jobs["0"]


def test_pai_2020(tmp_path: Path) -> None:
    report, jobs = converted("pai-2020", folder=tmp_path)
    assert report.left_out == {"never_started": 1, "not_finished": 1}
    # j4 is in no row of the job table; the last task has no number of instances.
    assert report.rejected == {"missing_submit_s": 1, "missing_num_tasks": 1}
    assert jobs == {
        # Submitted with its job at 940 s. Two instances of 50 % of a GPU and 600 % of a core.
        "0": {
            "group_id": "j1", "user": "u1", "status": "completed", "submit_s": 940, "wait_s": 60,
            "duration_s": 3600, "num_gpus": 1, "num_tasks": 2, "cpu_per_task": 6,
            "memory_gib_per_task": 29.296875, "gpu_types": "MISC",
        },
        "1": {
            "group_id": "j1", "user": "u1", "status": "completed", "submit_s": 940, "wait_s": 60,
            "duration_s": 3605, "num_gpus": 0, "num_tasks": 1, "cpu_per_task": 4,
            "memory_gib_per_task": 14.6484375,
        },
        "2": {
            "group_id": "j2", "user": "u2", "status": "failed", "submit_s": 2100, "wait_s": 0,
            "duration_s": 600.5, "num_gpus": 8, "num_tasks": 4, "cpu_per_task": 10,
            "memory_gib_per_task": 48.828125, "gpu_types": "V100",
        },
    }  # fmt: skip


def test_helios(tmp_path: Path) -> None:
    report, jobs = converted("helios", folder=tmp_path)
    assert (report.left_out, report.rejected) == ({"never_started": 1}, {"negative_duration_s": 1})
    begin = utc("2020-06-01T08:00:00")
    assert jobs == {
        "9001": {
            "user": "uA", "vc": "vc1", "status": "COMPLETED", "submit_s": begin, "wait_s": 0,
            "duration_s": 36_848, "num_gpus": 1, "num_tasks": 1, "cpu_per_task": 1,
        },
        # 64 cores on 2 nodes.
        "9002": {
            "user": "uB", "vc": "vc1", "status": "FAILED", "submit_s": begin + 60, "wait_s": 300,
            "duration_s": 249, "num_gpus": 16, "num_tasks": 2, "cpu_per_task": 32,
        },
        "9003": {
            "user": "uC", "vc": "vc2", "status": "CANCELLED", "submit_s": begin + 120, "wait_s": 5,
            "duration_s": 0, "num_gpus": 0, "num_tasks": 1, "cpu_per_task": 4,
        },
        "9004": {
            "user": "uC", "vc": "vc2", "status": "TIMEOUT", "submit_s": begin + 3600, "wait_s": 1,
            "duration_s": 259_200, "num_gpus": 8, "num_tasks": 1, "cpu_per_task": 32,
        },
    }  # fmt: skip


def test_acme(tmp_path: Path) -> None:
    report, jobs = converted("acme", folder=tmp_path)
    assert report.left_out == {"never_started": 1}
    assert report.rejected == {"missing_num_tasks": 1, "negative_duration_s": 1}
    assert jobs == {
        # 8 s from start to end, where `duration` of 18 s has the wait of 10 s in it; 960 cores on 8 nodes.
        "dlc01": {
            "user": "u1", "vc": "Pretrain", "status": "FAILED", "submit_s": utc("2023-05-17T11:00:58"),
            "wait_s": 10, "duration_s": 8, "num_gpus": 64, "num_tasks": 8, "cpu_per_task": 120,
            "memory_gib_per_task": 1000 * GB,
        },
        "dlc02": {
            "user": "u1", "vc": "SFT", "status": "COMPLETED", "submit_s": utc("2023-05-17T11:28:42"),
            "wait_s": 12, "duration_s": 70, "num_gpus": 8, "num_tasks": 1, "cpu_per_task": 120,
            "memory_gib_per_task": 1000 * GB,
        },
        "dlc03": {
            "user": "u2", "vc": "Evaluation", "status": "CANCELLED", "submit_s": utc("2023-05-17T12:00:00"),
            "wait_s": 0, "duration_s": 0, "num_gpus": 0, "num_tasks": 1, "cpu_per_task": 4,
        },
    }  # fmt: skip


def test_acme_of_seren_has_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "trace_seren.csv"
    file.write_text(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "5,u5,2,16,256,Other,TIMEOUT,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,1872.0\n"
    )
    _, jobs = converted("acme", file, folder=tmp_path)
    assert jobs["5"] == {
        "user": "u5", "vc": "Other", "status": "TIMEOUT", "submit_s": utc("2023-02-28T16:18:22"),
        "wait_s": 32, "duration_s": 117, "num_gpus": 16, "num_tasks": 2, "cpu_per_task": 128,
    }  # fmt: skip


def test_azure_vm(tmp_path: Path) -> None:
    report, jobs = converted("azure-vm", folder=tmp_path)
    assert report.left_out == {}
    # >24 cores and >64 GiB are no amounts; a VM that is not deleted has no run time.
    assert report.rejected == {
        "invalid_cpu_per_task": 1,
        "invalid_memory_gib_per_task": 1,
        "missing_duration_s": 1,
    }
    vm = {"num_gpus": 0, "num_tasks": 1}
    assert jobs == {
        "vm1": {
            **vm, "user": "sub1", "submit_s": 0, "duration_s": 2_591_700,
            "cpu_per_task": 4, "memory_gib_per_task": 32,
        },
        "vm2": {
            **vm, "user": "sub1", "submit_s": 300, "duration_s": 600,
            "cpu_per_task": 2, "memory_gib_per_task": 4,
        },
        "vm3": {
            **vm, "user": "sub2", "submit_s": 424_500, "duration_s": 900,
            "cpu_per_task": 1, "memory_gib_per_task": 1.75,
        },
        "vm6": {
            **vm, "user": "sub3", "submit_s": 900, "duration_s": 0,
            "cpu_per_task": 8, "memory_gib_per_task": 32,
        },
    }  # fmt: skip


def test_opendc(tmp_path: Path) -> None:
    assert pq.read_table(opendc_sample.FILE).equals(opendc_sample.table())
    report, jobs = converted("opendc", folder=tmp_path)
    assert report.rejected == {"missing_duration_s": 1, "negative_duration_s": 1, "duplicate_job_id": 1}
    begin = utc("2022-10-06T22:00:00")
    assert jobs == {
        "2132895": {
            "submit_s": begin, "duration_s": 10_079, "num_gpus": 0, "num_tasks": 1,
            "cpu_per_task": 16, "memory_gib_per_task": 100 * GB,
        },
        "2132896": {
            "submit_s": begin + 1.5, "duration_s": 3600, "num_gpus": 2, "num_tasks": 1,
            "cpu_per_task": 8, "memory_gib_per_task": pytest.approx(64 * GB, rel=1e-15),
        },
        "2132897": {
            "submit_s": begin + 60, "duration_s": 0.25, "num_gpus": 0, "num_tasks": 1,
            "cpu_per_task": 1, "memory_gib_per_task": 0,
        },
    }  # fmt: skip


def test_opendc_with_whole_milliseconds_and_without_gpus(tmp_path: Path) -> None:
    file = tmp_path / "tasks.parquet"
    task = {"id": 7, "submission_time": 1_500, "duration": 2_000, "cpu_count": 1, "mem_capacity": 0}
    pl.DataFrame([task]).write_parquet(file)
    _, jobs = converted("opendc", file, folder=tmp_path)
    assert jobs["7"] == {
        "submit_s": 1.5, "duration_s": 2, "num_gpus": 0, "num_tasks": 1,
        "cpu_per_task": 1, "memory_gib_per_task": 0,
    }  # fmt: skip


def test_pbs(tmp_path: Path) -> None:
    report, jobs = converted("pbs", folder=tmp_path)
    # L, Q, S and D are no ends; 42[] stands for its subjobs; Torque counts GPUs in `nodes`.
    assert report.left_out == {"no_end_of_a_job": 4, "job_array": 1, "torque_gpus": 1}
    assert report.rejected == {"wrong_field_count": 1}
    begin = 1_717_401_600
    assert jobs == {
        # 64gb on 2 chunks; 26:00:00 are 93,600 s.
        "41.pbs": {
            "user": "anna", "vc": "gpuq", "status": "completed", "submit_s": begin, "wait_s": 60,
            "duration_s": 3600, "span_s": 3600, "time_limit_s": 93_600, "attempts": 1,
            "num_gpus": 8, "num_tasks": 2, "cpu_per_task": 8, "memory_gib_per_task": 32,
        },
        # Suspended for 50 of its 300 s; 512mb are half a GiB.
        "42[1].pbs": {
            "user": "ben", "vc": "cpuq", "status": "failed", "submit_s": begin + 100, "wait_s": 100,
            "duration_s": 250, "span_s": 300, "time_limit_s": 3600, "attempts": 1,
            "num_gpus": 0, "num_tasks": 1, "cpu_per_task": 4, "memory_gib_per_task": 0.5,
        },
        # Its first start is unknown, as `start` is that of the third run. The GPU is in `select` alone.
        "43.pbs": {
            "user": "chen", "vc": "gpuq", "status": "killed", "submit_s": begin + 300, "duration_s": 600,
            "attempts": 3, "num_gpus": 1, "num_tasks": 1, "cpu_per_task": 2,
        },
        # Without a walltime: from start to end.
        "44.pbs": {
            "user": "chen", "vc": "gpuq", "status": "completed", "submit_s": begin + 400, "wait_s": 60,
            "duration_s": 300, "span_s": 300, "num_gpus": 1, "num_tasks": 1, "cpu_per_task": 2,
        },
    }  # fmt: skip


def test_alibaba_gpu_2023_is_a_name_of_gpu_pods(tmp_path: Path) -> None:
    report, jobs = converted("alibaba-gpu-2023", folder=tmp_path)
    assert report.rejected == {"never_started": 1, "invalid_gpu_milli": 1}
    pod = {"num_tasks": 1, "attempts": 1}
    assert jobs == {
        "pod-0": {
            **pod, "status": "Running", "submit_s": 0, "wait_s": 5, "duration_s": 12_537_491,
            "num_gpus": 1, "cpu_per_task": 12, "memory_gib_per_task": 16,
        },
        "pod-1": {
            **pod, "status": "Succeeded", "submit_s": 427_061, "wait_s": 0, "duration_s": 600,
            "num_gpus": 0.46, "cpu_per_task": 6, "memory_gib_per_task": 12,
        },
        "pod-2": {
            **pod, "status": "Failed", "submit_s": 1_558_046, "wait_s": 4, "duration_s": 96,
            "num_gpus": 8, "cpu_per_task": 88, "memory_gib_per_task": 320, "gpu_types": "V100M32",
        },
        "pod-3": {
            **pod, "status": "Succeeded", "submit_s": 1_558_100, "wait_s": 0, "duration_s": 100,
            "num_gpus": 0, "cpu_per_task": 4, "memory_gib_per_task": 8,
        },
    }  # fmt: skip
    assert converted("gpu-pods", *samples("alibaba-gpu-2023"), folder=tmp_path)[1] == jobs


FOREIGN = {
    "sacct": "sacct.txt",
    "swf": "pwa.swf",
    "k8s-pods": "pods.json",
    "alibaba-2018": "batch_task_2018.csv",
    "condor": "condor_history.json",
    "acme": "acme_kalos_readme_rows.csv",
}
"""Foreign tables that fit a preset."""


@pytest.mark.parametrize("name", quick_first([*presets(), "gpu-pods"], 2))
def test_a_wrong_format_names_the_one_that_fits(name: str, shared_data: Path, tmp_path: Path) -> None:
    tables = [samples("alibaba-gpu-2023" if name == "gpu-pods" else name)]
    if (shared_data / "data" / "foreign").is_dir() and name in FOREIGN:
        tables.append([shared_data / "data" / "foreign" / FOREIGN[name]])
    wrong = [other for other in all_formats() if other not in (name, "alibaba-gpu-2023")]
    for at in range(instances(len(wrong), per_commit=1)):
        asked = wrong[(sum(map(ord, name)) + 7 * at) % len(wrong)]  # 7 shares no factor with their number
        for files in tables:
            with pytest.raises(InvalidInputError, match=rf"fits the format {name}, not {asked}"):
                converted(asked, *files, folder=tmp_path)


def truth(file: Path) -> dict[str, Mapping[str, object]]:
    """The right jobs of a foreign table by id."""
    rows = pl.read_csv(file, schema_overrides={"job_id": pl.String}).rows(named=True)
    return {str(row.pop("job_id")): row for row in rows}


@pytest.fixture
def foreign(shared_data: Path) -> Path:
    """Foreign tables with the right answers, or a skip where they are absent."""
    folder = shared_data / "data" / "foreign"
    if not folder.is_dir():
        pytest.skip(f"no foreign tables at {folder}; name the folder above data/ in RAY_SIM_SHARED")
    return folder


def test_foreign_accounts_of_slurm(foreign: Path, tmp_path: Path) -> None:
    report, jobs = converted("sacct", foreign / "sacct.txt", folder=tmp_path, zone="Europe/Berlin")
    assert (report.read, report.kept, report.rejected) == (456, 108, {})
    assert report.left_out == {"step": 336, "running": 4, "pending": 5, "never_started": 3}
    # Twelve were submitted between 02:00 and 03:00, when clocks went back. The four of the second pass are
    # read as of the first one, and five waits end or begin in the other pass.
    assert "submit_s: 12 of 108 dates are in an hour that came twice" in report.warnings[0]
    right = truth(foreign / "sacct_truth.csv")
    off = {"submit_s": 0, "wait_s": 0}
    for name, job in jobs.items():
        for key, value in right[name].items():
            if key in off and job[key] != value:
                assert abs(float(str(job[key])) - float(str(value))) == 3600
                off[key] += 1
            else:
                assert job[key] == value, (name, key)
    assert off == {"submit_s": 4, "wait_s": 5}
    assert jobs.keys() == right.keys()


def test_a_foreign_log_of_the_parallel_workloads_archive(foreign: Path, tmp_path: Path) -> None:
    report, jobs = converted("swf", foreign / "pwa.swf", folder=tmp_path)
    assert (report.read, report.kept, report.rejected) == (100, 99, {"missing_duration_s": 1})
    words = {0: "failed", 1: "completed", 5: "cancelled"}
    for name, row in truth(foreign / "pwa_truth.csv").items():
        right = {key: row[key] for key in ("submit_s", "duration_s", "wait_s")}
        right |= {"num_tasks": row["procs"], "status": words[int(str(row["st"]))]}
        assert {key: jobs[name][key] for key in right} == right
    assert len(jobs) == 99


@pytest.mark.slow
def test_foreign_pods(foreign: Path, tmp_path: Path) -> None:
    report, jobs = converted("k8s-pods", foreign / "pods.json", folder=tmp_path)
    assert (report.read, report.kept, report.rejected) == (80, 70, {})
    right = truth(foreign / "pods_truth.csv")
    assert {name: {key: job[key] for key in right[name]} for name, job in jobs.items()} == right


@pytest.mark.parametrize(
    ("name", "file", "read", "kept"),
    [
        ("alibaba-2018", "batch_task_2018.csv", 200, 182),
        ("condor", "condor_history.json", 60, 43),
        ("acme", "acme_kalos_readme_rows.csv", 2, 2),
    ],
)
def test_jobs_kept_of_other_foreign_tables(
    name: str, file: str, read: int, kept: int, foreign: Path, tmp_path: Path
) -> None:
    report, jobs = converted(name, foreign / file, folder=tmp_path)
    assert (report.read, report.kept) == (read, kept)
    assert sum(report.rejected.values()) + sum(report.left_out.values()) == read - kept
    if name == "acme":  # end - start
        assert [job["duration_s"] for job in jobs.values()] == [8, 70]


@pytest.mark.slow
def test_a_row_that_fits_by_chance_makes_no_preset_of_a_file(tmp_path: Path) -> None:
    # azure-vm has eleven columns without a header too, and one of the pods has amounts that may be.
    with pytest.raises(InvalidInputError) as error:
        convert("acme", samples("alibaba-gpu-2023"), tmp_path / "w.parquet")
    assert "azure-vm" not in str(error.value)
