"""What the events of Google's cluster traces have in common, whatever their files look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ray_sim.model.units import MAX_TIME_S, US_PER_S
from workloads.column import MAX_NORM
from workloads.event_lines import EventFile, Field, Table

AFTER_END_US = 2**63 - 1
"""The time of what happened after the trace ended."""

SUBMIT, SCHEDULE, FINISH = 0, 1, 4
STATUS = {2: "EVICT", 3: "FAIL", FINISH: "FINISH", 5: "KILL", 6: "LOST"}
"""Events of a task or job that end its run, or its wait."""

LIFE_EVENTS = {SUBMIT: "SUBMIT", SCHEDULE: "SCHEDULE", **STATUS, 7: "UPDATE_PENDING", 8: "UPDATE_RUNNING"}
"""Our codes, those of 2011. What is above those of `STATUS` changes no state."""

ADD, REMOVE = 0, 1
MACHINE_EVENTS = {ADD: "ADD", REMOVE: "REMOVE", 2: "UPDATE"}

MAX_ID = 2**62
MAX_INDEX = 2**24

TIME = Field("time", pl.Int64(), MAX_TIME_S * US_PER_S, required=True, beyond=AFTER_END_US)
JOB = Field("job", pl.Int64(), MAX_ID, required=True)
TASK = Field("task", pl.Int64(), MAX_INDEX, required=True)


def code(name: str, maximum: int, required: bool = False) -> Field:
    """A small whole number."""
    return Field(name, pl.Int8() if maximum < 2**7 else pl.Int16(), maximum, required)


def norm(name: str) -> Field:
    """An amount as a part of the largest machine's."""
    return Field(name, pl.Float64(), MAX_NORM)


Reader = Callable[[Path, Table, Sequence[str]], Iterator[EventFile]]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How one trace writes its events down.

    Jobs have the columns time, job, event, user, scheduling_class; tasks these and task, machine, priority,
    cpu, memory, disk, different_machines; machines time, machine, event, cpu, memory. Events have our codes.
    """

    trace: str
    """Name of the format, and of the cluster."""
    tasks: Table
    jobs: Table
    machines: Table
    names: Mapping[int, str]
    """Of the events of tasks and jobs by code."""
    read: Reader
    """The wanted columns of one file, in pieces."""
    suffixes: tuple[str, ...]
    """Ends of the names of files; of those in folders the others are left alone."""
    guess: Callable[[str], Table | None]
    """The table of a file by its first line, where names do not tell."""
    guessed_by: str
    """What the first line should have, for the user."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """In the order in which parts are read."""
        return self.jobs, self.tasks, self.machines

    def event_names(self, table: Table) -> Mapping[int, str]:
        """What the codes of a table's events mean."""
        return MACHINE_EVENTS if table == self.machines else self.names
