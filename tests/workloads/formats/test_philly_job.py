"""Philly's rules against a naive second reading of the log: json, datetime and zoneinfo alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from tests.proofs import quick_first
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions, RunTime

ZONE = ZoneInfo("America/Los_Angeles")
NIGHT = datetime(2017, 11, 4, 23)
"""The clocks went back three hours later, from 02:00 to 01:00."""

COLUMNS = (
    *("job_id", "group_id", "user", "vc", "status"),
    *("submit_s", "wait_s", "duration_s", "span_s", "num_gpus", "attempts"),
)


def converted(folder: Path, records: list[Any], rule: RunTime) -> ConversionReport:
    log = folder / "log.json"
    log.write_text(json.dumps(records))
    return convert("philly", [log], folder / "w.parquet", options=ConvertOptions(run_time=rule))


def kept(report: ConversionReport) -> list[tuple[Any, ...]]:
    return read_frame(report.out).sort("trace_order").select(COLUMNS).rows()


class FaultError(Exception):
    """Why a row is rejected."""


class Clock:
    """Takes the earlier of the two instants of a local time that is not before the time read last."""

    def __init__(self) -> None:
        self.last = -1

    def read(self, text: object, name: str) -> int | str:
        if text in (None, "None", ""):
            return f"missing_{name}"
        try:
            naive = datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S")
        except ValueError:
            return f"invalid_{name}"
        first, second = (int(naive.replace(tzinfo=ZONE, fold=fold).timestamp()) for fold in (0, 1))
        self.last = first if first >= self.last else second
        return self.last


def naive_attempt(entry: dict[str, Any], clock: Clock) -> dict[str, Any]:
    start, end = clock.read(entry["start_time"], "start"), clock.read(entry["end_time"], "end")
    lists = [
        machine.get("gpus") or [] if isinstance(machine, dict) else "?" for machine in entry["detail"] or []
    ]
    if not all(isinstance(names, list) for names in lists):
        return {"start": start, "end": end, "gpus": "invalid_detail"}
    return {"start": start, "end": end, "gpus": sum(map(len, lists)) or "missing_num_gpus"}


def must(value: int | str) -> int:
    if isinstance(value, str):
        raise FaultError(value)
    return value


def length(attempt: dict[str, Any]) -> int:
    if attempt["start"] == "missing_start" or attempt["end"] == "missing_end":
        raise FaultError("incomplete_attempt")
    seconds = must(attempt["end"]) - must(attempt["start"])
    if seconds < 0:
        raise FaultError("negative_duration_s")
    return seconds


def naive_job(record: dict[str, Any], rule: RunTime) -> Iterator[tuple[Any, ...] | FaultError]:
    clock = Clock()
    submit = must(clock.read(record["submitted_time"], "submit_s"))
    attempts = [naive_attempt(entry, clock) for entry in record["attempts"]]
    if all(isinstance(attempt["start"], int) for attempt in attempts):
        attempts.sort(key=lambda attempt: attempt["start"])
    names = (record["user"], record["vc"])
    if rule != RunTime.ATTEMPTS:
        start, end = must(attempts[0]["start"]), must(attempts[-1]["end"])
        run = end - start if rule == RunTime.SPAN else sum(map(length, attempts))
        if end < start:
            raise FaultError("negative_duration_s")
        wait = start - submit if start >= submit else None
        gpus = must(attempts[0]["gpus"])
        job = (record["jobid"], None, *names, record["status"])
        yield (*job, submit, wait, run, end - start, gpus, len(attempts))
        return
    for number, attempt in enumerate(attempts, 1):
        try:
            start, end = must(attempt["start"]), must(attempt["end"])
            before = submit if number == 1 else attempts[number - 2]["end"]
            if number > 1 and (isinstance(before, str) or before > start):
                before = start
            run, gpus = length(attempt), must(attempt["gpus"])
            status = record["status"] if number == len(attempts) else None
            wait = start - before if start >= before else None
            name = f"{record['jobid']}/{number}"
            yield name, record["jobid"], *names, status, before, wait, run, run, gpus, 1
        except FaultError as fault:
            yield fault


def naive(records: list[Any], rule: RunTime) -> tuple[list[tuple[Any, ...]], Counter[str]]:
    """The rows, with their submission in seconds since the first, and the rejects by reason."""
    rows, reasons, found = [], Counter[str](), []
    best: dict[str, tuple[bool, int, int]] = {}
    for number, record in enumerate(records):
        try:
            found.append((number, record, list(naive_job(record, rule))))
        except FaultError as fault:
            reasons[str(fault)] += 1
            continue
        runs = [row[7] for row in found[-1][2] if not isinstance(row, FaultError)]
        if runs:
            rank = (record["status"] is not None, sum(runs), -number)
            best[record["jobid"]] = max(rank, best.get(record["jobid"], rank))
    for number, record, of_record in found:
        for row in of_record:
            if isinstance(row, FaultError):
                reasons[str(row)] += 1
            elif best[record["jobid"]][2] != -number:
                reasons["duplicate_job_id"] += 1
            else:
                rows.append(row)
    zero = min(row[5] for row in rows)
    return [(*row[:5], row[5] - zero, *row[6:]) for row in rows], reasons


def odd_log(seed: int, jobs: int) -> list[Any]:
    """Jobs of one night with few names, in which everything may be missing or out of order."""
    rng = random.Random(seed)

    def time(minutes: float) -> str | None:
        text = f"{NIGHT + timedelta(seconds=int(60 * minutes)):%Y-%m-%d %H:%M:%S}"
        return rng.choices([text, "None", None, "soon"], [40, 1, 1, 1])[0]

    def attempt(begin: float) -> dict[str, Any]:
        end = begin + rng.uniform(-3, 100)
        machine: dict[str, Any] = rng.choice(
            [{"ip": "m1"}, {}, {"ip": None}, {"ip": 7}, {"ip": ["x"]}, {"ip": " m2 "}]
        )
        gpus: Any = rng.choices([["gpu0"] * rng.randint(1, 8), None, [], "gpu0"], [20, 1, 1, 1])[0]
        detail: Any = rng.choices([[{**machine, "gpus": gpus}, machine], [], None, ["m1"]], [20, 1, 1, 1])[0]
        return {"start_time": time(begin), "end_time": time(end), "detail": detail}

    def job() -> dict[str, Any]:
        submit = rng.uniform(0, 300)
        attempts = [attempt(submit + rng.uniform(-20, 200)) for _ in range(rng.randint(1, 4))]
        return {
            "jobid": f"j{rng.randrange(jobs // 2)}",
            "vc": rng.choice("ab"),
            "user": rng.choice(["u", "w", None]),
            "status": rng.choice(["Pass", "Killed", None]),
            "submitted_time": time(submit),
            "attempts": attempts,
        }

    return [job() for _ in range(jobs)]


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(RunTime))
def test_a_naive_reading_of_odd_logs_finds_the_same_rows_and_reasons(tmp_path: Path, rule: RunTime) -> None:
    for seed in range(6):
        records = odd_log(seed, jobs=150)
        report = converted(tmp_path, records, rule)
        rows, reasons = naive(records, rule)
        assert kept(report) == rows
        assert Counter(report.rejected) == reasons
        assert report.notes["ambiguous_local_times_read_as_latest"]
        assert report.notes["jobs_listed_out_of_order"]


def record(job_id: str, *spans: tuple[str, str], vc: str = "v", **keys: object) -> dict[str, Any]:
    """A job of one GPU that is submitted at 03:00 and runs from and to minutes past three."""
    attempts = [
        {
            "start_time": f"2017-10-09 03:{start}:00",
            "end_time": f"2017-10-09 03:{end}:00",
            "detail": [{"ip": "m1", "gpus": ["gpu0"]}],
        }
        for start, end in spans
    ]
    job = {"jobid": job_id, "vc": vc, "user": f"{vc}-user", "status": "Pass"}
    return {**job, "submitted_time": "2017-10-09 03:00:00", "attempts": attempts, **keys}


@pytest.mark.parametrize("rule", quick_first(list(RunTime), 2))
def test_of_two_records_with_one_job_id_the_longer_sound_one_is_kept_whole(
    tmp_path: Path, rule: RunTime
) -> None:
    broken = record("j", ("01", "02"), vc="z", submitted_time="None")
    one = record("j", ("05", "06"), vc="a")
    two = record("j", ("10", "11"), ("20", "21"), ("30", "31"), vc="b")
    report = converted(tmp_path, [broken, one, two], rule)
    # Joined by their names, rows j/2 and j/3 would be those of b under the group of a.
    attempts = 3 if rule == RunTime.ATTEMPTS else 1
    assert [row[2:4] for row in kept(report)] == [("b-user", "b")] * attempts
    assert report.rejected == {"duplicate_job_id": 1, "missing_submit_s": 1}
    longer = {**one, "attempts": record("j", ("05", "55"))["attempts"]}
    report = converted(tmp_path, [broken, longer, two], rule)
    assert [row[2:4] for row in kept(report)] == [("a-user", "a")]
    assert report.rejected == {"duplicate_job_id": attempts, "missing_submit_s": 1}


@pytest.mark.parametrize(("rule", "runs"), [("span", [20]), ("sum", [5]), ("attempts", [2, 3])])
def test_attempts_that_are_listed_out_of_order_are_put_into_the_order_of_their_starts(
    tmp_path: Path, rule: str, runs: list[int]
) -> None:
    # 03:10 to 03:12 and 03:27 to 03:30: 2 + 3 minutes of run time in 20.
    report = converted(tmp_path, [record("j", ("27", "30"), ("10", "12"))], RunTime(rule))
    assert [row[7] / 60 for row in kept(report)] == runs
    assert kept(report)[0][6] == 600.0
    assert report.notes["jobs_listed_out_of_order"] == 1


@pytest.mark.parametrize(
    "detail",
    quick_first(
        [
            None,
            [],
            [{"ip": "m1", "gpus": None}],
            [{"gpus": ["gpu0"]}],
            [{"ip": ["x"], "gpus": ["gpu0"]}],
            "?",
        ],
        2,
    ),
)
def test_what_a_rule_does_not_use_rejects_no_job(tmp_path: Path, detail: object) -> None:
    job = record("j", ("10", "12"), ("27", "30"))
    job["attempts"][1]["detail"] = detail
    span = converted(tmp_path, [job], RunTime.SPAN)
    assert (span.kept, span.notes["jobs_that_moved"]) == (1, 0)
    assert converted(tmp_path, [job], RunTime.SUM).kept == 1
    # As a row of its own the second attempt needs a size, but no machine's name.
    sized = isinstance(detail, list) and any(entry["gpus"] for entry in detail)
    assert converted(tmp_path, [job], RunTime.ATTEMPTS).kept == (2 if sized else 1)


def test_a_time_in_the_middle_that_is_no_date_is_not_needed_by_span(tmp_path: Path) -> None:
    job = record("j", ("10", "12"), ("27", "30"))
    job["attempts"][0]["end_time"] = "soon"
    assert converted(tmp_path, [job], RunTime.SPAN).notes["attempts_without_end"] == 1
    for rule in (RunTime.SUM, RunTime.ATTEMPTS):
        report = converted(tmp_path, [job, record("k", ("10", "12"))], rule)
        assert report.rejected == {"invalid_end": 1}


def test_the_submission_is_the_same_by_every_rule_also_where_the_start_is_before_it(tmp_path: Path) -> None:
    early = record("early", ("01", "02"), ("08", "09"), submitted_time="2017-10-09 03:05:00")
    for rule in RunTime:
        report = converted(tmp_path, [early, record("j", ("10", "11"))], rule)
        first = kept(report)[0]
        # Five minutes after j, which is submitted at 03:00; the wait to 03:01 is none.
        assert (first[5], first[6]) == (300.0, None)
        assert report.notes["started_before_submission"] == 1


@pytest.mark.parametrize(
    ("before", "text", "utc_hour"),
    [
        ("2017-11-05 00:30:00", "2017-11-05 01:30:00", 8),  # after the time before it: 01:30 PDT
        ("2017-11-05 01:30:00", "2017-11-05 01:30:00", 8),  # the very same time
        ("2017-11-05 01:40:00", "2017-11-05 01:30:00", 9),  # the first pass is over: 01:30 PST
        ("2017-11-05 03:00:00", "2017-11-05 01:30:00", 9),  # nearer to a submission at 03:00 PST
    ],
)
def test_a_time_of_the_double_hour_is_its_first_pass_unless_the_time_before_it_is_later(
    tmp_path: Path, before: str, text: str, utc_hour: int
) -> None:
    end = "2017-11-05 05:00:00"  # 13:00 UTC
    attempts = [{"start_time": text, "end_time": end, "detail": [{"gpus": ["gpu0"]}]}]
    job = record("j", submitted_time=before) | {"attempts": attempts}
    report = converted(tmp_path, [job], RunTime.SPAN)
    assert pl.read_parquet(report.out)["duration_s"].item() == (13 - utc_hour - 0.5) * 3600
