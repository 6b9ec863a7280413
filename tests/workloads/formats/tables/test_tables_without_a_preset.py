"""Published forms of tables that no preset covers: each converts by a mapping alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from workloads.convert import ConversionReport, convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions


def converted(
    folder: Path, content: object, mapping: str
) -> tuple[ConversionReport, list[dict[str, object]]]:
    """Convert a text, or what becomes JSON; the cells of the jobs that are not null."""
    table, file, out = folder / "table", folder / "map.yaml", folder / "w.parquet"
    table.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    file.write_text(mapping)
    report = convert("csv", [table], out, options=ConvertOptions(mapping=file))
    rows = read_frame(out).drop("trace_order").rows(named=True)
    return report, [{key: cell for key, cell in row.items() if cell is not None} for row in rows]


def utc(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_jobs_of_flux(tmp_path: Path) -> None:
    job = {"id": "f1", "username": "anna", "result": "COMPLETED", "ntasks": 2, "ncores": 16, "nnodes": 1}
    job |= {"t_submit": 1e9 + 0.25, "t_run": 1e9 + 5.25, "t_inactive": 1e9 + 105.25, "duration": 3600.0}
    job |= {"annotations": {"sched": {"resource_summary": "rank0/core[0-15],gpu[0-3]"}}}
    waiting = {key: job[key] for key in job if key not in ("t_run", "t_inactive")} | {"id": "f2"}
    mapping = r"""
read: {records: jobs}
columns: {job_id: id, user: username, status: result, submit_s: t_submit, time_limit_s: duration,
          num_tasks: ntasks, cpu_per_task: ncores}
derived:
  duration_s: t_inactive - t_run
  wait_s: t_run - t_submit
  num_gpus: (last_gpu - first_gpu + 1) * nnodes
per_job: [cpu_per_task]
cells:
  annotations.sched.resource_summary: {pattern: 'gpu\[(?P<first_gpu>[0-9]+)-(?P<last_gpu>[0-9]+)\]'}
where: [{left_out: never_started, column: t_run, blank: true}]
"""
    report, jobs = converted(tmp_path, {"jobs": [job, waiting]}, mapping)
    assert (report.read, report.left_out) == (2, {"never_started": 1})
    assert jobs == [
        {
            "job_id": "f1", "user": "anna", "status": "COMPLETED", "submit_s": 1e9 + 0.25, "wait_s": 5,
            "duration_s": 100, "time_limit_s": 3600, "num_tasks": 2, "num_gpus": 4, "cpu_per_task": 8,
        }
    ]  # fmt: skip


def test_jobs_of_ray(tmp_path: Path) -> None:
    job = {"submission_id": "raysubmit_1", "status": "SUCCEEDED", "start_time": 1_710_000_000_000}
    job |= {"end_time": 1_710_000_090_000, "metadata": {"team": "nlp"}, "entrypoint_num_cpus": 2}
    job |= {"entrypoint_num_gpus": 0.5, "entrypoint_memory": 2**33}
    running = job | {"submission_id": "raysubmit_2", "status": "RUNNING", "end_time": None}
    mapping = """
columns: {job_id: submission_id, vc: metadata.team, status: status, submit_s: start_time,
          num_gpus: entrypoint_num_gpus, cpu_per_task: entrypoint_num_cpus,
          memory_gib_per_task: entrypoint_memory}
derived: {duration_s: end_time - start_time}
constants: {num_tasks: 1}
units: {submit_s: ms, duration_s: ms, memory_gib_per_task: b}
where: [{left_out: running, column: status, is: [RUNNING, PENDING]}]
"""
    report, jobs = converted(tmp_path, [job, running], mapping)
    assert (report.read, report.left_out) == (2, {"running": 1})
    assert jobs == [
        {
            "job_id": "raysubmit_1", "vc": "nlp", "status": "SUCCEEDED", "submit_s": 1_710_000_000,
            "duration_s": 90, "num_tasks": 1, "num_gpus": 0.5, "cpu_per_task": 2, "memory_gib_per_task": 8,
        }
    ]  # fmt: skip


def test_runs_exported_from_weights_and_biases(tmp_path: Path) -> None:
    table = """"Name","State","Created","Runtime","GPU Count"
"run-0","finished","2024-02-01T10:00:00.500Z","120","4"
"run-1","running","2024-02-01T11:00:00.000Z","30","4"
"run-2","crashed","2024-02-01T12:00:00.000Z","7",""
"""
    mapping = """
columns: {job_id: Name, status: State, submit_s: Created, duration_s: Runtime, num_gpus: GPU Count}
cells: {GPU Count: {default: 0}}
where: [{left_out: running, column: State, is: [running]}]
"""
    report, jobs = converted(tmp_path, table, mapping)
    assert (report.read, report.left_out) == (3, {"running": 1})
    names = ("job_id", "submit_s", "duration_s", "num_gpus")
    assert [tuple(job[name] for name in names) for job in jobs] == [
        ("run-0", utc("2024-02-01T10:00:00.5"), 120, 4),
        ("run-2", utc("2024-02-01T12:00:00"), 7, 0),
    ]


def test_usage_records_without_a_header(tmp_path: Path) -> None:
    table = "600000000,900000000,625,0,41,0.25,0.01\n900000000,1200000000,625,1,41,0.5,\n,,,,,,\n1,2,3\n"
    mapping = """
read: {header: [start, end, job, task, machine, cpu, memory]}
columns: {submit_s: start, group_id: job, cpu_norm_per_task: cpu, memory_norm_per_task: memory}
derived: {duration_s: end - start}
units: {submit_s: us, duration_s: us}
constants: {num_gpus: 0, num_tasks: 1}
"""
    report, jobs = converted(tmp_path, table, mapping)
    assert (report.read, report.rejected) == (4, {"empty_row": 1, "wrong_field_count": 1})
    job = {"group_id": "625", "duration_s": 300, "num_gpus": 0, "num_tasks": 1}
    assert jobs == [
        job | {"job_id": "0", "submit_s": 600, "cpu_norm_per_task": 0.25, "memory_norm_per_task": 0.01},
        job | {"job_id": "1", "submit_s": 900, "cpu_norm_per_task": 0.5},
    ]


def test_a_sheet_saved_with_day_numbers_and_decimal_commas(tmp_path: Path) -> None:
    table = "Job;Started;Hours;Gradient\na;45292,5;1,5;1Gi\nb;n/a;1;2G\nc;45474,25;2;500M\n"
    mapping = """
read: {separator: ";", decimal: ","}
time_zone: Europe/Berlin
columns: {job_id: Job, submit_s: Started, duration_s: Hours, gradient_mb: Gradient}
constants: {num_gpus: 1}
units: {duration_s: h}
cells: {Started: {as: excel_date}, Gradient: {as: quantity}}
"""
    report, jobs = converted(tmp_path, table, mapping)
    assert (report.read, report.rejected) == (3, {"invalid_submit_s": 1})
    # 45292 is 1 January 2024, in winter time; 45474 is 1 July, in summer time. 1 Gi is 1073.741824 MB.
    assert [(job["submit_s"], job["duration_s"], job["gradient_mb"]) for job in jobs] == [
        (utc("2024-01-01T11:00:00"), 5400, 1073.741824),
        (utc("2024-07-01T04:00:00"), 7200, 500),
    ]
