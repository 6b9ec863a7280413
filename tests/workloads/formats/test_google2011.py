"""Google's trace of 2011: lives of tasks and jobs, event by event, and whatever stands in the files."""

from __future__ import annotations

import gzip
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads import rows
from workloads.convert import ConversionReport, convert
from workloads.formats.google import event_buckets
from workloads.formats.google.trace2011 import FORMAT
from workloads.store import load_workload, read_frame, read_provenance
from workloads.trace_format import Censored, ConvertOptions, RowKind, RunTime

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE = 0, 1, 2, 3, 4, 5, 6, 8
START_S = 600

Event = tuple[float, int]
"""Seconds and kind."""


def task_line(
    time_s: float,
    event: int,
    *,
    job: int = 7,
    task: int = 0,
    cpu: str = "0.5",
    memory: str = "0.25",
    rest: str = "0.01,1",
) -> str:
    return f"{time_s * 1e6:.0f},,{job},{task},,{event},user=,2,9,{cpu},{memory},{rest}\n"


def job_line(time_s: float, event: int, job: int = 7) -> str:
    return f"{time_s * 1e6:.0f},,{job},{event},user=,2,name=,logical=\n"


def life(*events: Event, job: int = 7, task: int = 0) -> list[str]:
    return [task_line(time_s, event, job=job, task=task) for time_s, event in events]


FINISHED = ((601, SUBMIT), (603, SCHEDULE), (613, FINISH))
"""Waits 2 s, runs 10 s."""


