"""A site: a group of servers simulated together, with what is on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.placements import Placements, State, nothing_for, part
from ray_sim.engine.sites.chunk_queues import NO_EVENTS, ChunkQueues
from ray_sim.engine.sites.site_queries import Query, Workers, answer
from ray_sim.kernels.core.arrays import WORKER, Changes, Outages, WorldArrays
from ray_sim.kernels.core.outages import set_capacity
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import IntArray

if TYPE_CHECKING:
    from ray_sim.engine.world import World


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of the coordinator to a site at one instant, carried out in this order."""

    ended: IntArray | None = None
    """Jobs that are evicted, whose chunks and placements are no more."""
    changes: Changes | None = None
    """New placements on the site's servers of every job that holds or held something there."""
    outages: Outages | None = None
    """Servers that go and come back; whoever held them is released in the same request."""
    keys: IntArray | None = None
    """(n, 2) rows job, new key of all its chunks on workers, by job."""
    ps: IntArray | None = None
    """(n, 2) rows job, whether it holds a parameter server from now on, anywhere."""
    chunks: IntArray | None = None
    """(n, 8) rows worker, key, job, unit, ready, work, overtakes, D p: when the chunk's upload ends, and its
    work, in microseconds; whether it takes the worker from a chunk with a larger key; the chunks of its job
    times its work, which is no key but what increments weigh it by."""
    first: bool = False
    """Whether they are carried out before what happens to chunks at their instant, not after it."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        parts = [self.ended, *(self.changes or ()), *(self.outages or ()), self.keys, self.ps, self.chunks]
        return sum(array.nbytes for array in parts if array is not None)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to carry out."""
        parts = (self.ended, self.changes, self.outages, self.keys, self.ps, self.chunks)
        return all(part is None for part in parts)


class SiteFacts(NamedTuple):
    """Facts of the world for sites: arrays only, which actors on a node share."""

    arrays: WorldArrays
    first_capacity: IntArray
    """(S, R) quanta that servers offer at time 0."""
    rows: int
    """No more rows of placements than this exist at a time."""
    slots: WorkerSlots
    workers_offer: IntArray
    """(S,) see `Eligibility`."""
    preemption_us: int
    """Work added to a chunk by each preemption."""

    @classmethod
    def of(cls, world: World) -> SiteFacts:
        """The facts about a world."""
        of_all, chunks = (world.arrays, world.first_capacity, world.row_bound), world.chunks
        if chunks is None:
            servers = len(world.cluster)
            return cls(*of_all, WorkerSlots.none(servers), np.zeros(servers, dtype=np.int64), 0)
        return cls(*of_all, chunks.slots, chunks.eligible.workers_offer, chunks.preemption_us)


class Site:
    """A deterministic state machine over arrays that owns its servers.

    It checks every command against its own capacity, whatever the coordinator believes. Requests
    are numbered: a repeated one is answered again and not carried out twice, so that a lost answer
    can be asked for anew.
    """

    def __init__(self, facts: SiteFacts, first_server: int, last_server: int) -> None:
        arrays = facts.arrays
        capacity = np.zeros_like(arrays.capacity)
        capacity[first_server:last_server] = facts.first_capacity[first_server:last_server]
        self.servers = range(first_server, last_server)
        self.placements = Placements(arrays, capacity, facts.rows)
        self._arrays = arrays
        self._slots = facts.slots.of_servers(first_server, last_server)
        self._offer = facts.workers_offer[self._slots.server]
        self._queues = ChunkQueues(self._slots.on_demand, len(arrays.submit), facts.preemption_us)
        self._workers = self._workers_there()
        self._sequence = 0
        self._answer: tuple[IntArray, int] = (NO_EVENTS, self._queues.next_us)

    def step(self, sequence: int, now_us: int, commands: Commands | None) -> tuple[IntArray, int]:
        """Go on to ``now_us`` and carry out commands, or report what happens to chunks there.

        A step with commands reports nothing, unless they are `first`: what they bring about at this instant,
        and who overtakes whom, is reported by the next step.

        Returns
        -------
        (events, next) : (n, EVENT_COLUMNS) rows, see `ray_sim.kernels.chunked.chunk_events`; and when the
            site next has something to report
        """
        if sequence == self._sequence:
            return self._answer
        if sequence != self._sequence + 1:
            raise RunFailedError(
                f"site {self.servers}: request {sequence} follows {self._sequence}; a request was lost"
            )
        if commands is not None:
            self._carry_out(now_us, commands)
        events = NO_EVENTS
        if commands is None or commands.first:
            events = self._queues.advance(now_us)
            events[:, 3] += self._workers.first
        self._sequence = sequence
        self._answer = (events, self._queues.next_us)
        return self._answer

    def ask(self, query: Query) -> State:
        """Answer a question at an instant until which the site has nothing to report."""
        return answer(self._workers, query)

    def _carry_out(self, now_us: int, commands: Commands) -> None:
        self._queues.come_to(now_us)
        if commands.ended is not None:
            self.placements.change(nothing_for(commands.ended))
            self._queues.withdraw(commands.ended)
        if commands.changes is not None:
            self._hold(now_us, commands.changes)
        if commands.outages is not None:
            self._change_servers(commands.outages)
        if commands.keys is not None:
            self._queues.set_keys(commands.keys)
        if commands.ps is not None:
            self._queues.set_ps(commands.ps)
        if commands.chunks is not None:
            here = commands.chunks.copy()
            here[:, 0] -= self._workers.first
            self._queues.dispatch(here)

    def _change_servers(self, outages: Outages) -> None:
        set_capacity(self._arrays, self.placements.pool.free, outages.server, outages.up)
        self._queues.lose(np.flatnonzero(np.isin(self._slots.server, outages.server[~outages.up])))
        self._workers = self._workers_there()

    def _workers_there(self) -> Workers:
        """The workers, of which those in slots of servers that are there can be asked for."""
        slots = self._slots
        there = ~slots.on_demand & (self.placements.free[slots.server, WORKER] > 0)
        partition = np.where(there, self._arrays.server_part[slots.server], -1)
        speed_kind = np.unique(self._arrays.speed, return_inverse=True)[1]
        return Workers(self._queues, slots.first_worker, speed_kind[slots.server], partition, self._offer)

    def _hold(self, now_us: int, changes: Changes) -> None:
        self.placements.change(changes)
        servers = changes.server[: changes.ptr[changes.size[0]]]
        if (self.placements.pool.free[servers] < 0).any():
            raise RunFailedError(f"at {now_us} us site {self.servers} was told to hold more than it has")

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {
            **{f"placements.{name}": array for name, array in self.placements.state().items()},
            **{f"chunks.{name}": array for name, array in self._queues.state().items()},
            "sequence": np.array([self._sequence]),
            "answer": self._answer[0].copy(),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; the last answer is kept for a repeated request."""
        self.placements.restore(part(state, "placements"))
        self._queues.restore(part(state, "chunks"))
        self._workers = self._workers_there()
        self._sequence = int(state["sequence"][0])
        self._answer = (state["answer"].copy(), self._queues.next_us)
