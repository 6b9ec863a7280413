"""A job id in several records: which of them becomes the job, and how the others are counted."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from tests.command_line import answer
from tests.proofs import quick_first
from tests.workloads.conversions import Trace
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame, read_provenance
from workloads.trace_format import ConvertOptions

Record = tuple[str, str, str]
"""Status, run time in seconds, user."""

HEADER = "job_id,submit_s,duration_s,num_gpus,status,user\n"
AGAIN = "duplicate_job_id"


def converted(
    *paths: Path, format_name: str = "csv", **options: object
) -> tuple[ConversionReport, pl.DataFrame]:
    """The report and the jobs; every row is accounted for, whatever was converted, also in the file."""
    out = paths[0].with_name("w.parquet")
    report = convert(format_name, list(paths), out, options=ConvertOptions(**options))  # type: ignore[arg-type]  # few
    frame = read_frame(out)
    rejected = sum(report.rejected.values())
    assert report.kept == frame.height
    assert report.read == report.kept + rejected
    provenance = read_provenance(out)
    assert provenance is not None
    counts = provenance.counts
    assert (counts.read, counts.kept, counts.rejected) == (report.read, report.kept, report.rejected)
    left_out = [] if report.rejects is None else pl.read_parquet(report.rejects)["reason"].to_list()
    assert sorted(left_out) == sorted(reason for reason, n in report.rejected.items() for _ in range(n))
    return report, frame


ENDED_AND_NOT: tuple[tuple[list[Record], str], ...] = (
    ([("PENDING", "7200", "u1"), ("FAILED", "60", "u2")], "u2"),
    ([("FAILED", "60", "u1"), ("PENDING", "7200", "u2")], "u1"),
    ([("RUNNING", "100", "u1"), ("CANCELLED by 1000", "50", "u2"), ("RUNNING", "900", "u3")], "u2"),
    ([("", "500", "u1"), ("TIMEOUT", "10", "u2")], "u2"),
    ([("resting", "500", "u1"), ("Pass", "10", "u2")], "u2"),
    ([("terminated", "500", "u1"), ("complete", "10", "u2")], "u2"),
    # Cut to a column's width, CANCELLED+ is an end; COMPL+ may also be COMPLETING, and says nothing.
    ([("RUNNING", "90", "u1"), ("CANCELLED+", "1", "u2")], "u2"),
    ([("COMPL+", "90", "u1"), ("OUT_OF_ME+", "1", "u2")], "u2"),
    ([("REQUEUED", "90", "u1"), ("NODE_FAIL", "0", "u2")], "u2"),
    ([("PREEMPTED", "90", "u1"), ("Unknown", "900", "u2"), ("evicted", "91", "u3")], "u3"),
)

OF_ONE_KIND: tuple[tuple[list[Record], str], ...] = (
    ([("COMPLETED", "5", "u1"), ("FAILED", "10", "u2")], "u2"),
    ([("FAILED", "10", "u1"), ("COMPLETED", "5", "u2")], "u1"),
    ([("RUNNING", "5", "u1"), ("PENDING", "30", "u2")], "u2"),
    ([("", "5", "u1"), ("RUNNING", "6", "u2"), ("", "4", "u3")], "u2"),
    # Numbers, not texts, are compared: as texts 9 is above 10, and 99 above 1e2.
    ([("done", "9", "u1"), ("done", "10", "u2")], "u2"),
    ([("done", "1e2", "u1"), ("done", "99", "u2")], "u1"),
    ([("done", "0.000001", "u1"), ("done", "0.000002", "u2")], "u2"),
    ([("done", "60", "u1"), ("killed", "60.0", "u2"), ("error", "6e1", "u3")], "u1"),
    ([("RUNNING", "60", "u1"), ("", "60", "u2")], "u1"),
)


def rows_of(records: Sequence[Record], job: str = "a") -> str:
    return "".join(f"{job},0,{length},1,{status},{user}\n" for status, length, user in records)


@pytest.mark.parametrize("cases", [ENDED_AND_NOT, OF_ONE_KIND], ids=["ended_before_not", "longer_then_first"])
def test_the_record_that_has_ended_wins_then_the_longer_one_then_the_first(
    trace: Trace, cases: Sequence[tuple[list[Record], str]]
) -> None:
    text = "".join(rows_of(records, f"j{case}") for case, (records, _) in enumerate(cases))
    report, frame = converted(trace(HEADER + text))
    winners = {f"j{case}": winner for case, (_, winner) in enumerate(cases)}
    assert dict(frame.select("job_id", "user").iter_rows()) == winners
    assert report.rejected == {AGAIN: sum(len(records) - 1 for records, _ in cases)}


@pytest.mark.parametrize(
    ("records", "replaced"),
    quick_first(
        [
            ([("RUNNING", "9", "u"), ("COMPLETED", "4", "u")], (1, 0)),
            ([("", "4", "u"), ("CANCELLED by 1000", "3", "u")], (1, 0)),
            ([("COMPLETED", "3", "u"), ("FAILED", "7", "u"), ("KILLED", "5", "u")], (0, 1)),
            ([("RUNNING", "9", "u"), ("COMPLETED", "2", "u"), ("FAILED", "8", "u"), ("", "9", "u")], (1, 0)),
            ([("FAILED", "4", "u"), ("PENDING", "9", "u")], ()),
            ([("COMPLETED", "5", "u"), ("FAILED", "5", "u")], ()),
        ],
        2,
    ),
)
def test_first_records_that_gave_way_are_counted_by_why(
    trace: Trace, records: Sequence[Record], replaced: tuple[int, ...]
) -> None:
    report, _ = converted(trace(HEADER + rows_of(records)))
    notes = ("replaced_by_ended_record", "replaced_by_longer_record")
    assert tuple(report.notes[name] for name in notes if name in report.notes) == replaced
    told = [warning for warning in report.warnings if warning.startswith(AGAIN)]
    assert len(told) == bool(replaced)


def test_a_table_without_statuses_keeps_the_longest_record(trace: Trace) -> None:
    rows = "a,0,5,1\nb,1,7,2\na,2,50,4\nb,3,6,2\na,4,49,1\n"
    report, frame = converted(trace("job_id,submit_s,duration_s,num_gpus\n" + rows))
    found = frame.select("job_id", "submit_s", "duration_s", "num_gpus").rows()
    assert found == [("b", 1, 7, 2), ("a", 2, 50, 4)]
    assert (report.read, report.rejected) == (5, {AGAIN: 3})


def test_the_winner_is_kept_whole_and_the_reject_names_the_line_of_the_other(trace: Trace) -> None:
    rows = "a,100,3600,1,RUNNING,ann\nb,150,1,1,PASS,eve\na,200,1800,8,COMPLETED,ben\n"
    report, frame = converted(trace(HEADER + rows))
    found = frame.select("job_id", "submit_s", "duration_s", "num_gpus", "status", "user").rows()
    assert found == [("b", 150, 1, 1, "PASS", "eve"), ("a", 200, 1800, 8, "COMPLETED", "ben")]
    assert report.rejects is not None
    left_out = pl.read_parquet(report.rejects).select("line", "reason", "text").rows()
    assert left_out == [(2, AGAIN, "a,100,3600,1,RUNNING,ann")]


def test_a_later_dump_that_saw_the_end_wins_over_an_earlier_one(trace: Trace) -> None:
    monday = trace(HEADER + "a,0,3600,1,RUNNING,u\nb,5,10,1,COMPLETED,u\nc,6,10,1,PENDING,u\n", "monday.csv")
    friday = trace(HEADER + "a,0,90000,1,COMPLETED,u\nb,5,10,1,COMPLETED,v\n", "friday.csv")
    report, frame = converted(monday, friday)
    found = frame.select("job_id", "duration_s", "user").rows()
    assert found == [("a", 90000, "u"), ("b", 10, "u"), ("c", 10, "u")]
    assert (report.read, report.rejected) == (5, {AGAIN: 2})
    assert report.rejects is not None
    # Of a the row of Monday is left out, of b, where all is equal, that of Friday.
    left_out = set(pl.read_parquet(report.rejects).select("source", "line").rows())
    assert left_out == {("monday.csv", 2), ("friday.csv", 3)}
    backwards = converted(friday, monday)[1]
    assert backwards.select("job_id", "duration_s").rows() == frame.select("job_id", "duration_s").rows()
    assert backwards.filter(job_id="b")["user"].to_list() == ["v"]


def test_a_mapped_table_is_judged_by_the_columns_that_the_mapping_names(trace: Trace) -> None:
    """The column that is called status says nothing; State is the status, and Elapsed counts in minutes."""
    rows = "7,0,90,1,COMPLETED,RUNNING\n7,0,1.5,1,RUNNING,COMPLETED\n8,1,2,1,x,TIMEOUT\n8,1,3,1,y,FAILED\n"
    file = trace(
        "columns: {job_id: JobID, submit_s: Submit, duration_s: Elapsed, num_gpus: GPUs, status: State}\n"
        "units: {duration_s: min}\n",
        "map.yaml",
    )
    table = trace("JobID,Submit,Elapsed,GPUs,status,State\n" + rows)
    report, frame = converted(table, mapping=file)
    found = frame.select("job_id", "duration_s", "status").rows()
    assert found == [("7", 90, "COMPLETED"), ("8", 180, "FAILED")]
    assert report.rejected == {AGAIN: 2}


def test_one_status_for_all_rows_leaves_the_choice_to_the_run_time(trace: Trace) -> None:
    file = trace("constants: {status: RUNNING}\n", "map.yaml")
    rows = "a,0,5,1\na,0,6,1\na,0,4,1\n"
    table = trace("job_id,submit_s,duration_s,num_gpus\n" + rows)
    assert converted(table, mapping=file)[1]["duration_s"].to_list() == [6]


def test_an_unsound_record_is_no_rival_and_keeps_its_own_reason(trace: Trace) -> None:
    rows = "a,0,-5,1,COMPLETED,u1\na,0,10,1,RUNNING,u2\na,0,x,1,FAILED,u3\na,0,9,1,RUNNING,u4\n"
    report, frame = converted(trace(HEADER + rows))
    assert frame["user"].to_list() == ["u2"]
    assert report.rejected == {"negative_duration_s": 1, "invalid_duration_s": 1, AGAIN: 1}


def test_names_that_differ_only_in_case_or_zeros_are_two_jobs(trace: Trace) -> None:
    rows = "a,0,5,1,RUNNING,u\nA,0,6,1,COMPLETED,u\n7,0,5,1,RUNNING,u\n07,0,6,1,COMPLETED,u\n"
    report, frame = converted(trace(HEADER + rows))
    assert (frame.height, report.rejected) == (4, {})


def test_records_far_apart_in_a_long_table_are_compared(trace: Trace) -> None:
    between = "".join(f"j{i},{i},1,1,COMPLETED,u\n" for i in range(20_000))
    rows = f"a,0,3600,1,RUNNING,first\n{between}a,0,7,1,COMPLETED,last\nj0,0,2,1,COMPLETED,v\n"
    report, frame = converted(trace(HEADER + rows))
    assert frame.filter(pl.col("job_id") == "a")["user"].to_list() == ["last"]
    assert frame.filter(pl.col("job_id") == "j0")["user"].to_list() == ["v"]
    assert (report.read, report.kept, report.rejected) == (20_003, 20_001, {AGAIN: 2})


ENDED = ("completed", "FAILED", "Killed", "cancelled", "TIMEOUT")
OPEN = ("running", "PENDING", "", "whatever", "Requeued")


def test_random_tables_keep_what_a_plain_comparison_keeps(trace: Trace) -> None:
    rng = random.Random(5)
    rows = [
        (f"j{rng.randrange(60)}", rng.randrange(5), rng.choice(ENDED + OPEN), f"u{n}") for n in range(400)
    ]
    best: dict[str, tuple[bool, int]] = {}
    winners: dict[str, str] = {}
    for job, length, status, user in rows:
        rank = (status in ENDED, length)
        if job not in best or rank > best[job]:
            best[job], winners[job] = rank, user
    text = "".join(f"{job},0,{length},1,{status},{user}\n" for job, length, status, user in rows)
    report, frame = converted(trace(HEADER + text))
    assert dict(frame.select("job_id", "user").iter_rows()) == winners
    assert report.rejected == {AGAIN: 400 - len(winners)}


def test_the_command_counts_every_record(trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    table = trace(HEADER + rows_of([("RUNNING", "9", "u1"), ("Killed", "8", "u2"), ("RUNNING", "bad", "u3")]))
    out = table.with_name("w.parquet")
    told = answer(capsys, "convert", "csv", str(table), "-o", str(out))
    assert (told["read"], told["kept"]) == (3, 1)
    assert told["rejected"] == {AGAIN: 1, "invalid_duration_s": 1}
    assert read_frame(out)["user"].to_list() == ["u2"]


PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


def test_pods_of_one_name_are_chosen_alike(trace: Trace) -> None:
    """Each pod starts at 10 s; of p, q and r the record that ends at 90 s wins, after 80 s."""
    pods = [("p", "Running", 20), ("p", "Succeeded", 90)]
    pods += [("q", "Succeeded", 20), ("q", "Failed", 90), ("r", "Failed", 90), ("r", "Succeeded", 20)]
    rows = "".join(f"{name},1000,1024,1,1000,,LS,{phase},0,{end},10\n" for name, phase, end in pods)
    report, frame = converted(trace(PODS + rows), format_name="gpu-pods")
    assert dict(frame.select("job_id", "duration_s").iter_rows()) == {"p": 80, "q": 80, "r": 80}
    assert report.rejected == {AGAIN: 3}
    assert (report.notes["replaced_by_ended_record"], report.notes["replaced_by_longer_record"]) == (1, 1)
    assert frame["trace_order"].to_list() == [1, 3, 4]


FUNCTION = '''
import polars as pl


def jobs(path):
    """Rows of one's own format."""
    return pl.read_ndjson(path)
