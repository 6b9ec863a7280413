"""Availability of a cluster's servers over time: a CSV of changes, read from a file or drawn at random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ray_sim.experiments.server_changes import Spans, read_changes, refuse_any, write_changes
from ray_sim.model.availability import Availability
from ray_sim.model.cluster import Cluster
from workloads.sources import Source

EVENTS = {"add": True, "repair": True, "remove": False, "fail": False}
"""Events of an availability file, and whether the server is available after each."""

MAX_FAILURES = 1_000_000
"""Approximate limit on the failures drawn for a cluster; a larger file could not be read back."""


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
    rows = read_changes(path, cluster, "event", _event, problems)
    there: dict[int, bool] = {}
    for line, _, server, up in rows:
        if there.get(server) == up:
            state = "already there" if up else "not there"
            problems.append(f"line {line}: server '{cluster.server_names[server]}' is {state} then")
        there[server] = up
    refuse_any(problems, path)
    return Availability(
        time_us=np.array([time_us for _, time_us, _, _ in rows], dtype=np.int64),
        server=np.array([server for _, _, server, _ in rows], dtype=np.int64),
        up=np.array([up for _, _, _, up in rows], dtype=np.bool_),
    )


def write_failures(
    path: Path, cluster: Cluster, failures: Availability, words: tuple[str, str] = ("repair", "fail")
) -> None:
    """Write changes as a CSV file for `read_availability`; the file appears whole or not at all.

    Parameters
    ----------
    words : two of `EVENTS`: the event of a server that comes, and of one that goes
    """
    said = [words[0] if up else words[1] for up in failures.up.tolist()]
    write_changes(path, cluster, "event", failures.time_us, failures.server, said)


def _event(text: str) -> bool:
    if text not in EVENTS:
        raise ValueError(f"must be one of {', '.join(EVENTS)}, got '{text}'")
    return EVENTS[text]


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
    spans = Spans(mtbf_s, repair_s, from_s, until_s)
    time_us, server, up = spans.draw(len(cluster), seed, "server-failures", ("mtbf-s", "repair-s"))
    return Availability(time_us=time_us, server=server, up=up)
