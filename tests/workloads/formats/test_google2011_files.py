"""Files of Google's trace of 2011: parts, damaged lines and files, memory limits, and what was published."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.google2011 import EVICTED, FINISH, FINISHED, LINE, SCHEDULE, SUBMIT, Folder, life, task_line
from workloads import rows
from workloads.convert import convert
from workloads.formats.google import trace_reader
from workloads.store import read_frame
from workloads.trace_format import Censored, ConvertOptions, RowKind, RunTime


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_parts_are_read_in_the_order_of_their_numbers_whatever_is_named_first(folder: Folder) -> None:
    two = folder.write("task_events", task_line(613, FINISH), number=2)
    one = folder.write("task_events", *life((601, SUBMIT), (603, SCHEDULE)), number=1)
    whole = read_frame(folder.convert().out)
    assert whole["duration_s"].to_list() == [10.0]
    assert read_frame(folder.convert(two, one).out).equals(whole)
    # A later part alone does not know when its tasks were submitted.
    with pytest.raises(InvalidWorkloadError, match="missing_submit_s 1"):
        folder.convert(two)


def test_the_folder_for_temporary_files_may_have_any_name(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "[a] *b"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    monkeypatch.setattr(trace_reader, "BUCKET_BYTES", 100)
    monkeypatch.setattr(rows, "PART_ROWS", 1)
    folder.write("task_events", *life(*FINISHED), *life(*FINISHED, job=8))
    assert folder.convert().kept == 2
    assert [*odd.iterdir()] == []


@pytest.mark.slow
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


@pytest.mark.slow
def test_lines_may_end_as_windows_has_it_begin_with_a_mark_and_have_blanks_around_values(
    folder: Folder,
) -> None:
    folder.write("task_events", *life(*EVICTED))
    whole = read_frame(folder.convert().out)
    text = "".join(life(*EVICTED))
    for other in (text.replace("\n", "\r\n"), "\ufeff" + text, text.replace(",", " , "), text.rstrip("\n")):
        folder.write("task_events", other)
        assert read_frame(folder.convert().out).equals(whole)


@pytest.mark.slow
def test_a_line_of_ten_megabytes_is_one_reject(folder: Folder) -> None:
    folder.write("task_events", *life(*FINISHED), LINE.replace("user=", "u" * 10_000_000 + ","))
    report = folder.convert()
    assert report.rejected == {"wrong_field_count": 1}
    assert pl.read_parquet(str(report.rejects))["text"].str.len_chars().item() == 500


@pytest.mark.slow
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


@pytest.mark.slow
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


Real = Callable[[str], Path]


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_jobs_of_the_published_part_are_all_there(real: Real, tmp_path: Path) -> None:
    options = ConvertOptions(rows=RowKind.JOB, censored=Censored.CUT)
    report = convert(
        "google-2011", [real("data/google2011/task_events")], tmp_path / "w.parquet", options=options
    )
    frame = read_frame(report.out)
    rejected = sum(report.rejected.values())
    assert report.read == report.kept + rejected == 4_895
    assert frame["num_tasks"].to_numpy().max() == 20_010
