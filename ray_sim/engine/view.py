"""Observations of a policy at one decision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.engine.decision import NO_JOBS
from ray_sim.engine.kinds.base import ElasticObservations, Losses
from ray_sim.engine.kinds.chunked.ledger import ChunkLedger
from ray_sim.engine.placements import State, VisiblePlacements
from ray_sim.engine.read_only import read_only
from ray_sim.engine.sites.fleet import Fleet
from ray_sim.engine.kinds.chunked.new_chunks import NewChunks, merged
from ray_sim.engine.sites.site_queries import BETAS, INCREMENTS, LEAST_LOADED, TIME_LEFT, Query
from ray_sim.engine.visible_columns import JobColumns
from ray_sim.kernels.core.arrays import RUNNING as RUNNING_STATUS
from ray_sim.kernels.core.arrays import WAITING, Ledger
from ray_sim.kernels.core.progress import executed_of, work_left_of
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class View:
    """All a policy may know when it decides. Nothing in it can be changed."""

    now_us: int
    arrived: IntArray
    """Jobs that began to wait since the last decision, sorted: submitted, or returned."""
    returned: IntArray
    """Arrived jobs that lost a server, sorted. Whole jobs ran, and wait from their last checkpoint on; of
    chunked jobs the chunks that were there are `undispatched` again, others may run."""
    completed: IntArray
    """Jobs that ended since the last decision, sorted."""
    changed_servers: IntArray
    """Servers that went or came back since the last decision, sorted."""
    available: BoolArray
    """(S,) servers that are there now; the others have nothing free."""
    reviewed: bool
    """Whether a review time the policy asked for has come."""
    at_slot: bool
    """Whether this is a slot boundary the policy asked for."""
    jobs: JobColumns
    placements: VisiblePlacements
    arrivals: int
    """Jobs 0 .. arrivals - 1 have been submitted."""
    _ledger: Ledger
    _sees: frozenset[str]
    _policy: str
    _fleet: Fleet
    _chunked: ChunkLedger | None
    _elastic: ElasticObservations | None

    @property
    def active(self) -> IntArray:
        """Chunked jobs that have a worker, sorted; without a parameter server they make no progress."""
        return NO_JOBS if self._chunked is None else np.flatnonzero(self._chunked.jobs.active)

    @property
    def stalled(self) -> IntArray:
        """Active jobs without a parameter server, sorted."""
        return NO_JOBS if self._chunked is None else self._chunked.stalled

    @property
    def idle_holders(self) -> IntArray:
        """Chunked jobs that hold a parameter server and are not active, sorted."""
        return NO_JOBS if self._chunked is None else self._chunked.idle_holders

    @property
    def only_in_cloud(self) -> BoolArray:
        """(J,) chunked jobs none of whose workers is in a slot; with `active`, all workers are in a cloud."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        none: BoolArray = self._chunked.jobs.in_slots == 0
        return none

    @property
    def in_cloud(self) -> BoolArray:
        """(J,) chunked jobs that are trained in the cloud without communication (zeta)."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return read_only(self._chunked.jobs.in_cloud)

    def undispatched(self, jobs: IntArray) -> IntArray:
        """(n, 2) rows job, unit of all chunks of chunked jobs that are on no worker and not done."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return self._chunked.undispatched(jobs)

    def ask(self, kind: str, **arrays: np.ndarray) -> State:
        """Ask all sites, see `ray_sim.engine.sites.site_queries`."""
        self._demand_sight("worker_load")
        return self._fleet.ask(Query(kind, self.now_us, arrays))

    def least_loaded(self, partitions: IntArray, units: IntArray, needs: IntArray | None = None) -> IntArray:
        """(n, 3) rows worker, microseconds of work left on it, chunks on it that are not done.

        The ``units`` least loaded worker slots of each partition are among them, of those that may train a
        job that ``needs`` such a level of memory, 0 unless given; a cloud has no slots. Where a partition is
        asked for twice with different needs, workers come twice.
        """
        needs = np.zeros_like(units) if needs is None else needs
        return self.ask(LEAST_LOADED, partitions=partitions, units=units, needs=needs)["rows"]

    def increments(self, new: NewChunks) -> IntArray:
        """(n, 2) rows worker, increment of where chunks would go, one after another; none if nowhere.

        An increment is D Q of Wang et al.: by how many microseconds the chunk adds to the sum over chunks of
        flow times, each over the chunks of its job, times D of its own job.
        """
        rows = self.ask(INCREMENTS, **new.arrays())["rows"]
        return merged(rows, new.count)[:, [0, 2]]

    def betas(self) -> FloatArray:
        """Sum over chunks of (work left) / key, for each worker slot that is there, in order."""
        betas: FloatArray = self.ask(BETAS)["betas"]
        return betas

    def chunk_time_left_us(self, jobs: IntArray) -> IntArray:
        """(n,) what the chunks on workers of each job need at least, their uploads included; 0 without any.

        As if each worker served only this job from now on.
        """
        rows = self.ask(TIME_LEFT, jobs=jobs)["rows"]
        left_us = np.zeros(len(jobs), dtype=np.int64)
        np.maximum.at(left_us, np.searchsorted(jobs, rows[:, 0]), rows[:, 1])
        return left_us

    @property
    def waiting(self) -> IntArray:
        """Jobs that have arrived and hold nothing, or have no chunk that makes progress; sorted."""
        return np.flatnonzero(self._ledger.status[: self.arrivals] == WAITING)

    @property
    def running(self) -> IntArray:
        """Jobs that hold servers, or have a chunk that makes progress; sorted."""
        return np.flatnonzero(self._ledger.status[: self.arrivals] == RUNNING_STATUS)

    @property
    def free(self) -> IntArray:
        """(S, R) free quanta, read-only."""
        return self.placements.free

    def work_left(self, jobs: IntArray) -> FloatArray:
        """Work each whole job has left now: microseconds at speed 1, or samples of an elastic job."""
        self._demand_sight("work_left")
        if self._chunked is not None:
            raise BlindPolicyError(f"policy {self._policy} observes work_left, which jobs in chunks have not")
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs.copy(), self.now_us, left)
        return left

    def time_left_us(self, jobs: IntArray) -> FloatArray:
        """Microseconds of run time that each whole job has left, of `duration_s` in all.

        Of an elastic job it is that share of its run time, with what it asks for, whose samples are left.
        """
        left = self.work_left(jobs)
        if self._elastic is None:
            return left
        if "duration_s" not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} asks for time left, but its `sees` lacks duration_s"
            )
        return self._elastic.share_left(jobs, left) * self.jobs.work_us[jobs]

    def samples_per_s(self, jobs: IntArray) -> FloatArray:
        """Samples each running elastic job trains per second, restart pauses left out; else 0."""
        self._demand_sight("training_speed")
        running = self._ledger.status[jobs] == RUNNING_STATUS
        return np.where(running, self._ledger.rate[jobs] * US_PER_S, 0.0)

    def slowdown(self, jobs: IntArray) -> FloatArray:
        """Step time of the slowest worker of each elastic job relative to the others, >= 1."""
        self._demand_sight("slow_workers")
        assert self._elastic is not None, "only in worlds of elastic jobs, see Policy.elastic"
        return read_only(self._elastic.straggling)[jobs]

    def losses(self, jobs: IntArray, first: IntArray) -> Losses:
        """Losses of elastic jobs at the ends of their epochs so far, from epoch number ``first`` on."""
        self._demand_sight("losses")
        assert self._elastic is not None, "only in worlds of elastic jobs, see Policy.elastic"
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs.copy(), self.now_us, left)
        return self._elastic.losses(jobs, first, left)

    def executed_us(self, jobs: IntArray) -> IntArray:
        """Microseconds in which each job has made progress."""
        self._demand_sight("attained_service")
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(self._ledger, jobs.copy(), self.now_us, ran)
        return ran

    def first_start_us(self, jobs: IntArray) -> IntArray:
        """First start of each job, `NEVER_US` before it."""
        return read_only(self._ledger.first_start)[jobs]

    def last_stop_us(self, jobs: IntArray) -> IntArray:
        """When each job last lost its servers, `NEVER_US` before it has."""
        return read_only(self._ledger.last_stop)[jobs]

    def pause_left_us(self, jobs: IntArray) -> IntArray:
        """Microseconds left of each running job's restart pause."""
        return np.maximum(self._ledger.anchor[jobs] - self.now_us, 0)

    def _demand_sight(self, observation: str) -> None:
        if observation not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} observes {observation}, which its `sees` does not declare"
            )
