"""Change columns or rows of the jobs of a contract world.

`blindness.py` calls this: it permutes columns that a policy has not declared, and expects the same decisions.
The lists of columns are kept apart from the engine on purpose, so that an engine that shows too much is
found. A new column of `JobTable` counts as undeclared until it is in `ALWAYS_SEEN` or `GRANTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.world import World
from ray_sim.model.job import JobTable
from ray_sim.model.units import IntArray

ALWAYS_SEEN = frozenset(
    {"submit_us", "tasks", "demand", "gpu_types", "statements.birth_us", "statements.arrival_us"}
    | {"chunk_profile.chunks", "chunk_profile.worker_memory_gib", "chunk_profile.ps_memory_gib"}
    | {f"training.{name}" for name in ("exchange", "batch", "workers_per_ps", "num_workers", "num_ps")}
    | {"training.worker_demand", "training.ps_demand", "measured.weight", "measured.deadline_s"}
)
"""Arrival, gang, demand, and what else a job's owner says to every policy."""

GRANTS: dict[str, tuple[str, ...]] = {
    "duration_s": ("work_us",),
    "num_gpus": ("num_gpus",),
    "vc": ("vc",),
    "user": ("user",),
    "priority": ("priority",),
    "time_limit": ("time_limit_us",),
    "chunk_profile": ("chunk_profile.",),
    "deadline": ("chunk_profile.", "utility.utility_due_s"),
    "training_profile": ("training.", "pairs."),
    "utility": ("utility.",),
    "work_left": ("work_us", "training.", "pairs."),
    "worker_load": ("chunk_profile.",),
    "training_speed": ("training.", "pairs.", "blocks."),
    "losses": ("loss.", "training."),
    "statements": ("statements.reported_",),
    "steps": ("measured.steps",),
    "measured_speeds": ("measured.batch", "model"),
}
"""Columns, or prefixes of columns, that each name in `sees` grants."""

_PROGRESS = ("work_us", "chunk_profile.", "training.", "pairs.", "blocks.")
"""Columns by which jobs end, so that a policy sees them in what happens."""

_TIMES = ("submit_us", "statements.birth_us", "statements.arrival_us")
"""Columns of instants at which jobs come."""


def column_names(table: JobTable) -> list[str]:
    """Every column of the jobs that there is, e.g. ``priority`` or ``training.batch``."""
    return [name for name, _ in _columns(table)]


def undeclared(table: JobTable, sees: frozenset[str]) -> list[str]:
    """Columns that a policy with this `sees` may not know."""
    granted = tuple(column for name in sees for column in GRANTS.get(name, ()))
    # Jobs born at one instant are told in the order of the trace.
    seen = ALWAYS_SEEN if table.statements is None else ALWAYS_SEEN | {"trace_order"}
    return [name for name in column_names(table) if name not in seen and not name.startswith(granted)]


def of_progress(names: list[str]) -> list[str]:
    """The columns among these by which jobs end."""
    return [name for name in names if name.startswith(_PROGRESS)]


def with_jobs(world: World, table: JobTable) -> World:
    """The same world with other jobs."""
    assert isinstance(world.kind, JobKind)
    params, kinds = world.params, (world.kind,)
    return build_world(table, world.cluster, partition=world.partition, params=params, kinds=kinds)


def permuted(table: JobTable, names: list[str], order: IntArray) -> JobTable:
    """The jobs, between which these columns are permuted."""
    chosen = set(names)
    other: JobTable = _mapped(table, lambda name, column: _taken(column, order) if name in chosen else column)
    return other


def with_rows(table: JobTable, rows: IntArray) -> JobTable:
    """The jobs of these rows, in this order."""
    chosen: JobTable = _mapped(table, lambda _, column: _taken(column, rows))
    return chosen


def with_others_from(table: JobTable, first: int, later_us: int) -> JobTable:
    """Keep rows before ``first``; delay the others and reverse the order of their other columns."""
    order = np.concatenate([np.arange(first), np.arange(len(table) - 1, first - 1, -1)])
    later = later_us * (np.arange(len(table)) >= first)

    def changed(name: str, column: Any) -> Any:
        return column + later if name in _TIMES else _taken(column, order)

    other: JobTable = _mapped(table, changed)
    return other


def _columns(record: Any, prefix: str = "", jobs: int | None = None) -> Iterator[tuple[str, Any]]:
    jobs = len(record) if jobs is None else jobs
    for field in fields(record):
        value, name = getattr(record, field.name), f"{prefix}{field.name}"
        if isinstance(value, (np.ndarray, pl.Series)) and len(value) == jobs:
            yield name, value
        elif is_dataclass(value):
            yield from _columns(value, f"{name}.", jobs)


def _mapped(record: Any, change: Callable[[str, Any], Any], prefix: str = "", jobs: int | None = None) -> Any:
    """The record with each column changed."""
    jobs = len(record) if jobs is None else jobs
    values: dict[str, Any] = {}
    for field in fields(record):
        value, name = getattr(record, field.name), f"{prefix}{field.name}"
        if isinstance(value, (np.ndarray, pl.Series)) and len(value) == jobs:
            values[field.name] = change(name, value)
        elif is_dataclass(value):
            values[field.name] = _mapped(value, change, f"{name}.", jobs)
    return replace(record, **values)


def _taken(column: Any, rows: IntArray) -> Any:
    return column.gather(rows.astype(np.uint32)) if isinstance(column, pl.Series) else column[rows]
