"""Base class of policies for chunked jobs, and what they see: facts of the world, observations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.chunked.eligibility import Eligibility
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.increment_query import IncrementQuery, Offers, SiteOffers, merged_offers
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.chunked.ledger import ChunkLedger
from ray_sim.engine.kinds.chunked.worker_queries import BETAS, INCREMENTS, LEAST_LOADED, TIME_LEFT, WORK
from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.sites.fleet import Fleet
from ray_sim.engine.sites.site import Query
from ray_sim.engine.states import State
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.units import BoolArray, FloatArray, IntArray


class ChunkedContext(PolicyContext):
    """Facts of a world of chunked jobs. Arrays are read-only."""

    __slots__ = {
        "preemption_us": "Work that a chunk owes more each time it is preempted, in microseconds.",
        "workers": "Worker slots of all servers, see `WorkerSlots`.",
    }

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        super().__init__(world, sees, policy)
        self._facts = ChunkFacts.in_world(world)
        self._sees_profile = "chunk_profile" in sees
        self.preemption_us: int = self._facts.preemption_us
        self.workers: WorkerSlots = read_only_record(self._facts.slots)

    @property
    def eligible(self) -> Eligibility:
        """Eligibility of workers and parameter servers for jobs."""
        return self._eligible

    @cached_property
    def _eligible(self) -> Eligibility:
        return read_only_record(self._facts.eligible)

    def chunk_us(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray | bool = False) -> IntArray:
        """Microseconds of chunks of these jobs on these workers; see `ChunkFacts.chunk_us`."""
        return self._profiled().chunk_us(jobs, workers, in_cloud)

    def upload_us(self, jobs: IntArray, workers: IntArray) -> IntArray:
        """Microseconds until data of these jobs that are sent off are at these workers."""
        return self._profiled().upload_us(jobs, workers)

    def ready_us(self, now_us: int, jobs: IntArray, workers: IntArray) -> IntArray:
        """When chunks that are sent off at ``now_us`` can be trained by these workers."""
        return self._profiled().ready_us(now_us, jobs, workers)

    def cloud_serves(self, jobs: IntArray) -> BoolArray:
        """Whether parameter servers in a cloud may serve jobs, which zeta = 1 takes."""
        return read_only(self._profiled().cloud_serves)[jobs]

    def _profiled(self) -> ChunkFacts:
        if not self._sees_profile:
            raise BlindPolicyError(
                f"policy {self._policy} asks how long chunks take, but its `sees` lacks chunk_profile"
            )
        return self._facts


class UndispatchedChunks(NamedTuple):
    """Chunks that are on no worker and not done, one entry each, by (job, unit)."""

    job: IntArray
    unit: IntArray
    """Number of the chunk within its job, from 0 on."""


class WorkerLoads(NamedTuple):
    """Loads of worker slots, one entry each."""

    worker: IntArray
    """Numbers as in `WorkerSlots`."""
    work_left_us: IntArray
    """Work left on the worker."""
    chunks: IntArray
    """Chunks on the worker that are not done."""


class ChunkWork(NamedTuple):
    """Work of some jobs in time on the workers of their chunks, (n,) each."""

    left_us: IntArray
    """Time that the chunks on workers still need, with what preemptions cost."""
    trained_us: IntArray
    """Training done so far; a chunk that was lost counts from 0 again."""


@dataclass(frozen=True, slots=True)
class ChunkedSources:
    """Sources of the observations of chunked jobs."""

    ledger: ChunkLedger
    fleet: Fleet


@dataclass(frozen=True, slots=True)
class ChunkedView(View):
    """View of a policy in a world of chunked jobs.

    A job waits while no chunk of it makes progress. After a loss of a server the chunks that were there are
    `undispatched` again; others may run. After a stop all that are not done are.
    """

    _observed: ChunkedSources

    @property
    def active(self) -> IntArray:
        """Jobs that have a worker, sorted; without a parameter server they make no progress."""
        return np.flatnonzero(self._observed.ledger.jobs.active)

    @property
    def stalled(self) -> IntArray:
        """Active jobs without a parameter server, sorted."""
        return self._observed.ledger.stalled

    @property
    def idle_holders(self) -> IntArray:
        """Jobs that hold a parameter server and are not active, sorted."""
        return self._observed.ledger.idle_holders

    @property
    def only_in_cloud(self) -> BoolArray:
        """(J,) jobs none of whose workers is in a slot; with `active`, all workers are in a cloud."""
        none: BoolArray = self._observed.ledger.jobs.in_slots == 0
        return none

    @property
    def in_cloud(self) -> BoolArray:
        """(J,) jobs that are trained in the cloud without communication (zeta)."""
        return read_only(self._observed.ledger.jobs.in_cloud)

    def undispatched(self, jobs: IntArray) -> UndispatchedChunks:
        """Chunks of these jobs that are on no worker and not done."""
        return UndispatchedChunks(*self._observed.ledger.undispatched(jobs))

    def least_loaded(
        self, partitions: IntArray, units: IntArray, needs: IntArray | None = None
    ) -> WorkerLoads:
        """Loads of worker slots, among them the ``units`` least loaded ones of each partition.

        A cloud has no slots. Where a partition is asked for twice with different needs, workers come twice.

        Parameters
        ----------
        partitions, units : (n,)
        needs : (n,) level of memory that the slots must offer, see `Eligibility`; 0 without it
        """
        needs = np.zeros_like(units) if needs is None else needs
        return WorkerLoads(**self._ask(LEAST_LOADED, partitions=partitions, units=units, needs=needs))

    def increments(self, query: IncrementQuery) -> Offers:
        """Workers that chunks of one job would go to, one after another, and their increments D Q.

        Nothing is sent. Each chunk counts as queued for those after it. Q (Wang et al., see
        docs/models/a_online.md) is by how much the chunk adds to the sum of flow times of jobs, where a chunk
        counts 1/D of its job of D chunks; D Q is a whole number of microseconds.

        Parameters
        ----------
        query : the chunks; docs/examples/least_increment.py shows each field

        Returns
        -------
        As many entries as `query.count`, or none if no worker may train them.
        """
        return merged_offers(SiteOffers(**self._ask(INCREMENTS, **query.arrays())), query.count)

    def betas(self) -> FloatArray:
        """Sum over chunks of (work left) / key, for each worker slot that is there, in order."""
        betas: FloatArray = self._ask(BETAS)["betas"]
        return betas

    def chunk_time_left_us(self, jobs: IntArray) -> IntArray:
        """(n,) least time that the chunks on workers of each job need, uploads included; 0 without any.

        As if each worker served only this job from now on.
        """
        left = self._ask(TIME_LEFT, jobs=jobs)
        left_us = np.zeros(len(jobs), dtype=np.int64)
        np.maximum.at(left_us, np.searchsorted(jobs, left["job"]), left["time_left_us"])
        return left_us

    def chunk_work(self, jobs: IntArray) -> ChunkWork:
        """Work left and training done of each job, chunks that are undispatched count nothing.

        Parameters
        ----------
        jobs : (n,) sorted
        """
        here = self._ask(WORK, jobs=jobs, chunks=self._observed.ledger.facts.chunks[jobs])
        at = np.searchsorted(jobs, here["job"])
        work = ChunkWork(
            np.zeros(len(jobs), dtype=np.int64), self._observed.ledger.rounding.trained_us[jobs].copy()
        )
        np.add.at(work.left_us, at, here["left_us"])
        np.add.at(work.trained_us, at, here["trained_us"])
        return work

    def work_left(self, jobs: IntArray) -> FloatArray:
        """Chunked jobs have no single amount of work.

        Raises
        ------
        BlindPolicyError : always
        """
        raise BlindPolicyError(f"policy {self._policy} observes work_left, which jobs in chunks have not")

    def _ask(self, question: str, **arrays: np.ndarray) -> State:
        self._demand_visible("worker_load")
        return self._observed.fleet.ask(Query(question, self.now_us, arrays))


class ChunkedPolicy(Policy[ChunkedContext, ChunkedView]):
    """A scheduler of chunked jobs: it dispatches chunks to workers and places parameter servers.

    It runs under truth=a_online. It answers with a `ChunkedDecision`.
    """

    schedules: ClassVar[str] = CHUNKED
