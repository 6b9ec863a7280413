"""Writer of synthetic job logs in the raw form of the Philly trace, each oddity at a chosen rate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from workloads.files import replacing
from workloads.formats.philly.csv import TIME_ZONE
from workloads.synthetic.synth import synth
from workloads.synthetic.trace_profile import PHILLY
from workloads.trace_format import RunTime

SMALL_MACHINES, LARGE_MACHINES = 321, 231
"""Machines with 2 and with 8 GPUs, as in the published list."""

TWICE_FROM_S = 1_509_868_800
"""2017-11-05 01:00 in summer time: the clocks show the hour from here twice."""


class Oddity(StrEnum):
    """Oddities of a job; a job has at most one."""

    NO_ATTEMPTS = "no attempts"
    STILL_RUNNING = "the last attempt has no end"
    NO_FIRST_START = "the first attempt has no start"
    NO_END_INSIDE = "an attempt before the last has no end"
    NO_START_INSIDE = "an attempt after the first has no start"
    MOVED = "a later attempt on another machine"
    RESIZED = "a later attempt with one GPU more"
    UNKNOWN_KEY = "a key that the format does not have"
    AMBIGUOUS_TIME = "submitted in the hour that came twice"
    BEYOND_LIST = "a GPU that its machine has not by the machine list"
    REPEATED = "the record a second time"
    INVALID_TIME = "a submission that is no date"
    NO_GPUS = "attempts without GPUs"
    NO_VC = "no virtual cluster"
    ENDS_EARLY = "an end before the start"
    NO_OBJECT = "not an object"


_BY_JOB = {
    Oddity.NO_ATTEMPTS: "no_attempts",
    Oddity.STILL_RUNNING: "missing_end",
    Oddity.NO_FIRST_START: "missing_start",
    Oddity.REPEATED: "duplicate_job_id",
    Oddity.INVALID_TIME: "invalid_submit_s",
    Oddity.NO_GPUS: "missing_num_gpus",
    Oddity.NO_VC: "missing_vc",
    Oddity.ENDS_EARLY: "negative_duration_s",
    Oddity.NO_OBJECT: "not_an_object",
}
"""Reasons for which the converter rejects one job or record."""

_BY_ATTEMPT = {
    Oddity.STILL_RUNNING: "missing_end",
    Oddity.NO_FIRST_START: "missing_start",
    Oddity.NO_END_INSIDE: "missing_end",
    Oddity.NO_START_INSIDE: "missing_start",
}
"""Reasons for which the converter rejects one attempt of the job where each attempt is a row."""

_WITHOUT_ATTEMPTS = (Oddity.NO_ATTEMPTS, Oddity.INVALID_TIME, Oddity.NO_VC, Oddity.NO_OBJECT)
"""Oddities that leave the converter no attempt."""

_SEVERAL = (Oddity.NO_END_INSIDE, Oddity.NO_START_INSIDE, Oddity.MOVED, Oddity.RESIZED)
"""Oddities that a job with one attempt cannot have."""

_SINGLE = (Oddity.ENDS_EARLY, Oddity.BEYOND_LIST)
"""Oddities that are written for a job with one attempt."""


@dataclass(slots=True)
class LogTruth:
    """Contents of a log, for comparison with the converter's result."""

    records: int = 0
    oddities: Counter[Oddity] = field(default_factory=Counter)
    rows: Counter[RunTime] = field(default_factory=Counter)
    """Rows by rule, kept and rejected together."""
    rejected: dict[RunTime, Counter[str]] = field(
        default_factory=lambda: {rule: Counter() for rule in RunTime}
    )
    notes: Counter[str] = field(default_factory=Counter)
    """Facts about the jobs that the rule `span` keeps, under the names of the converter's notes."""


def write_philly_log(path: Path, jobs: int, seed: int, rates: Mapping[Oddity, float]) -> LogTruth:
    """Write a job log of synthetic jobs, plain JSON; whole or not at all.

    Same arguments, same bytes. A job has one of the oddities with the probability of its rate, drawn
    from a stream of its own.

    Parameters
    ----------
    rates : probability of each oddity, together at most 1

    Raises
    ------
    InvalidInputError : the rates are no probabilities
    """
    if any(rate < 0 for rate in rates.values()) or sum(rates.values()) > 1:
        raise InvalidInputError("rates: must be at least 0 and together at most 1")
    truth = LogTruth()
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        separator = "[\n"
        for record in _records(jobs, seed, rates, truth):
            stream.write(separator + json.dumps(record))
            separator = ",\n"
        stream.write("\n]\n")
    return truth


