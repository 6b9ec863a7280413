"""Google's trace of 2011: lives of tasks and jobs, event by event, and machines as a cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.google2011 import (
    EVICT,
    EVICTED,
    FAIL,
    FINISH,
    FINISHED,
    KILL,
    LINE,
    LOST,
    SCHEDULE,
    SUBMIT,
    UPDATE,
    Event,
    Folder,
    job_line,
    life,
    task_line,
)
from tests.proofs import quick_first
from workloads import rows
from workloads.formats.google import trace_reader
from workloads.formats.google.trace2011 import FORMAT
from workloads.store import load_workload, read_frame, read_provenance
from workloads.trace_format import Censored, RowKind, RunTime


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_task_is_a_row_with_its_wait_run_requests_and_end(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    frame = read_frame(folder.convert().out)
    known = [column.name for column in frame if column.null_count() == 0]
    assert frame.select(known).row(0, named=True) == {
        "job_id": "7-0",
        "group_id": "7",
        "trace_order": 0,
        "submit_s": 601.0,
        "wait_s": 2.0,
        "duration_s": 10.0,
        "span_s": 10.0,
        "user": "user=",
        "status": "FINISH",
        "num_gpus": 0.0,
        "num_tasks": 1,
        "attempts": 1,
        "priority": 9,
        "scheduling_class": 2,
        "different_machines": 1,
        "cpu_norm_per_task": 0.5,
        "memory_norm_per_task": 0.25,
        "disk_norm_per_task": 0.01,
    }


def test_normalised_demands_are_millionths_of_a_machine_rounded_up(folder: Folder) -> None:
    folder.write("task_events", *[task_line(t, e, cpu="0.0125", memory="0.00000012") for t, e in FINISHED])
    table = load_workload(folder.convert().out, ("gpu", "cpu_norm", "memory_norm", "disk_norm"))
    assert table.demand.tolist() == [[0, 12_500, 1, 10_000]]
    assert table.group is not None
    assert table.group.to_list() == ["7"]


def test_a_task_that_ran_twice_is_its_runs_together_its_span_or_each_of_them(folder: Folder) -> None:
    folder.write("task_events", *life(*EVICTED))
    columns = ("job_id", "submit_s", "wait_s", "duration_s", "span_s", "attempts", "status")
    assert folder.rows(*columns) == [("7-0", 601, 2, 40, 47, 2, "FINISH")]
    assert folder.rows(*columns, run_time=RunTime.SPAN) == [("7-0", 601, 2, 47, 47, 2, "FINISH")]
    assert folder.rows(*columns, run_time=RunTime.ATTEMPTS) == [
        ("7-0/1", 601, 2, 10, 10, 1, "EVICT"),
        ("7-0/2", 613, 7, 30, 30, 1, "FINISH"),
    ]


def test_a_log_has_the_length_and_the_end_of_each_run(folder: Folder) -> None:
    rng = random.Random(1)
    ends = {EVICT: ":evict", FAIL: ":fail", KILL: ":kill", LOST: ":lost", FINISH: ""}
    expected, lines = [], [*life((601, SUBMIT), (2000, SCHEDULE), (2090, FINISH), task=99)]
    for task in range(60):
        now, log, events = 601, [], []
        for _ in range(rng.randint(1, 4)):
            length, end = rng.randint(0, 3), rng.choice([*ends])
            events += [(now, SUBMIT), (now + 1, SCHEDULE), (now + 1 + length, end)]
            log += [f"{length}.0{ends[end]}"] * (length > 0)
            now += length + 2
        if rng.random() < 0.3:
            events += [(now, SUBMIT), (now + 1, SCHEDULE)]
            log.append(f"{2089 - now}.0")  # cut where the parts end
        lines += life(*events, task=task)
        expected.append((f"7-{task}", " ".join(log) or None))
    folder.write("task_events", *sorted(lines, key=lambda line: int(line.split(",")[0])))
    cut = {"run_time": RunTime.LOG, "censored": Censored.CUT}
    rows = folder.rows("job_id", "attempt_log", "duration_s", **cut)
    assert {row[:2] for row in rows} == {*expected, ("7-99", "90.0")}
    for _, text, duration_s in rows:
        assert sum(float(each.split(":")[0]) for each in str(text or "0").split()) == duration_s
    with pytest.raises(InvalidInputError, match="attempts are not drawn"):
        folder.convert(run_time=RunTime.LOG, censored=Censored.RESAMPLE)


def test_a_log_of_more_than_1000_runs_is_rejected(folder: Folder) -> None:
    events = [
        event
        for i in range(1001)
        for event in ((601 + 3 * i, SUBMIT), (602 + 3 * i, SCHEDULE), (603 + 3 * i, FAIL))
    ]
    folder.write("task_events", *life(*events), *sorted(life(*FINISHED, task=1)))
    assert folder.rows("job_id", run_time=RunTime.LOG) == [("7-1",)]
    assert pl.read_parquet(str(folder.convert(run_time=RunTime.LOG).rejects))["reason"].to_list() == [
        "absurd_attempts"
    ]


def test_hundreds_of_submissions_are_one_task(folder: Folder) -> None:
    events = [
        event
        for i in range(184)
        for event in ((601 + 10 * i, SUBMIT), (602 + 10 * i, SCHEDULE), (605 + 10 * i, FAIL))
    ]
    folder.write("task_events", *life(*events))
    assert folder.rows("attempts", "duration_s", "status") == [(184, 184 * 3, "FAIL")]
    assert folder.rows("attempt_log", run_time=RunTime.LOG) == [(" ".join(["3.0:fail"] * 184),)]
    assert folder.convert().notes["most_submissions_of_a_task"] == 184


def test_a_finished_task_that_runs_again_is_not_finished_the_first_time(folder: Folder) -> None:
    again = ((613.000003, SUBMIT), (614, SCHEDULE), (620, KILL))
    folder.write("task_events", *life(*FINISHED, *again))
    assert folder.rows("status", "attempts", "duration_s") == [("KILL", 2, 16.0)]


def test_the_latest_request_before_the_run_counts(folder: Folder) -> None:
    folder.write(
        "task_events",
        task_line(0, SUBMIT, cpu="", memory="", rest=","),
        task_line(0, SCHEDULE, cpu="0.1", memory="0.2"),
        task_line(610, FINISH, cpu="0.1", memory="0.2"),
        # A null does not wipe out what was asked for before; an update after the start is too late.
        task_line(601, SUBMIT, task=1, cpu="0.3"),
        task_line(602, SCHEDULE, task=1, cpu=""),
        task_line(603, UPDATE, task=1, cpu="0.9"),
        task_line(604, FINISH, task=1, cpu="0.9"),
        # Nothing is inherited from the task before.
        task_line(605, SUBMIT, task=2, cpu=""),
        task_line(606, SCHEDULE, task=2, cpu=""),
        task_line(607, FINISH, task=2, cpu=""),
    )
    columns = ("cpu_norm_per_task", "memory_norm_per_task", "different_machines")
    assert folder.rows(*columns) == [(0.1, 0.2, 1), (0.3, 0.25, 1), (None, 0.25, 1)]
    notes = folder.convert().notes
    assert notes["tasks_whose_request_changed_before_the_run"] == 1
    assert notes["tasks_without_a_request"] == 1


def test_updates_do_not_touch_a_life(folder: Folder) -> None:
    folder.write(
        "task_events", *life((601, SUBMIT), (602, 7), (603, SCHEDULE), (604, 8), (605, 8), (613, FINISH))
    )
    assert folder.rows("wait_s", "duration_s", "attempts") == [(2, 10, 1)]


@pytest.mark.parametrize(
    ("events", "reason"),
    quick_first(
        [
            (((603, SCHEDULE), (613, FINISH)), "missing_submit_s"),
            (((613, FINISH),), "missing_submit_s"),
            (((601, SUBMIT),), "never_started"),
            (((601, SUBMIT), (602, KILL)), "ended_before_start"),
            (((601, SUBMIT), (602, EVICT), (602, SUBMIT)), "never_started"),
            (((601, SUBMIT), (603, SCHEDULE)), "censored"),
            (((601, SUBMIT), (603, SCHEDULE), (604, EVICT), (604, SUBMIT)), "censored"),
            (((601, SUBMIT), (603, SCHEDULE), (604, EVICT), (604, SUBMIT), (605, SCHEDULE)), "censored"),
            # Between two starts an end is lost, so the first run's length is unknown.
            (((601, SUBMIT), (603, SCHEDULE), (605, SCHEDULE), (606, FINISH)), "incomplete_attempt"),
            (((601, SUBMIT), (603, SCHEDULE), (605, SUBMIT), (606, KILL)), "incomplete_attempt"),
        ],
        2,
    ),
)
def test_a_task_without_a_run_is_rejected_for_a_reason(
    folder: Folder, events: Sequence[Event], reason: str
) -> None:
    folder.write("task_events", *life(*FINISHED), *life(*events, job=8, task=3))
    report = folder.convert()
    assert (report.read, report.kept, report.rejected) == (2, 1, {reason: 1})
    # Its first event stands behind the three of the other task.
    name = "task_events/part-00000-of-00500.csv.gz"
    assert pl.read_parquet(str(report.rejects)).rows() == [(name, 4, reason, "task 3 of job 8")]


def test_the_span_of_a_task_does_not_need_the_ends_in_its_middle(folder: Folder) -> None:
    folder.write("task_events", *life((601, SUBMIT), (603, SCHEDULE), (605, SCHEDULE), (606, FINISH)))
    assert folder.rows("duration_s", run_time=RunTime.SPAN) == [(3.0,)]


def test_runs_without_an_end_may_end_with_the_parts_read(folder: Folder) -> None:
    folder.write(
        "task_events",
        *life((601, SUBMIT), (603, SCHEDULE)),
        *life((601, SUBMIT), (603, SCHEDULE), (604, EVICT), (604, SUBMIT), (610, SCHEDULE), task=1),
        *life((601, SUBMIT), (603, SCHEDULE), (604, EVICT), (604, SUBMIT), task=2),
        *life((690, SUBMIT), (691, SCHEDULE), (700, FINISH), task=3),
    )
    cut = {"censored": Censored.CUT}
    # The last event is at 700: 97 s; 1 s and 90 s; 1 s, waiting since then; 9 s to its end.
    columns = ("job_id", "duration_s", "span_s", "status")
    assert folder.rows(*columns, **cut) == [
        ("7-0", 97, None, None),
        ("7-1", 91, None, None),
        ("7-2", 1, None, None),
        ("7-3", 9, 9, "FINISH"),
    ]
    assert folder.rows("duration_s", run_time=RunTime.SPAN, **cut) == [(97,), (97,), (97,), (9,)]
    attempts = folder.rows("job_id", "duration_s", run_time=RunTime.ATTEMPTS, **cut)
    assert attempts == [("7-0/1", 97), ("7-1/1", 1), ("7-2/1", 1), ("7-1/2", 90), ("7-3/1", 9)]


def test_a_row_has_a_status_where_its_last_event_is_an_end_as_a_naive_reading_finds_it(
    folder: Folder,
) -> None:
    rng = random.Random(0)
    events: dict[int, list[tuple[int, int]]] = {}
    for task in range(300):
        now, own = 601 + rng.randrange(50), []
        for _ in range(rng.randint(1, 3)):
            own += [(now, SUBMIT), (now := now + rng.randint(0, 9), SCHEDULE)]
            own.append((now := now + rng.randint(1, 30), rng.choice([EVICT, FAIL, FINISH, KILL, LOST])))
            now += rng.randint(0, 9)
        events[task] = own[: len(own) - rng.choice([0, 0, 1, 2])]
    lines = [(time, task, kind) for task, own in events.items() for time, kind in own]
    folder.write("task_events", *(task_line(time, kind, task=task) for time, task, kind in lines))
    names = {EVICT: "EVICT", FAIL: "FAIL", FINISH: "FINISH", KILL: "KILL", LOST: "LOST"}
    end = max(time for time, _, _ in lines)
    expected, cut_after_an_end = set(), 0
    for task, own in events.items():
        starts = [time for time, kind in own if kind == SCHEDULE]
        ends = [time for time, kind in own if kind in names]
        if not starts:
            continue
        run = sum(ends) + (end if len(starts) > len(ends) else 0) - sum(starts)
        last = own[-1]
        cut_after_an_end += last[1] not in names and bool(ends)
        span = last[0] - starts[0] if last[1] in names else None
        expected.add((f"7-{task}", run, span, names.get(last[1]), len(starts)))
    rows = folder.rows("job_id", "duration_s", "span_s", "status", "attempts", censored=Censored.CUT)
    assert set(rows) == expected
    assert cut_after_an_end > 20


@pytest.mark.slow
def test_runs_without_an_end_may_be_drawn_from_the_longer_ones(folder: Folder) -> None:
    ended = [
        line
        for i in range(40)
        for line in life((601, SUBMIT), (602, SCHEDULE), (602 + 2 * i, FINISH), task=i)
    ]
    folder.write("task_events", *ended, *life((601, SUBMIT), (660, SCHEDULE), job=8))
    # It ran 20 s, from 660 to 680; the known runs are 0, 2 .. 78 s.
    drawn = set()
    for seed in range(20):
        report = folder.convert(censored=Censored.RESAMPLE, seed=seed)
        frame = read_frame(report.out)
        drawn.add(frame.filter(pl.col("job_id") == "8-0")["duration_s"].item())
        provenance = read_provenance(report.out)
        assert provenance is not None
        assert provenance.seed == seed
    assert drawn <= set(range(22, 80, 2))
    assert len(drawn) > 5


def test_a_run_longer_than_every_known_one_ends_with_the_trace(folder: Folder) -> None:
    folder.write("task_events", *life((0, SUBMIT), (0, SCHEDULE)), *life(*FINISHED, job=8))
    rows = folder.rows("job_id", "duration_s", censored=Censored.RESAMPLE)
    assert rows == [("7-0", 613.0), ("8-0", 10.0)]


def test_what_happened_after_the_end_did_not_happen_in_the_trace(folder: Folder) -> None:
    after = f"{2**63 - 1},,7,0,,{FINISH},user=,2,9,0.5,0.25,0.01,1\n"
    folder.write("task_events", *life((601, SUBMIT), (603, SCHEDULE)), after, *life(*FINISHED, job=8))
    report = folder.convert()
    assert report.rejected == {"censored": 1}
    assert report.notes["events_after_the_end"] == 1


def test_time_0_is_before_the_trace_and_ties_keep_the_order_of_the_file(folder: Folder) -> None:
    folder.write("task_events", *life((0, SUBMIT), (0, SCHEDULE), (613, FINISH)), *life((0, SUBMIT), task=1))
    report = folder.convert()
    assert read_frame(report.out).select("submit_s", "wait_s", "duration_s").rows() == [(0, 0, 613)]
    assert (report.notes["tasks_running_at_time_0"], report.notes["tasks_waiting_at_time_0"]) == (1, 1)


def test_a_job_is_a_gang_of_its_largest_tasks(folder: Folder) -> None:
    folder.write(
        "task_events",
        *[task_line(t, e, cpu="0.1", memory="0.3") for t, e in FINISHED],
        *[
            task_line(t, e, cpu="0.2", memory="0.1", task=9)
            for t, e in ((602, SUBMIT), (605, SCHEDULE), (650, KILL))
        ],
    )
    columns = ("job_id", "group_id", "num_tasks", "cpu_norm_per_task", "memory_norm_per_task")
    times = ("submit_s", "wait_s", "duration_s", "status")
    # First submission 601, first start 603, last end 650.
    assert folder.rows(*columns, *times, rows=RowKind.JOB) == [("7", None, 2, 0.2, 0.3, 601, 2, 47, "KILL")]


def test_a_jobs_life_comes_from_the_job_events_where_there_are_some(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), *life(*FINISHED, job=9))
    folder.write(
        "job_events",
        *[job_line(t, e) for t, e in ((600.5, SUBMIT), (603, SCHEDULE), (614, FINISH))],
        *[job_line(t, e, job=8) for t, e in FINISHED],
    )
    report = folder.convert(rows=RowKind.JOB)
    rows = read_frame(report.out).select("job_id", "submit_s", "duration_s", "num_tasks").rows()
    assert rows == [("7", 600.5, 11, 1), ("9", 601, 10, 1)]
    assert (report.read, report.rejected) == (3, {"no_task_events": 1})


def test_job_events_alone_give_jobs_of_unknown_size(folder: Folder) -> None:
    lives = (*FINISHED, (700, SUBMIT), (701, SCHEDULE), (702, FINISH))
    folder.write("job_events", *[job_line(t, e) for t, e in lives])
    report = folder.convert(rows=RowKind.JOB)
    # The documented case of an id that is used again: one job, whose span has both lives in it.
    assert read_frame(report.out).select("attempts", "duration_s", "cpu_norm_per_task").rows() == [
        (2, 99, None)
    ]
    assert report.notes["job_ids_used_again"] == 1
    with pytest.raises(InvalidWorkloadError, match="no task_events given, only job_events"):
        folder.convert()


@pytest.mark.slow
def test_a_rule_for_tasks_does_not_fit_a_job(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidInputError, match="--run-time sum"):
        folder.convert(rows=RowKind.JOB, run_time=RunTime.SUM)


@pytest.mark.slow
def test_buckets_and_parts_make_no_difference(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    events = sorted(
        (float(time_s), int(event), int(job), int(task))
        for time_s, event, job, task in zip(
            rng.integers(600, 700, 3000),
            rng.integers(0, 9, 3000),
            rng.integers(0, 30, 3000),
            rng.integers(0, 9, 3000),
            strict=True,
        )
    )
    folder.write("task_events", *[task_line(t, e, job=j, task=k) for t, e, j, k in events])
    for rule in (RunTime.SPAN, RunTime.SUM, RunTime.ATTEMPTS):
        one = folder.convert(run_time=rule, censored=Censored.RESAMPLE)
        assert one.rejects is not None
        jobs, rejects = one.out.read_bytes(), pl.read_parquet(one.rejects)
        with monkeypatch.context() as patched:
            patched.setattr(trace_reader, "BUCKET_BYTES", 10_000)
            patched.setattr(rows, "PART_ROWS", 20)
            folder.convert(run_time=rule, censored=Censored.RESAMPLE)
        assert one.out.read_bytes() == jobs
        assert pl.read_parquet(one.rejects).equals(rejects)


def machine_line(time_s: float, machine: int, event: int, cpu: str = "0.5", memory: str = "0.25") -> str:
    return f"{time_s * 1e6:.0f},{machine},{event},platform=,{cpu},{memory}\n"


def test_machines_are_a_cluster_whose_servers_come_and_go(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), LINE.replace(",,0,user", ",99,0,user"))
    folder.write(
        "machine_events",
        machine_line(0, 5, 0),
        machine_line(0, 6, 0, "1", "1"),
        machine_line(700, 5, 1),
        machine_line(800, 5, 0, "", ""),  # back without a capacity: that of before
        machine_line(900, 6, 2, "1", "0.5"),  # smaller: the largest counts
        machine_line(950, 7, 0, "0.25", "0.2498"),  # new
        machine_line(960, 7, 0, "0.25", "0.2498"),  # there already
        machine_line(970, 8, 0, "", ""),  # never has a capacity
    )
    report = folder.convert(cluster=True)
    cluster = report.cluster
    assert cluster is not None
    assert cluster.server_names == ("5", "6", "7")
    assert cluster.resources == ("gpu", "cpu_norm", "memory_norm")
    assert cluster.capacity.tolist() == [
        [0, 500_000, 250_000],
        [0, 1_000_000, 1_000_000],
        [0, 250_000, 249_800],
    ]
    changes = cluster.availability
    assert changes is not None
    assert changes.time_us.tolist() == [700_000_000, 800_000_000, 950_000_000]
    assert (changes.server.tolist(), changes.up.tolist()) == ([0, 0, 2], [False, True, True])
    assert changes.at_first(3).tolist() == [True, True, False]
    assert report.notes["machines"] == 4
    assert report.notes["machines_whose_capacity_changed"] == 1
    assert report.notes["machines_without_capacity"] == 1
    assert report.notes["machine_events_that_change_nothing"] == 1
    assert report.warnings == (
        "1 machines ran tasks and have no capacity in machine_events; they are left out",
    )
    assert folder.convert().cluster is None


@pytest.mark.slow
def test_a_cluster_needs_machine_events(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidWorkloadError, match="no machine_events given"):
        folder.convert(cluster=True)


def test_the_format_takes_the_options_that_it_knows(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidInputError, match="does not take the option 'rebase'"):
        folder.convert(rebase=True)
    assert FORMAT.options == {"run_time", "rows", "censored", "seed", "cluster"}


def test_a_task_with_nothing_but_updates_is_not_lost(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), task_line(605, UPDATE, job=9), task_line(606, 7, job=9))
    report = folder.convert()
    assert (report.read, report.kept, report.rejected) == (2, 1, {"missing_submit_s": 1})
    assert report.notes["tasks_without_any_end"] == 1
