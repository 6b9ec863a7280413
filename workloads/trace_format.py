"""What a trace format is: the seam between `convert` and the converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import UnknownNameError

REJECT_SCHEMA: dict[str, pl.DataType] = {
    "source": pl.String(),
    "line": pl.Int64(),
    "reason": pl.String(),
    "text": pl.String(),
}
"""Columns of the rejects: file name, line from 1 (the header is line 1), reason, the line's text.

Of a JSON file, `line` is the record's number from 1.
"""

_Choice = TypeVar("_Choice", bound=StrEnum)


class RunTime(StrEnum):
    """What is the run time of a job that the trace started more than once."""

    SPAN = "span"
    """From its first start to its last end."""
    SUM = "sum"
    """All attempts together, without the gaps between them."""
    ATTEMPTS = "attempts"
    """Each attempt is a row of its own."""


class RowKind(StrEnum):
    """What a row is, in a trace whose jobs are many tasks."""

    TASK = "task"
    """A task; its job is the group_id."""
    JOB = "job"
    """A job as one gang, whose tasks are as demanding as its largest."""


class Censored(StrEnum):
    """What becomes of runs whose end the trace does not show."""

    DROP = "drop"
    """They are rejected."""
    CUT = "cut"
    """They end with the trace."""
    RESAMPLE = "resample"
    """Their length is drawn from the longer ones of those that are known."""


def choose(kind: type[_Choice], option: str, name: str) -> _Choice:
    """The choice of that name.

    Raises
    ------
    UnknownNameError : no such choice
    """
    try:
        return kind(name)
    except ValueError as error:
        raise UnknownNameError(option, name, [str(choice) for choice in kind]) from error


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What a user may ask of a conversion; each format takes some of them."""

    mapping: Path | None = None
    """YAML file that maps the trace's columns to the schema's."""
    rebase: bool = False
    """Whether submit_s counts from the first kept submission instead of the trace's own zero."""
    run_time: RunTime | None = None
    """None for the format's own default."""
    rows: RowKind = RowKind.TASK
    censored: Censored = Censored.DROP
    seed: int = 0
    """Of what is drawn."""
    cluster: bool = False
    """Whether the trace's machines are wanted too."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A trace as a converter leaves it. ``read`` = rows of ``jobs`` + rows of ``rejects``."""

    jobs: pl.LazyFrame
    """Columns of `SCHEMA` that the trace has, in any order; no job_id and no place of a vc twice."""
    rejects: pl.LazyFrame
    """Columns of `REJECT_SCHEMA`, in the order read."""
    read: int
    options: dict[str, JsonValue] = field(default_factory=dict)
    """What was asked for, as it goes into the provenance."""
    notes: dict[str, JsonValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seed: int | None = None
    """None where nothing was drawn."""
    cluster: Cluster | None = None
    """The trace's machines, if they were asked for."""


def _by_name(paths: Sequence[Path]) -> dict[Path, str]:
    return {path: path.name for path in paths}


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One trace format and its converter."""

    name: str
    version: str
    """Changes when the converter makes other rows of the same file."""
    read: Callable[[Sequence[Path], ConvertOptions, Path], Parsed]
    """From files, options, and a folder for what does not fit into memory, which outlives the rows."""
    options: frozenset[str] = frozenset()
    """Fields of `ConvertOptions` that the format takes."""
    find: Callable[[Sequence[Path]], Mapping[Path, str]] = _by_name
    """The files behind what a user names, each with its name in the provenance."""
