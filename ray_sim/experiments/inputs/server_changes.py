"""Changes of servers over time, availability or bandwidth: CSV files of them, and random draws."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from ray_sim.model.cluster import Availability, Cluster, LinkChanges
from ray_sim.model.errors import InvalidClusterError, InvalidScenarioError
from ray_sim.model.streams import Streams
from ray_sim.model.text import number_of
from ray_sim.model.units import MAX_TIME_S, US_PER_S, BoolArray, IntArray, seconds_to_us
from workloads.documents import read_text, refusal
from workloads.files import is_signed, replacing, signed
from workloads.sources import Source

MAX_SPANS = 1_000_000
"""Approximate limit on the spans drawn for a cluster; a larger file could not be read back."""

_MOST_PROBLEMS = 20
"""Number of problems of one file that an error prints; it counts the rest."""

_Value = TypeVar("_Value")


def read_changes(
    path: Source, cluster: Cluster, column: str, parse: Callable[[str], _Value], problems: list[str]
) -> list[tuple[int, int, int, _Value]]:
    """Read (line, microseconds, server, value) from a CSV with the columns time_s, server and ``column``.

    Lines that begin with # are comments. The result is in the order of time; changes at one instant keep the
    order written. Problems of lines go to ``problems``.

    Parameters
    ----------
    parse : reads the last column; it raises ValueError with what is wrong
    """
    rows = list(_rows(path, cluster, column, parse, problems))
    rows.sort(key=lambda row: row[1])  # stable
    return rows


def _rows(
    path: Source, cluster: Cluster, column: str, parse: Callable[[str], _Value], problems: list[str]
) -> Iterator[tuple[int, int, int, _Value]]:
    columns = ("time_s", "server", column)
    index = {name: i for i, name in enumerate(cluster.server_names)}
    reader = csv.reader(io.StringIO(read_text(path, InvalidClusterError), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader)]
        if sorted(header) != sorted(columns):
            raise InvalidClusterError(
                f"{path}: line 1: expected the columns {', '.join(columns)}, got {', '.join(header)}"
            )
        for cells in reader:
            if not cells or cells[0].startswith("#"):
                continue
            row = dict(zip(header, map(str.strip, cells), strict=False))
            whole = len(cells) == len(header)
            faults = list(_faults(row, index, column, parse)) if whole else ["has not 3 cells"]
            problems += [f"line {reader.line_num}: {fault}" for fault in faults]
            if not faults:
                time_us = int(seconds_to_us(number_of(row["time_s"])))
                yield reader.line_num, time_us, index[row["server"]], parse(row[column])
    except csv.Error as failure:
        raise InvalidClusterError(f"{path}: line {reader.line_num}: is not valid CSV: {failure}") from failure


def _faults(
    row: Mapping[str, str], index: Mapping[str, int], column: str, parse: Callable[[str], object]
) -> Iterator[str]:
    try:
        time_s = number_of(row["time_s"])
    except ValueError:
        time_s = math.nan
    if not 0 <= time_s <= MAX_TIME_S:
        yield f"time_s: must be a number from 0 to {MAX_TIME_S}, got '{row['time_s']}'"
    if row["server"] not in index:
        some = ", ".join([*list(index)[:3], *(["..."] if len(index) > 3 else [])])
        yield f"server: the cluster has no '{row['server']}'; its servers are {some}"
    try:
        parse(row[column])
    except ValueError as problem:
        yield f"{column}: {problem}"


def write_changes(
    path: Path, cluster: Cluster, column: str, time_us: IntArray, server: IntArray, values: Sequence[object]
) -> None:
    """Write changes as a CSV file for `read_changes`; the file appears whole or not at all."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["time_s", "server", column])
    for at_us, index, value in zip(time_us.tolist(), server.tolist(), values, strict=True):
        rows.writerow([f"{at_us // US_PER_S}.{at_us % US_PER_S:06d}", cluster.server_names[index], value])
    with replacing(path, is_signed) as temporary:
        temporary.write_bytes(signed(text.getvalue().encode()))