class Folder:
    """A trace on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, table: str, *lines: str, number: int = 0, total: int = 500) -> Path:
        folder = self.path / table
        folder.mkdir(exist_ok=True)
        file = folder / f"part-{number:05}-of-{total:05}.csv.gz"
        file.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        return file

    def convert(self, *sources: Path, **options: object) -> ConversionReport:
        out = self.path / "w.parquet"
        chosen = ConvertOptions(**options)  # type: ignore[arg-type]  # names and types are the tests' own
        return convert("google-2011", sources or [self.path], out, options=chosen)

    def rows(self, *columns: str, **options: object) -> list[tuple[object, ...]]:
        return read_frame(self.convert(**options).out).select(columns).rows()


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


EVICTED = ((601, SUBMIT), (603, SCHEDULE), (613, EVICT), (613, SUBMIT), (620, SCHEDULE), (650, FINISH))
"""Runs 10 s and 30 s, with 7 s between them."""


def test_a_task_that_ran_twice_is_its_runs_together_its_span_or_each_of_them(folder: Folder) -> None:
    folder.write("task_events", *life(*EVICTED))
    columns = ("job_id", "submit_s", "wait_s", "duration_s", "span_s", "attempts", "status")
    assert folder.rows(*columns) == [("7-0", 601, 2, 40, 47, 2, "FINISH")]
    assert folder.rows(*columns, run_time=RunTime.SPAN) == [("7-0", 601, 2, 47, 47, 2, "FINISH")]
    assert folder.rows(*columns, run_time=RunTime.ATTEMPTS) == [
        ("7-0/1", 601, 2, 10, 10, 1, "EVICT"),
        ("7-0/2", 613, 7, 30, 30, 1, "FINISH"),
    ]


def test_hundreds_of_submissions_are_one_task(folder: Folder) -> None:
    events = [
        event
        for i in range(184)
        for event in ((601 + 10 * i, SUBMIT), (602 + 10 * i, SCHEDULE), (605 + 10 * i, FAIL))
    ]
    folder.write("task_events", *life(*events))
    assert folder.rows("attempts", "duration_s", "status") == [(184, 184 * 3, "FAIL")]
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


def test_parts_are_read_in_the_order_of_their_numbers_whatever_is_named_first(folder: Folder) -> None:
    two = folder.write("task_events", task_line(613, FINISH), number=2)
    one = folder.write("task_events", *life((601, SUBMIT), (603, SCHEDULE)), number=1)
    whole = read_frame(folder.convert().out)
    assert whole["duration_s"].to_list() == [10.0]
    assert read_frame(folder.convert(two, one).out).equals(whole)
    # A later part alone does not know when its tasks were submitted.
    with pytest.raises(InvalidWorkloadError, match="missing_submit_s 1"):
        folder.convert(two)


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
    assert folder.rows(*columns, *times, rows=RowKind.JOB) == [
        ("7", None, 2, 0.2, 0.3, 601, 2, 47, "KILL"),
    ]


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


def test_a_rule_for_tasks_does_not_fit_a_job(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidInputError, match="--run-time sum"):
        folder.convert(rows=RowKind.JOB, run_time=RunTime.SUM)


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
    for rule in RunTime:
        one = folder.convert(run_time=rule, censored=Censored.RESAMPLE)
        assert one.rejects is not None
        jobs, rejects = one.out.read_bytes(), pl.read_parquet(one.rejects)
        with monkeypatch.context() as patched:
            patched.setattr(event_buckets, "BUCKET_BYTES", 10_000)
            patched.setattr(rows, "PART_ROWS", 20)
            folder.convert(run_time=rule, censored=Censored.RESAMPLE)
        assert one.out.read_bytes() == jobs
        assert pl.read_parquet(one.rejects).equals(rejects)


def test_the_folder_for_temporary_files_may_have_any_name(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "[a] *b"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    monkeypatch.setattr(event_buckets, "BUCKET_BYTES", 100)
    monkeypatch.setattr(rows, "PART_ROWS", 1)
    folder.write("task_events", *life(*FINISHED), *life(*FINISHED, job=8))
    assert folder.convert().kept == 2
    assert [*odd.iterdir()] == []


LINE = task_line(601, SUBMIT)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("\n", "empty_row"),
        (",,,,,,,,,,,,\n", "empty_row"),
        ("# time,missing,job\n", "comment"),
        (LINE.replace("user=", '"us,er"'), "unexpected_quotes"),
        (LINE.replace("\n", ",\n"), "wrong_field_count"),
        ("601000000,,7\n", "wrong_field_count"),
        (LINE.replace("601000000", ""), "missing_time"),
        (LINE.replace("601000000", "601.5"), "invalid_time"),
        (LINE.replace("601000000", "9" * 20), "invalid_time"),
        (LINE.replace("601000000", "9" * 18), "absurd_time"),
        (LINE.replace("601000000", "-1"), "negative_time"),
        (LINE.replace(",7,", ",,"), "missing_job"),
        (LINE.replace(",7,0,", ",7,x,"), "invalid_task"),
        (LINE.replace(",0,user", ",9,user"), "absurd_event"),
        (LINE.replace(",0,user", ",,user"), "missing_event"),
        (LINE.replace(",2,9,", ",2,12,"), "absurd_priority"),
        (LINE.replace(",0.5,", ",nan,"), "invalid_cpu"),
        (LINE.replace(",0.5,", ",1e400,"), "invalid_cpu"),
        (LINE.replace(",0.25,", ",-0.25,"), "negative_memory"),
        (LINE.replace(",1\n", ",2\n"), "absurd_different_machines"),
    ],
)
def test_a_line_that_is_no_event_is_rejected_and_the_others_stay(
    folder: Folder, line: str, reason: str
) -> None:
    file = folder.write("task_events", *life(*FINISHED), line, *life(*FINISHED, job=8))
    report = folder.convert()
    # Two tasks and a line.
    assert (report.read, report.kept, report.rejected) == (3, 2, {reason: 1})
    rejects = pl.read_parquet(str(report.rejects))
    assert rejects.rows() == [(f"task_events/{file.name}", 4, reason, line.rstrip("\n"))]


def test_lines_may_end_as_windows_has_it_begin_with_a_mark_and_have_blanks_around_values(
    folder: Folder,
) -> None:
    folder.write("task_events", *life(*EVICTED))
    whole = read_frame(folder.convert().out)
    text = "".join(life(*EVICTED))
    for other in (text.replace("\n", "\r\n"), "\ufeff" + text, text.replace(",", " , "), text.rstrip("\n")):
        folder.write("task_events", other)
        assert read_frame(folder.convert().out).equals(whole)


def test_a_line_of_ten_megabytes_is_one_reject(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), LINE.replace("user=", "u" * 10_000_000 + ","))
    report = folder.convert()
    assert report.rejected == {"wrong_field_count": 1}
    assert pl.read_parquet(str(report.rejects))["text"].str.len_chars().item() == 500


def test_a_file_is_of_the_table_that_its_folder_its_name_or_its_columns_say(
    folder: Folder, tmp_path: Path
) -> None:
    one = folder.write("task_events", *life(*FINISHED))
    whole = read_frame(folder.convert(one).out)
    for name in ("my_task_events.csv", "x.csv"):
        other = tmp_path / name
        other.write_text("".join(life(*FINISHED)))
        assert read_frame(folder.convert(other).out).equals(whole)
    odd = tmp_path / "y.csv"
    odd.write_text("1,2,3\n")
    with pytest.raises(InvalidWorkloadError, match=r"columns as one of job_events \(8\), task_events \(13\)"):
        folder.convert(odd)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "file is empty"),
        (b"\xff\xfe1,2,3", "UTF-8"),
        (gzip.compress("".join(life(*FINISHED)).encode(), mtime=0)[:-9], "UTF-8 text, plain or gzip"),
        (gzip.compress("".join(life(*FINISHED) * 5000).encode(), mtime=0)[:100], "UTF-8 text, plain or gzip"),
        (b"\n\n", r"none of 2 rows can be kept \(empty_row 2\)"),
    ],
)
def test_a_damaged_file_is_a_clear_error(folder: Folder, content: bytes, told: str) -> None:
    path = folder.write("task_events", "")
    path.write_bytes(content)
    with pytest.raises(InvalidWorkloadError, match=told):
        folder.convert()
    assert not (folder.path / "w.parquet").exists()


def test_parts_of_two_traces_and_parts_twice_are_refused(folder: Folder, tmp_path: Path) -> None:
    one = folder.write("task_events", *life(*FINISHED))
    other = Folder(tmp_path / "other")
    other.path.mkdir()
    same = other.write("task_events", *life(*FINISHED), number=1)
    with pytest.raises(InvalidInputError, match="the same content"):
        folder.convert(one, same)
    twice = other.write("task_events", *life(*FINISHED, job=8))
    with pytest.raises(InvalidWorkloadError, match="the same part of task_events twice"):
        folder.convert(one, twice)
    with pytest.raises(InvalidWorkloadError, match="named twice"):
        folder.convert(one, one)
    foreign = other.write("task_events", *life(*FINISHED, job=8), number=1, total=200)
    with pytest.raises(InvalidWorkloadError, match="parts of two different traces"):
        folder.convert(one, foreign)
    with pytest.raises(InvalidWorkloadError, match="no such file"):
        folder.convert(other.path / "none")


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


def test_a_cluster_needs_machine_events(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidWorkloadError, match="no machine_events given"):
        folder.convert(cluster=True)


def test_the_format_takes_the_options_that_it_knows(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED))
    with pytest.raises(InvalidInputError, match="does not take the option 'rebase'"):
        folder.convert(rebase=True)
    assert FORMAT.options == {"run_time", "rows", "censored", "seed", "cluster"}


Real = Callable[[str], Path]


def test_the_published_part_has_the_jobs_tasks_and_events_that_were_counted(
    real: Real, tmp_path: Path
) -> None:
    source = real("data/google2011")
    report = convert("google-2011", [source], tmp_path / "w.parquet", options=ConvertOptions(cluster=True))
    notes = report.notes
    assert notes["task_events"] == {
        "SUBMIT": 201_491,
        "SCHEDULE": 189_994,
        "EVICT": 4_338,
        "FAIL": 581,
        "FINISH": 43_237,
        "KILL": 10_505,
        "LOST": 0,
        "UPDATE_PENDING": 0,
        "UPDATE_RUNNING": 0,
        "last_s": 5_611.086346,
    }
    assert (notes["jobs"], notes["tasks"], notes["tasks_without_any_end"]) == (4_895, 190_926, 138_706)
    assert notes["tasks_running_at_time_0"] == 132_982
    assert notes["tasks_whose_request_changed_before_the_run"] == 37_604
    assert notes["most_submissions_of_a_task"] == 184
    assert (notes["machines"], notes["machines_that_ran_tasks"]) == (12_583, 12_492)
    assert notes["machines_that_ran_tasks_and_have_no_capacity"] == 3
    assert notes["machine_events_without_capacity"] == 32
    # Sequences "0" and "05" never ran; of the others, those whose last event is no end are censored.
    assert report.rejected == {"censored": 131_652, "ended_before_start": 71, "never_started": 11_178}
    assert (report.read, report.kept) == (190_926, 48_025)
    cluster = report.cluster
    assert cluster is not None
    # 21,443 ADD and 8,957 REMOVE, all legal; 12,477 of the first at time 0.
    assert cluster.availability is not None
    assert len(cluster.availability) == 21_443 + 8_957 - 12_477


def test_each_closed_attempt_of_the_published_part_is_a_row(real: Real, tmp_path: Path) -> None:
    options = ConvertOptions(run_time=RunTime.ATTEMPTS)
    report = convert(
        "google-2011", [real("data/google2011/task_events")], tmp_path / "w.parquet", options=options
    )
    frame = read_frame(report.out)
    assert (frame.height, report.rejected["censored"]) == (58_585, 189_994 - 58_585)
    assert (frame["duration_s"] > 0).all()
    # Measured over the closed attempts: median 406 s, at most 5,611 s.
    assert round(float(frame["duration_s"].quantile(0.5) or 0)) == 406
    assert round(float(frame["duration_s"].to_numpy().max())) == 5_611


def test_jobs_of_the_published_part_are_all_there(real: Real, tmp_path: Path) -> None:
    options = ConvertOptions(rows=RowKind.JOB, censored=Censored.CUT)
    report = convert(
        "google-2011", [real("data/google2011/task_events")], tmp_path / "w.parquet", options=options
    )
    frame = read_frame(report.out)
    rejected = sum(report.rejected.values())
    assert report.read == report.kept + rejected == 4_895
    assert frame["num_tasks"].to_numpy().max() == 20_010


def test_a_task_with_nothing_but_updates_is_not_lost(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), task_line(605, UPDATE, job=9), task_line(606, 7, job=9))
    report = folder.convert()
    assert (report.read, report.kept, report.rejected) == (2, 1, {"missing_submit_s": 1})
