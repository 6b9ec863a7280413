"""Announced jobs of one run: births, arrivals, starts, payments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ray_sim.engine.decision import NO_JOBS, Decision
from ray_sim.engine.kinds.announced.context import AnnouncedContext
from ray_sim.engine.kinds.announced.decision import AnnouncedDecision
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.outcome import AnnouncedOutcome, Fate
from ray_sim.engine.kinds.announced.policy import AnnouncedPolicy
from ray_sim.engine.kinds.announced.validation import Announced, check_announced
from ray_sim.engine.kinds.announced.view import AnnouncedSources, AnnouncedView
from ray_sim.engine.kinds.rigid.run import RigidRun
from ray_sim.engine.placements import State
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.wake import NO_WAKE, Wake
from ray_sim.kernels.core.arrays import EVENT_NAMES, RUNNING, WAITING
from ray_sim.kernels.core.record import add_event
from ray_sim.model.units import NEVER_US, BoolArray, IntArray

COME = len(EVENT_NAMES)
"""Code of the event that a job comes."""


class AnnouncedRun(RigidRun):
    """Announced jobs of one run: gangs that come some time after their submission."""

    takes: ClassVar[type[Decision]] = AnnouncedDecision

    def __init__(self, core: RunCore, facts: AnnouncedFacts, policy: AnnouncedPolicy) -> None:
        super().__init__(core, facts.progress)
        self._facts, self._policy = facts, policy
        n = len(facts.table)
        self._come: BoolArray = np.zeros(n, dtype=np.bool_)
        self._due_us: IntArray = np.full(n, -1)
        self._price: IntArray = np.zeros(n, dtype=np.int64)
        self._charged: BoolArray = np.zeros(n, dtype=np.bool_)
        self._fate: IntArray = np.full(n, Fate.OPEN, dtype=np.int64)
        self._arrival_us = facts.statements.arrival * facts.slot_us
        self._in_order = np.lexsort((np.arange(n), self._arrival_us))
        self._sorted_us = self._arrival_us[self._in_order]
        self._next = 0
        self._came: IntArray = NO_JOBS

    @property
    def view(self) -> type[AnnouncedView]:
        """Class of the views of its policies."""
        return AnnouncedView

    @property
    def observed(self) -> AnnouncedSources:
        """Sources of observations."""
        return AnnouncedSources(self._facts, self._come, self._came)

    def context(self, sees: frozenset[str], policy: str) -> AnnouncedContext:
        """Facts of the world that a policy of this name may know."""
        return AnnouncedContext(self._core.world, sees, policy)

    @property
    def next_us(self) -> int:
        """When the next job comes."""
        return int(self._sorted_us[self._next]) if self._next < len(self._sorted_us) else NEVER_US

    def happen(self, now_us: int) -> Wake:
        """Let the jobs come whose time it is; those that have ended before do not."""
        if self.next_us > now_us:
            return NO_WAKE
        first = self._next
        self._next = int(np.searchsorted(self._sorted_us, now_us, side="right"))
        jobs = np.sort(self._in_order[first : self._next])
        jobs = jobs[self._core.ledger.status[jobs] == WAITING]
        if not len(jobs) or now_us >= self._core.world.horizon_us:  # rounds are those before the horizon
            return NO_WAKE
        self._come[jobs] = True
        self._came = np.union1d(self._came, jobs)
        for job in jobs.tolist():
            add_event(self._core.recording.writer, now_us, COME, job, -1, -1, 0)
        return Wake.ARRIVAL

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse a decision that breaks a rule of announced jobs.

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """
        super().check(where, now_us, decision)
        core = self._core
        jobs = Announced(self._facts.slot_us, self._come, self._due_us, self._charged)
        check_announced(where, now_us, core.world, core.ledger, jobs, decision)

    def evict(self, now_us: int, job: int) -> None:
        """End a waiting or running job for ever, and note how far it was."""
        running = self._core.ledger.status[job] == RUNNING
        due = self._due_us[job] == now_us
        waited = Fate.CANCELLED_DUE if due else Fate.CANCELLED_EARLY
        self._fate[job] = Fate.EVICTED_RUNNING if running else waited
        super().evict(now_us, job)

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Note starts and payments, then start jobs."""
        self._came = NO_JOBS
        if isinstance(decision, AnnouncedDecision):
            if decision.launches is not None:
                self._launch(now_us, decision.launches.job, decision.launches.start_us)
            if decision.charges is not None:
                self._price[decision.charges.job] = decision.charges.price
                self._charged[decision.charges.job] = True
        super().carry_out(now_us, decision)

    def _launch(self, now_us: int, jobs: IntArray, start_us: IntArray) -> None:
        self._due_us[jobs] = start_us
        at_once = jobs[start_us == now_us]  # the same decision may have evicted them
        self._fate[at_once[self._fate[at_once] == Fate.CANCELLED_EARLY]] = Fate.CANCELLED_DUE

    def outcome(self, now_us: int, end_us: int) -> AnnouncedOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
        return AnnouncedOutcome(
            self._core.ledger,
            now_us,
            self._facts,
            self._come.copy(),
            self._price.copy(),
            self._charged.copy(),
            self._fate.copy(),
            self._core.world.horizon_us,
            self._policy.quotes(self._facts.statements.arrival, self._facts.statements.signal),
        )

    def state(self) -> State:
        """Arrays that `restore` takes."""
        scalars = {"next": np.array([self._next]), "came": self._came.copy()}
        arrays = {"come": self._come, "due_us": self._due_us, "price": self._price, "fate": self._fate}
        arrays["charged"] = self._charged
        return scalars | {name: array.copy() for name, array in arrays.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._next, self._came = int(state["next"][0]), state["came"].astype(np.int64)
        self._come[:], self._due_us[:] = state["come"], state["due_us"]
        self._price[:], self._fate[:] = state["price"], state["fate"]
        self._charged[:] = state["charged"]