'''


def test_a_format_of_ones_own_is_judged_as_a_table_is(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    module = trace(FUNCTION, "records_of_two_dumps.py")
    monkeypatch.chdir(module.parent)
    monkeypatch.syspath_prepend(module.parent)
    facts = {"job_id": "a", "submit_s": 0, "num_gpus": 1}
    rows = [
        {**facts, "duration_s": 900, "status": "RUNNING", "user": "u1"},
        {**facts, "duration_s": 30, "status": "FAILED", "user": "u2"},
        {**facts, "duration_s": 40, "status": None, "user": "u3"},
    ]
    path = trace("".join(json.dumps(row) + "\n" for row in rows), "dump.json")
    report, frame = converted(path, format_name="records_of_two_dumps:jobs")
    assert frame["user"].to_list() == ["u2"]
    assert report.rejected == {AGAIN: 2}


@pytest.mark.parametrize(
    ("rows", "kept", "rejected"),
    [
        # The better record of a has the order of b: a keeps the one with an order of its own.
        ("a,1,0,10,1,RUNNING\nb,2,0,20,1,COMPLETED\na,2,0,10,1,COMPLETED\n", {"a": 1, "b": 2}, 1),
        # It may come before b, which then has no order left.
        ("a,1,0,10,1,RUNNING\na,2,0,10,1,COMPLETED\nb,2,0,20,1,COMPLETED\n", {"a": 2}, 0),
        # Orders of records that give way are free.
        ("a,1,0,10,1,RUNNING\nc,1,0,30,1,COMPLETED\na,5,0,10,1,COMPLETED\n", {"a": 5, "c": 1}, 0),
    ],
)
def test_a_job_is_not_lost_by_the_order_of_its_better_record(
    trace: Trace, rows: str, kept: dict[str, int], rejected: int
) -> None:
    path = trace("job_id,trace_order,submit_s,duration_s,num_gpus,status\n" + rows)
    report, frame = converted(path)
    assert dict(frame.select("job_id", "trace_order").rows()) == kept
    assert report.rejected.get("duplicate_trace_order", 0) == 3 - len(kept) - report.rejected.get(AGAIN, 0)
    told = json.loads(json.dumps(read_provenance(path.with_name("w.parquet")).notes))  # type: ignore[union-attr]
    assert ("replaced_by_ended_record" in told) == (rejected == 0)
