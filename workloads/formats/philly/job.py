"""Parse and check one record of the Philly job log, and set its run time by one of three rules.

`log.py` calls `parse_job` for each record, and one of `RULES`, chosen by ``--run-time``. A log has one
`LocalClock`, which is reset for each job and reads the times in the order of the log, as an ambiguous time is
compared with the one before it. Another rule gives other workloads: it needs a new version of the format in
`log.py`, and docs/traces/philly.md states it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from workloads.checks import EPOCH_RANGE_S, RowError
from workloads.formats.json_records import JsonRecord
from workloads.schema import MAX_ATTEMPTS, MAX_COUNT
from workloads.trace_format import RunTime

MISSING = (None, "", "None", "null")
"""Texts that stand for a missing time."""

_HOUR = len("2017-10-03 00")
_HOUR_FORM = re.compile(r"\d{4}-\d\d-\d\d \d\d", re.ASCII)
_LATE_S = {f":{late_s // 60:02}:{late_s % 60:02}": late_s for late_s in range(3600)}
"""Seconds since the full hour, by the text ``:MM:SS``."""

_HOURS_KEPT = 2**15
"""Hours cached. A log of months has thousands of hours and hundreds of thousands of times."""

NO_START, NO_END = "missing_start", "missing_end"
"""Reasons used in place of times that the log does not have."""

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
"""Known keys of a record. Other keys are ignored and named in a warning."""


class _Hour(NamedTuple):
    """Start of a local hour, in seconds since 1970 in UTC; two values if the clocks showed it twice."""

    first_s: int
    second_s: int


class LocalClock:
    """Reader of times ``YYYY-MM-DD HH:MM:SS`` in a zone whose clocks change at whole hours.

    A time in an hour that the clocks showed twice counts as the first pass, unless that is earlier than the
    previous time: then it counts as the second.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self.ambiguous = 0
        """Times in an hour that the clocks showed twice."""
        self.second_pass = 0
        """Ambiguous times that were read as the second pass of the hour."""
        self._last_s: int | None = None
        self._hour = lru_cache(_HOURS_KEPT)(lambda text: _read_hour(text, zone))

    def reset(self) -> None:
        """Forget the previous time and the counts."""
        self.ambiguous = self.second_pass = 0
        self._last_s = None

    def read(self, text: object, column: str) -> int | None:
        """Seconds since 1970 in UTC; None where the log has no time.

        Raises
        ------
        RowError : `invalid`, `absurd` (outside 1970 .. 2106), or `skipped` (the clocks never showed it)
        """
        text = text.strip() if isinstance(text, str) else text
        if text in MISSING:
            return None
        late_s = _LATE_S.get(text[_HOUR:]) if isinstance(text, str) else None
        if not isinstance(text, str) or late_s is None:
            raise RowError(f"invalid_{column}")
        hour = self._hour(text[:_HOUR])
        if isinstance(hour, str):
            raise RowError(f"{hour}_{column}")
        time_s = hour.first_s + late_s
        if hour.first_s != hour.second_s:
            time_s = self._one_of(time_s, hour.second_s + late_s)
        self._last_s = time_s
        return time_s

    def _one_of(self, first_s: int, second_s: int) -> int:
        self.ambiguous += 1
        if self._last_s is None or first_s >= self._last_s:
            return first_s
        self.second_pass += 1
        return second_s


def _read_hour(text: str, zone: ZoneInfo) -> _Hour | str:
    """Start of an hour, or the fault of all times in it."""
    if not _HOUR_FORM.fullmatch(text):
        return "invalid"
    try:
        naive = datetime.fromisoformat(text)
    except ValueError:
        return "invalid"
    if not 1970 < naive.year < 2106:  # a year off the range: a zone may shift by a day
        return "absurd"
    first_s = int(naive.replace(tzinfo=zone).timestamp())
    second_s = int(naive.replace(tzinfo=zone, fold=1).timestamp())
    assert 0 <= first_s < EPOCH_RANGE_S
    return _Hour(first_s, second_s) if first_s <= second_s else "skipped"


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
    """Check a record; raises RowError for the first fault found."""
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


