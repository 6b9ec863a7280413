"""Right traces of every format, pieces to damage them with, and what must hold of a conversion."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from ray_sim.model.errors import RaySimError
from workloads.convert import ConversionReport, convert
from workloads.store import load_workload, read_frame
from workloads.trace_format import ConvertOptions


def _philly_csv(i: int) -> bytes:
    time, hours = (b"2017-11-05 01:30:00", b"2017-10-09 06:13:03")[i % 2], i + 1
    return b"%s,%d.0,8,%d.0,11cb48\n" % (time, 3600 * hours, 8 * 3600 * hours)


def _csv(i: int) -> bytes:
    return b"%d,v%d,%d,%d,%d,1,,\n" % (i, i % 2, i, 10 * i, i + 1)


def _pod(i: int) -> bytes:
    return b"p%d,4000,2048,1,%d,,LS,Failed,%d,%d,%d\n" % (i, 90 + i % 900, i, i + 9, i + 2)


def _task_event(i: int) -> bytes:
    """Each three lines are a task's submission, start and end."""
    task, step = divmod(i, 3)
    event, job = (0, 1, 4)[step], task // 2
    return b"%d,,%d,%d,,%d,user=,2,9,0.5,0.25,0.01,1\n" % (10**6 * (600 + step), job, task % 2, event)


def _instance_event(i: int) -> bytes:
    """Each five lines are an instance's life; one in three is of an alloc set."""
    job, step = divmod(i, 5)
    return (
        b'{"time": "%d", "type": "%d", "collection_id": "%d", "instance_index": 0, "machine_id": "0",'
        b' "resource_request": {"cpus": 0.5, "memory": 0.25}, "priority": 200, "collection_type": "%d"}\n'
        % (10**6 * (600 + step), (0, 1, 2, 3, 6)[step], job, job % 3 == 2)
    )


def _logged_job(i: int) -> bytes:
    return (
        b'{"status": "Pass", "vc": "v", "jobid": "j%d", "attempts": [{"start_time": "2017-11-05 01:30:00",'
        b' "end_time": "2017-11-05 02:30:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}],'
        b' "submitted_time": "2017-11-05 01:00:00", "user": "u"}' % i
    )


def _gavel(i: int) -> bytes:
    slo, gpus = i % 3 - 1, 1 + i % 2
    return b"LM (batch size 5)\ttrain.py\tlm\t-n\t1\t%d\t%d\t1\t%d.5\t%d\n" % (9 + i, gpus, slo, i)


RECORDS: dict[str, Callable[[int], bytes]] = {
    "csv": _csv,
    "gavel": _gavel,
    "google-2011": _task_event,
    "google-2019": _instance_event,
    "gpu-pods": _pod,
    "philly": _logged_job,
    "philly-csv": _philly_csv,
}
"""By format, a right record by its number."""

HEADERS = {
    "csv": b"job_id,vc,trace_order,submit_s,duration_s,num_gpus,priority,num_tasks\n",
    "gpu-pods": b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    b"deletion_time,scheduled_time\n",
    "philly-csv": b"timestamp,duration,num_gpus,gpu_time,cluster\n",
}
"""First lines, of the formats that have one."""


def file_of(name: str, records: Iterable[bytes]) -> bytes:
    """Records as a file of a format."""
    if name == "philly":
        return b"[" + b",\n".join(records) + b"]\n"
    return HEADERS.get(name, b"") + b"".join(records)


GOOD = {name: file_of(name, map(record, range(15))) for name, record in RECORDS.items()}
"""By format, a right file."""

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


def rows_in(name: str, content: bytes) -> int:
    """Rows, records or lines that a conversion that succeeds must have read."""
    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if name == "philly":
        return len(json.loads(text.decode("utf-8-sig", "surrogateescape"), parse_int=str, strict=False))
    if name == "google-2019":
        return sum(1 for _ in io.TextIOWrapper(io.BytesIO(text), "utf-8-sig", "surrogateescape", newline=""))
    ended = text.endswith(b"\n")
    return text.count(b"\n") + (not ended) - (name in HEADERS)


def rows_read(report: ConversionReport) -> int:
    """The same, as the report has it: tasks of Google's are several lines, each an event or rejected."""
    if not report.format.startswith("google"):
        return report.read
    table = "task_events" if report.format == "google-2011" else "instance_events"
    tasks, events = report.notes["tasks"], report.notes[table]
    left_out = report.notes.get("alloc_set_instance_events", 0)
    assert isinstance(tasks, int)
    assert isinstance(left_out, int)
    assert isinstance(events, dict)
    return report.read - tasks + left_out + sum(count for count in events.values() if isinstance(count, int))


def is_table_of_2019(name: str, content: bytes) -> bool:
    """Whether the first brace of JSON lines is gone: then it is CSV, whose records may have several lines."""
    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return name == "google-2019" and text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{"


def counts_or_error(name: str, content: bytes, folder: Path, rebase: bool = False) -> ConversionReport | None:
    """Convert a file; None where it ends in a clear error.

    Raises
    ------
    AssertionError : a row is neither kept nor rejected, or the result cannot be read again
    """
    source, out = folder / "trace.csv", folder / "w.parquet"
    source.write_bytes(content)
    try:
        report = convert(name, [source], out, options=ConvertOptions(rebase=rebase))
    except RaySimError:
        return None
    if not is_table_of_2019(name, content):
        assert rows_read(report) == rows_in(name, content)
    assert report.read == report.kept + sum(report.rejected.values())
    assert read_frame(out).height == report.kept
    assert len(load_workload(out)) == report.kept
    rejected = 0 if report.rejects is None else pl.read_parquet(report.rejects).height
    assert rejected == sum(report.rejected.values())
    return report
