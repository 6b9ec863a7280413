"""Files of records in any form give the same rows."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.proofs import quick_first
from tests.workloads.conversions import converted
from workloads.convert import convert
from workloads.formats import text
from workloads.formats.tables import files
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

ROWS = [
    {"job_id": "a", "submit_s": 0, "duration_s": 1.5, "num_gpus": 2, "user": "zoë"},
    {"job_id": "b", "submit_s": 60, "duration_s": 30, "num_gpus": 0.5, "user": None},
]
NAMES = list(ROWS[0])


def table(separator: str = ",", header: bool = True, decimal: str = ".") -> str:
    cells = [
        ["" if cell is None else str(cell).replace(".", decimal) for cell in row.values()] for row in ROWS
    ]
    return "".join(separator.join(line) + "\n" for line in ([NAMES] if header else []) + cells)


EXPECTED = [("a", 0.0, 1.5, 2.0, "zoë"), ("b", 60.0, 30.0, 0.5, None)]


def zipped(content: bytes, *names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return stream.getvalue()


def parquet(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_parquet(stream)
    return stream.getvalue()


def feather(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "mapping"),
    quick_first(
        [
            pytest.param(table().encode(), "", id="csv"),
            pytest.param(table().encode("utf-8-sig"), "", id="byte order mark"),
            pytest.param(
                table(";", decimal=",").encode(), "read: {separator: ';', decimal: ','}", id="semicolons"
            ),
            pytest.param(table("|").encode(), "read: {separator: '|', quotes: false}", id="bars"),
            pytest.param(table().encode("utf-16"), "", id="utf-16"),
            pytest.param(table().encode("latin-1"), "read: {encoding: latin-1}", id="latin-1"),
            pytest.param(f"# note\n{table()}# end\n".encode(), "read: {comment: '#'}", id="comments"),
            pytest.param(table(header=False).encode(), f"read: {{header: {NAMES}}}", id="no header"),
            pytest.param(gzip.compress(table().encode()), "", id="gzip"),
            pytest.param(lzma.compress(table().encode()), "", id="xz"),
            pytest.param(bz2.compress(table().encode()), "", id="bzip2"),
            pytest.param(zipped(table().encode(), "jobs.csv"), "", id="zip"),
            pytest.param(json.dumps(ROWS).encode(), "", id="json"),
            pytest.param(gzip.compress(json.dumps(ROWS, indent=1).encode()), "", id="gzipped json"),
            pytest.param("\n".join(map(json.dumps, ROWS)).encode(), "", id="json lines"),
            pytest.param(
                json.dumps({"n": 2, "items": ROWS}).encode(), "read: {records: items}", id="json object"
            ),
            pytest.param(parquet(pl.DataFrame(ROWS, infer_schema_length=None)), "", id="parquet"),
            pytest.param(feather(pl.DataFrame(ROWS, infer_schema_length=None)), "", id="arrow"),
        ],
        2,
    ),
)
def test_every_form_gives_the_same_rows(tmp_path: Path, content: bytes, mapping: str) -> None:
    path = tmp_path / "jobs.data"
    path.write_bytes(content)
    report, frame = converted(path, mapping or None)
    assert frame.select(NAMES).rows() == EXPECTED
    assert (report.read, report.kept, report.rejected) == (2, 2, {})


@pytest.mark.parametrize(
    ("content", "told"),
    quick_first(
        [
            (zipped(b"x", "xl/workbook.xml"), "is a workbook of Excel or LibreOffice; save the sheet as CSV"),
            (zipped(b"x", "a.csv", "b.csv"), "is a zip of 2 files; unpack it"),
            (b"SQLite format 3\x00" + b"\x00" * 99, "is an SQLite database; export the table as CSV"),
            (b"\x80\x04\x95abc", "is a pickle, which may run code and is never read"),
            (b'{"items": [], "kind": "List"}', "name the key of its list of records"),
            (b"[1, 2]", "record 1 is '1'; each record must be a JSON object"),
            (b"[]", "has no records"),
            (b'[{"a": 1}', "line 1"),
            (b"PAR1nothing", "is no readable parquet file"),
            (lzma.compress(table().encode())[:-9], "cannot be unpacked"),
            (zipped(b"0\n" * 2**21, "bomb.csv"), "unpacks to more than"),
            (b"\x89PNG\r\n", "UTF-8|named|missing"),
        ],
        2,
    ),
)
def test_other_files_are_refused_with_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, told: str
) -> None:
    monkeypatch.setattr(text, "FREE_BYTES", 2**20)
    path = tmp_path / "jobs.data"
    path.write_bytes(content)
    with pytest.raises((InvalidWorkloadError, InvalidInputError), match=told) as error:
        converted(path)
    assert str(path) in str(error.value)


LINES = '{"id": 1, "begin": 5}\n{"id": 2, "begin": 6}\n'


@pytest.mark.parametrize(
    ("content", "read", "told"),
    [
        (LINES, "format: json", r"is json-lines, and .* as json; say read: \{format: json-lines\}"),
        (LINES, "records: items", "is json-lines, and .* drop format and records"),
        (LINES, "format: csv", "is json-lines, and the mapping reads it as csv"),
        (LINES, "format: parquet", "is json-lines, and the mapping reads it as parquet"),
        (LINES, "{format: json-lines, records: items}", "read.records: is the key of a list"),
        ('[{"id": 1}]', "format: json-lines", "is json, and the mapping reads it as json-lines"),
        ('[\n {"id": 1}]', "format: csv", "is json, and the mapping reads it as csv"),
        ("id,begin\n1,5\n", "format: json", "is csv, and the mapping reads it as json"),
        ("id,begin\n1,5\n", "records: items", "is csv, and the mapping reads it as json"),
        ("PAR1", "format: csv", "is parquet, and the mapping reads it as csv"),
        ('{"jobs": [{"id": 1}]}', "format: json", r"as in read: \{records: jobs\}"),
        ('{"jobs": [{"id": 1}]}', "records: items", "no key 'items'; lists and objects are under: jobs"),
        ('{\n"jobs": [{"id": 1}]}\n{\n"jobs": [{"id": 2}]}', "records: jobs", "are these several files"),
        ('{"jobs": [{"id": 1}], "kind": ', "records: jobs", "line 1"),
    ],
)  # fmt: skip
def test_a_form_that_the_file_does_not_have_is_named(
    tmp_path: Path, content: str, read: str, told: str
) -> None:
    (tmp_path / "jobs.data").write_text(content)
    with pytest.raises(InvalidInputError, match=told):
        converted(tmp_path / "jobs.data", f"read: {read if read[0] == '{' else f'{{{read}}}'}")


def test_records_of_several_lines_and_a_list_before_other_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.data"
    records = [{"job_id": name, "submit_s": 1, "duration_s": 2, "num_gpus": 3} for name in "ab"]
    path.write_text("\n".join(json.dumps(record, indent=1) for record in records))
    assert converted(path, "read: {format: json-lines}")[1]["job_id"].to_list() == ["a", "b"]
    path.write_text(json.dumps({"kind": {"a": [1]}, "jobs": records, "end": {"x": [{}]}}))
    assert converted(path, "read: {records: jobs}")[1]["job_id"].to_list() == ["a", "b"]


def test_paths_of_nested_records_are_dotted_and_lists_are_summed(tmp_path: Path) -> None:
    record = {
        "meta": {"name": "a", "labels": [{"type": "Team", "value": "x"}]},
        "begin": 5,
        "parts": [{"gpu": "2", "s": 10}, {"gpu": 1, "s": "500m"}, {"s": 3}],
    }
    (tmp_path / "jobs.json").write_text(json.dumps([record]))
    mapping = """
