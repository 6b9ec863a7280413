"""One record of the Philly job log, checked: what the job was and when its attempts ran."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from workloads.json_records import JsonRecord
from workloads.local_time import Instant, read_local

KEYS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
"""Of a record. Look-alikes of the log have more, which are ignored and named."""


class RowError(Exception):
    """Why a row is rejected; its text is the reason."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running a job. Times are seconds since 1970 in UTC, None where the log has none."""

    start_s: int | None
    end_s: int | None
    gpus: dict[str, list[str]]
    """Names of the GPUs by machine."""

    @property
    def num_gpus(self) -> int:
        """GPUs on all machines."""
        return sum(map(len, self.gpus.values()))


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A record with at least one attempt."""

    job_id: str
    user: str | None
    vc: str
    status: str | None
    submit_s: int
    attempts: tuple[Attempt, ...]
    ambiguous: int
    """Times in the hour that came twice."""
    second_pass: int
    """Those of them that were read as its second pass."""
    unknown_keys: tuple[str, ...]


def parse_job(record: JsonRecord, zone: ZoneInfo) -> LoggedJob:
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
    clock = _Clock(zone)
    submit_s = clock.read(entry.get("submitted_time"), "submit_s")
    if submit_s is None:
        raise RowError("missing_submit_s")
    return LoggedJob(
        job_id=_required(entry, "jobid", "job_id"),
        user=_text(entry, "user", "user"),
        vc=_required(entry, "vc", "vc"),
        status=_text(entry, "status", "status"),
        submit_s=submit_s,
        attempts=_attempts(entry.get("attempts"), clock),
        ambiguous=clock.ambiguous,
        second_pass=clock.second_pass,
        unknown_keys=tuple(key for key in entry if key not in KEYS),
    )


class _Clock:
    """Reads the times of one job in the order in which they happened."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.ambiguous = 0
        self.second_pass = 0
        self._zone = zone
        self._last_s: int | None = None

    def read(self, text: object, column: str) -> int | None:
        """Seconds since 1970, None where the log has no time. A time that came twice follows the last one."""
        instant = read_local(text, self._zone)
        if instant == "missing":
            return None
        if not isinstance(instant, Instant):
            raise RowError(f"{instant}_{column}")
        self._last_s = instant.not_before(self._last_s)
        self.ambiguous += instant.ambiguous
        self.second_pass += instant.ambiguous and self._last_s == instant.second_s
        return self._last_s


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
    if not isinstance(value, str) or not _is_text(value):
        raise RowError(f"invalid_{column}")
    return value.strip() or None


def _required(entry: dict[str, object], key: str, column: str) -> str:
    value = _text(entry, key, column)
    if value is None:
        raise RowError(f"missing_{column}")
    return value


def _attempts(entries: object, clock: _Clock) -> tuple[Attempt, ...]:
    if entries is None or entries == []:
        raise RowError("no_attempts")
    return tuple(
        Attempt(
            start_s=clock.read(entry.get("start_time"), "start"),
            end_s=clock.read(entry.get("end_time"), "end"),
            gpus=_gpus(entry.get("detail")),
        )
        for entry in _objects(entries, "attempts")
    )


def _gpus(detail: object) -> dict[str, list[str]]:
    gpus: dict[str, list[str]] = {}
    for entry in _objects([] if detail is None else detail, "detail"):
        names = entry.get("gpus")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise RowError("invalid_detail")
        gpus.setdefault(_required(entry, "ip", "detail"), []).extend(names)
    return gpus


def _objects(entries: object, column: str) -> list[dict[str, object]]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RowError(f"invalid_{column}")
    return entries
