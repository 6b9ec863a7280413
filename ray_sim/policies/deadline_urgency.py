"""Priority for chunked jobs that are in danger of missing their deadlines."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import NEVER_US, IntArray
from ray_sim.policy_api import ChunkedContext, ChunkedView, NewKeys, State


class DeadlineUrgency:
    """Find the jobs in danger, and the next time to check.

    A job is in danger when the time to its deadline is less than ``slack`` times the least time that its
    chunks on workers still need. It stays in danger to its end. A job that can no longer meet its deadline is
    never in danger: its priority would only delay others.
    """

    def __init__(self, slack: float) -> None:
        self._slack = slack

    def start(self, world: ChunkedContext) -> None:
        """Reset: no job is in danger.

        Raises
        ------
        InvalidScenarioError : jobs have no deadlines
        """
        due_us: IntArray | None = world.jobs.due_us
        if due_us is None:
            raise InvalidScenarioError(
                "deadlines=danger: the jobs have no deadlines; give -w deadline_factor=3, a workload with "
                "utility_due_s, or deadlines=none"
            )
        self._due_us, self._slot_us = due_us, world.slot_us or 1
        self._may_grow = world.preemption_us > 0
        """Whether the time that a job needs can grow while its chunks are on workers."""
        self.found = np.zeros(len(due_us), dtype=np.bool_)
        """(J,) jobs in danger."""
        self.keys: IntArray = due_us - NEVER_US
        """(J,) queue keys of chunks of a job in danger: before all others, earliest deadline first."""
        self._safe_until_us = NEVER_US
        """Time until which no job can come into danger, as far as is known."""
        self._looked_us = -1
        """Last slot in which jobs were checked."""

    def look(self, view: ChunkedView) -> NewKeys | None:
        """Return the jobs that have newly come into danger by this slot, with their keys.

        Jobs are checked once per slot, by the chunks on workers when the slot begins. The answer is None
        within a slot, and when the policy is called again because of its own decision.
        """
        if view.now_us % self._slot_us or view.now_us == self._looked_us:
            return None
        self._looked_us = view.now_us
        jobs = np.union1d(view.waiting, view.running)
        jobs = jobs[~self.found[jobs]]
        left_us = view.chunk_time_left_us(jobs)
        rest_us = self._due_us[jobs] - view.now_us
        can_meet = (left_us > 0) & (left_us <= rest_us)
        urgent = can_meet & (rest_us < self._slack * left_us)
        safe = can_meet & ~urgent
        until_us = self._due_us[jobs[safe]] - np.ceil(self._slack * left_us[safe]).astype(np.int64)
        self._safe_until_us = int(until_us.min()) if safe.any() else NEVER_US
        if safe.any() and self._may_grow:
            self._safe_until_us = view.now_us
        found = jobs[urgent]
        self.found[found] = True
        return NewKeys(found, self.keys[found])

    def review_us(self, now_us: int, *, dispatched: bool) -> int:
        """First slot in which another job may come into danger.

        The time that a job needs shrinks while its chunks are on workers, unless preemptions cost time: then
        any slot may be the first. Chunks that are dispatched now are checked in the next slot.
        """
        if dispatched:
            self._safe_until_us = min(self._safe_until_us, now_us)
        if self._safe_until_us == NEVER_US:
            return NEVER_US
        return (self._safe_until_us // self._slot_us + 1) * self._slot_us

    def state(self) -> State:
        """Return arrays for `restore`."""
        return {
            "found": self.found.copy(),
            "times": np.array([self._safe_until_us, self._looked_us]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state, after `start`."""
        self.found[:] = state["found"]
        self._safe_until_us, self._looked_us = state["times"].tolist()
