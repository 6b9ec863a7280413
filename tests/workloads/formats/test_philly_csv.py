from __future__ import annotations

import pytest

from ray_sim.model.errors import InvalidWorkloadError
from tests.workloads.conversions import Trace
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def converted(trace: Trace, *rows: str) -> tuple[ConversionReport, list[tuple[object, ...]]]:
    path = trace(HEADER + "".join(f"{row}\n" for row in rows))
    report = convert("philly-csv", [path], path.with_name("w.parquet"))
    frame = read_frame(report.out)
    return report, frame.select("job_id", "trace_order", "submit_s", "num_gpus", "duration_s", "vc").rows()


def test_rows_are_sorted_named_by_their_position_and_count_from_the_first_submission(trace: Trace) -> None:
    report, jobs = converted(trace, "2017-10-01 00:01:55,61.0,1,61.0,a", "2017-10-01 00:00:45,30.0,2,60.0,b")
    # 00:01:55 - 00:00:45 = 70 s.
    assert jobs == [("1", 1, 0.0, 2.0, 30.0, "b"), ("0", 0, 70.0, 1.0, 61.0, "a")]
    # Midnight in summer time is 07:00 UTC.
    assert report.notes["epoch_utc"] == "2017-10-01T07:00:45+00:00"


def test_the_end_of_summer_time_lies_between_two_submissions(trace: Trace) -> None:
    # 00:59:59 PDT = 07:59:59 UTC; 02:00:00 PST = 10:00:00 UTC: 2 h and 1 s, naively 1 h and 1 s.
    _, jobs = converted(trace, "2017-11-05 00:59:59,1.0,1,1.0,a", "2017-11-05 02:00:00,1.0,1,1.0,a")
    assert [job[2] for job in jobs] == [0.0, 7201.0]


def test_the_hour_that_comes_twice_is_read_as_its_first_pass_and_counted(trace: Trace) -> None:
    # 01:30 first comes as PDT, 08:30 UTC: half an hour after 01:00 PDT, one and a half before 02:00 PST.
    report, jobs = converted(
        trace,
        "2017-11-05 00:59:59,1.0,1,1.0,a",
        "2017-11-05 01:00:00,1.0,1,1.0,a",
        "2017-11-05 01:30:00,1.0,1,1.0,a",
        "2017-11-05 02:00:00,1.0,1,1.0,a",
    )
    assert [job[2] for job in jobs] == [0.0, 1.0, 1801.0, 7201.0]
    assert report.notes["ambiguous_local_times"] == 2


def test_an_hour_that_the_clocks_skip_is_rejected(trace: Trace) -> None:
    report, _ = converted(trace, "2017-03-12 02:30:00,1.0,1,1.0,a", "2017-03-12 03:00:00,1.0,1,1.0,a")
    assert report.rejected == {"skipped_submit_s": 1}


def test_equal_rows_are_different_jobs_and_counted(trace: Trace) -> None:
    row = "2017-10-01 00:00:45,30.0,2,60.0,b"
    report, jobs = converted(trace, row, row, row)
    assert (report.kept, report.notes["duplicate_rows_kept"]) == (3, 2)
    assert [job[0] for job in jobs] == ["0", "1", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (",,,,", "empty_row"),
        ("", "empty_row"),
        (" , ,,,", "empty_row"),
        (",1.0,1,1.0,a", "missing_submit_s"),
        ("2017-10-01,1.0,1,1.0,a", "invalid_submit_s"),
        ("2017-02-30 00:00:00,1.0,1,1.0,a", "invalid_submit_s"),
        ("1917-10-01 00:00:00,1.0,1,1.0,a", "absurd_submit_s"),
        ("9999-10-01 00:00:00,1.0,1,1.0,a", "absurd_submit_s"),
        ("2017-10-01 00:00:00,,1,1.0,a", "missing_duration_s"),
        ("2017-10-01 00:00:00,1h,1,1.0,a", "invalid_duration_s"),
        ("2017-10-01 00:00:00,nan,1,1.0,a", "invalid_duration_s"),
        ("2017-10-01 00:00:00,inf,1,1.0,a", "invalid_duration_s"),
        ("2017-10-01 00:00:00,-1,1,1.0,a", "negative_duration_s"),
        ("2017-10-01 00:00:00,1e13,1,1.0,a", "absurd_duration_s"),
        ("2017-10-01 00:00:00,1.0,,1.0,a", "missing_num_gpus"),
        ("2017-10-01 00:00:00,1.0,-2,1.0,a", "negative_num_gpus"),
        ("2017-10-01 00:00:00,1.0,2e6,1.0,a", "absurd_num_gpus"),
        ("2017-10-01 00:00:00,1.0,1,1.0,", "missing_vc"),
        ("2017-10-01 00:00:00,1.0,1,1.0", "wrong_field_count"),
        ("2017-10-01 00:00:00,1.0,1,1.0,a,b", "wrong_field_count"),
        ('2017-10-01 00:00:00,1.0,1,1.0,"a', "malformed_quotes"),
    ],
)
def test_a_broken_row_is_rejected_for_a_reason_and_the_others_stay(
    trace: Trace, row: str, reason: str
) -> None:
    good = "2017-10-01 00:00:45,30.0,2,60.0,b"
    report, jobs = converted(trace, good, row, good)
    assert (report.read, report.kept, report.rejected) == (3, 2, {reason: 1})
    # Positions count rejected rows too, so they say where a job stands in the file.
    assert [job[0] for job in jobs] == ["0", "2"]


def test_gpu_time_that_contradicts_the_row_is_a_warning(trace: Trace) -> None:
    report, _ = converted(
        trace,
        "2017-10-01 00:00:45,30.0,2,60.0,b",
        "2017-10-01 00:00:45,30.0,2,61.0,b",
        "2017-10-01 00:00:45,30.0,2,,b",
    )
    assert report.kept == 3
    assert report.warnings == (
        "gpu_time is not duration x num_gpus on 2 kept rows; duration and num_gpus are used",
    )


def test_further_columns_are_ignored_and_named(trace: Trace) -> None:
    path = trace(HEADER.strip() + ",note\n2017-10-01 00:00:45,30.0,2,60.0,b,x\n")
    report = convert("philly-csv", [path], path.with_name("w.parquet"))
    assert report.warnings == ("ignored columns: note",)


@pytest.mark.slow
def test_a_missing_column_is_named_with_those_found(trace: Trace) -> None:
    path = trace("timestamp,duration,num_gpus,gpu_time\n")
    with pytest.raises(
        InvalidWorkloadError, match="missing: cluster; found: timestamp, duration, num_gpus, gpu_time"
    ):
        convert("philly-csv", [path], path.with_name("w.parquet"))


def test_users_are_read_where_a_file_names_them(trace: Trace) -> None:
    row = "2017-10-01 00:00:45,30.0,2,60.0,b"
    with_users = trace(f"{HEADER[:-1]},user\n{row},u\n{row},v\n{row},\n{row},u\n")
    without = with_users.with_name("without.csv")
    without.write_text(f"{HEADER}{row}\n")
    report = convert("philly-csv", [with_users, without], with_users.with_name("w.parquet"))
    assert read_frame(report.out)["user"].to_list() == ["u", "v", None, "u", None]
    assert report.warnings == ()
    # The second of user u, and the second of no user.
    assert report.notes["duplicate_rows_kept"] == 2
