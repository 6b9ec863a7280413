"""Availability of a cluster's servers over time: a CSV of changes, read from a file or drawn at random."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.model.availability import Availability
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidClusterError, InvalidScenarioError, problems_text
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.model.text import number_of
from ray_sim.model.units import MAX_TIME_S, US_PER_S, seconds_to_us
from workloads.documents import read_text
from workloads.files import is_signed, replacing, signed
from workloads.sources import Source

COLUMNS = ("time_s", "server", "event")

EVENTS = {"add": True, "repair": True, "remove": False, "fail": False}
"""Events of an availability file, and whether the server is available after each."""

MAX_FAILURES = 1_000_000
"""Approximate limit on the failures drawn for a cluster; a larger file could not be read back."""

MAX_PROBLEMS = 20
"""Number of problems of one file that an error prints; it counts the rest."""

AVAILABILITY = Parameter(
    "availability",
    "text",
    None,
    "CSV file of the changes of servers: time_s, server, event (add, remove, fail or repair)",
)

WORLD = (*WORLD_PARAMETERS, AVAILABILITY)
"""World parameters of a scenario: the engine's, and `availability`, which is read from a file first."""


_Value = TypeVar("_Value")


def split_world(world: Mapping[str, _Value]) -> tuple[dict[str, _Value], str | None]:
    """Split world parameters into the engine's and the path of the availability table, if any."""
    rest = {name: value for name, value in world.items() if name != AVAILABILITY.name}
    path = world.get(AVAILABILITY.name)
    return rest, None if path is None else str(path)


def with_availability(cluster: Cluster, path: Source | None) -> Cluster:
    """The cluster with the availability of the file, or unchanged where no file is given."""
    return cluster if path is None else replace(cluster, availability=read_availability(path, cluster))


def read_availability(path: Source, cluster: Cluster) -> Availability:
    """Read changes of servers from a CSV file, by path or URL, with the columns time_s, server and event.

    Lines that begin with # are comments. Lines may be in any order; changes at one instant apply in the
    order written. The events of a server alternate: an available server fails or is removed, an absent
    one is repaired or added.

    Raises
    ------
    InvalidClusterError : the file cannot be read or breaks these rules; problems are listed by line
    """
    problems: list[str] = []
    rows = list(_rows(path, cluster, problems))
    rows.sort(key=lambda row: row[1])  # stable: one instant keeps the order written
    there: dict[int, bool] = {}
    for line, _, server, up in rows:
        if there.get(server) == up:
            state = "already there" if up else "not there"
            problems.append(f"line {line}: server '{cluster.server_names[server]}' is {state} then")
        there[server] = up
    if problems:
        hidden = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
        raise InvalidClusterError(problems_text(str(path), problems[:MAX_PROBLEMS] + hidden))
    return Availability(
        time_us=np.array([time_us for _, time_us, _, _ in rows], dtype=np.int64),
        server=np.array([server for _, _, server, _ in rows], dtype=np.int64),
        up=np.array([up for _, _, _, up in rows], dtype=np.bool_),
    )


def _rows(path: Source, cluster: Cluster, problems: list[str]) -> Iterator[tuple[int, int, int, bool]]:
    """Yield (line, microseconds, server, available afterwards); problems go to `problems`."""
    index = {name: i for i, name in enumerate(cluster.server_names)}
    reader = csv.reader(io.StringIO(read_text(path, InvalidClusterError), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader)]
        if sorted(header) != sorted(COLUMNS):
            raise InvalidClusterError(
                f"{path}: line 1: expected the columns {', '.join(COLUMNS)}, got {', '.join(header)}"
            )
        for cells in reader:
            if not cells or cells[0].startswith("#"):
                continue
            row = dict(zip(header, map(str.strip, cells), strict=False))
            faults = list(_faults(row, index)) if len(cells) == len(header) else ["has not 3 cells"]
            problems += [f"line {reader.line_num}: {fault}" for fault in faults]
            if not faults:
                time_us = int(seconds_to_us(number_of(row["time_s"])))
                yield reader.line_num, time_us, index[row["server"]], EVENTS[row["event"]]
    except csv.Error as failure:
        raise InvalidClusterError(f"{path}: line {reader.line_num}: is not valid CSV: {failure}") from failure


