from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from tests.proofs import quick_first
from tests.workloads.conversions import Trace
from workloads.convert import convert
from workloads.formats.philly.csv import HEADER
from workloads.provenance import Counts
from workloads.realisation import Window
from workloads.store import read_frame, read_provenance
from workloads.trace_format import REJECT_SCHEMA, ConvertOptions

TABLE = "job_id,submit_s,duration_s,num_gpus\na,0,10,1\nb,5,20,2\n"
BAD_ROW = "c,6,-1,1\n"


def test_an_unknown_format_lists_those_there_are(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown trace format 'phily-csv'\. Did you mean 'philly-csv'"
    ):
        convert("phily-csv", [trace(TABLE)], tmp_path / "w.parquet")


def test_what_was_converted_and_how_is_in_the_file(trace: Trace, tmp_path: Path) -> None:
    out = tmp_path / "w.parquet"
    report = convert("csv", [trace(TABLE + BAD_ROW)], out)
    assert (report.read, report.kept, report.rejected) == (3, 2, {"negative_duration_s": 1})
    provenance = read_provenance(out)
    assert provenance is not None
    assert (provenance.converter, provenance.seed) == ("csv", None)
    assert provenance.counts == Counts(read=3, kept=2, rejected={"negative_duration_s": 1})
    assert [source.name for source in provenance.sources] == ["trace.csv"]
    assert len(provenance.sources[0].sha256) == 64


def test_rejected_rows_are_kept_beside_the_workload_with_their_line_and_text(
    trace: Trace, tmp_path: Path
) -> None:
    out = tmp_path / "w.parquet"
    long_row = f"d,7,1,x{'9' * 600}\n"
    report = convert("csv", [trace(TABLE + BAD_ROW + long_row)], out)
    assert report.rejects == tmp_path / "w.parquet.rejects.parquet"
    rejects = pl.read_parquet(report.rejects)
    assert dict(rejects.schema) == REJECT_SCHEMA
    # The header is line 1, so the third and fourth row are lines 4 and 5. Text is cut at 500.
    assert rejects.rows() == [
        ("trace.csv", 4, "negative_duration_s", "c,6,-1,1"),
        ("trace.csv", 5, "invalid_num_gpus", long_row[:500]),
    ]


def test_rejects_of_an_earlier_conversion_do_not_stay(trace: Trace, tmp_path: Path) -> None:
    out, rejects = tmp_path / "w.parquet", tmp_path / "r.parquet"
    assert convert("csv", [trace(TABLE + BAD_ROW)], out, rejects=rejects).rejects == rejects
    assert rejects.exists()
    assert convert("csv", [trace(TABLE)], out, rejects=rejects).rejects is None
    assert not rejects.exists()


def test_gzip_and_plain_text_give_the_same_jobs_whatever_the_name(trace: Trace, tmp_path: Path) -> None:
    squeezed = gzip.compress(TABLE.encode(), mtime=0)
    frames = []
    for path in (
        trace(TABLE),
        trace(squeezed, "t.csv.gz"),
        trace(squeezed, "t.csv"),
        trace(TABLE, "t2.csv.gz"),
    ):
        convert("csv", [path], tmp_path / "w.parquet")
        frames.append(read_frame(tmp_path / "w.parquet"))
    assert all(frame.equals(frames[0]) for frame in frames)


def test_a_gzip_file_of_several_members_is_read_to_its_end(trace: Trace, tmp_path: Path) -> None:
    lines = TABLE.splitlines(keepends=True)
    members = b"".join(gzip.compress(line.encode(), mtime=0) for line in lines)
    assert convert("csv", [trace(members, "t.csv.gz")], tmp_path / "w.parquet").kept == 2


def test_files_are_read_one_after_another_each_with_its_own_header(trace: Trace, tmp_path: Path) -> None:
    first = trace(TABLE, "1.csv")
    second = trace("num_gpus,duration_s,submit_s,job_id\n1,-1,7,c\n4,30,8,d\n", "2.csv")
    report = convert("csv", [first, second], tmp_path / "w.parquet")
    assert (report.read, report.kept) == (4, 3)
    frame = read_frame(tmp_path / "w.parquet")
    # trace_order is the row's number over both files; the rejected row 2 keeps its place.
    assert frame.select("job_id", "trace_order", "num_gpus").rows() == [("a", 0, 1), ("b", 1, 2), ("d", 3, 4)]
    assert pl.read_parquet(str(report.rejects))["source"].to_list() == ["2.csv"]
    assert pl.read_parquet(str(report.rejects))["line"].to_list() == [2]


def test_lines_end_as_the_writer_pleases_and_may_begin_with_a_byte_order_mark(
    trace: Trace, tmp_path: Path
) -> None:
    convert("csv", [trace(TABLE)], tmp_path / "plain.parquet")
    for text in (TABLE.replace("\n", "\r\n"), TABLE.rstrip("\n"), "\ufeff" + TABLE):
        convert("csv", [trace(text)], tmp_path / "w.parquet")
        assert read_frame(tmp_path / "w.parquet").equals(read_frame(tmp_path / "plain.parquet"))