def machine_list_text() -> str:
    """A machine list in the published form, including spaces."""
    gpus = [(2, 12)] * SMALL_MACHINES + [(8, 24)] * LARGE_MACHINES
    rows = [f"m{i},{count}, {memory}GB" for i, (count, memory) in enumerate(gpus)]
    return "\n".join(["machineId, number of GPUs, single GPU mem", *rows, ""])


@dataclass(slots=True)
class _Job:
    """A job without an oddity."""

    number: int
    submit_s: int
    pieces: list[tuple[int, int]]
    """Start and end of each attempt, seconds since 1970."""
    gpus: int
    vc: str
    machine: int
    """First machine of the job."""
    u: float
    """Uniform in [0, 1), selects the form of an oddity."""

    def move_to(self, submit_s: int) -> None:
        """Change the submission; all other times shift with it."""
        later_s = submit_s - self.submit_s
        self.submit_s = submit_s
        self.pieces = [(start_s + later_s, end_s + later_s) for start_s, end_s in self.pieces]


def _records(jobs: int, seed: int, rates: Mapping[Oddity, float], truth: LogTruth) -> Iterator[object]:
    zone = ZoneInfo(TIME_ZONE)
    chosen = _chosen(jobs, seed, rates)
    for job, oddity in zip(_jobs(jobs, seed), chosen, strict=True):
        if oddity == Oddity.AMBIGUOUS_TIME:
            job.move_to(TWICE_FROM_S + int(3600 * job.u))
        if oddity in _SINGLE:
            del job.pieces[1:]
        if oddity in _SEVERAL and len(job.pieces) == 1:
            start_s, end_s = job.pieces[0]
            job.pieces.append((end_s + 60, end_s + 60 + max(1, end_s - start_s)))
        _count(job, oddity, truth, zone)
        record = _with(oddity, _record(job, zone), job)
        yield record
        if oddity == Oddity.REPEATED:
            yield record


def _count(job: _Job, oddity: Oddity | None, truth: LogTruth, zone: ZoneInfo) -> None:
    """Count the rows and rejects that the converter must report for the job with its oddity."""
    times_s = [time_s for piece in job.pieces for time_s in piece]
    attempts = len(job.pieces)
    copies = 2 if oddity == Oddity.REPEATED else 1
    truth.records += copies
    truth.rows.update(dict.fromkeys((RunTime.SPAN, RunTime.SUM, RunTime.LOG), copies))
    truth.rows[RunTime.ATTEMPTS] += 1 if oddity in _WITHOUT_ATTEMPTS else copies * attempts
    if oddity is not None:
        truth.oddities[oddity] += 1
        _count_rejects(oddity, attempts, truth)
    if oddity not in _BY_JOB or oddity == Oddity.REPEATED:
        lost = {Oddity.NO_END_INSIDE: times_s[1], Oddity.NO_START_INSIDE: times_s[-2]}
        written_s = [job.submit_s, *times_s]
        if oddity in lost:
            written_s.remove(lost[oddity])
        truth.notes["ambiguous_local_times"] += sum(_came_twice(time_s, zone) for time_s in written_s)
        truth.notes["attempts_without_end"] += oddity == Oddity.NO_END_INSIDE
        truth.notes["attempts_without_start"] += oddity == Oddity.NO_START_INSIDE
        truth.notes["jobs_that_changed_size"] += oddity == Oddity.RESIZED
        full = oddity == Oddity.RESIZED and job.gpus % 8 == 0  # one more GPU needs one more machine
        truth.notes["jobs_that_moved"] += oddity == Oddity.MOVED or full


def _came_twice(epoch_s: int, zone: ZoneInfo) -> bool:
    """Whether the clocks showed this instant's local time an hour before or after it, too."""
    local = datetime.fromtimestamp(epoch_s, zone).replace(tzinfo=None)
    return any(
        datetime.fromtimestamp(epoch_s + other_s, zone).replace(tzinfo=None) == local
        for other_s in (-3600, 3600)
    )


def _count_rejects(oddity: Oddity, attempts: int, truth: LogTruth) -> None:
    if oddity in _BY_JOB:
        for rule in (RunTime.SPAN, RunTime.SUM, RunTime.LOG):
            truth.rejected[rule][_BY_JOB[oddity]] += 1
    elif oddity in _BY_ATTEMPT:
        for rule in (RunTime.SUM, RunTime.LOG):
            truth.rejected[rule]["incomplete_attempt"] += 1
    if oddity in _BY_ATTEMPT:
        truth.rejected[RunTime.ATTEMPTS][_BY_ATTEMPT[oddity]] += 1
    elif oddity in _BY_JOB:
        rows = 1 if oddity in _WITHOUT_ATTEMPTS else attempts
        truth.rejected[RunTime.ATTEMPTS][_BY_JOB[oddity]] += rows


