"""Decisions of policies: the events at which they are asked, their answers, and the checks of their form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from itertools import accumulate
from typing import Any, Self

import numpy as np

from ray_sim.kernels.core.arrays import Changes
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import NEVER_US, BoolArray, IntArray


class Wake(Flag):
    """The events at which a policy wants to decide."""

    ARRIVAL = auto()
    COMPLETION = auto()
    SLOT = auto()
    """Every slot boundary while a job waits or runs."""
    REVIEW = auto()
    """Times the policy asked for itself."""
    SERVER_CHANGE = auto()
    """Servers go or come back."""
    ACTIVATION = auto()
    """Sites report that jobs begin or cease to be active, in kinds that have such reports. Asked at once,
    also where decisions wait for slots."""


NO_WAKE = Wake(0)
"""No event."""

NO_JOBS: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class QueueLevels:
    """Queues of jobs in a policy with several, numbered from 0; equal lengths."""

    job: IntArray
    """Sorted, each at most once."""
    level: IntArray


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a decision suspends jobs: recorded, without effect; equal lengths."""

    job: IntArray
    """Sorted, each at most once."""
    by: IntArray
    """Job that each makes room for, -1 for none."""
    reason: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer: complete new placements of the jobs it changes, and nothing else moves.

    Rows of a changed job are in (server, role) order; a job without rows gives up what it holds. A kind of
    job may take answers of a subclass with further fields.
    """

    changes: Changes | None = None
    reject: IntArray = field(default_factory=lambda: NO_JOBS)
    """Waiting jobs turned away for ever, sorted."""
    reject_reason: str | tuple[str, ...] = "policy"
    """One for all of them, or one for each."""
    evict: IntArray = field(default_factory=lambda: NO_JOBS)
    """Running or waiting jobs ended for ever, sorted."""
    levels: QueueLevels | None = None
    """New queues of jobs: recorded, without effect."""
    causes: Causes | None = None
    """Why jobs are suspended."""
    review_us: int = NEVER_US
    """When to ask again whatever happens; replaces any earlier review time."""

    @property
    def idle(self) -> bool:
        """Whether it changes no job: it may report something, or ask for a review."""
        placed = self.changes is not None and self.changes.size[0] > 0
        return not (placed or len(self.reject) or len(self.evict))

    @property
    def served(self) -> set[int]:
        """Jobs that are given something."""
        return set() if self.changes is None else set(self.changes.job[: self.changes.size[0]].tolist())

    @property
    def changed(self) -> tuple[IntArray, BoolArray]:
        """Jobs whose placements change, in the order of the changes, and whether each of them runs."""
        if self.changes is None:
            return NO_JOBS, np.zeros(0, dtype=np.bool_)
        n = int(self.changes.size[0])
        return self.changes.job[:n], np.diff(self.changes.ptr[: n + 1]) > 0

    def columns(self) -> Iterator[tuple[str, object, int]]:
        """Name, value and dimensions of every given field that must be an array of int64."""
        if self.reject is not NO_JOBS:
            yield "reject", self.reject, 1
        if self.evict is not NO_JOBS:
            yield "evict", self.evict, 1
        if self.levels is not None:
            yield "levels.job", self.levels.job, 1
            yield "levels.level", self.levels.level, 1
        if self.causes is not None:
            yield "causes.job", self.causes.job, 1
            yield "causes.by", self.causes.by, 1
        if self.changes is not None:
            for name, array in zip(_CHANGES_COLUMNS, self.changes, strict=True):
                if name != "changes.device":
                    yield name, array, 1
                elif array is not None:
                    yield name, array, 2

    def records(self) -> Iterator[tuple[str, object, type]]:
        """Name, value and type of every field that must be None or of that type."""
        yield "changes", self.changes, Changes
        yield "levels", self.levels, QueueLevels
        yield "causes", self.causes, Causes

    @property
    def reject_reasons(self) -> Sequence[str]:
        """Reason of each job in ``reject``."""
        if isinstance(self.reject_reason, str):
            return [self.reject_reason] * len(self.reject)
        return self.reject_reason

    @classmethod
    def of(cls, placements: Mapping[int, Sequence[tuple[int, int, int]]], **others: Any) -> Self:
        """A decision from ``{job: [(server, role, count), ...]}``; an empty list suspends the job.

        Raises
        ------
        InfeasibleDecisionError : a job or a row is not of whole numbers
        """
        if not isinstance(placements, Mapping):
            raise _not_placements(type(placements).__name__)
        whole = {_whole(job, "job"): _rows(job, rows) for job, rows in placements.items()}
        jobs = sorted(whole)
        rows = [sorted(whole[job]) for job in jobs]
        flat = np.array([row for of_job in rows for row in of_job], dtype=np.int64).reshape(-1, len(_ROW))
        server, role, tasks = flat.T.copy()
        changes = Changes(
            job=np.array(jobs, dtype=np.int64),
            ptr=np.array([0, *accumulate(map(len, rows))], dtype=np.int64),
            server=server,
            role=role,
            tasks=tasks,
            order=np.arange(len(jobs)),
            size=np.array([len(jobs)], dtype=np.int64),
        )
        return cls(changes=changes, **others)


_CHANGES_COLUMNS = tuple(f"changes.{name}" for name in Changes._fields)
_ROW = ("server", "role", "count")
_LARGEST = 2**63


def _rows(job: int, rows: object) -> list[tuple[int, ...]]:
    """The rows of a job as plain numbers."""
    if not isinstance(rows, (list, tuple, np.ndarray)):
        raise _not_placements(f"{_shown(rows)} for job {job}")
    whole: list[tuple[int, ...]] = []
    for row in rows:
        if not isinstance(row, (list, tuple, np.ndarray)) or len(row) != len(_ROW):
            raise _not_placements(f"row {_shown(row)} of job {job}")
        whole.append(tuple([_whole(each, name, row) for each, name in zip(row, _ROW, strict=True)]))
    return whole


def _whole(value: object, name: str, row: object = None) -> int:
    """The number as a plain one; fractions are refused, also those that would be whole."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST:
        return int(value)
    raise _not_placements(f"{name} {_shown(value)}{'' if row is None else f' in row {row}'}")


def _shown(value: object) -> str:
    return f"{value!r} ({type(value).__name__})"


def _not_placements(found: str) -> InfeasibleDecisionError:
    return InfeasibleDecisionError(
        f"Decision.of takes {{job: [(server, role, count), ...]}} of whole numbers, found {found}"
    )
