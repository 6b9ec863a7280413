"""Free capacity of servers over time, and how many tasks of a demand fit on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.holdings import History
from ray_sim.reports.history.run_facts import RunFacts

START_US = np.iinfo(np.int64).min
"""Time of the first row of each server, before all events."""

_ANY = np.iinfo(np.int32).max
"""Number of tasks without demand that fit on a server."""


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Free quanta of each server, and whether it is available, after every change; by server, then time."""

    time_us: IntArray
    """(n,); each server has a first row at `START_US`."""
    server: IntArray
    free: IntArray
    """(n, R); below 0 for workers of chunks in a cloud, which has no slots for them."""
    there: BoolArray
    """(n,) whether the server is available."""

    def of(self, servers: BoolArray) -> FreeCapacity:
        """The rows of these servers, (S,)."""
        kept = servers[self.server]
        return FreeCapacity(self.time_us[kept], self.server[kept], self.free[kept], self.there[kept])

    def at(self, time_us: int) -> IntArray:
        """(S, R) free quanta after all events of this instant; only servers that have rows."""
        known = np.flatnonzero(self.time_us <= time_us)
        last = known[np.append(np.diff(self.server[known]) != 0, True)]
        free: IntArray = self.free[last]
        return free

    def course(self, values: IntArray) -> tuple[IntArray, IntArray]:
        """Sum over servers of a value per row, (n, k), at each instant: times (m,) and sums (m, k)."""
        first = np.append(True, np.diff(self.server) != 0) if len(self.server) else np.zeros(0, np.bool_)
        steps = values.copy()
        steps[~first] -= values[:-1][~first[1:]]
        order = np.argsort(self.time_us, kind="stable")
        times = self.time_us[order]
        last = np.append(np.diff(times) != 0, True) if len(times) else np.zeros(0, np.bool_)
        return times[last], np.cumsum(steps[order], axis=0)[last]


def free_capacity(facts: RunFacts, history: History) -> FreeCapacity:
    """Reconstruct the free capacity of every server from placements and changes of servers."""
    stays = history.holdings
    amounts = stays.amounts(facts)
    n_servers = len(facts.servers)
    changed_us, changed, up = history.outages
    first = facts.arrays.capacity * facts.there[:, None]
    time_us = np.concatenate([np.full(n_servers, START_US), stays.begin_us, stays.end_us, changed_us])
    server = np.concatenate([np.arange(n_servers), stays.server, stays.server, changed])
    turn = np.where(up, 1, -1)
    offered = turn[:, None] * facts.arrays.capacity[changed]
    free = np.concatenate([first, -amounts, amounts, offered])
    turns = np.concatenate([facts.there[:, None], np.zeros((2 * len(stays), 1), np.int64), turn[:, None]])
    order = np.lexsort((time_us, server))
    server, time_us = server[order], time_us[order]
    last = np.append((np.diff(server) != 0) | (np.diff(time_us) != 0), True) if len(server) else order
    return FreeCapacity(
        time_us=time_us[last],
        server=server[last],
        free=_running_sums(free[order], server)[last],
        there=_running_sums(turns[order], server)[last, 0] > 0,
    )


def _running_sums(steps: IntArray, server: IntArray) -> IntArray:
    """Sums of the steps of each server so far; rows are in order of the server."""
    sums = np.cumsum(steps, axis=0)
    begins = np.flatnonzero(np.append(True, np.diff(server) != 0)) if len(server) else server
    before = np.where(begins[:, None] > 0, sums[np.maximum(begins - 1, 0)], 0)
    lengths = np.diff(np.append(begins, len(server)))
    so_far: IntArray = sums - np.repeat(before, lengths, axis=0)
    return so_far


def tasks_that_fit(free: IntArray, demand: IntArray) -> IntArray:
    """(n,) tasks of a demand, (R,), that fit on each row of free quanta, (n, R); many where it is 0."""
    needs = demand > 0
    if not needs.any():
        return np.full(len(free), _ANY, dtype=np.int64)
    fitting: IntArray = (np.maximum(free[:, needs], 0) // demand[needs]).min(axis=1)
    return fitting
