"""Convert local times of a zone to instants.

`log.py` makes one `LocalClock` for a log. `job.py` resets it for each job and reads the times in the order of
the log, as an ambiguous time is compared with the one before it. Another rule gives other workloads: it needs
a new version of the format in `log.py`, and docs/traces/philly.md states it.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from workloads.checks import EPOCH_RANGE_S, RowError

MISSING = (None, "", "None", "null")
"""Texts that stand for a missing time."""

_HOUR = len("2017-10-03 00")
_HOUR_FORM = re.compile(r"\d{4}-\d\d-\d\d \d\d", re.ASCII)
_LATE_S = {f":{late_s // 60:02}:{late_s % 60:02}": late_s for late_s in range(3600)}
"""Seconds since the full hour, by the text ``:MM:SS``."""

_HOURS_KEPT = 2**15
"""Hours cached. A log of months has thousands of hours and hundreds of thousands of times."""


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
