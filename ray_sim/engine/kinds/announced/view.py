"""Base class of policies for announced jobs, and what they see: facts of the world, observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import NO_JOBS, Wake
from ray_sim.engine.kinds.announced.bounds import StatementBounds
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.jobs import ANNOUNCED
from ray_sim.engine.kinds.announced.rounds import RoundedJobs
from ray_sim.engine.placements import nothing_for
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import COMPLETED, WAITING, Changes
from ray_sim.kernels.core.pool_placement import fill_servers
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.quotes import Quotes
from ray_sim.model.statement import Statements
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray, FloatArray, IntArray
from ray_sim.model.welfare_audit import MechanismRecord


class AnnouncedContext(PolicyContext):
    """Facts of a world of announced jobs. Arrays are read-only."""

    __slots__ = {
        "bounds": "Bounds that all statements keep, see `StatementBounds`.",
        "nodes": "C: GPUs of all servers.",
        "round_us": "Length of a round in microseconds.",
        "rounds": "T: whole rounds up to the horizon; None without a horizon.",
        "signal": "Signal of the duration at the arrival: none, partial or full.",
    }

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        super().__init__(world, sees, policy)
        facts = AnnouncedFacts.in_world(world)
        self._reported: Statements = read_only_record(facts.statements.reported)
        self._sees_statements = "statements" in sees
        self.round_us: int = facts.slot_us
        self.rounds: int | None = self.horizon_us // facts.slot_us if self.horizon_us is not None else None
        self.nodes: int = facts.nodes
        self.bounds: StatementBounds = facts.bounds
        self.signal: str = facts.signal

    def job_name(self, job: int) -> str:
        """``job_id`` of a job, for messages."""
        return str(self._world.table.job_id[job])

    @property
    def statements(self) -> Statements:
        """Reports of all jobs; a policy is to look only at jobs that have been submitted."""
        if not self._sees_statements:
            raise BlindPolicyError(f"policy {self._policy} reads statements; add 'statements' to its `sees`")
        return self._reported


@dataclass(frozen=True, slots=True)
class AnnouncedSources:
    """Sources of the observations of announced jobs."""

    facts: AnnouncedFacts
    come: BoolArray
    """(J,) jobs that have come."""
    came: IntArray
    """Jobs that came since the last decision, sorted."""


@dataclass(frozen=True, slots=True)
class AnnouncedView(View):
    """View of a policy in a world of announced jobs.

    `arrived` are jobs that were submitted, at their births; `came` are jobs that have come since the last
    decision. A job waits from its birth on.
    """

    _observed: AnnouncedSources

    @property
    def round(self) -> int:
        """The round that begins now."""
        return self.now_us // self._observed.facts.slot_us

    @property
    def came(self) -> IntArray:
        """Jobs that came since the last decision and have not been evicted or rejected, sorted."""
        came = self._observed.came
        return read_only(came[self._ledger.status[came] == WAITING])

    @property
    def failed(self) -> IntArray:
        """Jobs of `completed`, sorted, that have failed or were killed; a policy cannot charge them."""
        return read_only(self.completed[self._ledger.status[self.completed] != COMPLETED])

    @property
    def present(self) -> IntArray:
        """Jobs that have come and wait, sorted."""
        waiting = self.waiting
        return waiting[self._observed.come[waiting]]

    def signals(self, jobs: IntArray) -> IntArray:
        """(n,) signals of the durations of jobs that have come: 0, the binary digits, or the rounds."""
        if not self._observed.come[jobs].all():
            raise BlindPolicyError(f"policy {self._policy} reads signals of jobs that have not come")
        return self._observed.facts.statements.signal[jobs]

    def overload(self, due: IntArray, gone: IntArray = NO_JOBS) -> IntArray:
        """Jobs to evict so that running and due jobs fit, last born first; sorted.

        Every job that is submitted and has not ended may be among them, also one that holds nothing and one
        that has not come (LIFO eviction; Babaioff et al., Algorithm 1).

        Parameters
        ----------
        due : waiting jobs that are to start now, sorted
        gone : jobs that the same decision rejects or evicts anyway, sorted
        """
        facts, running = self._observed.facts, np.setdiff1d(self.running, gone)
        gpus = facts.statements.reported.concurrency
        excess = int(gpus[running].sum() + gpus[due].sum()) - facts.nodes
        if excess <= 0:
            return NO_JOBS
        active = np.setdiff1d(np.union1d(self.waiting, running), gone)[::-1]
        held = np.where(np.isin(active, running) | np.isin(active, due), gpus[active], 0)
        enough = int(np.searchsorted(np.cumsum(held), excess))
        return np.sort(active[: enough + 1])

    def starts(self, jobs: IntArray, gone: IntArray = NO_JOBS) -> Changes:
        """Placements of jobs that start now, on the first servers with free GPUs.

        Parameters
        ----------
        jobs : waiting jobs that fit, sorted
        gone : running jobs that the same decision evicts, sorted
        """
        facts = self._observed.facts
        if not len(jobs):
            return nothing_for(NO_JOBS)
        gpu = facts.table.resources.index("gpu")
        free = self.placements.free[:, gpu] // QUANTA_PER_UNIT["gpu"]
        leaving = self.placements.rows_of(gone)
        np.add.at(free, leaving.server, leaving.tasks)
        gpus = facts.statements.reported.concurrency[jobs]
        ptr = np.zeros(len(jobs) + 1, dtype=np.int64)
        server, tasks = np.empty((2, len(jobs) + len(free)), dtype=np.int64)
        n = fill_servers(free, gpus, ptr, server, tasks)
        return Changes(
            job=jobs.copy(),
            ptr=ptr,
            server=server[:n],
            role=np.zeros(n, dtype=np.int64),
            tasks=tasks[:n],
            order=np.arange(len(jobs)),
            size=np.array([len(jobs)]),
        )

    def work_left(self, jobs: IntArray) -> FloatArray:
        """Refuse: durations show only when jobs end.

        Raises
        ------
        BlindPolicyError : always
        """
        raise BlindPolicyError(f"policy {self._policy} reads work_left; durations show when jobs end")


class MechanismAudit(Protocol):
    """Record of a run under audit."""

    def record(self) -> MechanismRecord:
        """The record of the whole run; called once the run has ended."""


class AnnouncedPolicy(Policy[AnnouncedContext, AnnouncedView]):
    """A scheduler of announced jobs: it plans, starts and evicts them, and charges them.

    It runs under truth=announced, decides once in each round, and answers with an `AnnouncedDecision`.
    """

    schedules: ClassVar[str] = ANNOUNCED
    sees: frozenset[str] = frozenset({"statements"})
    wake_on: Wake = Wake.SLOT | Wake.COMPLETION

    def audited(self, jobs: RoundedJobs) -> MechanismAudit | None:
        """Record the run that follows for `ray-sim run --audit`; None for policies without prices.

        Called before `start`, with what policies do not know of jobs; decisions must be the same.
        """
        return None

    def quotes(self, arrival: IntArray, signal: IntArray) -> Quotes:
        """Offers to jobs with these true arrivals (rounds) and signals, (J,) each; after the run."""
        return Quotes.none(len(arrival))
