"""A site: a group of servers simulated together, with what is on them.

`LocalFleet` steps it in this process; in `RayFleet` it is a Ray actor, which imports nothing else, so that it
starts quickly and stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ray_sim.engine.placements import Placements, nothing_for
from ray_sim.engine.sites.part import NO_EVENTS, PartCommands, PartFacts
from ray_sim.engine.states import State, joined, section, within
from ray_sim.kernels.core.arrays import Changes, Outages, WorldArrays
from ray_sim.kernels.core.outages import set_available
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import NEVER_US, BoolArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.world import World


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of the coordinator to a site at one instant, carried out in this order."""

    ended: IntArray | None = None
    """Evicted jobs: sites forget their placements and all else of theirs."""
    changes: Changes | None = None
    """New placements on the site's servers of every job that holds or held something there."""
    outages: Outages | None = None
    """Servers that go and come back; whoever held them is released in the same request."""
    part: PartCommands | None = None
    """Commands that only the kind of the jobs knows."""
    first: bool = False
    """Whether they are carried out before the events of their instant, not after them."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [self.ended, *(self.changes or ()), *(self.outages or ())]
        nbytes: int = sum(array.nbytes for array in arrays if array is not None)
        return nbytes if self.part is None else nbytes + self.part.nbytes

    @property
    def empty(self) -> bool:
        """Whether there is nothing to carry out."""
        return all(each is None for each in (self.ended, self.changes, self.outages, self.part))


Request = tuple[int, int, Commands | None]
"""Sequence number, instant, what to do."""


@dataclass(frozen=True, slots=True)
class Query:
    """Question to all sites at one instant. Asking changes nothing."""

    question: str
    now_us: int
    arrays: Mapping[str, np.ndarray]
    """Arguments by name."""


def join(answers: Sequence[State]) -> State:
    """The answers of all sites, in server order, as one."""
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}


class SiteFacts(NamedTuple):
    """Facts of the world for sites: arrays only, which actors on a node share."""

    arrays: WorldArrays
    there: BoolArray
    """(S,) servers that are there at time 0."""
    rows: int
    """No more rows of placements than this exist at a time."""
    part: PartFacts

    @classmethod
    def of(cls, world: World) -> SiteFacts:
        """Facts of a world."""
        return cls(world.arrays, world.there, world.row_bound, world.facts.part)


class Site:
    """A deterministic state machine over arrays that owns its servers.

    It checks every command against its own capacity, whatever the coordinator believes. Requests
    are numbered: a repeated one is answered again and not carried out twice, so that a lost answer
    can be asked for anew.
    """

    def __init__(self, facts: SiteFacts, first_server: int, last_server: int) -> None:
        arrays = facts.arrays
        there = np.zeros_like(facts.there)
        there[first_server:last_server] = facts.there[first_server:last_server]
        self.servers = range(first_server, last_server)
        self.placements = Placements(arrays, there, facts.rows)
        self._arrays = arrays
        self._part = facts.part.at_site(arrays, first_server, last_server, self.placements.free)
        self._sequence = 0
        self._answer: tuple[IntArray, int] = (NO_EVENTS, self._part.next_us)

    def step(self, sequence: int, now_us: int, commands: Commands | None) -> tuple[IntArray, int]:
        """Go on to ``now_us`` and carry out commands, or report what happens there.

        A step with commands reports nothing, unless they are `first`: what they bring about at this instant,
        and who overtakes whom, is reported by the next step.

        Returns
        -------
        (events, next) : (n, EVENT_COLUMNS) rows, see `ray_sim.engine.sites.part`; and when the site next has
            something to report
        """
        if sequence == self._sequence:
            return self._answer
        if sequence != self._sequence + 1:
            raise RunFailedError(
                f"site {self.servers}: request {sequence} follows {self._sequence}; a request was lost"
            )
        if commands is not None:
            self._obey(now_us, commands)
        events = NO_EVENTS
        if commands is None or commands.first:
            events = self._part.advance(now_us)
        self._sequence = sequence
        self._answer = (events, self._part.next_us)
        return self._answer

    def carry_out(self, requests: Sequence[Request]) -> tuple[IntArray, int]:
        """Step request by request; the answer to the last."""
        for request in requests:
            answer = self.step(*request)
        return answer

    def ask(self, query: Query) -> State:
        """Answer a question at an instant until which the site has nothing to report."""
        return self._part.ask(query.question, query.now_us, query.arrays)

    def _obey(self, now_us: int, commands: Commands) -> None:
        self._part.come_to(now_us)
        if commands.ended is not None:
            self.placements.change(nothing_for(commands.ended))
            self._part.withdraw(commands.ended)
        if commands.changes is not None:
            self._hold(now_us, commands.changes)
        if (outages := commands.outages) is not None:
            set_available(self._arrays, self.placements.pool, outages.server, outages.up)
            self._part.change_servers(outages, self.placements.free)
        if commands.part is not None:
            self._part.carry_out(commands.part)

    def _hold(self, now_us: int, changes: Changes) -> None:
        self.placements.change(changes)
        servers = changes.server[: changes.ptr[changes.size[0]]]
        if (self.placements.pool.free[servers] < 0).any():
            raise RunFailedError(f"at {now_us} us site {self.servers} is commanded to hold more than it has")

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            **joined({"placements": self.placements.state(), "part": self._part.state()}),
            "sequence": np.array([self._sequence]),
            "answer": self._answer[0].copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; the last answer is kept for a repeated request."""
        self.placements.restore(section(state, "placements"))
        self._part.restore(section(state, "part"))
        self._sequence = int(within(state, "sequence", 0, NEVER_US)[0])
        self._answer = (state["answer"].copy(), self._part.next_us)
