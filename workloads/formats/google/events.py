"""Event codes, columns and file layout shared by the Google traces of 2011 and 2019."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.column import MAX_NORM
from workloads.formats.google.event_lines import EventField, EventFile, EventTable

AFTER_END_US = 2**63 - 1
"""Time of events after the end of the trace."""

SUBMIT, SCHEDULE, FINISH = 0, 1, 4
STATUS = {2: "EVICT", 3: "FAIL", FINISH: "FINISH", 5: "KILL", 6: "LOST"}
"""Events of a task or job that end its run, or its wait."""

LIFECYCLE_EVENTS = {
    SUBMIT: "SUBMIT",
    SCHEDULE: "SCHEDULE",
    **STATUS,
    7: "UPDATE_PENDING",
    8: "UPDATE_RUNNING",
}
"""Event names by code of 2011. Codes above those of `STATUS` change no state."""

ADD, REMOVE = 0, 1
MACHINE_EVENTS = {ADD: "ADD", REMOVE: "REMOVE", 2: "UPDATE"}

MAX_ID = 2**62
MAX_INDEX = 2**24

TIME = EventField("time", pl.Int64(), MAX_TIME_S * US_PER_S, required=True, beyond=AFTER_END_US)
JOB = EventField("job", pl.Int64(), MAX_ID, required=True)
TASK = EventField("task", pl.Int64(), MAX_INDEX, required=True)


def code(name: str, maximum: int, required: bool = False) -> EventField:
    """A small whole number."""
    return EventField(name, pl.Int8() if maximum < 2**7 else pl.Int16(), maximum, required)


def norm(name: str) -> EventField:
    """A resource amount as a fraction of the largest machine's."""
    return EventField(name, pl.Float64(), MAX_NORM)


Reader = Callable[[Path, EventTable, Sequence[str]], Iterator[EventFile]]


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """Form of the files of one trace.

    Job events have the columns time, job, event, user, scheduling_class. Task events have these and task,
    machine, priority, cpu, memory, disk, different_machines. Machine events have time, machine, event, cpu,
    memory. Events have the codes of `LIFECYCLE_EVENTS` and `MACHINE_EVENTS`.
    """

    trace: str
    """Name of the format, and of the cluster."""
    tasks: EventTable
    jobs: EventTable
    machines: EventTable
    names: Mapping[int, str]
    """Names of the events of tasks and jobs by code."""
    read: Reader
    """Reader of the wanted columns of one file; yields it in pieces."""
    suffixes: tuple[str, ...]
    """Suffixes of the trace's files; other files in a folder are ignored."""
    guess: Callable[[str], EventTable | None]
    """The table of a file by its first line, where names do not tell."""
    guessed_by: str
    """Expected content of the first line, for error messages."""

    @property
    def tables(self) -> tuple[EventTable, ...]:
        """In the order in which parts are read."""
        return self.jobs, self.tasks, self.machines

    def event_names(self, table: EventTable) -> Mapping[int, str]:
        """Event names of a table by code."""
        return MACHINE_EVENTS if table == self.machines else self.names
