"""What a run did, read from its events alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ray_sim.model.result import RunResult

Holding = dict[str, int]
"""Tasks by server."""


class Event(NamedTuple):
    time_us: int
    event: str
    job: str
    server: str | None
    tasks: int


class Span(NamedTuple):
    """A job held the same servers for a time."""

    begin_us: int
    end_us: int
    holding: Holding
    pauses: bool
    """Whether the job had run before, and so pays the restart cost."""


@dataclass(slots=True)
class History:
    """A run replayed from its events alone."""

    result: RunResult
    spans: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    held: list[tuple[int, dict[str, Holding]]] = field(default_factory=list)
    """After each instant: what every job holds."""

    def __post_init__(self) -> None:
        now: dict[str, Holding] = {}
        since: dict[str, int] = {}
        ran: set[str] = set()
        columns = self.result.events.select("time_s", "event", "job_id", "server", "count")
        events = [Event(round(row[0] * 1e6), *row[1:]) for row in columns.iter_rows()]
        for time_us, instant in groupby(events, key=lambda event: event.time_us):
            for (kind, job), rows in groupby(instant, key=lambda event: (event.event, event.job)):
                if kind in ("submit", "reject", "level"):
                    continue
                if job in now:
                    pauses = job in ran
                    self.spans[job].append(Span(since[job], time_us, now.pop(job), pauses))
                    ran.add(job)
                if kind in ("start", "move"):
                    now[job] = {str(row.server): row.tasks for row in rows}
                    since[job] = time_us
            self.held.append((time_us, dict(now)))