class DrawnChanges(NamedTuple):
    """Changes in the order of time, (N,) each."""

    time_us: IntArray
    server: IntArray
    over: BoolArray
    """Whether a span is over then; else it begins."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Random spans of each server in which something is amiss, with exponential lengths and pauses."""

    mean_pause_s: float
    """Mean time from the end of a span to the next; > 0."""
    mean_length_s: float
    """> 0."""
    from_s: float
    """No span begins before."""
    until_s: float
    """No span begins at or after this; the last may end later."""

    def draw(self, servers: int, seed: int, purpose: str, options: tuple[str, str]) -> DrawnChanges:
        """Draw the spans; those of a server depend on the seed, the purpose and its own index only.

        Parameters
        ----------
        purpose : name of the random stream
        options : names of the options for the two means, for messages
        """
        self._check(servers, options)
        rows: list[tuple[int, int, bool]] = []
        for server in range(servers):
            draw = Streams(seed).generator(purpose, server)
            at = self.from_s + draw.exponential(self.mean_pause_s)
            while at < self.until_s:
                back = at + draw.exponential(self.mean_length_s)
                rows += [(round(at * US_PER_S), server, False), (round(back * US_PER_S), server, True)]
                at = back + draw.exponential(self.mean_pause_s)
        rows.sort()
        return DrawnChanges(
            np.array([row[0] for row in rows], dtype=np.int64),
            np.array([row[1] for row in rows], dtype=np.int64),
            np.array([row[2] for row in rows], dtype=np.bool_),
        )

    def _check(self, servers: int, options: tuple[str, str]) -> None:
        given = dict(zip(options, (self.mean_pause_s, self.mean_length_s), strict=True))
        for name, seconds in given.items():
            if not 0 < seconds <= MAX_TIME_S:
                raise InvalidScenarioError(
                    f"--{name}: must be above 0 and at most {MAX_TIME_S}, got {seconds:g}"
                )
        if not 0 <= self.from_s < self.until_s <= MAX_TIME_S:
            raise InvalidScenarioError(
                f"--from-s {self.from_s:g} --until-s {self.until_s:g}: must be rising, from 0 to {MAX_TIME_S}"
            )
        expected = servers * (self.until_s - self.from_s) / (self.mean_pause_s + self.mean_length_s)
        if expected > MAX_SPANS:
            named = " ".join(f"--{name} {seconds:g}" for name, seconds in given.items())
            raise InvalidScenarioError(
                f"{named}: about {expected:.3g} spans in all, at most {MAX_SPANS:,} can be drawn; make these "
                "times longer, or the span from --from-s to --until-s shorter"
            )


EVENTS = {"add": True, "repair": True, "remove": False, "fail": False}
"""Whether the server is available after an event, by the event's word in the file."""


def read_availability(path: Source, cluster: Cluster) -> Availability:
    """Read changes of servers from a CSV file, by path or URL, with the columns time_s, server and event.

    time_s is in seconds; server is a name. Lines that begin with # are comments. Lines may be in any order;
    changes at one instant apply in the order written. The events of a server alternate: an available server
    fails or is removed, an absent one is repaired or added. The first event of a server may be any of them.
    """
    problems: list[str] = []
    rows = read_changes(path, cluster, "event", _event, problems)
    there: dict[int, bool] = {}
    for line, _, server, up in rows:
        if there.get(server) == up:
            state = "already there" if up else "not there"
            problems.append(f"line {line}: server '{cluster.server_names[server]}' is {state} then")
        there[server] = up
    if problems:
        raise refusal(problems, path, InvalidClusterError, _MOST_PROBLEMS)
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


LEAST_BANDWIDTH = 1e-6
"""Least share of the nominal bandwidth; a server without any is one that fails, see ``-w availability=``."""


def read_links(path: Source, cluster: Cluster) -> LinkChanges:
    """Read changes from a CSV file, by path or URL, with the columns time_s, server and bandwidth.

    The bandwidth is the share of the nominal one that the server's interface has from then on.
    """
    problems: list[str] = []
    rows = read_changes(path, cluster, "bandwidth", _share, problems)
    if problems:
        raise refusal(problems, path, InvalidClusterError, _MOST_PROBLEMS)
    return LinkChanges(
        time_us=np.array([time_us for _, time_us, _, _ in rows], dtype=np.int64),
        server=np.array([server for _, _, server, _ in rows], dtype=np.int64),
        bandwidth=np.array([share for _, _, _, share in rows], dtype=np.float64),
    )


def write_links(path: Path, cluster: Cluster, links: LinkChanges) -> None:
    """Write changes as a CSV file for `read_links`; the file appears whole or not at all."""
    write_changes(path, cluster, "bandwidth", links.time_us, links.server, links.bandwidth.tolist())


def draw_links(cluster: Cluster, spans: Spans, bandwidth: float, seed: int) -> LinkChanges:
    """Draw random spans in which a server's interface has this share of its bandwidth."""
    if not LEAST_BANDWIDTH <= bandwidth <= 1:
        raise InvalidScenarioError(f"--bandwidth: must be from {LEAST_BANDWIDTH:g} to 1, got {bandwidth:g}")
    drawn = spans.draw(len(cluster), seed, "slow-links", ("every-s", "length-s"))
    return LinkChanges(drawn.time_us, drawn.server, np.where(drawn.over, 1.0, bandwidth))


def _share(text: str) -> float:
    try:
        share = number_of(text)
    except ValueError:
        share = math.nan
    if not LEAST_BANDWIDTH <= share <= 1:
        raise ValueError(f"must be a number from {LEAST_BANDWIDTH:g} to 1, got '{text}'")
    return share