@pytest.mark.parametrize("format_name", ["csv", "philly-csv"])
@pytest.mark.parametrize(
    ("content", "told"),
    quick_first(
        [
            (b"", "file is empty"),
            (b"\n", "required columns missing"),
            (b"a,b\n1,2\n", "found: a, b"),
            (b"a;b\n1;2\n", "found: a;b.*; line 1 has semicolons: fields must be separated by commas"),
            (b"a\tb\n1\t2\n", "line 1 has tabs: fields must be separated by commas"),
            (b"a,a\n1,2\n", "named twice"),
            (b'"a\n1,2\n', "no header"),
            (b"\xff\xfea\x00,\x00", "UTF-8|required columns missing"),
            (bytes(range(256)) * 40, "UTF-8"),
            ("job_id,who\n1,Jürgen\n".encode("latin-1"), "--guess .* finds the encoding .*encoding: cp1252"),
            (gzip.compress(TABLE.encode(), mtime=0)[:-9], "UTF-8 text, plain or gzip"),
            (gzip.compress(TABLE.encode(), mtime=0)[:12], "UTF-8 text, plain or gzip"),
        ],
        3,
    ),
)
def test_a_file_of_another_kind_is_a_clear_error(
    trace: Trace, tmp_path: Path, format_name: str, content: bytes, told: str
) -> None:
    path = trace(content, "broken.csv")
    with pytest.raises(InvalidWorkloadError, match=told) as error:
        convert(format_name, [path], tmp_path / "w.parquet")
    assert str(path) in str(error.value)
    assert not (tmp_path / "w.parquet").exists()


@pytest.mark.slow
def test_damage_deep_in_a_file_is_an_error_and_not_a_short_workload(trace: Trace, tmp_path: Path) -> None:
    rows = TABLE + "".join(f"j{i},{i},1,1\n" for i in range(50_000))
    whole = gzip.compress(rows.encode(), mtime=0)
    text = rows.encode()
    for content in (whole[:-5], whole[: len(whole) // 2], text[:300_000] + b"\xff" + text[300_000:]):
        with pytest.raises(InvalidWorkloadError):
            convert("csv", [trace(content)], tmp_path / "w.parquet")


def test_a_missing_file_a_folder_and_no_file_at_all_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="no such file"):
        convert("csv", [tmp_path / "none.csv"], tmp_path / "w.parquet")
    with pytest.raises(InvalidWorkloadError, match="the folder has no files"):
        convert("csv", [tmp_path], tmp_path / "w.parquet")
    with pytest.raises(InvalidInputError, match="no source"):
        convert("csv", [], tmp_path / "w.parquet")


@pytest.mark.slow
def test_no_sound_row_is_an_error_that_counts_the_reasons(trace: Trace, tmp_path: Path) -> None:
    header = TABLE.splitlines()[0]
    with pytest.raises(InvalidWorkloadError, match="no rows after the header"):
        convert("csv", [trace(header)], tmp_path / "w.parquet")
    bad = f"{header}\na,0,x,1\nb,0,1,nan\nc,1\n\n"
    with pytest.raises(InvalidWorkloadError) as error:
        convert("csv", [trace(bad)], tmp_path / "w.parquet")
    for words in (
        "none of 4 rows",
        "invalid_duration_s 1",
        "invalid_num_gpus 1",
        "wrong_field_count 1",
        "empty_row 1",
    ):
        assert words in str(error.value)
    rejects = tmp_path / "w.parquet.rejects.parquet"
    assert list(tmp_path.glob("*.parquet")) == [rejects]
    assert pl.read_parquet(rejects)["line"].to_list() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("philly", '[{"jobid": "a"}]', "missing_submit_s, for example, is line or record 1 of trace.csv: '{"),
        (
            "philly-csv",
            f"{','.join(HEADER)}\nsoon,1,1,1,v\n",
            "invalid_submit_s, .* line or record 2 of .*'soon,1",
        ),
        (
            "google-2011",
            "0,,7,0,,0,u,2,9,0.5,0.5,,1\n",
            "never_started, for .* 1 of .*/trace.csv: 'task 0 of job 7'",
        ),
    ],
)
def test_where_nothing_is_kept_one_rejected_row_is_shown_and_all_are_written(
    trace: Trace, tmp_path: Path, name: str, content: str, told: str
) -> None:
    with pytest.raises(InvalidWorkloadError, match=told):
        convert(name, [trace(content)], tmp_path / "w.parquet")
    assert pl.read_parquet(tmp_path / "w.parquet.rejects.parquet").height == 1


def test_where_the_window_holds_none_of_the_sound_rows_it_is_named(trace: Trace, tmp_path: Path) -> None:
    out = tmp_path / "w.parquet"
    with pytest.raises(InvalidWorkloadError, match=r"\(outside the window 2\); check the window$"):
        convert("csv", [trace(TABLE)], out, window=Window(1000, 2000))
    with pytest.raises(InvalidWorkloadError, match=r"check the window; .*the rejected rows are in"):
        convert("csv", [trace(TABLE + BAD_ROW)], out, window=Window(1000, 2000))


