"""Observations of a policy at one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ray_sim.engine.placements import VisiblePlacements
from ray_sim.engine.read_only import read_only
from ray_sim.engine.visible_columns import JobColumns
from ray_sim.kernels.core.arrays import RUNNING as RUNNING_STATUS
from ray_sim.kernels.core.arrays import WAITING, Ledger
from ray_sim.kernels.core.progress import executed_of, work_left_of
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class View:
    """All a policy may know when it decides. Nothing in it can be changed."""

    __slots__ = {  # texts for `help`
        "_attempt": "",
        "_ledger": "",
        "_observed": "Observations that only one kind of job offers.",
        "_policy": "",
        "_sees": "",
        "arrivals": "Jobs 0 .. arrivals - 1 have been submitted.",
        "arrived": "Jobs that began to wait since the last decision, sorted: submitted, or returned.",
        "at_slot": "Whether this is a slot boundary the policy asked for.",
        "available": "(S,) servers that are there now; the others have nothing free.",
        "changed_servers": "Servers that went or came back since the last decision, sorted.",
        "completed": "Jobs that ended since the last decision, sorted.",
        "jobs": "Columns of all jobs that the policy's `sees` declares, as `world.jobs`; see `JobColumns`.",
        "now_us": "Time of the decision, in microseconds.",
        "placements": "What jobs hold now, see `VisiblePlacements`.",
        "returned": "Arrived jobs that lost what they had on a server, sorted; gangs go on from their last "
        "checkpoint.",
        "reviewed": "Whether a review time the policy asked for has come.",
    }

    now_us: int
    arrived: IntArray
    returned: IntArray
    completed: IntArray
    changed_servers: IntArray
    available: BoolArray
    reviewed: bool
    at_slot: bool
    jobs: JobColumns
    placements: VisiblePlacements
    arrivals: int
    _attempt: IntArray
    _ledger: Ledger
    _sees: frozenset[str]
    _policy: str
    _observed: object

    if not TYPE_CHECKING:  # mypy would take every name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            kind = next((kind for kind in View.__subclasses__() if hasattr(kind, name)), None)
            where = "which no view has" if kind is None else f"which only {kind.__name__} has"
            raise AttributeError(f"policy {self._policy} reads view.{name}, {where}; see ray_sim.policy_api")

    @property
    def waiting(self) -> IntArray:
        """Jobs that have arrived and make no progress, sorted; gangs hold nothing."""
        return self._in_state(WAITING)

    @property
    def running(self) -> IntArray:
        """Jobs that make progress, sorted; gangs hold servers."""
        return self._in_state(RUNNING_STATUS)

    @property
    def free(self) -> IntArray:
        """(S, R) free quanta, read-only."""
        return self.placements.free

    @property
    def free_devices(self) -> IntArray:
        """(S, D) free milli-GPU of each device, read-only; D is 0 where no task asks for a share of a GPU."""
        return self.placements.free_devices

    def work_left(self, jobs: IntArray) -> FloatArray:
        """(n,) work left of each job, in the unit of its kind; of rigid jobs microseconds at speed 1."""
        self._demand_visible("work_left")
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs.copy(), self.now_us, left)
        return left

    def time_left_us(self, jobs: IntArray) -> FloatArray:
        """(n,) microseconds of run time that each job has left, of `duration_s` in all."""
        return self.work_left(jobs)

    def executed_us(self, jobs: IntArray) -> IntArray:
        """Microseconds in which each job has made progress."""
        self._demand_visible("attained_service")
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(self._ledger, jobs.copy(), self.now_us, ran)
        return ran

    def first_start_us(self, jobs: IntArray) -> IntArray:
        """First start of each job, `NEVER_US` before it."""
        return read_only(self._ledger.first_start)[jobs]

    def last_start_us(self, jobs: IntArray) -> IntArray:
        """When each job last went from waiting to running, `NEVER_US` before it has; a move is no start."""
        ledger = self._ledger
        return np.where(ledger.first_start[jobs] == NEVER_US, NEVER_US, ledger.held_since[jobs])

    def waited_us(self, jobs: IntArray) -> IntArray:
        """Microseconds for which each waiting or running job has been waiting since submission, in all."""
        ledger, runs = self._ledger, self._ledger.status[jobs] == RUNNING_STATUS
        held = ledger.held[jobs] + np.where(runs, self.now_us - ledger.held_since[jobs], 0)
        return self.now_us - self.jobs.submit_us[jobs] - held

    def last_stop_us(self, jobs: IntArray) -> IntArray:
        """When each job last lost its servers, `NEVER_US` before it has."""
        return read_only(self._ledger.last_stop)[jobs]

    def attempts(self, jobs: IntArray) -> IntArray:
        """(n,) times that each job has failed and was tried again."""
        self._demand_visible("attempts")
        return read_only(self._attempt)[jobs]

    def pause_left_us(self, jobs: IntArray) -> IntArray:
        """Microseconds left of each running job's restart pause."""
        return np.maximum(self._ledger.anchor[jobs] - self.now_us, 0)

    def _in_state(self, status: int) -> IntArray:
        """Jobs that have arrived and are in this state, sorted."""
        jobs: IntArray = (self._ledger.status[: self.arrivals] == status).nonzero()[0]
        return jobs

    def _demand_visible(self, observation: str) -> None:
        if observation not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} observes {observation}, which its `sees` does not declare"
            )
