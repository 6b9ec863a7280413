"""Availability of a cluster's servers over time: changes read from a CSV file, written to one, or drawn.

The loading of a cluster calls `with_availability`; the command that draws failures calls `draw_failures` and
`write_failures`. The columns and the words in `EVENTS` are a file format of users and must stay.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ray_sim.experiments.inputs.server_changes import Spans, read_changes, refuse_any, write_changes
from ray_sim.model.availability import Availability
from ray_sim.model.cluster import Cluster
from workloads.sources import Source

EVENTS = {"add": True, "repair": True, "remove": False, "fail": False}
"""Whether the server is available after an event, by the event's word in the file."""


def with_availability(cluster: Cluster, path: Source | None) -> Cluster:
    """The cluster with the availability of the file; unchanged if `path` is None."""
    return cluster if path is None else replace(cluster, availability=read_availability(path, cluster))


def read_availability(path: Source, cluster: Cluster) -> Availability:
    """Read changes of servers from a CSV file, by path or URL, with the columns time_s, server and event.

    time_s is in seconds; server is a name. Lines that begin with # are comments. Lines may be in any order;
    changes at one instant apply in the order written. The events of a server alternate: an available server
    fails or is removed, an absent one is repaired or added. The first event of a server may be any of them.

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
    failures : changes of any kind
    words : two of `EVENTS`: the one for ``up=True``, then the one for ``up=False``
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
    """Random failures and repairs of each server: times to failure and to repair are exponential.

    Failures occur in [from_s, until_s); the last repair may end later. The draws of a server depend only on
    the seed and on the server's index.

    Parameters
    ----------
    mtbf_s : mean seconds from a repair to the next failure, > 0; the literature calls this MTTF
    repair_s : mean seconds from a failure to the end of the repair (MTTR), > 0
    from_s, until_s : seconds of simulated time
    """
    spans = Spans(mtbf_s, repair_s, from_s, until_s)
    time_us, server, up = spans.draw(len(cluster), seed, "server-failures", ("mtbf-s", "repair-s"))
    return Availability(time_us=time_us, server=server, up=up)
