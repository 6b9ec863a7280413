"""One record of the Philly job log, checked: what the job was and when its attempts ran."""

from __future__ import annotations

from typing import NamedTuple

from workloads.checks import RowError
from workloads.json_records import JsonRecord
from workloads.local_time import LocalClock

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
"""Of a record. Look-alikes of the log have more, which are ignored and named."""


class Attempt(NamedTuple):
    """One try at running a job. Times are seconds since 1970 in UTC, None where the log has none.

    A tuple, like `LoggedJob`: made by the million, and a frozen dataclass takes three times as long.
    """

    start_s: int | None
    end_s: int | None
    gpus: dict[str, list[str]]
    """Names of the GPUs by machine."""
    num_gpus: int
    """On all machines."""


class LoggedJob(NamedTuple):
    """A record with at least one attempt."""

    job_id: str
    user: str | None
    vc: str
    status: str | None
    submit_s: int
    attempts: list[Attempt]
    ambiguous: int
    """Times in the hour that came twice."""
    second_pass: int
    """Those of them that were read as its second pass."""
    unknown_keys: list[str]


def parse_job(record: JsonRecord, clock: LocalClock) -> LoggedJob:
    """Check a record.

    Raises
    ------
    RowError : the first fault found
    """
    if not _is_text(record.text):
        raise RowError("invalid_utf8")
    entry = record.value
    if not isinstance(entry, dict):
        raise RowError("not_an_object")
    clock.start_anew()
    submit_s = clock.read(entry.get("submitted_time"), "submit_s")
    if submit_s is None:
        raise RowError("missing_submit_s")
    job_id, vc = _required(entry, "jobid", "job_id"), _required(entry, "vc", "vc")
    user, status = _text(entry, "user", "user"), _text(entry, "status", "status")
    attempts = _attempts(entry.get("attempts"), clock)
    unknown = [key for key in entry if key not in KEYS]
    return LoggedJob(
        job_id, user, vc, status, submit_s, attempts, clock.ambiguous, clock.second_pass, unknown
    )


def _is_text(text: str) -> bool:
    """Whether a text has no lone surrogate, which no file can hold."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(entry: dict[str, object], key: str, column: str) -> str | None:
    """A name, None where it is blank."""
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not (value.isascii() or _is_text(value)):
        raise RowError(f"invalid_{column}")
    return value.strip() or None


def _required(entry: dict[str, object], key: str, column: str) -> str:
    value = _text(entry, key, column)
    if value is None:
        raise RowError(f"missing_{column}")
    return value


def _attempts(entries: object, clock: LocalClock) -> list[Attempt]:
    if entries is None or entries == []:
        raise RowError("no_attempts")
    if not isinstance(entries, list):
        raise RowError("invalid_attempts")
    attempts = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise RowError("invalid_attempts")
        start_s = clock.read(entry.get("start_time"), "start")
        end_s = clock.read(entry.get("end_time"), "end")
        gpus = _gpus(entry.get("detail"))
        attempts.append(Attempt(start_s, end_s, gpus, sum(map(len, gpus.values()))))
    return attempts


def _gpus(detail: object) -> dict[str, list[str]]:
    gpus: dict[str, list[str]] = {}
    if detail is None:
        return gpus
    if not isinstance(detail, list):
        raise RowError("invalid_detail")
    for entry in detail:
        names = entry.get("gpus") if isinstance(entry, dict) else None
        if not isinstance(names, list) or set(map(type, names)) - {str}:
            raise RowError("invalid_detail")
        machine = _required(entry, "ip", "detail")
        gpus[machine] = gpus[machine] + names if machine in gpus else names
    return gpus
