"""The general loop with a policy in it: asked decision by decision, timed, stopped and continued."""

from __future__ import annotations

import time

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.base import KindOutcome
from ray_sim.engine.policy_calls import named_failures, raise_named
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import Fleet
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult


class GeneralRun:
    """One policy in one world, from the start or from a snapshot on."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        *,
        seed: int,
        fleet: Fleet,
        saved: State | None = None,
        loop: type[Simulation] = Simulation,
    ) -> None:
        self._policy = policy
        self._simulation = loop(world, policy, seed=seed, fleet=fleet)
        self._seconds: list[float] = []
        with named_failures(policy):
            policy.start(self._simulation.world, self._simulation.streams)
        if saved is not None:
            self._simulation.restore(saved)

    @property
    def ended_jobs(self) -> int:
        """Jobs that have come and gone."""
        return self._simulation.ended_jobs

    @property
    def outcome(self) -> KindOutcome:
        """Outcome of the jobs so far."""
        return self._simulation.outcome

    def decide_once(self) -> bool:
        """Go on to the next decision and carry it out; False at the end."""
        view = self._simulation.advance()
        if view is None:
            return False
        begin = time.perf_counter()
        try:
            decision = self._policy.decide(view)
        except BaseException as failure:  # whatever a policy may do wrong
            raise_named(self._policy, failure)
        self._seconds.append(time.perf_counter() - begin)
        self._simulation.apply(decision)
        return True

    def state(self) -> State:
        """A snapshot, valid between two decisions."""
        return self._simulation.state()

    def result(self, trim: Trim | None, reason: str) -> RunResult:
        """The result, at the end. `reason` is why this loop was taken."""
        return self._simulation.result(trim, loop_reason=reason, decision_seconds=self._seconds)
