"""Files that unpack to more than they seem, and lines without end: refused in bounded memory, quickly."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from ray_sim.model import outlook
from ray_sim.model.errors import InvalidWorkloadError
from workloads.convert import convert
from workloads.formats import text
from workloads.formats.text import FREE_BYTES, MAX_LINE, MAX_RATIO, check_text
from workloads.store import load_workload

HEADER = b"job_id,submit_s,duration_s,num_gpus\n"


def gz_of(path: Path, part: bytes, times: int) -> Path:
    """A gzip file of the header and many times a part, as members one after another."""
    member = gzip.compress(part, mtime=0)
    path.write_bytes(gzip.compress(HEADER, mtime=0) + member * times)
    return path


@pytest.mark.slow
def test_a_line_of_gigabytes_is_refused_by_its_number(tmp_path: Path) -> None:
    # 3 MB of gzip hold 3,000 MB of one line; it is refused after the first 16 of them.
    bomb = gz_of(tmp_path / "bomb.csv.gz", b"x" * 2**20, 3000)
    assert bomb.stat().st_size < 4e6
    for name in ("csv", "philly-csv", "gpu-pods"):
        with pytest.raises(InvalidWorkloadError, match=r"bomb.csv.gz: line 2 is longer than 16 MiB"):
            convert(name, [bomb], tmp_path / "w.parquet")
    events = tmp_path / "task_events-bomb.csv.gz"
    bomb.rename(events)
    with pytest.raises(InvalidWorkloadError, match=r"bomb.csv.gz: line 2 is longer than 16 MiB"):
        convert("google-2011", [events], tmp_path / "w.parquet")


def test_lines_count_from_one_wherever_they_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_LINE", 10)
    path = tmp_path / "t.csv"
    for size in (1, 2, 3, 7, 10):
        monkeypatch.setattr(text, "_PART_BYTES", size)
        path.write_bytes(b"0123456789\n\n" * 3 + b"0123456789")
        check_text(path, lines=True)
        path.write_bytes(b"0123456789\n\n" * 3 + b"0123456789x\n")
        with pytest.raises(InvalidWorkloadError, match="line 7 is longer"):
            check_text(path, lines=True)


STATEMENTS = b"submit_s,duration_s,num_gpus,birth_s,value,outlook\n"
STATED = b"9,1,1,0,deadline 4 60,"


def test_a_row_too_long_for_its_points_is_refused_by_its_line_and_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_LINE", len(STATEMENTS))
    monkeypatch.setattr(text, "_PART_BYTES", 10)
    path = tmp_path / "t.csv"
    points = b" ".join(b"%d:1:0.1" % k for k in range(10))
    path.write_bytes(STATEMENTS + STATED + b"9:1:1\n" + STATED + points)
    fault = (
        r"t.csv: line 3 .* If it is one row, .* an `outlook` .* fewer points, or put "
        r"them into the workload file .* no limit\. If not, its line ends"
    )
    with pytest.raises(InvalidWorkloadError, match=fault):
        convert("csv", [path], tmp_path / "w.parquet")


@pytest.mark.slow
def test_a_workload_file_takes_an_outlook_that_is_too_long_for_a_line(tmp_path: Path) -> None:
    """The way out that the message names: a million points, in a text of 22 MB."""
    table, short, told = tmp_path / "t.csv", tmp_path / "short.parquet", tmp_path / "told.parquet"
    table.write_bytes(STATEMENTS + STATED + b"9:1:1\n")
    convert("csv", [table], short)
    text = " ".join(f"{k // 1000 * 60}.25:{k % 1000 + 1}.125:1e-6" for k in range(10**6))
    assert len(text) > MAX_LINE
    points = pl.DataFrame({"job_id": ["0"], "outlook": [text]})
    pl.read_parquet(short).update(points, on="job_id").write_parquet(told)
    statements = load_workload(told).statements
    assert statements is not None
    assert len(statements.outlooks[0].arrival_after_s) == 10**6


@pytest.mark.slow
def test_too_many_points_in_a_row_of_allowed_length_are_rejected_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook, "MOST_POINTS", 1)
    path, crowded = tmp_path / "t.csv", STATED + b"9:1:0.5 9:2:0.5\n"
    path.write_bytes(STATEMENTS + STATED + b"9:1:1\n" + crowded)
    report = convert("csv", [path], tmp_path / "w.parquet")
    assert (report.kept, report.rejected) == (1, {"invalid_outlook": 1})
    assert report.rejects is not None
    assert pl.read_parquet(report.rejects)["line"].to_list() == [3]
    path.write_bytes(STATEMENTS + crowded)
    fault = "line 2 of t.csv: has 2 points, at most 1 are possible; give it fewer points"
    with pytest.raises(InvalidWorkloadError, match=fault):
        convert("csv", [path], tmp_path / "w.parquet")


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2^17 times "1,2,3\n" are 768 KiB, which pack to a few hundred bytes; 64 KiB and 200 times that are free.
    monkeypatch.setattr(text, "FREE_BYTES", 2**16)
    path = tmp_path / "t.csv.packed"
    with pa.output_stream(path, compression=codec) as stream:
        stream.write(b"1,2,3\n" * 2**17)
    assert MAX_RATIO * path.stat().st_size < 2**17 * 6
    with pytest.raises(InvalidWorkloadError, match=r"unpacks to more than .* 200 times as large"):
        check_text(path, lines=True)
    with pytest.raises(InvalidWorkloadError, match="unpacks to more than"):
        check_text(path, lines=False)
    monkeypatch.setattr(text, "FREE_BYTES", FREE_BYTES)
    check_text(path, lines=True)


def test_a_trace_that_packs_as_traces_do_is_read(tmp_path: Path) -> None:
    rows = b"".join(b"j%d,%d,%d,1\n" % (i, 7 * i, 60 + i % 977) for i in range(20_000))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(HEADER + rows, mtime=0))
    assert 2 < len(rows) / path.stat().st_size < MAX_RATIO / 5
    assert convert("csv", [path], tmp_path / "w.parquet").kept == 20_000


@pytest.mark.slow
def test_a_line_of_the_longest_length_is_a_record_like_others(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    content = io.BytesIO()
    content.write(HEADER + b"a,0,1,1\n" + b"x" * MAX_LINE + b"\nb,1,1,1\n")
    path.write_bytes(content.getvalue())
    report = convert("csv", [path], tmp_path / "w.parquet")
    assert (report.kept, report.rejected) == (2, {"wrong_field_count": 1})
