"""New plans for jobs whose plan failed, or ended before the work was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ray_sim.model.units import BoolArray, IntArray
from ray_sim.policies.shared.jobs_in_slots import JobsInSlots
from ray_sim.policies.shared.sold_plans import JOB, SERVER, SoldPlans
from ray_sim.policy_api import ElasticView
from ray_sim.solvers.planning.schedule import Outcome, Schedule
from ray_sim.solvers.planning.slot_job import SlotJob

PlanJob = Callable[[SlotJob, ElasticView, int], Outcome]
"""Sells the best plan of a job from a slot on, or says why there is none."""


class PlanRenewal:
    """Plan the rest of admitted jobs, and count what became of their plans.

    Parameters
    ----------
    admitted : (J,) jobs with a plan; jobs that are given up are taken out
    counted : counts of the policy
    """

    def __init__(
        self, jobs: JobsInSlots, sold: SoldPlans, admitted: BoolArray, counted: Counter[str], plan: PlanJob
    ) -> None:
        self._jobs = jobs
        self._sold = sold
        self._admitted = admitted
        self._counted = counted
        self._plan = plan
        self.short: BoolArray = np.zeros(len(admitted), dtype=np.bool_)
        """(J,) jobs with work left when a plan of theirs ended."""

    def _rest(self, job: int, view: ElasticView, slot: int) -> SlotJob | None:
        """Work left of a job from now on, as a job; None at the horizon."""
        whole = self._jobs.in_slots(job)
        left = float(view.work_left(np.array([job]))[0])
        if whole is None or slot >= self._jobs.slots or left <= 0.0:
            return None
        late = slot - whole.arrival
        return replace(whole, arrival=slot, samples=left, utility=whole.utility[late:])

    def plan_failed_anew(self, view: ElasticView, slot: int) -> None:
        """Plan again where plans use unavailable servers; plans without a replacement stay."""
        rows = self._sold.booked.rows
        for job in np.unique(rows[~view.available[rows[:, SERVER]], JOB]).tolist():
            rest = self._rest(job, view, slot)
            if rest is None:
                continue
            old = self._sold.take_back(rest)
            if isinstance(self._plan(rest, view, slot), Schedule):
                self._counted["replanned"] += 1
            else:
                self._sold.sell(rest, old)

    def count_short(self, over: IntArray) -> None:
        """Count admitted jobs that are there when their plan is over, each once."""
        new = over[~self.short[over]]
        if len(new):
            self.short[new] = True
            self._counted["under_delivered"] += len(new)

    def extend(self, view: ElasticView, slot: int, over: IntArray) -> None:
        """Plan the rest of admitted jobs whose plan is over; jobs without a new plan are given up."""
        for job in over.tolist():
            rest = self._rest(job, view, slot)
            if rest is None or not isinstance(self._plan(rest, view, slot), Schedule):
                self._admitted[job] = False
                self._counted["given_up"] += 1
            else:
                self._counted["extended"] += 1
