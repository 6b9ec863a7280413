"""Jobs in chunks that are in danger of missing their deadlines go first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ray_sim.engine.decision import Decision, NewKeys
from ray_sim.engine.granted_world import GrantedWorld
from ray_sim.engine.holdings import State
from ray_sim.engine.view import View
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import NEVER_US, IntArray


class Danger:
    """Who is in danger, and when to look again.

    A job is in danger when the time to its deadline is less than ``slack`` times what its chunks on workers
    still need at least. It stays so to its end. A job that cannot meet its deadline any more never is: going
    first would only delay others.
    """

    def __init__(self, slack: float) -> None:
        self._slack = slack

    def start(self, world: GrantedWorld) -> None:
        """Nobody is in danger.

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
        self.found = np.zeros(len(due_us), dtype=np.bool_)
        """(J,) jobs in danger."""
        self.keys: IntArray = due_us - NEVER_US
        """(J,) what the chunks of a job in danger are ordered by: below all other keys, first due first."""
        self._review_us = NEVER_US

    def heed(self, view: View, decision: Decision) -> Decision:
        """The decision, at slots with new keys for jobs that have come into danger."""
        if view.now_us % self._slot_us:
            return replace(decision, review_us=self._review_us)
        jobs = np.union1d(view.waiting, view.running)
        jobs = jobs[~self.found[jobs]]
        left_us = view.chunk_time_left_us(jobs)
        rest_us = self._due_us[jobs] - view.now_us
        can_meet = (left_us > 0) & (left_us <= rest_us)
        danger = can_meet & (rest_us < self._slack * left_us)
        # What is left shrinks: no job comes into danger before this.
        safe = can_meet & ~danger
        until_us = self._due_us[jobs[safe]] - np.ceil(self._slack * left_us[safe]).astype(np.int64)
        self._review_us = self._slot_after(int(until_us.min())) if safe.any() else NEVER_US
        if decision.dispatch is not None:  # what is needed is known when the chunks are on their workers
            self._review_us = min(self._review_us, self._slot_after(view.now_us))
        found = jobs[danger]
        self.found[found] = True
        return replace(decision, keys=NewKeys(found, self.keys[found]), review_us=self._review_us)

    def _slot_after(self, time_us: int) -> int:
        return (time_us // self._slot_us + 1) * self._slot_us

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"found": self.found.copy(), "review": np.array([self._review_us])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state, after `start`."""
        self.found[:] = state["found"]
        self._review_us = int(state["review"][0])