def _chosen(jobs: int, seed: int, rates: Mapping[Oddity, float]) -> list[Oddity | None]:
    uniform = Streams(seed).generator("philly-log-oddities").random(jobs)
    upper = np.cumsum(list(rates.values()))
    names = [*rates, None]
    return [names[index] for index in np.searchsorted(upper, uniform, side="right")]


def _jobs(jobs: int, seed: int) -> Iterator[_Job]:
    frame, _ = synth(PHILLY.name, jobs, seed)
    streams = Streams(seed)
    tries = streams.generator("philly-log-attempts").geometric(0.85, jobs)
    looks: FloatArray = streams.generator("philly-log-looks").random((jobs, 3))
    zero_s = int(PHILLY.monday_utc.timestamp())
    columns = frame.select("submit_s", "duration_s", "num_gpus", "vc").iter_rows()
    for number, (submit_s, duration_s, gpus, vc) in enumerate(columns):
        wait, place, u = looks[number].tolist()
        start_s = zero_s + int(submit_s) + int(600 * wait)
        yield _Job(
            number=number,
            submit_s=zero_s + int(submit_s),
            pieces=_pieces(start_s, int(duration_s), min(int(tries[number]), 4), u),
            gpus=int(gpus),
            vc=vc,
            machine=SMALL_MACHINES + int(LARGE_MACHINES * place),
            u=u,
        )


def _pieces(start_s: int, duration_s: int, tries: int, u: float) -> list[tuple[int, int]]:
    """Attempts of about the same length with gaps between them."""
    length_s, gap_s = max(1, duration_s // tries), int(300 * u)
    return [
        (start_s + k * (length_s + gap_s), start_s + k * (length_s + gap_s) + length_s) for k in range(tries)
    ]


def _record(job: _Job, zone: ZoneInfo) -> dict[str, object]:
    detail = _detail(job.machine, job.gpus)
    return {
        "status": ("Pass", "Killed", "Failed")[int(3 * job.u)],
        "vc": job.vc,
        "jobid": f"application_1506638472019_{job.number}",
        "attempts": [
            {"start_time": _local(start_s, zone), "end_time": _local(end_s, zone), "detail": detail}
            for start_s, end_s in job.pieces
        ],
        "submitted_time": _local(job.submit_s, zone),
        "user": f"{job.number % 319:06x}",
    }


def _detail(machine: int, gpus: int) -> list[dict[str, object]]:
    """GPUs on machines of eight, one after another."""
    last = SMALL_MACHINES + LARGE_MACHINES
    return [
        {
            "ip": f"m{SMALL_MACHINES + (machine + k - SMALL_MACHINES) % (last - SMALL_MACHINES)}",
            "gpus": [f"gpu{i}" for i in range(min(8, gpus - 8 * k))],
        }
        for k in range((gpus + 7) // 8)
    ]


def _local(epoch_s: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(epoch_s, zone).replace(tzinfo=None).isoformat(sep=" ")


def _with(oddity: Oddity | None, record: dict[str, object], job: _Job) -> object:
    """Add the oddity to the record."""
    attempts = record["attempts"]
    assert isinstance(attempts, list)
    missing = ("None", None, "")[int(3 * job.u)]
    small = {"ip": f"m{int(SMALL_MACHINES * job.u)}", "gpus": ["gpu7"]}
    if oddity == Oddity.NO_OBJECT:
        return missing
    keys: dict[Oddity, dict[str, object]] = {
        Oddity.NO_ATTEMPTS: {"attempts": []},
        Oddity.UNKNOWN_KEY: {"extra": {"depth": 10**30}},
        Oddity.INVALID_TIME: {"submitted_time": "2017-13-45 99:99:99"},
        Oddity.NO_VC: {"vc": None},
        Oddity.NO_GPUS: {"attempts": [{**attempt, "detail": []} for attempt in attempts]},
        Oddity.ENDS_EARLY: {"attempts": [{**attempts[0], "end_time": "2017-01-01 00:00:00"}]},
        Oddity.BEYOND_LIST: {"attempts": [{**attempts[0], "detail": [small]}]},
    }
    edits: dict[Oddity, tuple[int, dict[str, object]]] = {
        Oddity.STILL_RUNNING: (-1, {"end_time": missing}),
        Oddity.NO_FIRST_START: (0, {"start_time": missing}),
        Oddity.NO_END_INSIDE: (0, {"end_time": missing}),
        Oddity.NO_START_INSIDE: (-1, {"start_time": missing}),
        Oddity.MOVED: (-1, {"detail": _detail(job.machine + 1, job.gpus)}),
        Oddity.RESIZED: (-1, {"detail": _detail(job.machine, job.gpus + 1)}),
    }
    if oddity in edits:
        at, edit = edits[oddity]
        attempts[at] = {**attempts[at], **edit}
    return {**record, **keys[oddity]} if oddity in keys else record
