"""Microsoft's Philly trace as it was published: the JSON ``cluster_job_log`` and the machine list.

Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, ATC 2019;
https://github.com/msr-fiddle/philly-traces (CC-BY 4.0). The page docs/traces/philly.md says what is odd
about the log and which rule answers to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from workloads.checks import RowError
from workloads.json_records import JsonRecord, is_array, read_records
from workloads.local_time import LocalClock
from workloads.philly_csv import TIME_ZONE
from workloads.philly_job import LoggedJob, parse_job
from workloads.philly_machines import Machines, read_machines
from workloads.philly_runs import RULES, LoggedRun
from workloads.rows import Rows
from workloads.text import TEXT_LIMIT
from workloads.trace_format import REJECT_SCHEMA, ConvertOptions, Parsed, RunTime, TraceFormat

BATCH_ROWS = 2**14
"""Rows that are Python objects at a time; then they become columns."""

KEYS_SHOWN = 20
"""Unknown keys that are named; a damaged log may have one per record."""

_RUN_SCHEMA: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "trace_order": pl.Int64(),
    "submit_s": pl.Float64(),
    "user": pl.String(),
    "vc": pl.String(),
    "status": pl.String(),
    "num_gpus": pl.Float64(),
    "duration_s": pl.Float64(),
    "attempts": pl.Int64(),
    "wait_s": pl.Float64(),
    "span_s": pl.Float64(),
    "group_id": pl.String(),
}


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path) -> Parsed:
    """Parse job logs and machine lists, told apart by content.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable or neither of the two, or there is no job log
    """
    logs = [path for path in paths if is_array(path)]
    if not logs:
        raise InvalidWorkloadError(
            f"{', '.join(map(str, paths))}: no JSON array of jobs; name the trace's cluster_job_log"
        )
    machines = read_machines([path for path in paths if path not in logs])
    rule = options.run_time or RunTime.SPAN
    log = _Log(rule, machines, folder)
    for path in logs:
        for record in read_records(path):
            log.add(path, record)
    jobs = log.runs.scan()
    zero_s = jobs.select(pl.col("submit_s").min().fill_null(0)).collect(engine="streaming").item()
    return Parsed(
        jobs=jobs.with_columns(pl.col("submit_s") - zero_s),
        rejects=log.rejects.scan(),
        read=log.read,
        options={"run_time": str(rule)},
        notes={
            "epoch_utc": datetime.fromtimestamp(zero_s, UTC).isoformat(),
            "time_zone": TIME_ZONE,
            **log.notes(),
        },
        warnings=(*machines.warnings(), *log.warnings()),
    )


class _Columns:
    """Growing columns, of whose rows only the last are Python objects."""

    def __init__(self, schema: dict[str, pl.DataType], rows: Rows) -> None:
        self._schema = schema
        self._last: list[tuple[object, ...]] = []
        self._rows = rows

    def append(self, *row: object) -> None:
        self._last.append(row)
        if len(self._last) == BATCH_ROWS:
            self._flush()

    def scan(self) -> pl.LazyFrame:
        self._flush()
        return self._rows.scan()

    def _flush(self) -> None:
        self._rows.add(pl.DataFrame(self._last, self._schema, orient="row"))
        self._last = []


class _Log:
    """What has been read of the job logs so far."""

    def __init__(self, rule: RunTime, machines: Machines, folder: Path) -> None:
        self.read = 0
        self.runs = _Columns(_RUN_SCHEMA, Rows(folder, "runs"))
        self.rejects = _Columns(REJECT_SCHEMA, Rows(folder, "rejects"))
        self._rule = RULES[rule]
        self._machines = machines
        self._clock = LocalClock(ZoneInfo(TIME_ZONE))
        self._names: set[str] = set()
        self._unknown_keys: dict[str, None] = {}
        self._counts: Counter[str] = Counter()

    def add(self, path: Path, record: JsonRecord) -> None:
        """Keep or reject the rows of one record."""
        try:
            job = parse_job(record, self._clock)
            kept = sum([self._add_run(path, record, job, run) for run in self._rule(job)])
        except RowError as error:
            self._reject(path, record, error)
        else:
            if kept:
                self._note(job)

    def notes(self) -> dict[str, JsonValue]:
        """Facts about the jobs kept."""
        return {
            "ambiguous_local_times": self._counts["ambiguous"],
            "ambiguous_local_times_read_as": "earliest, or latest where the job's time before demands it",
            "ambiguous_local_times_read_as_latest": self._counts["second_pass"],
            "started_before_submission": self._counts["early"],
            "attempts_without_start": self._counts["no_start"],
            "attempts_without_end": self._counts["no_end"],
            "jobs_that_moved": self._counts["moved"],
            "jobs_that_changed_size": self._counts["resized"],
            "unknown_keys": len(self._unknown_keys),
        }

    def warnings(self) -> tuple[str, ...]:
        """What the user should know beyond the counts."""
        if not self._unknown_keys:
            return ()
        names = [*self._unknown_keys][:KEYS_SHOWN]
        more = ", ..." if len(self._unknown_keys) > KEYS_SHOWN else ""
        return (f"ignored keys: {', '.join(names)}{more}",)

    def _add_run(self, path: Path, record: JsonRecord, job: LoggedJob, run: LoggedRun | RowError) -> bool:
        if isinstance(run, LoggedRun) and run.job_id in self._names:
            run = RowError("duplicate_job_id")
        if isinstance(run, RowError):
            self._reject(path, record, run)
            return False
        self._names.add(run.job_id)
        wait_s = run.start_s - run.submit_s
        self._counts["early"] += wait_s < 0
        self.runs.append(
            run.job_id,
            self.read,
            run.submit_s,
            job.user,
            job.vc,
            run.status,
            run.num_gpus,
            run.duration_s,
            run.attempts,
            wait_s if wait_s >= 0 else None,
            run.end_s - run.start_s,
            run.group_id,
        )
        self.read += 1
        return True

    def _reject(self, path: Path, record: JsonRecord, error: RowError) -> None:
        text = record.text[:TEXT_LIMIT].encode(errors="backslashreplace").decode()
        self.rejects.append(path.name, record.number, str(error), text[:TEXT_LIMIT])
        self.read += 1

    def _note(self, job: LoggedJob) -> None:
        first, *others = job.attempts
        counts = self._counts
        counts["ambiguous"] += job.ambiguous
        counts["second_pass"] += job.second_pass
        for attempt in job.attempts:
            counts["no_start"] += attempt.start_s is None
            counts["no_end"] += attempt.end_s is None
        if others:
            counts["moved"] += any(attempt.gpus.keys() != first.gpus.keys() for attempt in others)
            counts["resized"] += any(attempt.num_gpus != first.num_gpus for attempt in others)
        for key in job.unknown_keys:
            self._unknown_keys[key] = None
        self._machines.check(job)


FORMAT = TraceFormat(name="philly", version="1", read=read, options=frozenset({"run_time"}))
