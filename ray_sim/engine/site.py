"""A site: a group of servers simulated together, with what is on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.chunks import NO_EVENTS, ChunkQueues
from ray_sim.engine.holdings import Holdings, State, part
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import Changes, Outages
from ray_sim.kernels.outages import set_capacity
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class Commands:
    """What the coordinator tells a site at one instant."""

    changes: Changes | None = None
    """New holdings on the site's servers of every job that holds or held something there."""
    chunks: IntArray | None = None
    """(n, 5) rows worker, key, job, unit, work in microseconds."""
    outages: Outages | None = None
    """Servers that go and come back; whoever held them is released in the same request."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to carry out."""
        return self.changes is None and self.chunks is None and self.outages is None


class Site:
    """A deterministic state machine over arrays that owns its servers.

    It checks every command against its own capacity, whatever the coordinator believes. Requests
    are numbered: a repeated one is answered again and not carried out twice, so that a lost answer
    can be asked for anew.
    """

    def __init__(self, world: World, first_server: int, last_server: int) -> None:
        capacity = np.zeros_like(world.shop.capacity)
        capacity[first_server:last_server] = world.first_capacity[first_server:last_server]
        self.servers = range(first_server, last_server)
        self.holdings = Holdings(world.shop, capacity, world.row_bound)
        self._shop = world.shop
        self._chunks = ChunkQueues()
        self._sequence = 0
        self._answer: tuple[IntArray, int] = (NO_EVENTS, self._chunks.next_us())

    def step(self, sequence: int, now_us: int, commands: Commands | None) -> tuple[IntArray, int]:
        """Go on to ``now_us``, report the chunks completed there, then carry out commands.

        Returns
        -------
        (events, next) : (n, 2) rows job, unit; and when the site next has something to report
        """
        if sequence == self._sequence:
            return self._answer
        if sequence != self._sequence + 1:
            raise RunFailedError(
                f"site {self.servers}: request {sequence} follows {self._sequence}; a request was lost"
            )
        events = self._chunks.advance(now_us)
        if commands is not None and commands.changes is not None:
            self._hold(now_us, commands.changes)
        if commands is not None and commands.outages is not None:
            set_capacity(self._shop, self.holdings.pool.free, commands.outages.server, commands.outages.up)
        if commands is not None and commands.chunks is not None:
            self._chunks.dispatch(now_us, commands.chunks)
        self._sequence = sequence
        self._answer = (events, self._chunks.next_us())
        return self._answer

    def _hold(self, now_us: int, changes: Changes) -> None:
        self.holdings.change(changes)
        servers = changes.server[: changes.ptr[changes.size[0]]]
        if (self.holdings.pool.free[servers] < 0).any():
            raise RunFailedError(f"at {now_us} us site {self.servers} was told to hold more than it has")

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            **{f"holdings.{name}": array for name, array in self.holdings.state().items()},
            **{f"chunks.{name}": array for name, array in self._chunks.state().items()},
            "sequence": np.array([self._sequence]),
            "answer": self._answer[0].copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; the last answer is kept for a repeated request."""
        self.holdings.restore(part(state, "holdings"))
        self._chunks.restore(part(state, "chunks"))
        self._sequence = int(state["sequence"][0])
        self._answer = (state["answer"].copy(), self._chunks.next_us())
