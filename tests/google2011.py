"""Lines of Google's trace of 2011, and a folder of such files."""

from __future__ import annotations

import gzip
from pathlib import Path

from workloads.convert import ConversionReport, convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE = 0, 1, 2, 3, 4, 5, 6, 8


Event = tuple[float, int]
"""Seconds and kind."""


def task_line(
    time_s: float,
    event: int,
    *,
    job: int = 7,
    task: int = 0,
    cpu: str = "0.5",
    memory: str = "0.25",
    rest: str = "0.01,1",
) -> str:
    return f"{time_s * 1e6:.0f},,{job},{task},,{event},user=,2,9,{cpu},{memory},{rest}\n"


def job_line(time_s: float, event: int, job: int = 7) -> str:
    return f"{time_s * 1e6:.0f},,{job},{event},user=,2,name=,logical=\n"


def life(*events: Event, job: int = 7, task: int = 0) -> list[str]:
    return [task_line(time_s, event, job=job, task=task) for time_s, event in events]


FINISHED = ((601, SUBMIT), (603, SCHEDULE), (613, FINISH))
"""Waits 2 s, runs 10 s."""


class Folder:
    """A trace on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, table: str, *lines: str, number: int = 0, total: int = 500) -> Path:
        folder = self.path / table
        folder.mkdir(exist_ok=True)
        file = folder / f"part-{number:05}-of-{total:05}.csv.gz"
        file.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        return file

    def convert(self, *sources: Path, **options: object) -> ConversionReport:
        out = self.path / "w.parquet"
        chosen = ConvertOptions(**options)  # type: ignore[arg-type]  # names and types are the tests' own
        return convert("google-2011", sources or [self.path], out, options=chosen)

    def rows(self, *columns: str, **options: object) -> list[tuple[object, ...]]:
        return read_frame(self.convert(**options).out).select(columns).rows()


EVICTED = ((601, SUBMIT), (603, SCHEDULE), (613, EVICT), (613, SUBMIT), (620, SCHEDULE), (650, FINISH))
"""Runs 10 s and 30 s, with 7 s between them."""


LINE = task_line(601, SUBMIT)
