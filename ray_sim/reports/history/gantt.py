"""Data of the picture of jobs on servers over time, as the script of the page reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import LOSE, MOVE, STOP
from ray_sim.model.text import shown
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.holdings import History, Holdings

MOST_BARS = 200_000
"""Bars in a page; of more stays the shortest are left out."""

_US_PER_MS = 1000
_FINISHED, _SUSPENDED, _MOVED, _LOST, _OPEN = range(5)
"""Codes of how a bar ends, which the script knows too."""


@dataclass(frozen=True, slots=True)
class Gantt:
    """Content of the picture, and the number of stays that it leaves out."""

    data: Mapping[str, object]
    left_out: int


def gantt(
    history: History, servers: Sequence[str], jobs: pl.DataFrame, there: BoolArray | None = None
) -> Gantt:
    """Bars of all stays, in order of server, lane and begin; times are milliseconds since the first event.

    A lane of a server holds one stay at a time, so each is as high as the server has stays at once.

    Parameters
    ----------
    servers : names by index
    jobs : as in `RunResult`
    there : (S,) servers that are available at first; by default those whose first change is not a return
    """
    stays = history.holdings
    longest = np.argsort(stays.begin_us - stays.end_us, kind="stable")[:MOST_BARS]
    kept = longest[np.lexsort((stays.begin_us[longest], stays.server[longest]))]
    lane, lanes = _lanes(stays, kept, len(servers))
    order = np.lexsort((stays.begin_us[kept], lane))
    kept, lane = kept[order], lane[order]
    origin_us = int(history.time_us.min()) if len(history.time_us) else 0
    begin, end = (_ms(times, origin_us) for times in (stays.begin_us[kept], stays.end_us[kept]))
    data = {
        "kind": "gantt",
        "origin_s": origin_us / 1e6,
        "end": int(_ms(np.array([history.end_us]), origin_us)[0]),
        "focus_s": float(str(jobs["submit_s"].max() or 0.0)),
        "servers": [shown(name) for name in servers],
        "lanes": lanes.tolist(),
        "bars": np.bincount(lane, minlength=int(lanes.sum())).tolist(),
        "begin": np.diff(begin, prepend=0).tolist(),
        "length": (end - begin).tolist(),
        "job": stays.job[kept].tolist(),
        "tasks": stays.tasks[kept].tolist(),
        "role": np.maximum(stays.role[kept], 0).tolist(),
        "ending": _endings(history, stays, kept).tolist(),
        "outages": [
            [server, *_ms(np.array(times_us), origin_us).tolist()]
            for server, *times_us in _outages(history, len(servers), there, origin_us)
        ],
        "jobs": _job_columns(jobs),
    }
    return Gantt(data, len(stays) - len(kept))


def _ms(times_us: IntArray, origin_us: int) -> IntArray:
    return (times_us - origin_us) // _US_PER_MS


def _lanes(stays: Holdings, rows: IntArray, n_servers: int) -> tuple[IntArray, IntArray]:
    """Lane of each row, numbered over all servers, and the number of lanes of each server.

    Rows are in order of (server, begin). Each takes the lowest free lane of its server. Every server has at
    least one lane.
    """
    lane, lanes = np.zeros(len(rows), dtype=np.int64), np.ones(n_servers, dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used, before = 0, -1
    columns = (stays.server[rows].tolist(), stays.begin_us[rows].tolist(), stays.end_us[rows].tolist())
    for index, (server, begin, end) in enumerate(zip(*columns, strict=True)):
        if server != before:
            busy, free, used, before = [], [], 0, server
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        if not free:
            heappush(free, used)
            used += 1
            lanes[server] = used
        lane[index] = heappop(free)
        heappush(busy, (end, int(lane[index])))
    first = np.cumsum(lanes) - lanes
    return first[stays.server[rows]] + lane, lanes


def _endings(history: History, stays: Holdings, rows: IntArray) -> IntArray:
    last = stays.last[rows]
    kind = np.append(history.kind, -1)[last]
    codes = {STOP: _SUSPENDED, MOVE: _MOVED, LOSE: _LOST, -1: _OPEN}
    ending: IntArray = np.select([kind == each for each in codes], list(codes.values()), _FINISHED)
    return ending


def _outages(
    history: History, n_servers: int, there: BoolArray | None, origin_us: int
) -> list[tuple[int, int, int]]:
    """Server, begin and end of each time in which a server is unavailable."""
    times, servers, up = history.outages
    changed, first = np.unique(servers, return_index=True)
    absent = np.zeros(n_servers, dtype=np.bool_)
    absent[changed] = up[first]
    if there is not None:
        absent = ~there
    since = {int(server): origin_us for server in np.flatnonzero(absent)}
    found = []
    for time_us, server, back in zip(times.tolist(), servers.tolist(), up.tolist(), strict=True):
        if back and server in since:
            found.append((server, since.pop(server), time_us))
        elif not back:
            since.setdefault(server, time_us)
    return sorted([*found, *((server, begin, history.end_us) for server, begin in since.items())])


def _job_columns(jobs: pl.DataFrame) -> dict[str, list[object]]:
    """Columns of the jobs, times in seconds to a millisecond; ``gap_ms`` since the last submission."""
    times = ["start_s", "finish_s", "queue_s", "run_s"]
    rounded = jobs.select("status", "num_gpus", pl.col(times).round(3)).to_dict(as_series=False)
    gaps_ms = np.diff((jobs["submit_s"].to_numpy() * 1000).round().astype(np.int64), prepend=0).tolist()
    return {"id": [shown(name) for name in jobs["job_id"]], "gap_ms": gaps_ms, **rounded}
