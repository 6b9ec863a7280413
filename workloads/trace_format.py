"""Interface between `workloads.convert` and the trace formats.

Every format makes a `TraceFormat` and returns `Parsed`; conversion and `ray-sim convert` know formats by
these only. Values of the enums are choices of options of that command: a new one needs an answer in each
format that lists the option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import UnknownNameError
from workloads.progress import Meter

REJECT_SCHEMA: dict[str, pl.DataType] = {
    "source": pl.String(),
    "line": pl.Int64(),
    "reason": pl.String(),
    "text": pl.String(),
}
"""Columns of the rejects: file name, line from 1 (the header is line 1), reason, the line's text.

Of a JSON file, `line` is the record's number from 1.
"""

Pool = Callable[..., Iterable[Any]]
"""Calls a function for each tuple of arguments, like `map`; results are in order."""

_Choice = TypeVar("_Choice", bound=StrEnum)


class RunTime(StrEnum):
    """Rule for the run time of a job that the trace started more than once."""

    SPAN = "span"
    """Time from the first start to the last end."""
    SUM = "sum"
    """Sum of all attempts, without the gaps between them."""
    LOG = "log"
    """The sum, and the length of each attempt in `attempt_log`."""
    ATTEMPTS = "attempts"
    """Each attempt is a row of its own."""


class RowKind(StrEnum):
    """Meaning of a workload row, in a trace whose jobs have many tasks."""

    TASK = "task"
    """One row per task; group_id names its job."""
    JOB = "job"
    """One row per job: a gang whose tasks all have the demand of the largest task."""


class Censored(StrEnum):
    """Treatment of runs whose end the trace does not show (censored runs)."""

    DROP = "drop"
    """Reject them."""
    CUT = "cut"
    """End them at the end of the trace."""
    RESAMPLE = "resample"
    """Draw their length from the known run times that are longer than the observed part."""


def choose(kind: type[_Choice], option: str, name: str) -> _Choice:
    """Member of an enumeration by its name; raises UnknownNameError for another."""
    try:
        return kind(name)
    except ValueError as error:
        raise UnknownNameError(option, name, [str(choice) for choice in kind]) from error


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options of a conversion; each format takes some of them."""

    mapping: Path | None = None
    """YAML file that maps the trace's columns to the schema's."""
    time_zone: str | None = None
    """Zone of dates without an offset, in place of the mapping's."""
    rebase: bool = False
    """Whether submit_s counts from the first kept submission instead of the trace's own zero."""
    run_time: RunTime | None = None
    """None for the format's own default."""
    rows: RowKind = RowKind.TASK
    censored: Censored = Censored.DROP
    seed: int = 0
    """Seed of the random draws."""
    keep_pending: bool = False
    """Whether to keep what never started, with a run time of 0."""
    speeds: str | None = None
    """Table of measured speeds by which run times follow; None for the format's own default."""
    cluster: bool = False
    """Whether to return the trace's machines as a cluster."""
    pool: Pool = field(default=map, compare=False)
    """What opens several files; changes no result."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Result of reading a trace. ``read`` = rows of ``jobs`` + rows of ``rejects`` + all ``left_out``."""

    jobs: pl.LazyFrame
    """Columns of `SCHEMA` that the trace has, in any order; job_id is unique, and so is (vc, trace_order)."""
    rejects: pl.LazyFrame
    """Columns of `REJECT_SCHEMA`, in the order read."""
    read: int
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows that are no jobs by the user's conditions, by the condition's name."""
    options: dict[str, JsonValue] = field(default_factory=dict)
    """Options in force, as recorded in the provenance."""
    notes: dict[str, JsonValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seed: int | None = None
    """Seed of the draws; None where nothing was drawn."""
    cluster: Cluster | None = None
    """The trace's machines, if requested."""
    advice: str = ""
    """Advice to the user where every row is rejected; empty for none."""


def _by_name(paths: Sequence[Path]) -> dict[Path, str]:
    return {path: path.name for path in paths}


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One trace format and its converter."""

    name: str
    version: str
    """Version of the converter; it changes when the same file gives other rows."""
    source: str
    """Who published such traces, for listings."""
    files: str
    """Files that a user names, for listings."""
    page: str
    """Page of the guide, with its heading."""
    read: Callable[[Sequence[Path], ConvertOptions, Path, Meter], Parsed]
    """Reader of files, with options, a folder for temporary files (it must outlive the rows) and a meter."""
    options: frozenset[str] = frozenset()
    """Fields of `ConvertOptions` that the format takes."""
    find: Callable[[Sequence[Path]], Mapping[Path, str]] = _by_name
    """Expand the paths that a user names to files, each with its name in the provenance."""

    def to_dict(self) -> dict[str, str]:
        """Entries of a listing."""
        names = ("name", "version", "source", "files", "page")
        return {name: getattr(self, name) for name in names}