columns: {job_id: meta.name, vc: "meta.labels[Team].value", submit_s: begin}
derived:
  num_gpus: sum(parts.*.gpu)
  duration_s: max(parts.*.s) + count(parts.*.s)
  num_tasks: count(parts.*.gpu)
cells: {"parts.*.s": {as: quantity}}
"""
    row = converted(tmp_path / "jobs.json", mapping)[1].row(0, named=True)
    assert (row["job_id"], row["vc"], row["submit_s"]) == ("a", "x", 5)
    assert (row["num_gpus"], row["duration_s"], row["num_tasks"]) == (3, 13, 2)


def test_a_workload_edited_in_pandas_is_a_table(tmp_path: Path, jobs: Callable[..., pl.DataFrame]) -> None:
    frame = jobs(3).select("job_id", "submit_s", "duration_s", "num_gpus", "wait_s").to_pandas()
    frame["num_gpus"] = frame["num_gpus"].astype(int)
    frame["wait_s"] = float("nan")
    frame[frame["job_id"] != "job-0"].to_parquet(tmp_path / "edited.parquet")
    report, found = converted(tmp_path / "edited.parquet")
    assert report.kept == found["wait_s"].null_count() == len(frame) - 1


def test_a_folder_of_parts_is_a_table_and_a_pool_changes_no_byte(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    (parts / "may").mkdir(parents=True)
    (parts / ".crc").write_text("x")
    for name, begin in (("may/1.json", 0), ("may/2.json", 3), ("june.json", 6)):
        rows = [
            {"job_id": f"j{begin + k}", "submit_s": begin + k, "duration_s": 1, "num_gpus": 1}
            for k in range(3)
        ]
        (parts / name).write_text(json.dumps(rows))
    asked = []

    def pool(function: Callable[..., object], *arguments: Sequence[object]) -> Iterator[object]:
        asked.append(function)
        yield from map(function, *arguments)

    out, other = tmp_path / "w.parquet", tmp_path / "pool.parquet"
    assert convert("json", [parts], out).kept == 9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_POOLED_BYTES", 0)
        convert("json", [parts], other, options=ConvertOptions(pool=pool))
    assert len(asked) == 1
    assert out.read_bytes() == other.read_bytes()
    assert read_frame(out)["trace_order"].to_list() == [3, 4, 5, 6, 7, 8, 0, 1, 2]


def test_elements_with_a_type_in_each_other_are_refused_before_they_fill_memory(tmp_path: Path) -> None:
    # Each level doubles the paths: 2^40 of them.
    inner = '{"type":"a","x":[]}'
    for _ in range(40):
        inner = f'{{"type":"a","x":[{inner}]}}'
    path = tmp_path / "t.json"
    path.write_text(f'[{{"submit_s":0,"duration_s":1,"num_gpus":1,"x":[{inner}]}}]')
    with pytest.raises(InvalidWorkloadError, match=r"t\.json: its records have more than 10,000 names"):
        converted(path)


@pytest.mark.parametrize("text", [b'"\\ud800"', b'"caf\xe9"'])
def test_texts_of_json_that_are_no_utf8_are_named(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'[{"submit_s":0,"duration_s":1,"num_gpus":1,"user":' + text + b"}]")
    with pytest.raises(InvalidWorkloadError, match=r"t\.json: .* in a record is no UTF-8 text"):
        converted(path)


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(table().encode() * 50))
    packed[20:30] = b"\xff" * 10
    path = tmp_path / "t.csv.gz"
    path.write_bytes(packed)
    with pytest.raises(InvalidWorkloadError, match=r"t\.csv\.gz"):
        converted(path)


def test_two_columns_of_one_name_in_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet(pl.DataFrame({"a.b": [1], "a": [{"b": 2}]})))
    with pytest.raises(InvalidWorkloadError, match=r"t\.parquet: has two columns 'a\.b'; rename one"):
        converted(path)


def test_a_parquet_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    # 12 million rows of three nulls are 288 MB, in some 100 kB.
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet(pl.DataFrame({name: pl.repeat(None, 12 * 10**6, eager=True) for name in "abc"})))
    with pytest.raises(InvalidWorkloadError, match=r"t\.parquet: unpacks to more than"):
        converted(path)