class LoggedRun(NamedTuple):
    """A row of the workload. Times are seconds since 1970 in UTC."""

    job_id: str
    submit_s: int
    start_s: int
    end_s: int
    duration_s: int
    num_gpus: int
    attempts: int
    status: str | None
    group_id: str | None = None
    attempt_log: str | None = None


Rule = Callable[[LoggedJob], Iterator[LoggedRun | RowError]]


def _whole(job: LoggedJob, *, summed: bool = False, listed: bool = False) -> Iterator[LoggedRun | RowError]:
    """One row: from the first attempt's start to the last attempt's end, as in the trace's own analysis.

    Its run time is all of that or, if ``summed``, the sum of all attempts, without the gaps between them; if
    ``listed``, the row has the lengths of attempts that took any time.
    """
    start_s, end_s = _known(job.attempts[0].start_s), _known(job.attempts[-1].end_s)
    duration_s = sum(map(_length_s, job.attempts)) if summed else end_s - start_s
    if end_s < start_s:
        raise RowError("negative_duration_s")
    lengths = [str(length_s) for length_s in map(_length_s, job.attempts) if length_s] if listed else []
    if len(lengths) > MAX_ATTEMPTS:
        raise RowError("absurd_attempts")
    yield LoggedRun(
        job_id=job.job_id,
        submit_s=job.submit_s,
        start_s=start_s,
        end_s=end_s,
        duration_s=duration_s,
        num_gpus=_num_gpus(job.attempts[0]),
        attempts=len(job.attempts),
        status=job.status,
        attempt_log=" ".join(lengths) or None,
    )


def _each(job: LoggedJob) -> Iterator[LoggedRun | RowError]:
    """One row per attempt: the first is submitted with the job, each other when the previous one ended."""
    free_s: int | str = job.submit_s
    for number, attempt in enumerate(job.attempts, start=1):
        try:
            yield _single(job, number, attempt, free_s)
        except RowError as error:
            yield error
        free_s = attempt.end_s


RULES: dict[RunTime, Rule] = {
    RunTime.SPAN: _whole,
    RunTime.SUM: partial(_whole, summed=True),
    RunTime.LOG: partial(_whole, summed=True, listed=True),
    RunTime.ATTEMPTS: _each,
}


def _known(time_s: int | str) -> int:
    if isinstance(time_s, str):
        raise RowError(time_s)
    return time_s


def _length_s(attempt: Attempt) -> int:
    if attempt.start_s == NO_START or attempt.end_s == NO_END:
        raise RowError("incomplete_attempt")
    length_s = _known(attempt.end_s) - _known(attempt.start_s)
    if length_s < 0:
        raise RowError("negative_duration_s")
    return length_s


def _num_gpus(attempt: Attempt) -> int:
    if attempt.num_gpus is None:
        raise RowError("invalid_detail")
    if attempt.num_gpus == 0:
        raise RowError("missing_num_gpus")
    if attempt.num_gpus > MAX_COUNT:
        raise RowError("absurd_num_gpus")
    return attempt.num_gpus


def _single(job: LoggedJob, number: int, attempt: Attempt, free_s: int | str) -> LoggedRun:
    """Row of one attempt. Only the last attempt has the job's status; that of the others is unknown.

    Parameters
    ----------
    free_s : when the job was free to start the attempt; the attempt counts as submitted at its start where
        that is unknown, or an end after it
    """
    start_s, end_s = _known(attempt.start_s), _known(attempt.end_s)
    free = isinstance(free_s, int) and (number == 1 or free_s <= start_s)
    return LoggedRun(
        job_id=f"{job.job_id}/{number}",
        submit_s=_known(free_s) if free else start_s,
        start_s=start_s,
        end_s=end_s,
        duration_s=_length_s(attempt),
        num_gpus=_num_gpus(attempt),
        attempts=1,
        status=job.status if number == len(job.attempts) else None,
        group_id=job.job_id,
    )
