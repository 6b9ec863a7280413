"""Whatever the bytes, a conversion ends in a clear error or in a report that counts every row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import RaySimError
from workloads.convert import ConversionReport, convert
from workloads.store import load_workload, read_frame, write_workload
from workloads.synth import synth
from workloads.trace_format import ConvertOptions

GOOD = {
    "philly-csv": b"timestamp,duration,num_gpus,gpu_time,cluster\n"
    + b"2017-11-05 01:30:00,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,8,23608.0,6214e9\n" * 4,
    "csv": b"job_id,vc,trace_order,submit_s,duration_s,num_gpus,priority,num_tasks\n"
    + b"".join(b"%d,v%d,%d,%d,%d,1,,\n" % (i, i % 2, i, 10 * i, i + 1) for i in range(8)),
    "google-2011": b"".join(
        b"%d,,%d,%d,,%d,user=,2,9,0.5,0.25,0.01,1\n" % (10**6 * (600 + time), job, task, event)
        for time, event in enumerate((0, 1, 4))
        for job, task in ((7, 0), (7, 1), (8, 0))
    ),
    "philly": b"["
    + b",\n".join(
        b'{"status": "Pass", "vc": "v", "jobid": "j%d", "attempts": [{"start_time": "2017-11-05 01:30:00",'
        b' "end_time": "2017-11-05 02:30:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}],'
        b' "submitted_time": "2017-11-05 01:00:0%d", "user": "u"}' % (i, i)
        for i in range(4)
    )
    + b"]\n",
}
PIECES = [
    *(
        b",",
        b"\n",
        b"\r",
        b'"',
        b"\x00",
        b"\xff",
        b"-",
        b"e",
        b" ",
        b"\t",
        b"",
        b"nan",
        b"inf",
        b"1e400",
        b"0x1",
    ),
    *(b"[", b"]", b"{", b"}", b":", b"null", b"\\ud800", b"\\"),
    *(b"9" * 30, b"-0", b"\xe2\x82\xac", b"1e-400", b"+1", b"1_0", b"None", b",,,,", b"2017-13-45 99:99:99"),
]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good file of some format with a few places replaced, doubled or cut."""
    name = draw(st.sampled_from(sorted(GOOD)))
    content = GOOD[name]
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        content = content[:start] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + content[end:]
    return name, gzip.compress(content, mtime=0) if draw(st.booleans()) else content


def rows_in(name: str, content: bytes) -> int:
    """Rows, records or lines that a conversion that succeeds must have read."""
    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if name == "philly":
        return len(json.loads(text.decode("utf-8-sig", "surrogateescape"), parse_int=str, strict=False))
    ended = text.endswith(b"\n")
    return text.count(b"\n") + (not ended) - (name != "google-2011")


def rows_read(report: ConversionReport) -> int:
    """The same, as the report has it: tasks of Google's are several lines, each an event or rejected."""
    if report.format != "google-2011":
        return report.read
    tasks, events = report.notes["tasks"], report.notes["task_events"]
    assert isinstance(tasks, int)
    assert isinstance(events, dict)
    return report.read - tasks + sum(count for count in events.values() if isinstance(count, int))


def counts_or_error(name: str, content: bytes, folder: Path, rebase: bool = False) -> None:
    source, out = folder / "trace.csv", folder / "w.parquet"
    source.write_bytes(content)
    try:
        report = convert(name, [source], out, options=ConvertOptions(rebase=rebase))
    except RaySimError:
        return
    assert rows_read(report) == rows_in(name, content)
    assert report.read == report.kept + sum(report.rejected.values())
    assert read_frame(out).height == report.kept
    assert len(load_workload(out)) == report.kept
    rejected = 0 if report.rejects is None else pl.read_parquet(report.rejects).height
    assert rejected == sum(report.rejected.values())


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(mutation=mutations(), rebase=st.booleans())
def test_a_damaged_file(
    mutation: tuple[str, bytes], rebase: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, content = mutation
    counts_or_error(name, content, tmp_path_factory.mktemp("fuzz"), rebase and name == "csv")


@settings(deadline=None, max_examples=150)
@given(content=st.binary(max_size=300), name=st.sampled_from(sorted(GOOD)))
@example(content=b"\x1f\x8b", name="csv")
@example(content=b"\xef\xbb\xbf", name="csv")
@example(content=b"BZh9\x00", name="csv")
@example(content=b"\x28\xb5\x2f\xfd\x00", name="csv")
@example(content=b"\x78\x9c", name="csv")
def test_random_bytes(content: bytes, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    counts_or_error(name, content, tmp_path_factory.mktemp("fuzz"))


@settings(deadline=None, max_examples=150)
@given(tail=st.binary(max_size=200), name=st.sampled_from(sorted(GOOD)))
def test_random_bytes_after_a_good_file(
    tail: bytes, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counts_or_error(name, GOOD[name] + tail, tmp_path_factory.mktemp("fuzz"))


@settings(deadline=None, max_examples=150)
@given(text=st.text(max_size=300))
@example(text="{columns: &a {x: *a}}")
@example(text="[" * 2000)
@example(text="constants: {num_gpus: 1e400, priority: 999999999999999999999999}")
@example(text="constants: {num_gpus: .inf}")
def test_random_mapping(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    source, mapping = folder / "trace.csv", folder / "map.yaml"
    source.write_bytes(GOOD["csv"])
    mapping.write_text(text, encoding="utf-8")
    try:
        report = convert("csv", [source], folder / "w.parquet", options=ConvertOptions(mapping=mapping))
    except RaySimError:
        return
    assert report.read == 8


WORKLOAD_JOBS = 40


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "w.parquet"
    write_workload(*synth("philly", WORKLOAD_JOBS, seed=0), path)
    return path.read_bytes()


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_a_damaged_workload(
    data: st.DataObject, workload: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = data.draw(st.integers(0, len(workload) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path_factory.mktemp("fuzz") / "w.parquet"
    path.write_bytes(workload[:place] + patch + workload[place + len(patch) :])
    try:
        table = load_workload(path)
    except RaySimError:
        return
    assert len(table) == WORKLOAD_JOBS
