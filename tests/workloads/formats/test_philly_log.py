"""The raw Philly log: its oddities one by one, and all of them at scale."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from tests.proofs import quick_first
from tests.workloads.conversions import Trace
from tests.workloads.formats.philly_log_writer import Oddity, machine_list_text, write_philly_log
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions, RunTime, choose

NONE = "None"


def attempt(start: str | None, end: str | None, gpus: int = 1, ip: str = "m1") -> dict[str, object]:
    return {
        "start_time": start and (start if start == NONE else f"2017-10-09 {start}"),
        "end_time": end and (end if end == NONE else f"2017-10-09 {end}"),
        "detail": [{"ip": ip, "gpus": [f"gpu{i}" for i in range(gpus)]}],
    }


def job(*attempts: dict[str, object], **keys: object) -> dict[str, object]:
    record: dict[str, object] = {
        "status": "Pass",
        "vc": "v",
        "jobid": "a",
        "attempts": list(attempts),
        "submitted_time": "2017-10-09 03:00:00",
        "user": "u",
    }
    return {**record, **keys}


def converted(trace: Trace, *records: object, rule: RunTime | None = None) -> ConversionReport:
    path = trace(json.dumps(list(records)), "log.json")
    return convert("philly", [path], path.with_name("w.parquet"), options=ConvertOptions(run_time=rule))


SOUND = job(attempt("03:00:10", "03:01:10"), jobid="sound")

BROKEN = job(
    attempt("03:07:23", NONE, 2),
    attempt("03:11:14", "03:11:57", 2),
    attempt("03:14:24", NONE, 2),
    attempt(NONE, "03:15:12", 2, ip="m9"),
)
"""The form of a real job of the trace, application_1506638472019_16565."""


def test_a_job_runs_from_its_first_start_to_its_last_end_on_the_gpus_of_its_first_attempt(
    trace: Trace,
) -> None:
    report = converted(trace, BROKEN)
    # Submitted 03:00:00: waits 7 min 23 s = 443 s; 03:07:23 to 03:15:12 is 7 min 49 s = 469 s.
    columns = ["job_id", "user", "vc", "status", "num_gpus", "duration_s", "attempts", "wait_s", "span_s"]
    assert read_frame(report.out).select(columns).rows() == [("a", "u", "v", "Pass", 2, 469, 4, 443, 469)]
    assert report.notes["attempts_without_end"] == 2
    assert report.notes["attempts_without_start"] == 1
    assert report.notes["jobs_that_moved"] == 1


def test_all_attempts_together_leave_out_the_gaps_and_need_every_time(trace: Trace) -> None:
    # 60 s, a gap of 30 s, 20 s: 80 s of run time in a span of 110 s.
    whole = job(attempt("03:00:10", "03:01:10"), attempt("03:01:40", "03:02:00"), jobid="b")
    report = converted(trace, BROKEN, whole, rule=RunTime.SUM)
    assert report.rejected == {"incomplete_attempt": 1}
    assert read_frame(report.out).select("job_id", "duration_s", "span_s").rows() == [("b", 80, 110)]


def test_each_attempt_is_a_row_submitted_when_the_one_before_it_ended(trace: Trace) -> None:
    whole = job(attempt("03:00:10", "03:01:10"), attempt("03:01:40", "03:02:00", 2), jobid="b")
    report = converted(trace, BROKEN, whole, rule=RunTime.ATTEMPTS)
    # Four attempts of a, three of them incomplete, and two of b.
    assert (report.read, report.kept) == (6, 3)
    assert report.rejected == {"missing_end": 2, "missing_start": 1}
    columns = ["job_id", "group_id", "submit_s", "wait_s", "duration_s", "num_gpus", "status"]
    assert read_frame(report.out).select(columns).rows() == [
        ("b/1", "b", 0, 10, 60, 1, None),
        ("b/2", "b", 70, 30, 20, 2, "Pass"),
        # The end before a's second attempt is unknown: it counts as submitted when it started.
        ("a/2", "a", 674, 0, 43, 2, None),
    ]


@pytest.mark.parametrize("missing", quick_first([NONE, None, "", " None ", "null"], 2))
def test_a_missing_time_has_many_forms(trace: Trace, missing: str | None) -> None:
    open_end = job({**attempt("03:00:10", None), "end_time": missing}, jobid="b")
    assert converted(trace, SOUND, open_end).rejected == {"missing_end": 1}
    no_key = job({"start_time": "2017-10-09 03:00:10", "detail": []}, jobid="b")
    assert converted(trace, SOUND, no_key).rejected == {"missing_end": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "not_an_object"),
        (17, "not_an_object"),
        ([], "not_an_object"),
        (job(), "no_attempts"),
        (job(attempts=None), "no_attempts"),
        (job(attempts="x"), "invalid_attempts"),
        (job(attempts=[1]), "invalid_attempts"),
        (job(attempt(NONE, "03:01:00")), "missing_start"),
        (job(attempt("03:01:00", NONE)), "missing_end"),
        (job(attempt("03:01:00", "03:00:59")), "negative_duration_s"),
        (job(attempt("03:01:00", "03:02")), "invalid_end"),
        (job(attempt("24:01:00", "03:02:00")), "invalid_start"),
        (job(attempt("03:01:00", "03:02:00", 0)), "missing_num_gpus"),
        (job({**attempt("03:01:00", "03:02:00"), "detail": None}), "missing_num_gpus"),
        (job({**attempt("03:01:00", "03:02:00"), "detail": {}}), "invalid_detail"),
        (job({**attempt("03:01:00", "03:02:00"), "detail": [{"ip": "m1", "gpus": 8}]}), "invalid_detail"),
        (job({**attempt("03:01:00", "03:02:00"), "detail": [{"gpus": []}]}), "missing_num_gpus"),
        (
            job({**attempt("03:01:00", "03:02:00"), "detail": [{"ip": "m1", "gpus": None}]}),
            "missing_num_gpus",
        ),
        (
            job({**attempt("03:01:00", "03:02:00"), "detail": [{"ip": "m1", "gpus": [None]}]}),
            "invalid_detail",
        ),
        ({**SOUND, "jobid": None}, "missing_job_id"),
        ({**SOUND, "jobid": ["x"]}, "invalid_job_id"),
        ({**SOUND, "jobid": "\ud800"}, "invalid_job_id"),
        ({**SOUND, "vc": " "}, "missing_vc"),
        ({**SOUND, "user": {}}, "invalid_user"),
        ({**SOUND, "submitted_time": "None"}, "missing_submit_s"),
        ({**SOUND, "submitted_time": 1507543200}, "invalid_submit_s"),
        ({**SOUND, "submitted_time": "2017-10-09T03:00:00"}, "invalid_submit_s"),
        ({**SOUND, "submitted_time": "2017-10-09 03:00+07"}, "invalid_submit_s"),
        ({**SOUND, "submitted_time": "1917-10-09 03:00:00"}, "absurd_submit_s"),
        ({**SOUND, "submitted_time": "2017-03-12 02:30:00"}, "skipped_submit_s"),
        ({**SOUND}, "duplicate_job_id"),
    ],
)
def test_a_broken_record_is_rejected_for_a_reason_and_the_others_stay(
    trace: Trace, record: object, reason: str
) -> None:
    report = converted(trace, SOUND, record, job(attempt("03:00:10", "03:00:20"), jobid="last"))
    assert (report.read, report.kept, report.rejected) == (3, 2, {reason: 1})
    assert read_frame(report.out)["job_id"].to_list() == ["sound", "last"]
    rejects = pl.read_parquet(str(report.rejects))
    # The second record of the file, and its text as far as 500 characters.
    assert rejects.rows() == [("log.json", 2, reason, json.dumps(record)[:500])]


def test_the_end_of_summer_time_lies_within_a_run(trace: Trace) -> None:
    # 00:59:59 in summer time to 02:00:00 in winter time is 2 h and 1 s, naively 1 h and 1 s.
    night = {"start_time": "2017-11-05 00:59:59", "end_time": "2017-11-05 02:00:00"}
    record = job({**attempt(None, None), **night}, submitted_time="2017-11-05 00:59:00")
    assert read_frame(converted(trace, record).out)["duration_s"].to_list() == [7201]


def test_a_time_that_came_twice_is_its_first_pass_unless_the_job_was_later_already(trace: Trace) -> None:
    night = {"start_time": "2017-11-05 01:10:00", "end_time": "2017-11-05 01:05:00"}
    record = job({**attempt(None, None), **night}, submitted_time="2017-11-05 01:00:00")
    report = converted(trace, record)
    # Submitted and started in the first pass; 01:05 after 01:10 must be the second: 55 minutes.
    assert read_frame(report.out).select("wait_s", "duration_s").rows() == [(600, 3300)]
    assert report.notes["ambiguous_local_times"] == 3
    assert report.notes["ambiguous_local_times_read_as_latest"] == 1


def test_a_start_before_the_submission_is_kept_without_a_wait_and_counted(trace: Trace) -> None:
    report = converted(trace, job(attempt("02:59:50", "03:00:00")))
    assert read_frame(report.out).select("wait_s", "duration_s").rows() == [(None, 10)]
    assert report.notes["started_before_submission"] == 1


def test_unknown_keys_are_named_and_huge_numbers_do_not_matter(trace: Trace) -> None:
    text = json.dumps([SOUND]).replace('"vc"', '"huge": ' + "9" * 6000 + ', "e": 1e999, "vc"')
    path = trace(text, "log.json")
    report = convert("philly", [path], path.with_name("w.parquet"))
    assert report.warnings == ("ignored keys: huge, e",)


def test_gpus_that_the_machine_list_does_not_have_are_a_warning(trace: Trace, tmp_path: Path) -> None:
    machines = trace(
        "machineId, number of GPUs, single GPU mem\nm1,2, 12GB\nm2,8, 24GB\n,3,\nm4,x,\n", "list"
    )
    log = trace(
        json.dumps(
            [
                job(attempt("03:00:10", "03:01:10", 8, ip="m1"), jobid="b"),
                job(attempt("03:00:10", "03:01:10", 8, ip="m2"), jobid="c"),
                job(attempt("03:00:10", "03:01:10", 8, ip="m3"), jobid="d"),
            ]
        ),
        "log.json",
    )
    report = convert("philly", [log, machines], tmp_path / "w.parquet")
    assert report.kept == 3
    assert report.warnings == (
        "machine list: 2 rows without a name or number are ignored",
        "machine list: too few GPUs on 1 machines: m1 (gpu7 used, 2 GPUs listed)",
        "machine list: 1 machines missing: m3",
    )


def test_the_corrected_machine_list_of_the_trace_is_read_too(
    trace: Trace, real: Callable[[str], Path], tmp_path: Path
) -> None:
    # Reported for the trace: gpu7 runs on m47, which has 2 GPUs in the original list and 8 in the other.
    log = trace(json.dumps([job(attempt("03:00:10", "03:01:10", 8, ip="m47"))]), "log.json")
    for name, warnings in (("cluster_machine_list", 1), ("revised_machine_list.csv", 0)):
        report = convert("philly", [log, real(f"data/philly/{name}")], tmp_path / "w.parquet")
        assert len(report.warnings) == warnings


TEXT = json.dumps([SOUND, BROKEN])


@pytest.mark.parametrize(
    ("content", "told"),
    quick_first(
        [
            (b"", "file is empty"),
            (b" \n", "no JSON array"),
            (b"# comment\n" + TEXT.encode(), "no JSON array"),
            (b'{"jobs": []}', "no JSON array"),
            (b"[]", "no rows"),
            (TEXT[:-1].encode(), "comma or a bracket should follow, the file ends"),
            (TEXT[:-20].encode(), "line 1: no valid JSON"),
            (TEXT.replace("}, {", "} {").encode(), "after record 1"),
            (TEXT.encode() + b"]", "text after the end"),
            (b"[\n{},\nnul]", "line 3: no valid JSON"),
            (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
            (TEXT.encode("utf-16"), "no JSON array"),
            (gzip.compress(TEXT.encode(), mtime=0)[:-9], "cannot be read to its end"),
            (gzip.compress(TEXT.encode() * 9000, mtime=0)[:400], "cannot be read to its end"),
        ],
        4,
    ),
)
def test_a_file_of_another_kind_or_a_cut_one_is_a_clear_error(
    trace: Trace, tmp_path: Path, content: bytes, told: str
) -> None:
    path = trace(content, "log.json")
    with pytest.raises(InvalidWorkloadError, match=told) as error:
        convert("philly", [path], tmp_path / "w.parquet")
    assert str(path) in str(error.value)
    assert not (tmp_path / "w.parquet").exists()


@pytest.mark.slow
def test_a_machine_list_alone_is_no_log(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="name the trace's cluster_job_log"):
        convert("philly", [trace(machine_list_text())], tmp_path / "w.parquet")


def test_packed_marked_and_windows_files_give_the_same_jobs(trace: Trace, tmp_path: Path) -> None:
    pretty = json.dumps([SOUND, BROKEN], indent=1)
    whole = read_frame(converted(trace, SOUND, BROKEN).out)
    for content in (
        gzip.compress(pretty.encode(), mtime=0),
        pretty.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + pretty.encode(),
    ):
        report = convert("philly", [trace(content, "log")], tmp_path / "w.parquet")
        assert read_frame(report.out).equals(whole)


def test_bytes_that_are_no_utf8_cost_one_record(trace: Trace, tmp_path: Path) -> None:
    text = json.dumps([SOUND, job(attempt("03:00:10", "03:00:20"), user="XX")]).encode()
    report = convert("philly", [trace(text.replace(b"XX", b"\xff\xfe"))], tmp_path / "w.parquet")
    assert (report.kept, report.rejected) == (1, {"invalid_utf8": 1})
    assert "\\udcff" in pl.read_parquet(str(report.rejects))["text"].item()


@pytest.mark.slow
def test_a_record_of_ten_megabytes_is_one_record(trace: Trace, tmp_path: Path) -> None:
    huge = job(attempt("03:00:10", "03:00:20"), note="x" * 10_000_000)
    many = job(*[attempt("03:00:10", "03:00:20")] * 60_000, jobid="many")
    report = converted(trace, SOUND, huge, many)
    assert read_frame(report.out).select("job_id", "attempts").rows() == [
        ("sound", 1),
        ("a", 1),
        ("many", 60_000),
    ]


def test_a_log_may_come_in_parts_and_a_part_twice_is_rejected_by_name(trace: Trace, tmp_path: Path) -> None:
    one, two = trace(json.dumps([SOUND]), "1"), trace(json.dumps([SOUND, BROKEN]), "2")
    report = convert("philly", [one, two], tmp_path / "w.parquet")
    assert (report.read, report.kept, report.rejected) == (3, 2, {"duplicate_job_id": 1})


@pytest.mark.parametrize("rule", list(RunTime))
def test_of_the_records_of_a_job_the_ended_and_then_the_longest_is_kept(
    trace: Trace, tmp_path: Path, rule: RunTime
) -> None:
    # The job of two attempts is known, running, in the first part, and has ended in the second.
    begun = job(attempt("03:07:23", "03:08:23"), attempt("03:10:00", "04:00:00"), status="Running", cut=1)
    ended = job(attempt("03:07:23", "03:08:23"), attempt("03:10:00", "03:20:00"))
    longer = {**SOUND, "attempts": [attempt("03:00:10", "03:05:10")]}
    one = trace(json.dumps([begun, SOUND]), "1")
    two = trace(json.dumps([longer, ended, SOUND, {**begun, "status": None}]), "2")
    report = convert("philly", [one, two], tmp_path / "w.parquet", options=ConvertOptions(run_time=rule))
    rows = 2 if rule == RunTime.ATTEMPTS else 1
    assert (report.read, report.rejected) == (3 * rows + 3, {"duplicate_job_id": 2 * rows + 2})
    notes = (report.notes["replaced_by_ended_record"], report.notes["replaced_by_longer_record"])
    assert notes == (1, 1)
    frame = read_frame(report.out)
    kept = {RunTime.SPAN: [300, 757], RunTime.ATTEMPTS: [300, 60, 600]}
    assert frame["duration_s"].to_list() == kept.get(rule, [300, 660])
    if rule == RunTime.LOG:
        assert frame["attempt_log"].to_list() == ["300", "60 600"]
    assert report.rejects is not None
    lines = pl.read_parquet(report.rejects).select("source", "line").unique().sort("source", "line").rows()
    assert lines == [("1", 1), ("1", 2), ("2", 3), ("2", 4)]
    # Facts about jobs are about the records kept.
    assert report.notes["unknown_keys"] == 0


def test_an_unknown_rule_lists_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"'total'.* Known: attempts, log, span, sum"):
        choose(RunTime, "--run-time", "total")


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(RunTime))
def test_every_oddity_that_was_put_in_is_counted_once(tmp_path: Path, rule: RunTime) -> None:
    check_against_truth(tmp_path, jobs=3_000, rate=0.03, rule=rule)


@pytest.mark.long
@pytest.mark.slow
def test_a_log_as_long_as_the_real_one_is_counted_to_the_last_job(tmp_path: Path) -> None:
    check_against_truth(tmp_path, jobs=117_325, rate=0.02, rule=RunTime.SPAN)


def check_against_truth(folder: Path, jobs: int, rate: float, rule: RunTime) -> None:
    log, machines = folder / "cluster_job_log", folder / "cluster_machine_list"
    truth = write_philly_log(log, jobs, 1, dict.fromkeys(Oddity, rate))
    machines.write_text(machine_list_text())
    assert all(truth.oddities[oddity] for oddity in Oddity)
    report = convert("philly", [log, machines], folder / "w.parquet", options=ConvertOptions(run_time=rule))
    assert report.read == truth.rows[rule]
    assert report.rejected == dict(truth.rejected[rule])
    assert report.kept == report.read - truth.rejected[rule].total()
    if rule == RunTime.SPAN:
        assert {name: report.notes[name] for name in truth.notes} == dict(truth.notes)
    assert report.warnings[0].startswith("machine list: too few GPUs on")
    assert report.warnings[1:] == ("ignored keys: extra",)


def test_the_same_arguments_write_the_same_log(tmp_path: Path) -> None:
    for name in ("1", "2"):
        write_philly_log(tmp_path / name, 50, 7, {Oddity.MOVED: 0.5})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    with pytest.raises(InvalidInputError, match="together at most 1"):
        write_philly_log(tmp_path / "3", 50, 7, dict.fromkeys(Oddity, 0.5))
