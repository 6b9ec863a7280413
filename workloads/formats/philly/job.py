"""Parse and check one record of the Philly job log: a job and its attempts."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from workloads.checks import RowError
from workloads.formats.philly.json_records import JsonRecord
from workloads.formats.philly.local_time import LocalClock

NO_START, NO_END = "missing_start", "missing_end"
"""Reasons used in place of times that the log does not have."""

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
"""Known keys of a record. Other keys are ignored and named in a warning."""


class Attempt(NamedTuple):
    """One try at running a job. A time is seconds since 1970 in UTC, or the reason why it is unknown.

    A fault is kept and not raised, as not every rule needs every time and every size.

    A tuple, like `LoggedJob`: made by the million, and a frozen dataclass takes three times as long.
    """

    start_s: int | str
    end_s: int | str
    gpus: dict[str, list[str]]
    """Names of the GPUs by machine, where the log names the machine."""
    num_gpus: int | None
    """On all machines; None where the log's detail cannot be read."""


class LoggedJob(NamedTuple):
    """A record with at least one attempt."""

    job_id: str
    user: str | None
    vc: str
    status: str | None
    submit_s: int
    attempts: list[Attempt]
    """In order of their starts; as listed where one of these is unknown."""
    reordered: bool
    """Whether the log lists them in another order."""
    ambiguous: int
    """Times in the hour that the clocks showed twice."""
    second_pass: int
    """Ambiguous times that were read as the second pass of the hour."""
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
    clock.reset()
    submit_s = clock.read(entry.get("submitted_time"), "submit_s")
    if submit_s is None:
        raise RowError("missing_submit_s")
    job_id, vc = _required(entry, "jobid", "job_id"), _required(entry, "vc", "vc")
    user, status = _text(entry, "user", "user"), _text(entry, "status", "status")
    attempts, reordered = _by_start(_attempts(entry.get("attempts"), clock))
    return LoggedJob(
        job_id=job_id,
        user=user,
        vc=vc,
        status=status,
        submit_s=submit_s,
        attempts=attempts,
        reordered=reordered,
        ambiguous=clock.ambiguous,
        second_pass=clock.second_pass,
        unknown_keys=[key for key in entry if key not in KEYS],
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
        start_s = _time(clock, entry.get("start_time"), "start", NO_START)
        end_s = _time(clock, entry.get("end_time"), "end", NO_END)
        attempts.append(Attempt(start_s, end_s, *_gpus(entry.get("detail"))))
    return attempts


def _time(clock: LocalClock, text: object, column: str, missing: str) -> int | str:
    try:
        time_s = clock.read(text, column)
    except RowError as error:
        return str(error)
    return missing if time_s is None else time_s


def _by_start(attempts: list[Attempt]) -> tuple[list[Attempt], bool]:
    """The attempts in order of their starts, if all are known, and whether that is another order."""
    starts = [attempt.start_s for attempt in attempts if isinstance(attempt.start_s, int)]
    in_order = all(one <= other for one, other in pairwise(starts))
    if in_order or len(starts) < len(attempts):
        return attempts, False
    return [attempts[place] for place in sorted(range(len(starts)), key=starts.__getitem__)], True


def _gpus(detail: object) -> tuple[dict[str, list[str]], int | None]:
    """Names of GPUs by machine, and the number of GPUs; None if the detail cannot be read."""
    if detail is None:
        return {}, 0
    if not isinstance(detail, list):
        return {}, None
    gpus: dict[str, list[str]] = {}
    count = 0
    for entry in detail:
        names = _gpu_names(entry)
        if names is None:
            return {}, None
        count += len(names)
        machine = entry.get("ip")
        if isinstance(machine, str) and _is_text(machine):
            gpus[machine.strip()] = gpus.get(machine.strip(), []) + names
    return gpus, count


def _gpu_names(entry: object) -> list[str] | None:
    """The GPUs of one machine; None if they cannot be read."""
    names = entry.get("gpus") if isinstance(entry, dict) else ""
    if names is None:
        return []
    return names if isinstance(names, list) and set(map(type, names)) <= {str} else None
