"""Orders of arrival, of jobs and of servers, from a CSV file, plain or gzip; for the realisation `stream`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import IntArray
from workloads.files import open_unpacked, read_to_its_end, require_file
from workloads.sources import local_path
from workloads.stream import ArrivalOrder

_HEADER = "pod_list,seed,what,order"
_KINDS = ("pods", "servers")


def read_orders(source: str, pod_list: str | None) -> Mapping[int, ArrivalOrder]:
    """Orders of one list by seed; a line has the numbers of all pods, or of all servers, with blanks between.

    Parameters
    ----------
    source : path or URL
    pod_list : text of the column; None where the file has one list

    Raises
    ------
    InvalidWorkloadError : the file cannot be read, a line is wrong, or the list is not in it
    """
    path = local_path(source)
    require_file(path)
    with read_to_its_end(path), open_unpacked(path) as stream:
        header, *lines = stream.read().splitlines()
    if header != _HEADER:
        raise InvalidWorkloadError(f"{source}: line 1: expected {_HEADER}, found {header[:100]!r}")
    found: dict[str, dict[int, dict[str, IntArray]]] = {}
    for number, line in enumerate(lines, start=2):
        try:
            listed, of_seed, what, order = line.split(",")
            if what not in _KINDS:
                raise ValueError(f"what: expected pods or servers, found {what!r}")
            numbers = np.array([int(text) for text in order.split()], dtype=np.int64)
            found.setdefault(listed, {}).setdefault(int(of_seed), {})[what] = numbers
        except (ValueError, OverflowError) as error:
            raise InvalidWorkloadError(f"{source}: line {number}: {error}") from error
    chosen = next(iter(found)) if pod_list is None and len(found) == 1 else pod_list
    if chosen not in found:
        given = "`pod_list` is needed" if chosen is None else f"has no pod_list '{chosen}'"
        raise InvalidWorkloadError(f"{source}: {given}; its lists: {', '.join(found)}")
    for seed, orders in found[chosen].items():
        if missing := [what for what in _KINDS if what not in orders]:
            raise InvalidWorkloadError(f"{source}: {chosen}, seed {seed}: has no line of {missing[0]}")
    return {seed: ArrivalOrder(*(orders[what] for what in _KINDS)) for seed, orders in found[chosen].items()}
