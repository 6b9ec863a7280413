"""Trace formats of a user's own: functions that make tables, and whole formats."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame, read_provenance
from workloads.trace_format import ConvertOptions

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "trace_formats" / "json_jobs.py"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def module(source: str, request: pytest.FixtureRequest) -> str:
    """Write a module under a name of its own, as a module is imported once."""
    name = re.sub(r"\W", "_", f"own_{request.node.name}")
    Path(f"{name}.py").write_text(f"import polars as pl\n{source}")
    return name


def converted(ref: str) -> tuple[ConversionReport, pl.DataFrame]:
    report = convert(ref, [Path("trace.txt")], Path("w.parquet"))
    return report, read_frame(Path("w.parquet"))


def test_the_example_reads_a_trace_of_json_lines_and_rejects_its_bad_rows() -> None:
    Path("json_jobs.py").write_text(EXAMPLE.read_text())
    rows = [
        {"id": "a", "team": "vision", "created_ms": 1500, "started_ms": 2000, "ended_ms": 12500, "gpus": 4},
        {"id": "b", "team": None, "created_ms": 2500, "started_ms": 9000, "ended_ms": 8000, "gpus": 1},
    ]
    Path("trace.txt").write_text("\n".join(map(json.dumps, rows)))
    report, frame = converted("json_jobs:jobs")
    assert (report.read, report.kept, report.rejected) == (2, 1, {"negative_duration_s": 1})
    row = frame.row(0, named=True)
    assert (row["job_id"], row["vc"], row["submit_s"], row["duration_s"]) == ("a", "vision", 1.5, 10.5)
    reject = pl.read_parquet("w.parquet.rejects.parquet").row(0, named=True)
    assert (reject["source"], reject["line"]) == ("trace.txt", 2)
    provenance = read_provenance(Path("w.parquet"))
    assert provenance is not None
    assert provenance.converter == "json_jobs:jobs"


def test_the_example_is_on_the_page_as_it_is() -> None:
    assert f"```python\n{EXAMPLE.read_text()}```" in (DOCS / "workloads.md").read_text()


def test_tables_of_two_files_with_dates_under_a_mapping(request: pytest.FixtureRequest) -> None:
    source = """
def jobs(path):
    begin = pl.Series(["2024-01-01T00:00:00Z"]).str.to_datetime()
    return pl.DataFrame({"begin": begin, "length": [float(path.read_text())], "num_gpus": [1]})
