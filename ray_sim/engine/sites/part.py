"""State that a kind of job keeps at sites beside placements: none here, as for gangs and elastic jobs.

`Site` calls its `SitePart` for every request: first `come_to`, `withdraw`, `change_servers` and `carry_out`,
and `advance` where events are due. `Routing` calls `PartRouting`. A kind gives its `PartFacts`, which travel
to actors; `engine/kinds/chunked/site_part.py` has a subclass of all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import numpy as np

from ray_sim.engine.states import State, Stateless
from ray_sim.kernels.core.arrays import EVENT_COLUMNS, Outages, WorldArrays
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import NEVER_US, BoolArray, IntArray

NO_EVENTS: IntArray = np.empty((0, EVENT_COLUMNS), dtype=np.int64)


class PartCommands(Protocol):
    """Commands to the parts of all sites, or to one of them."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to carry out."""


class SitePart(Stateless):
    """State of one kind of job at a site. Time moves only in `advance`, never past `next_us`."""

    @property
    def next_us(self) -> int:
        """When it next has something to report."""
        return NEVER_US

    def come_to(self, now_us: int) -> None:
        """Set the time of the commands that follow. No event is due before it, and none is reported."""

    def withdraw(self, jobs: IntArray) -> None:
        """Forget jobs that have ended."""

    def change_servers(self, outages: Outages, free: IntArray) -> None:
        """Stop work on servers that go and resume it on those that return; ``free`` is (S, R) after that."""

    def carry_out(self, commands: PartCommands) -> None:
        """Carry out commands for this site."""

    def advance(self, now_us: int) -> IntArray:
        """Go on to ``now_us``; returns (n, EVENT_COLUMNS) rows of what happens there."""
        return NO_EVENTS

    def ask(self, question: str, now_us: int, arguments: Mapping[str, np.ndarray]) -> State:
        """Answer a question; changes nothing."""
        raise RunFailedError(f"sites of this world answer no questions, but were asked {question!r}")


class PartRouting(Stateless):
    """Shares of commands by site."""

    def share(
        self, site: int, commands: PartCommands, here: Callable[[IntArray], BoolArray]
    ) -> PartCommands | None:
        """The commands that concern a site, None without any; ``here`` tells which servers are the site's."""
        return None

    def concerned(self, site: int, jobs: IntArray) -> BoolArray:
        """(n,) jobs that have something at the site."""
        return np.zeros(len(jobs), dtype=np.bool_)


class PartFacts:
    """Facts from which parts of sites are made. They are sent to actors, so they hold arrays only."""

    reports: ClassVar[bool] = False
    """Whether sites have anything to report."""

    def at_site(self, arrays: WorldArrays, first_server: int, last_server: int, free: IntArray) -> SitePart:
        """The part of a site with servers ``first_server`` .. ``last_server`` - 1; ``free`` is (S, R)."""
        return SitePart()

    def routing(self, sites: int, jobs: int) -> PartRouting:
        """Routing of commands to this many sites."""
        return PartRouting()
