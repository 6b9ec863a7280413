"""References of clusters with other numbers of servers than their files have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ray_sim.model.errors import InvalidClusterError
from workloads.sources import Source

SOLE = "servers"
"""Name that stands for the only entry of a file where numbers of servers are changed."""

_COUNTS = re.compile(r"(?P<file>.+)@(?P<counts>[^@,=]+\.count=\d{1,9}(?:,[^@,=]+\.count=\d{1,9})*)", re.ASCII)


def with_counts(ref: Source, counts: Mapping[str, int]) -> str:
    """Reference of a cluster with other numbers of servers, such as ``pool-368@server.count=12``.

    Parameters
    ----------
    counts : number by the name of an entry of the file, or by `SOLE`; they replace those of ``ref``
    """
    file, given = split_counts(ref)
    found = f"{file}@{','.join(f'{name}.count={count}' for name, count in {**given, **counts}.items())}"
    if split_counts(found)[1] != {**given, **counts}:
        raise InvalidClusterError(
            f"{', '.join(counts)}: expected entries with names without '@', ',' and '='"
        )
    return found


def split_counts(ref: Source) -> tuple[Source, dict[str, int]]:
    """File or bundled name of a reference, and its numbers of servers by entry."""
    found = _COUNTS.fullmatch(str(ref))
    if found is None:
        return ref, {}
    pairs = (each.rsplit(".count=", 1) for each in found["counts"].split(","))
    return found["file"], {name: int(count) for name, count in pairs}