def test_a_source_is_never_overwritten_and_never_read_twice(trace: Trace, tmp_path: Path) -> None:
    path = trace(TABLE)
    with pytest.raises(InvalidInputError, match="would be overwritten"):
        convert("csv", [path], path)
    with pytest.raises(InvalidInputError, match="would be overwritten"):
        convert("csv", [path], tmp_path / "w.parquet", rejects=path)
    with pytest.raises(InvalidInputError, match="both the workload and the rejects"):
        convert("csv", [path], tmp_path / "w.parquet", rejects=tmp_path / "w.parquet")
    with pytest.raises(InvalidInputError, match="given twice"):
        convert("csv", [path, path], tmp_path / "w.parquet")
    assert path.read_text() == TABLE


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(
    trace: Trace, tmp_path: Path
) -> None:
    for out, rejects in ((tmp_path / "none" / "w", None), (tmp_path, None), (tmp_path / "w", tmp_path)):
        with pytest.raises(InvalidInputError, match=r"does not exist|is a folder"):
            convert("csv", [trace(TABLE)], out, rejects=rejects)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]


def test_an_option_that_a_format_does_not_take_is_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="philly-csv does not take the option 'rebase'; it takes: none"
    ):
        convert("philly-csv", [trace(TABLE)], tmp_path / "w.parquet", options=ConvertOptions(rebase=True))


@pytest.mark.slow
def test_a_failed_conversion_leaves_the_earlier_workload_as_it_was(trace: Trace, tmp_path: Path) -> None:
    out = tmp_path / "w.parquet"
    convert("csv", [trace(TABLE)], out)
    before = out.read_bytes()
    with pytest.raises(InvalidWorkloadError):
        convert("csv", [trace("x\n1\n", "other.csv")], out)
    assert out.read_bytes() == before


def test_the_report_is_plain_json_and_the_same_files_give_the_same_bytes(
    trace: Trace, tmp_path: Path
) -> None:
    first = convert("csv", [trace(TABLE + BAD_ROW)], tmp_path / "1.parquet")
    second = convert("csv", [trace(TABLE + BAD_ROW)], tmp_path / "2.parquet")
    assert first.out.read_bytes() == second.out.read_bytes()
    assert first.rejects is not None
    assert second.rejects is not None
    assert first.rejects.read_bytes() == second.rejects.read_bytes()
    assert first.to_dict()["rejected"] == {"negative_duration_s": 1}


def test_rows_outside_the_window_are_counted_and_are_no_errors(trace: Trace, tmp_path: Path) -> None:
    # a at 0, b at 5, c at 6 with a negative run time: rejected wherever it is.
    out = tmp_path / "w.parquet"
    report = convert("csv", [trace(TABLE + BAD_ROW)], out, window=Window(1, 10))
    assert (report.read, report.kept, report.outside_window) == (3, 1, 1)
    assert report.rejected == {"negative_duration_s": 1}
    assert report.to_dict()["outside_window"] == 1
    assert read_frame(out)["submit_s"].to_list() == [5.0]  # in the trace's own time
    provenance = read_provenance(out)
    assert provenance is not None
    assert provenance.counts == Counts(read=3, kept=1, rejected=report.rejected, outside_window=1)
    assert provenance.options["window_s"] == [1.0, 10.0]


def test_a_window_cuts_the_workload_that_there_is_without_it(trace: Trace, tmp_path: Path) -> None:
    # Rebased by 100, a is at 0 and b at 5: the window counts from there, and moves nothing further.
    source = trace("submit_s,duration_s,num_gpus\n100,10,1\n105,20,2\n")
    options = ConvertOptions(rebase=True)
    whole = read_frame(convert("csv", [source], tmp_path / "1.parquet", options=options).out)
    cut = convert("csv", [source], tmp_path / "2.parquet", options=options, window=Window(5, 6))
    assert read_frame(cut.out).equals(whole[1:])


def test_a_window_without_a_row_is_an_error_that_tells_so(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match=r"none of 2 rows can be kept \(outside the window 2\)"):
        convert("csv", [trace(TABLE)], tmp_path / "w.parquet", window=Window(6, 7))


def test_notes_are_lines_of_the_table_unless_they_count_nothing(trace: Trace, tmp_path: Path) -> None:
    # 01:30 of 2017-11-05 came twice in Los Angeles, 00:30 once.
    mapping = tmp_path / "map.yaml"
    mapping.write_text("time_zone: America/Los_Angeles\n")
    dates = {
        "2017-11-05 01:30:00": {"ambiguous_local_times": 1, "ambiguous_local_times_read_as": "earliest"},
        "2017-11-05 00:30:00": {},
    }
    for date, ambiguous in dates.items():
        source = trace(f"submit_s,duration_s,num_gpus\n{date},10,1\n")
        report = convert("csv", [source], tmp_path / "w.parquet", options=ConvertOptions(mapping=mapping))
        clock = {"epoch_utc": "1970-01-01T00:00:00+00:00", "time_zone": "America/Los_Angeles"}
        assert dict(report.note_rows()) == clock | ambiguous
        assert report.rows()[-len(report.note_rows()) :] == report.note_rows()
