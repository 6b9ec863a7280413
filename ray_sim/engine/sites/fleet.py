"""The sites of a run, spoken to together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from ray_sim.engine.placements import State, part
from ray_sim.engine.sites.routing import Routing
from ray_sim.engine.sites.site import Commands, Site, SiteFacts
from ray_sim.engine.sites.site_queries import Query, join
from ray_sim.engine.world import World
from ray_sim.model.units import IntArray


class Fleet(Protocol):
    """Routes commands to sites and joins their answers in server order; idle sites are not stepped."""

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        """(n, EVENT_COLUMNS) rows of all that happens to chunks at ``now_us``, after these commands.

        By (job, unit), a chunk's own events in their order; see `ray_sim.kernels.chunked.chunk_events`. The
        commands are to be `first`.
        """

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass new placements and chunks on to the sites concerned."""

    def ask(self, query: Query) -> State:
        """The answers of all sites, joined in server order. Changes nothing."""

    def state(self) -> State:
        """Arrays that `restore` takes."""

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""


class LocalFleet:
    """Sites in this process, each with a run of consecutive servers."""

    def __init__(self, world: World, sites: int = 1) -> None:
        self._routing = Routing(world, sites)
        bounds = self._routing.bounds.tolist()
        facts = SiteFacts.of(world)
        self.sites = [Site(facts, first, last) for first, last in pairwise(bounds)]
        self._sequence = [0] * sites
        self._next = [site.step(0, 0, None)[1] for site in self.sites]

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""
        return min(self._next)

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        """Reports of all sites that have some at ``now_us``, or get commands first."""
        told = {} if commands is None else dict(self._routing.split(commands))
        due = [i for i, at in enumerate(self._next) if at <= now_us or i in told]
        return self._routing.join([self._step(i, now_us, told.get(i)) for i in due])

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass new placements and chunks on to the sites concerned."""
        for i, mine in self._routing.split(commands):
            self._step(i, now_us, mine)

    def ask(self, query: Query) -> State:
        """The answers of all sites, joined in server order."""
        return join([site.ask(query) for site in self.sites])

    def _step(self, i: int, now_us: int, commands: Commands | None) -> IntArray:
        self._sequence[i] += 1
        events, self._next[i] = self.sites[i].step(self._sequence[i], now_us, commands)
        return events

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return join_states([site.state() for site in self.sites], self._routing, self._sequence, self._next)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for i, site in enumerate(self.sites):
            site.restore(part(state, str(i)))
        self._routing.restore(part(state, "routing"))
        self._sequence = state["sequence"].tolist()
        self._next = state["next"].tolist()


def join_states(
    sites: Sequence[State], routing: Routing, sequence: Sequence[int], following: Sequence[int]
) -> State:
    """The state of a fleet, the same wherever its sites live."""
    return {
        **{f"{i}.{name}": array for i, state in enumerate(sites) for name, array in state.items()},
        **{f"routing.{name}": array for name, array in routing.state().items()},
        "sequence": np.array(sequence),
        "next": np.array(following),
    }
