"""Times as the clocks on the wall showed them, read as instants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from workloads.checks import EPOCH_RANGE_S

MISSING = (None, "", "None", "null")
"""How logs write a time that they do not have."""

_FORM = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Instant:
    """A local time as seconds since 1970 in UTC; two of them in the hour that comes twice."""

    first_s: int
    second_s: int

    @property
    def ambiguous(self) -> bool:
        """Whether the clocks showed this time twice."""
        return self.first_s != self.second_s

    def not_before(self, earlier_s: int | None) -> int:
        """The first pass; the second where only that is not before ``earlier_s``."""
        if earlier_s is not None and self.first_s < earlier_s <= self.second_s:
            return self.second_s
        return self.first_s


def read_local(text: object, zone: ZoneInfo) -> Instant | str:
    """A time written ``YYYY-MM-DD HH:MM:SS`` in a zone, or what is wrong with it.

    Returns
    -------
    the instant, or a fault as in `workloads.checks`: `missing`, `invalid`, `absurd` (outside 1970 ..
    2106), `skipped` (the clocks never showed it)
    """
    text = text.strip() if isinstance(text, str) else text
    if text in MISSING:
        return "missing"
    if not isinstance(text, str) or not _FORM.fullmatch(text):
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
    return Instant(first_s, second_s) if first_s <= second_s else "skipped"
