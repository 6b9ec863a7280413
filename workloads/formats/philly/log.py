"""Conversion of Microsoft's Philly trace: the JSON ``cluster_job_log`` and the machine list.

Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, ATC 2019;
https://github.com/msr-fiddle/philly-traces (CC-BY 4.0). The page docs/traces/philly.md lists the
oddities of the log and the rule for each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from workloads.checks import RowError, number
from workloads.formats.json_records import JsonRecord, is_array, read_records
from workloads.formats.philly.csv import TIME_ZONE
from workloads.formats.philly.job import RULES, LocalClock, LoggedJob, LoggedRun, parse_job
from workloads.formats.text import TEXT_LIMIT, collect_text, open_text
from workloads.progress import Meter
from workloads.rows import DUPLICATE_JOB, Replaced, SpilledRows
from workloads.status import ENDED
from workloads.trace_format import REJECT_SCHEMA, ConvertOptions, Parsed, RunTime, TraceFormat

BATCH_ROWS = 2**14
"""Rows held as Python objects before they become columns."""

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
    "attempt_log": pl.String(),
}

NAME, GPUS = "machineId", "number of GPUs"
"""Columns of the machine list that are read; others are ignored."""

EXAMPLES = 3
"""Machines that a warning names."""

# A machine with n GPUs has gpu0 to gpu(n - 1).
_GPU_NAME = re.compile(r"gpu(\d{1,6})")


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
    """Parse job logs and machine lists, distinguished by content.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable or neither of the two, or there is no job log
    """
    logs = [path for path in paths if is_array(path)]
    if not logs:
        raise InvalidWorkloadError(
            f"{', '.join(map(str, paths))}: no JSON array of jobs; name the trace's cluster_job_log"
        )
    machines = read_machines([path for path in paths if path not in logs], meter)
    rule = options.run_time or RunTime.SPAN
    log = _Log(rule, machines, folder, {})
    log.read_all(logs, meter)
    better, replaced = log.better, log.replaced()
    if better:
        meter.expect(sum(path.stat().st_size for path in logs))
        log = _Log(rule, replace(machines, beyond={}, unlisted={}), folder, better)
        log.read_all(logs, meter)
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
            **replaced.notes(),
        },
        warnings=(*log.warnings(), *replaced.warnings()),
    )


class _ColumnBuilder:
    """Growing columns; only the last `BATCH_ROWS` rows are Python objects."""

    def __init__(self, schema: dict[str, pl.DataType], rows: SpilledRows) -> None:
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


_Rank = tuple[tuple[bool, int], tuple[Path, int]]
"""Whether a record has ended and its run time, by which records of one job are compared, and its place."""


class _Log:
    """Rows, rejects and counts of the job logs read so far.

    Parameters
    ----------
    chosen : record to keep of each job of which that is not the first one
    """

    def __init__(
        self, rule: RunTime, machines: MachineList, folder: Path, chosen: Mapping[str, _Rank]
    ) -> None:
        self.read = 0
        self.better: dict[str, _Rank] = {}
        """Best record of each job of which that is not the one kept."""
        self.runs = _ColumnBuilder(_RUN_SCHEMA, SpilledRows(folder, "runs"))
        self.rejects = _ColumnBuilder(REJECT_SCHEMA, SpilledRows(folder, "rejects"))
        self._rule = RULES[rule]
        self._machines = machines
        self._clock = LocalClock(ZoneInfo(TIME_ZONE))
        self._chosen = chosen
        self._kept: dict[str, _Rank] = {}
        self._unknown_keys: dict[str, None] = {}
        self._counts: Counter[str] = Counter()

    def read_all(self, paths: Sequence[Path], meter: Meter) -> None:
        """Keep or reject the rows of every record of the files."""
        for path in paths:
            meter.begin(path)
            for record in read_records(path):
                self._add(path, record)
                meter.add(len(record.text))

    def replaced(self) -> Replaced:
        """Counts of the jobs of which a better record than the one kept was read."""
        by_ended = sum(self._kept[job_id][0][0] != best[0][0] for job_id, best in self.better.items())
        return Replaced(by_ended, len(self.better) - by_ended)

    def _add(self, path: Path, record: JsonRecord) -> None:
        try:
            job = parse_job(record, self._clock)
            runs = list(self._rule(job))
        except RowError as error:
            self._reject(path, record, error)
            return
        sound = [run.duration_s for run in runs if isinstance(run, LoggedRun)]
        found = ((job.status or "").lower() in ENDED, sum(sound)), (path, record.number)
        kept = self._kept.get(job.job_id)
        again = kept is not None or self._chosen.get(job.job_id, found)[1] != found[1]
        for run in runs:
            self._add_run(path, record, job, run, again)
        if sound and not again:
            self._kept[job.job_id] = found
            self._note(job)
        elif sound and kept is not None and found[0] > self.better.get(job.job_id, kept)[0]:
            self.better[job.job_id] = found

    def notes(self) -> dict[str, JsonValue]:
        """Facts about the jobs kept."""
        return {
            "ambiguous_local_times": self._counts["ambiguous"],
            "ambiguous_local_times_read_as": "earliest, or latest where the job's time before demands it",
            "ambiguous_local_times_read_as_latest": self._counts["second_pass"],
            "started_before_submission": self._counts["early"],
            "attempts_without_start": self._counts["no_start"],
            "attempts_without_end": self._counts["no_end"],
            "jobs_listed_out_of_order": self._counts["reordered"],
            "jobs_that_moved": self._counts["moved"],
            "jobs_that_changed_size": self._counts["resized"],
            "unknown_keys": len(self._unknown_keys),
        }

    def warnings(self) -> tuple[str, ...]:
        """Warnings beyond the counts, one sentence each."""
        machines = self._machines.warnings()
        if not self._unknown_keys:
            return machines
        names = [*self._unknown_keys][:KEYS_SHOWN]
        more = ", ..." if len(self._unknown_keys) > KEYS_SHOWN else ""
        return (*machines, f"ignored keys: {', '.join(names)}{more}")

    def _add_run(
        self, path: Path, record: JsonRecord, job: LoggedJob, run: LoggedRun | RowError, again: bool
    ) -> None:
        if isinstance(run, LoggedRun) and again:
            run = RowError(DUPLICATE_JOB)
        if isinstance(run, RowError):
            self._reject(path, record, run)
            return
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
            run.attempt_log,
        )
        self.read += 1

    def _reject(self, path: Path, record: JsonRecord, error: RowError) -> None:
        text = record.text[:TEXT_LIMIT].encode(errors="backslashreplace").decode()
        self.rejects.append(path.name, record.number, str(error), text[:TEXT_LIMIT])
        self.read += 1

    def _note(self, job: LoggedJob) -> None:
        first, *others = job.attempts
        counts = self._counts
        counts["ambiguous"] += job.ambiguous
        counts["second_pass"] += job.second_pass
        counts["reordered"] += job.reordered
        for attempt in job.attempts:
            counts["no_start"] += isinstance(attempt.start_s, str)
            counts["no_end"] += isinstance(attempt.end_s, str)
        if others:
            known = [attempt for attempt in others if attempt.gpus and first.gpus]
            counts["moved"] += any(attempt.gpus.keys() != first.gpus.keys() for attempt in known)
            sized = [attempt for attempt in others if attempt.num_gpus is not None]
            counts["resized"] += any(attempt.num_gpus != first.num_gpus for attempt in sized)
        for key in job.unknown_keys:
            self._unknown_keys[key] = None
        self._machines.check(job)


@dataclass(slots=True)
class MachineList:
    """Listed machines with their GPUs, and the contradictions found so far."""

    gpus_of: dict[str, int]
    """Number of GPUs by machine; empty without a list."""
    unreadable: int = 0
    """Rows of the list that are damaged, have no name, or have no number of at least 0."""
    beyond: dict[str, str] = field(default_factory=dict)
    """First GPU that ran a job although the list has too few for it, by machine."""
    unlisted: dict[str, None] = field(default_factory=dict)
    """Machines that ran jobs and are not in the list, in order of discovery; the values mean nothing."""

    def check(self, job: LoggedJob) -> None:
        """Compare the machines and GPUs of a job with the list, if there is one."""
        if not self.gpus_of:
            return
        for attempt in job.attempts:
            for machine, gpus in attempt.gpus.items():
                if machine not in self.gpus_of:
                    self.unlisted[machine] = None
                elif machine not in self.beyond:
                    self._check_gpus(machine, gpus)

    def _check_gpus(self, machine: str, gpus: Sequence[str]) -> None:
        for gpu in gpus:
            match = _GPU_NAME.fullmatch(gpu)
            if match and int(match[1]) >= self.gpus_of[machine]:
                self.beyond[machine] = gpu

    def warnings(self) -> tuple[str, ...]:
        """One sentence for each kind of contradiction. Conversion uses the log's GPUs, not the list's."""
        found = []
        if self.unreadable:
            found.append(f"machine list: {self.unreadable} rows without a name or number are ignored")
        if self.beyond:
            examples = [
                f"{machine} ({gpu} used, {self.gpus_of[machine]} GPUs listed)"
                for machine, gpu in self.beyond.items()
            ]
            found.append(f"machine list: too few GPUs on {len(examples)} machines: {_some(examples)}")
        if self.unlisted:
            found.append(f"machine list: {len(self.unlisted)} machines missing: {_some([*self.unlisted])}")
        return tuple(found)


def read_machines(paths: Sequence[Path], meter: Meter) -> MachineList:
    """Read machine lists; a machine listed twice has the last number.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable or lacks a column
    """
    machines = MachineList({})
    for path in paths:
        meter.begin(path)
        source = open_text(path, ",")
        source.require((NAME, GPUS))
        rows = collect_text(
            source.path,
            source.rows({"name": NAME, "gpus": GPUS}).with_columns(
                gpus=number(pl.col("gpus")).cast(pl.Int64, strict=False)
            ),
        )
        valid = rows.filter(pl.col("fault").is_null() & pl.col("name").is_not_null() & (pl.col("gpus") >= 0))
        machines.gpus_of |= dict(valid.select("name", "gpus").iter_rows())
        machines.unreadable += rows.height - valid.height
    return machines


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")


FORMAT = TraceFormat(
    name="philly",
    version="3",
    source="Microsoft Philly, 2017",
    files="cluster_job_log (JSON), and cluster_machine_list",
    page="docs/traces/philly.md",
    read=read,
    options=frozenset({"run_time"}),
)