def _faults(row: Mapping[str, str], index: Mapping[str, int]) -> Iterator[str]:
    try:
        time_s = number_of(row["time_s"])
    except ValueError:
        time_s = math.nan
    if not 0 <= time_s <= MAX_TIME_S:
        yield f"time_s: must be a number from 0 to {MAX_TIME_S}, got '{row['time_s']}'"
    if row["server"] not in index:
        yield f"server: the cluster has no '{row['server']}'; its servers are {_some(index)}"
    if row["event"] not in EVENTS:
        yield f"event: must be one of {', '.join(EVENTS)}, got '{row['event']}'"


def _some(names: Mapping[str, int]) -> str:
    first = list(names)[:3]
    return ", ".join(first) + (", ..." if len(names) > len(first) else "")


def write_failures(
    path: Path, cluster: Cluster, failures: Availability, words: tuple[str, str] = ("repair", "fail")
) -> None:
    """Write changes as a CSV file for `read_availability`; the file appears whole or not at all.

    Parameters
    ----------
    words : two of `EVENTS`: the event of a server that comes, and of one that goes
    """
    lines = [",".join(COLUMNS)]
    for time_us, server, up in zip(failures.time_us.tolist(), failures.server, failures.up, strict=True):
        time_s = f"{time_us // US_PER_S}.{time_us % US_PER_S:06d}"
        lines.append(f"{time_s},{_quoted(cluster.server_names[server])},{words[0] if up else words[1]}")
    with replacing(path, is_signed) as temporary:
        temporary.write_bytes(signed("\n".join([*lines, ""]).encode()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name


def draw_failures(
    cluster: Cluster, mtbf_s: float, repair_s: float, from_s: float, until_s: float, seed: int
) -> Availability:
    """Draw random failures: exponential times between failures and of repairs, for each server.

    Failures occur from ``from_s`` until before ``until_s``; the last repair may end later.
    A server's draws depend on the seed and its own index only.

    Parameters
    ----------
    mtbf_s : mean time from a repair to the next failure, > 0
    repair_s : mean time to repair, > 0
    """
    for name, seconds in (("mtbf-s", mtbf_s), ("repair-s", repair_s)):
        if not 0 < seconds <= MAX_TIME_S:
            raise InvalidScenarioError(f"--{name}: must be above 0 and at most {MAX_TIME_S}, got {seconds:g}")
    if not 0 <= from_s < until_s <= MAX_TIME_S:
        raise InvalidScenarioError(
            f"--from-s {from_s:g} --until-s {until_s:g}: must be rising, from 0 to {MAX_TIME_S}"
        )
    expected = len(cluster) * (until_s - from_s) / (mtbf_s + repair_s)
    if expected > MAX_FAILURES:
        raise InvalidScenarioError(
            f"--mtbf-s {mtbf_s:g} --repair-s {repair_s:g}: about {expected:.3g} failures in all, at most "
            f"{MAX_FAILURES:,} can be drawn; make these times longer, or the span from --from-s to --until-s"
            " shorter"
        )
    rows: list[tuple[int, int, bool]] = []
    for server in range(len(cluster)):
        draw = Streams(seed).generator("server-failures", server)
        at = from_s + draw.exponential(mtbf_s)
        while at < until_s:
            back = at + draw.exponential(repair_s)
            rows += [(round(at * US_PER_S), server, False), (round(back * US_PER_S), server, True)]
            at = back + draw.exponential(mtbf_s)
    rows.sort()
    return Availability(
        time_us=np.array([row[0] for row in rows], dtype=np.int64),
        server=np.array([row[1] for row in rows], dtype=np.int64),
        up=np.array([row[2] for row in rows], dtype=np.bool_),
    )
