"""Fleets: send commands to all sites of a run and merge their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ray_sim.engine.sites.part import NO_EVENTS, SitePart
from ray_sim.engine.sites.routing import Routing
from ray_sim.engine.sites.site import Commands, Query, Site, SiteFacts, join
from ray_sim.engine.states import State, Stateless, joined, same, section, within
from ray_sim.engine.world import World
from ray_sim.model.units import NEVER_US, IntArray


class Fleet(Stateless):
    """Routes commands to sites and joins their answers in server order; idle sites are not stepped.

    This one has no sites: for jobs of which sites keep placements only, since these are the coordinator's
    again.
    """

    listens: ClassVar[bool] = False
    """Whether it has sites to command."""

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""
        return NEVER_US

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        """(n, EVENT_COLUMNS) rows of all events at ``now_us``, after these commands, which are to be `first`.

        They are sorted by (job, unit); events of one unit stay in their order.
        """
        return NO_EVENTS

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass commands on to the sites concerned."""

    def ask(self, query: Query) -> State:
        """The answers of all sites, joined in server order. Changes nothing."""
        return SitePart().ask(query.question, query.now_us, query.arrays)


def fleet_of(world: World, sites: int, *, always: bool) -> Fleet:
    """Sites in this process; none where they would report nothing, unless they are to be there ``always``."""
    return LocalFleet(world, sites) if always or world.facts.part.reports else Fleet()


class LocalFleet(Fleet):
    """Sites in this process, each with a run of consecutive servers."""

    listens: ClassVar[bool] = True

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
        by_site = {} if commands is None else dict(self._routing.split(commands))
        due = [i for i, at in enumerate(self._next) if at <= now_us or i in by_site]
        return self._routing.join([self._step(i, now_us, by_site.get(i)) for i in due])

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass commands on to the sites concerned."""
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
            site.restore(section(state, str(i)))
        self._routing.restore(section(state, "routing"))
        self._sequence = sequence_of(state, len(self.sites))
        self._next = within(state, "next", 0, NEVER_US).tolist()


def sequence_of(state: Mapping[str, np.ndarray], sites: int) -> list[int]:
    """Numbers of the last requests to the sites of a fleet, in a state; as each site says."""
    same("sequence", [int(state[f"{i}.sequence"][0]) for i in range(sites)], state["sequence"])
    sequence: list[int] = within(state, "sequence", 0, NEVER_US).tolist()
    return sequence


def join_states(
    sites: Sequence[State], routing: Routing, sequence: Sequence[int], following: Sequence[int]
) -> State:
    """The state of a fleet, the same wherever its sites live."""
    return {
        **joined({str(i): state for i, state in enumerate(sites)} | {"routing": routing.state()}),
        "sequence": np.array(sequence),
        "next": np.array(following),
    }
