"""Placements of all jobs over time, reconstructed from the events of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import (
    CHUNK,
    EVENT_NAMES,
    EVICT,
    FINISH,
    LOSE,
    MOVE,
    ROLE_NAMES,
    SERVER_DOWN,
    SERVER_UP,
    START,
    STOP,
    WORKER,
)
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.reports.history.run_facts import RunFacts
from ray_sim.reports.submission_times import last_end_s

_OPENING = (START, MOVE)
_CLOSING = (STOP, FINISH, EVICT, LOSE)


@dataclass(frozen=True)
class History:
    """Events of a run as arrays (n,), in their order, with jobs and servers by index; -1 for none."""

    time_us: IntArray
    kind: IntArray
    """Code of the event; kinds of jobs add codes after those of `EVENT_NAMES`."""
    job: IntArray
    server: IntArray
    role: IntArray
    count: IntArray
    end_us: int
    """End of the run."""

    @cached_property
    def holdings(self) -> Holdings:
        """Every stay of tasks on a server."""
        return _holdings(self)

    @cached_property
    def outages(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Time, server and whether it is available from then on, of each change of a server."""
        rows = np.isin(self.kind, (SERVER_DOWN, SERVER_UP))
        return self.time_us[rows], self.server[rows], self.kind[rows] == SERVER_UP


@dataclass(frozen=True, slots=True)
class Holdings:
    """Stays of tasks on servers, (n,) each: ``tasks`` of one job and role hold ``server`` in [begin, end).

    A chunk in progress is a stay of one task with the role CHUNK.
    """

    job: IntArray
    server: IntArray
    role: IntArray
    tasks: IntArray
    begin_us: IntArray
    end_us: IntArray
    first: IntArray
    """Index of the event that begins the stay."""
    last: IntArray
    """Index of the event that ends the stay; the number of events if the run ends it."""

    def __len__(self) -> int:
        return len(self.job)

    def amounts(self, facts: RunFacts) -> IntArray:
        """(n, R) quanta that each stay takes from its server."""
        role = np.where(self.role == CHUNK, WORKER, np.maximum(self.role, WORKER))
        return facts.amount(self.job, role, self.tasks)


def read_history(events: pl.DataFrame, jobs: pl.DataFrame, servers: tuple[str, ...]) -> History:
    """Turn the frames of a result into arrays.

    Parameters
    ----------
    events, jobs : as in `RunResult`
    servers : names of the servers by index
    """
    job_ids = jobs["job_id"]
    time_us = whole_us(events["time_s"])
    ends = [int(time_us.max()) if len(time_us) else 0, round((last_end_s(jobs) or 0.0) * US_PER_S)]
    known = [*EVENT_NAMES, *(set(events["event"].cast(pl.String).unique()) - set(EVENT_NAMES))]
    return History(
        time_us=time_us,
        kind=_codes(events["event"], known),
        job=_codes(events["job_id"], job_ids.to_list()),
        server=_codes(events["server"], servers),
        role=_codes(events["role"], ROLE_NAMES),
        count=events["count"].fill_null(0).to_numpy().astype(np.int64),
        end_us=max(ends),
    )


def whole_us(seconds: pl.Series) -> IntArray:
    """Seconds as the microseconds that a run counts; null is no value here."""
    us: IntArray = np.rint(seconds.to_numpy() * US_PER_S).astype(np.int64)
    return us


def _codes(values: pl.Series, names: list[str] | tuple[str, ...]) -> IntArray:
    """Index of each value among the names; -1 for null."""
    table = pl.DataFrame({"name": pl.Series(names, dtype=pl.String), "code": np.arange(len(names))})
    found = pl.DataFrame({"name": values.cast(pl.String)}).join(
        table, on="name", how="left", maintain_order="left"
    )
    return found["code"].fill_null(-1).to_numpy().astype(np.int64)


def _holdings(history: History) -> Holdings:
    """Stays of all jobs: a row of an opening event lasts until the next event of its job or chunk.

    The rows of one change stand together: same instant, event and job.
    """
    unit = np.where(history.role == CHUNK, history.count + 1, 0)
    lost_chunk = (history.kind == LOSE) & (history.role == CHUNK)  # its stop stands before
    used = np.isin(history.kind, (*_OPENING, *_CLOSING)) & (history.job >= 0) & ~lost_chunk
    rows = np.flatnonzero(used)
    key = np.stack([history.job[rows], unit[rows]])
    same = (np.diff(rows) == 1) & (np.diff(history.time_us[rows]) == 0) & (np.diff(history.kind[rows]) == 0)
    same &= (np.diff(key, axis=1) == 0).all(axis=0)
    change = np.cumsum(np.append(0, ~same)) if len(rows) else np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.append(True, ~same)) if len(rows) else rows
    order = np.lexsort((first, key[1, first], key[0, first]))
    sorted_key = key[:, first[order]]
    follows = (np.diff(sorted_key, axis=1) == 0).all(axis=0) if len(order) else np.zeros(0, dtype=np.bool_)
    begins = history.time_us[rows[first]]
    ends = np.full(len(first), history.end_us)
    ends[order[:-1][follows]] = begins[order[1:][follows]]
    last = np.full(len(first), len(history.time_us))
    last[order[:-1][follows]] = rows[first[order[1:][follows]]]
    opening = np.isin(history.kind[rows], _OPENING) & (ends[change] > history.time_us[rows])
    kept = rows[opening]
    chunk = history.role[kept] == CHUNK
    return Holdings(
        job=history.job[kept],
        server=history.server[kept],
        role=history.role[kept],
        tasks=np.where(chunk, 1, history.count[kept]),
        begin_us=history.time_us[kept],
        end_us=ends[change[opening]],
        first=kept,
        last=last[change[opening]],
    )
