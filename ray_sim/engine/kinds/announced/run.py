"""Announced jobs of one run: births, arrivals, starts, payments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from ray_sim.engine.decision import NO_JOBS, NO_WAKE, Decision, Wake
from ray_sim.engine.kinds.announced.decision import AnnouncedDecision, Charges, Launches
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.outcome import AnnouncedOutcome, Fate
from ray_sim.engine.kinds.announced.view import (
    AnnouncedContext,
    AnnouncedPolicy,
    AnnouncedSources,
    AnnouncedView,
)
from ray_sim.engine.kinds.run import KindRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.states import State, sorted_indices, within
from ray_sim.engine.validation import job_name
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import COMPLETED, EVENT_NAMES, RUNNING, WAITING
from ray_sim.kernels.core.record import add_event
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, IntArray

COME = len(EVENT_NAMES)
"""Code of the event that a job comes."""


class AnnouncedRun(KindRun):
    """Announced jobs of one run: gangs that come some time after their submission."""

    view: ClassVar[type[View]] = AnnouncedView
    decision_type: ClassVar[type[Decision]] = AnnouncedDecision

    def __init__(self, core: RunCore, facts: AnnouncedFacts, policy: AnnouncedPolicy) -> None:
        super().__init__(core, facts.progress)
        self._facts, self._policy = facts, policy
        n = len(facts.table)
        self._come: BoolArray = np.zeros(n, dtype=np.bool_)
        self._charged: BoolArray = np.zeros(n, dtype=np.bool_)
        self._due_us: IntArray = np.full(n, -1)
        """Starts that bind, -1 where there is none."""
        self._price: IntArray = np.zeros(n, dtype=np.int64)
        self._fate: IntArray = np.full(n, Fate.OPEN, dtype=np.int64)
        self._kept = {"come": self._come, "due_us": self._due_us, "price": self._price, "fate": self._fate}
        self._kept["charged"] = self._charged
        self._arrival_us = facts.statements.arrival * facts.slot_us
        self._in_order = np.lexsort((np.arange(n), self._arrival_us))
        self._sorted_us = self._arrival_us[self._in_order]
        self._next = 0
        self._came: IntArray = NO_JOBS
        self._untold: IntArray = NO_JOBS
        """Jobs, sorted, that faults have ended within this round."""

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
        if len(self._untold) and now_us % self._facts.slot_us == 0:
            super().tell_faults(self._untold)
            self._untold = NO_JOBS
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
        for job, what in self._faults(now_us, decision):
            name = job_name(self._core.world, job) if job >= 0 else ""
            raise InfeasibleDecisionError(f"at {where} {what.format(job=name)}")

    def _faults(self, now_us: int, decision: Decision) -> Iterator[tuple[int, str]]:
        """A job, or -1, and what is wrong with it, with ``{job}`` for its name."""
        launches = charges = None
        if isinstance(decision, AnnouncedDecision):
            launches, charges = decision.launches, decision.charges
        if launches is not None:
            yield from self._launch_faults(now_us, launches)
        if charges is not None:
            yield from self._charge_faults(charges)
        if decision.changes is not None:
            changed = decision.changes.job[: int(decision.changes.size[0])]
            yield from self._start_faults(now_us, changed, launches)

    def _start_faults(
        self, now_us: int, jobs: IntArray, launches: Launches | None
    ) -> Iterator[tuple[int, str]]:
        status, slot_us = self._core.ledger.status[jobs], self._facts.slot_us
        yield from _first(jobs, status == RUNNING, "moves or stops {job}, which runs: only evict it")
        yield from _first(jobs, ~self._come[jobs], "starts {job}, which has not come")
        if len(jobs) and now_us % slot_us:
            rounds = f"a round of {slot_us / US_PER_S:g} s: jobs start when a round begins"
            yield int(jobs[0]), f"starts {{job}} within {rounds}"
        due_us = self._due_us[jobs]
        if launches is not None:
            _, mine, given = np.intersect1d(jobs, launches.job, assume_unique=True, return_indices=True)
            due_us[mine] = launches.start_us[given]
        wrong = (due_us >= 0) & (due_us != now_us)
        yield from _first(jobs, wrong, "starts {job} at another time than its launch says")

    def _launch_faults(self, now_us: int, launches: Launches) -> Iterator[tuple[int, str]]:
        jobs, start_us = launches.job, launches.start_us
        yield from _unlike("launches", jobs, start_us, len(self._come))
        waits = (self._core.ledger.status[jobs] == WAITING) & self._come[jobs]
        yield from _first(jobs, ~waits, "tells {job} its start, which does not wait or has not come")
        told = self._due_us[jobs] >= 0
        yield from _first(jobs, told, "tells {job} its start a second time: the first binds")
        late = (start_us < now_us) | (start_us % self._facts.slot_us != 0)
        yield from _first(jobs, late, "tells {job} a start that is past or within a round")

    def _charge_faults(self, charges: Charges) -> Iterator[tuple[int, str]]:
        jobs = charges.job
        yield from _unlike("charges", jobs, charges.price, len(self._come))
        running = self._core.ledger.status[jobs] != COMPLETED
        yield from _first(jobs, running, "charges {job}, which has not completed")
        yield from _first(jobs, self._charged[jobs], "charges {job} a second time")
        yield from _first(jobs, charges.price < 0, "charges {job} a negative price")

    def evict(self, now_us: int, job: int) -> None:
        """End a waiting or running job for ever, and note how far it was."""
        running = self._core.ledger.status[job] == RUNNING
        due = self._due_us[job] == now_us
        waited = Fate.CANCELLED_DUE if due else Fate.CANCELLED_EARLY
        self._fate[job] = Fate.EVICTED_RUNNING if running else waited
        super().evict(now_us, job)

    def tell_faults(self, jobs: IntArray) -> None:
        """Tell the policy of jobs, sorted, that faults have ended, when the next round begins."""
        self._untold = np.union1d(self._untold, jobs)

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
            self._core.world.faulty,
            self._policy,
        )

    def state(self) -> State:
        """Arrays that `restore` takes."""
        kept = {**self._kept, "came": self._came, "untold": self._untold, "next": np.array([self._next])}
        return {name: array.copy() for name, array in kept.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        super().restore(state)
        within(state, "due_us", -1, NEVER_US)
        within(state, "fate", 0, len(Fate) - 1)
        within(state, "price", 0, NEVER_US)
        self._next = int(within(state, "next", 0, len(self._come))[0])
        self._came = sorted_indices(state, "came", len(self._come)).astype(np.int64)
        self._untold = sorted_indices(state, "untold", len(self._come)).astype(np.int64)
        for name, array in self._kept.items():
            array[:] = state[name]


def _unlike(field: str, jobs: IntArray, values: IntArray, n: int) -> Iterator[tuple[int, str]]:
    if len(jobs) != len(values):
        yield -1, f"answers {field} of {len(jobs)} jobs and {len(values)} values: they must be equal"
    elif ((jobs < 0) | (jobs >= n)).any() or (np.diff(jobs) <= 0).any():
        yield -1, f"answers {field} whose jobs are not sorted numbers of jobs, each once"


def _first(jobs: IntArray, wrong: BoolArray, what: str) -> Iterator[tuple[int, str]]:
    if wrong.any():
        yield int(jobs[int(wrong.argmax())]), what
