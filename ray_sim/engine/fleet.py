"""The sites of a run, spoken to together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from ray_sim.engine.chunks import NO_EVENTS
from ray_sim.engine.holdings import State, part
from ray_sim.engine.site import Commands, Site
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import Changes, Outages
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import IntArray


class Fleet(Protocol):
    """Routes commands to sites and joins their answers in server order; idle sites are not asked."""

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""

    def collect(self, now_us: int) -> IntArray:
        """(n, 2) rows job, unit of all chunks completed at ``now_us``, sorted."""

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass new holdings and chunks on to the sites concerned."""

    def state(self) -> State:
        """Arrays that `restore` takes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""


class LocalFleet:
    """Sites in this process, each with a run of consecutive servers."""

    def __init__(self, world: World, sites: int = 1) -> None:
        servers = len(world.cluster)
        if not 1 <= sites <= servers:
            raise InvalidScenarioError(f"sites: must be 1 to {servers}, the number of servers, got {sites}")
        self._bounds = np.array([i * servers // sites for i in range(sites + 1)])
        self.sites = [
            Site(world, int(first), int(last))
            for first, last in zip(self._bounds[:-1], self._bounds[1:], strict=True)
        ]
        self._sequence = [0] * sites
        self._next = [site.step(0, 0, None)[1] for site in self.sites]

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""
        return min(self._next)

    def collect(self, now_us: int) -> IntArray:
        """(n, 2) rows job, unit of all chunks completed at ``now_us``, sorted."""
        due = [i for i, at in enumerate(self._next) if at <= now_us]
        events = [self._step(i, now_us, None) for i in due]
        if not events:
            return NO_EVENTS
        joined = np.concatenate(events)
        return joined[np.lexsort((joined[:, 1], joined[:, 0]))]

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass new holdings and chunks on to the sites concerned."""
        if len(self.sites) == 1:
            self._step(0, now_us, commands)
            return
        for i, site in enumerate(self.sites):
            mine = self._share(i, site, commands)
            if mine.changes is not None or mine.chunks is not None or mine.outages is not None:
                self._step(i, now_us, mine)

    def _step(self, i: int, now_us: int, commands: Commands | None) -> IntArray:
        self._sequence[i] += 1
        events, self._next[i] = self.sites[i].step(self._sequence[i], now_us, commands)
        return events

    def _share(self, i: int, site: Site, commands: Commands) -> Commands:
        chunks = commands.chunks
        if chunks is not None:
            # A server has one worker slot, which bears its number.
            chunks = chunks[np.searchsorted(self._bounds, chunks[:, 0], side="right") - 1 == i]
            chunks = chunks if len(chunks) else None
        changes, outages = commands.changes, commands.outages
        return Commands(
            None if changes is None else _changes_on(site, changes),
            chunks,
            None if outages is None else _outages_on(site, outages),
        )

    def state(self) -> State:
        """Arrays that `restore` takes."""
        states = {
            f"{i}.{name}": array for i, site in enumerate(self.sites) for name, array in site.state().items()
        }
        return {**states, "sequence": np.array(self._sequence), "next": np.array(self._next)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for i, site in enumerate(self.sites):
            site.restore(part(state, str(i)))
        self._sequence = state["sequence"].tolist()
        self._next = state["next"].tolist()


def _outages_on(site: Site, outages: Outages) -> Outages | None:
    """The outages of a site's own servers."""
    here = (outages.server >= site.servers.start) & (outages.server < site.servers.stop)
    if not here.any():
        return None
    return Outages(outages.time[here], outages.server[here], outages.up[here])


def _changes_on(site: Site, changes: Changes) -> Changes | None:
    """The part of the changes that concerns a site: jobs it holds or is to hold."""
    n = int(changes.size[0])
    row_change = np.repeat(np.arange(n), np.diff(changes.ptr[: n + 1]))
    rows = slice(0, int(changes.ptr[n]))
    server = changes.server[rows]
    here = (server >= site.servers.start) & (server < site.servers.stop)
    concerned = np.bincount(row_change[here], minlength=n) > 0
    concerned |= site.holdings.pool.head[changes.job[:n]] >= 0
    if not concerned.any():
        return None
    counts = np.bincount(row_change[here], minlength=n)[concerned]
    return Changes(
        job=changes.job[:n][concerned],
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        server=server[here],
        role=changes.role[rows][here],
        tasks=changes.tasks[rows][here],
        order=np.arange(int(concerned.sum())),
        size=np.array([int(concerned.sum())], dtype=np.int64),
    )
