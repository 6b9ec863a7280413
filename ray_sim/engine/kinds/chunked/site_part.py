"""Workers of a site and their chunk queues, and the routing of commands to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.kinds.chunked.worker_queries import ANSWERS, Workers
from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.sites.part import PartCommands, PartFacts, PartRouting, SitePart
from ray_sim.engine.states import State
from ray_sim.kernels.chunked.queue_state import EVENT_WORKER, ChunkRows
from ray_sim.kernels.core.arrays import WORKER, Outages, WorldArrays
from ray_sim.model.units import BoolArray, IntArray


class JobValues(NamedTuple):
    """A number for each of some jobs, sorted."""

    job: IntArray
    value: IntArray


@dataclass(frozen=True, slots=True)
class ChunkCommands:
    """Commands about chunks, carried out in this order."""

    keys: JobValues | None = None
    """New key of all chunks of a job on workers."""
    ps: JobValues | None = None
    """Whether a job holds a parameter server from now on, anywhere; 0 or 1."""
    stopped: IntArray | None = None
    """Jobs that are stopped, sorted: their chunks are lost. Only in commands that are `first`."""
    chunks: ChunkRows | None = None
    """Dispatched chunks. ``ready`` and ``left`` are the end of the upload and the work, in microseconds;
    ``inverse_rate`` is the chunks of the job times the work, which is no key but the weight of increments."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        columns = [*(self.keys or ()), *(self.ps or ()), self.stopped, *(self.chunks or ())]
        return sum(column.nbytes for column in columns if column is not None)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to carry out."""
        return all(each is None for each in (self.keys, self.ps, self.stopped, self.chunks))


@dataclass(frozen=True, slots=True)
class ChunkPartFacts(PartFacts):
    """Workers of a cluster, for all sites."""

    slots: WorkerSlots
    workers_offer: IntArray
    """(S,) see `Eligibility`."""
    preemption_us: int
    """Work added to a chunk by each preemption."""
    reports: ClassVar[bool] = True

    def at_site(self, arrays: WorldArrays, first_server: int, last_server: int, free: IntArray) -> ChunkPart:
        """The workers of a site, without chunks."""
        return ChunkPart(self, arrays, first_server, last_server, free)

    def routing(self, sites: int, jobs: int) -> ChunkRouting:
        """Routing before any chunk is dispatched."""
        return ChunkRouting(self.slots.server, sites, jobs)


class ChunkPart(SitePart):
    """Workers of a site, each with its queue of chunks."""

    def __init__(
        self, facts: ChunkPartFacts, arrays: WorldArrays, first_server: int, last_server: int, free: IntArray
    ) -> None:
        self._arrays = arrays
        self._slots = facts.slots.of_servers(first_server, last_server)
        self._offer = facts.workers_offer[self._slots.server]
        self._queues = ChunkQueues(self._slots.on_demand, len(arrays.submit), facts.preemption_us)
        self._there: BoolArray = self._that_are_there(free)
        self._workers = self._workers_there()

    @property
    def next_us(self) -> int:
        """When something happens to a chunk next."""
        return self._queues.next_us

    def come_to(self, now_us: int) -> None:
        """Note the time; nothing is due before it."""
        self._queues.come_to(now_us)

    def withdraw(self, jobs: IntArray) -> None:
        """Drop the chunks of jobs that have ended."""
        self._queues.withdraw(jobs)

    def change_servers(self, outages: Outages, free: IntArray) -> None:
        """Drop the chunks on servers that go."""
        self._queues.lose(np.flatnonzero(np.isin(self._slots.server, outages.server[~outages.up])))
        self._there = self._that_are_there(free)
        self._workers = self._workers_there()

    def carry_out(self, commands: PartCommands) -> None:
        """Set keys, then parameter servers, then stop jobs, then dispatch chunks."""
        assert isinstance(commands, ChunkCommands)
        if commands.keys is not None:
            self._queues.set_keys(*commands.keys)
        if commands.ps is not None:
            self._queues.set_ps(*commands.ps)
        if commands.stopped is not None:
            self._queues.stop(commands.stopped)
        if commands.chunks is not None:
            chunks = commands.chunks
            self._queues.dispatch(chunks._replace(worker=chunks.worker - self._workers.first))

    def advance(self, now_us: int) -> IntArray:
        """Go on to ``now_us``; returns events, whose workers have their numbers in the cluster."""
        events = self._queues.advance(now_us)
        events[:, EVENT_WORKER] += self._workers.first
        return events

    def ask(self, question: str, now_us: int, arguments: Mapping[str, np.ndarray]) -> State:
        """Answer one of `ANSWERS`."""
        return ANSWERS[question](self._workers, now_us, arguments)

    def _that_are_there(self, free: IntArray) -> BoolArray:
        """(W,) slots of servers that are there; a server that is away has no free ones."""
        slots = self._slots
        there: BoolArray = ~slots.on_demand & (free[slots.server, WORKER] > 0)
        return there

    def _workers_there(self) -> Workers:
        """The workers, of which those in slots of servers that are there can be asked for."""
        slots, arrays = self._slots, self._arrays
        partition = np.where(self._there, arrays.server_part[slots.server], -1)
        return Workers(self._queues, slots.first_worker, slots.kind, partition, self._offer)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {**self._queues.state(), "there": self._there.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._queues.restore(state)
        self._there = state["there"].copy()
        self._workers = self._workers_there()


class ChunkRouting(PartRouting):
    """Jobs with chunks at each site; one site concerns all jobs."""

    def __init__(self, worker_server: IntArray, sites: int, jobs: int) -> None:
        self._worker_server = worker_server
        self._trains: BoolArray = np.zeros((sites, jobs), dtype=np.bool_)

    def share(
        self, site: int, commands: PartCommands, here: Callable[[IntArray], BoolArray]
    ) -> ChunkCommands | None:
        """Chunks for the site's workers, and keys and parameter servers of jobs that have chunks there."""
        assert isinstance(commands, ChunkCommands)
        chunks = commands.chunks
        if chunks is not None:
            mine = here(self._worker_server[chunks.worker])
            chunks = ChunkRows(*(column[mine] for column in chunks))
            self._trains[site, chunks.job] = True
        stopped = commands.stopped
        if stopped is not None:
            stopped = stopped[self._trains[site, stopped]]
        share = ChunkCommands(
            keys=self._of_trained(site, commands.keys),
            ps=self._of_trained(site, commands.ps),
            stopped=None if stopped is None or len(stopped) == 0 else stopped,
            chunks=None if chunks is None or len(chunks.job) == 0 else chunks,
        )
        return None if share.empty else share

    def _of_trained(self, site: int, values: JobValues | None) -> JobValues | None:
        """Values of jobs that have had chunks at the site; None without any."""
        if values is None:
            return None
        mine = self._trains[site, values.job]
        return JobValues(values.job[mine], values.value[mine]) if mine.any() else None

    def concerned(self, site: int, jobs: IntArray) -> BoolArray:
        """(n,) jobs that have had chunks at the site."""
        found: BoolArray = self._trains[site, jobs]
        return found

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"trains": self._trains.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._trains[:] = state["trains"]