"""
    ref = f"{module(source, request)}:jobs"
    Path("map.yaml").write_text("columns: {submit_s: begin, duration_s: length}\n")
    for name, length in (("one.tsv", 5), ("two.tsv", 7)):
        Path(name).write_text(str(length))
    options = ConvertOptions(mapping=Path("map.yaml"))
    convert(ref, [Path("one.tsv"), Path("two.tsv")], Path("w.parquet"), options=options)
    frame = read_frame(Path("w.parquet"))
    assert frame["submit_s"].to_list() == [1704067200.0] * 2
    assert frame["duration_s"].to_list() == [5.0, 7.0]


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("def other(path): ...", UnknownNameError, "unknown trace format of .* 'jobs'.*other"),
        ("jobs = 3", InvalidInputError, "must be a function of a file's path .* found int"),
        ("def jobs(path): return [1]", InvalidInputError, "must return a table .* found list"),
        ("def jobs(path): return 1 / 0", InvalidInputError, r"on trace.txt: Zero.*, line 2, in jobs\)"),
        ("1 / 0", InvalidInputError, "importing .* failed: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_format_that_fails_is_named(
    source: str, error: type[Exception], text: str, request: pytest.FixtureRequest
) -> None:
    Path("trace.txt").write_text("x")
    with pytest.raises(error, match=text):
        converted(f"{module(source, request)}:jobs")


def test_truth_values_and_absent_ones_of_a_table_are_read(request: pytest.FixtureRequest) -> None:
    columns = "submit_s=[0, 1], duration_s=[2, 2], num_gpus=[True, False], priority=[float('nan'), 3]"
    source = f"def jobs(path): return pl.DataFrame(dict({columns}))"
    Path("trace.txt").write_text("x")
    report, frame = converted(f"{module(source, request)}:jobs")
    assert report.rejected == {}
    assert frame.select("num_gpus", "priority").rows() == [(1, None), (0, 3)]


@pytest.mark.parametrize("name", ["trace.txt.gz", "trace.tsv.gz", "trace.zst", "trace.parquet"])
def test_a_trace_may_have_any_name(name: str, request: pytest.FixtureRequest) -> None:
    source = "def jobs(path): return pl.DataFrame({'submit_s': [0], 'duration_s': [2], 'num_gpus': [1]})"
    Path(name).write_text("x")
    report = convert(f"{module(source, request)}:jobs", [Path(name)], Path("w.parquet"))
    assert (report.kept, report.read) == (1, 1)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("{'num_gpus': [[[1]]]}", "column .num_gpus. has the type List"),
        ("{'num_gpus': [1]}", "required columns missing: submit_s, duration_s"),
        ("{}", "has no records"),
    ],
)
def test_a_table_that_cannot_be_rows_of_text_is_refused(
    table: str, text: str, request: pytest.FixtureRequest
) -> None:
    Path("trace.txt").write_text("x")
    ref = f"{module(f'def jobs(path): return pl.DataFrame({table})', request)}:jobs"
    with pytest.raises(InvalidWorkloadError, match=f"^trace format '{ref}': the table of trace.txt: {text}"):
        converted(ref)


def test_a_row_with_a_line_end_in_a_text_is_rejected(request: pytest.FixtureRequest) -> None:
    columns = r"vc=['a\nb', 'c'], submit_s=[0, 1], duration_s=[2, 2], num_gpus=[1, 1]"
    Path("trace.txt").write_text("x")
    report, frame = converted(
        f"{module(f'def jobs(path): return pl.DataFrame(dict({columns}))', request)}:jobs"
    )
    assert report.rejected == {"line_end_in_text": 1}
    assert frame["vc"].to_list() == ["c"]


@pytest.mark.parametrize(
    "table",
    [
        "pl.DataFrame(rows).lazy()",
        "pl.DataFrame(rows).to_arrow()",
        "rows",
        "__import__('pandas').DataFrame(rows)",
    ],
)
def test_a_function_may_return_any_table(table: str, request: pytest.FixtureRequest) -> None:
    rows = [
        {"submit_s": 0, "duration_s": 2.5, "num_gpus": 1},
        {"submit_s": 1, "duration_s": 3, "num_gpus": None},
    ]
    source = f"rows = {rows}\ndef jobs(path): return {table}"
    Path("trace.txt").write_text("x")
    report, frame = converted(f"{module(source, request)}:jobs")
    assert report.rejected == {"missing_num_gpus": 1}
    assert frame["duration_s"].to_list() == [2.5]


def test_a_function_may_take_all_files_and_name_rows_that_are_no_jobs(request: pytest.FixtureRequest) -> None:
    source = """
def jobs(paths):
    job = {"submit_s": 9, "duration_s": 1, "num_gpus": 1}
    return [*({**job, "left_out": path.stem} for path in paths), job]
"""
    for name in ("one.txt", "two.txt"):
        Path(name).write_text(name)
    report = convert(f"{module(source, request)}:jobs", [Path("one.txt"), Path("two.txt")], Path("w.parquet"))
    assert (report.read, report.kept, report.left_out) == (3, 1, {"one": 1, "two": 1})


def test_a_whole_format_is_taken_as_the_built_in_ones_are(request: pytest.FixtureRequest) -> None:
    source = """
from workloads.formats.tables.table import FORMAT as CSV
from dataclasses import replace
SEMICOLONS = replace(CSV, name="semicolons", files="one table")
"""
    Path("trace.txt").write_text("submit_s,duration_s,num_gpus\n10,1,1\n")
    report, frame = converted(f"{module(source, request)}:SEMICOLONS")
    assert (report.format, frame.height) == ("semicolons", 1)


def test_a_file_or_a_module_that_is_not_there_is_told() -> None:
    Path("trace.txt").write_text("x")
    with pytest.raises(InvalidInputError, match=r"names a file; give its module, from its folder: mine:jobs"):
        converted("folder/mine.py:jobs")
    with pytest.raises(InvalidInputError, match=r"trace format 'nowhere:jobs': cannot import nowhere"):
        converted("nowhere:jobs")
