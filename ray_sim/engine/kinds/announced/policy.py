"""Base class of policies for announced jobs, exported by `ray_sim.policy_api`.

`ray-sim run --audit` (`ray_sim/experiments/announced_audit.py`) calls `audited`; everything else is called as
for every `Policy`.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Wake
from ray_sim.engine.kinds.announced.jobs import ANNOUNCED
from ray_sim.engine.kinds.announced.view import AnnouncedContext, AnnouncedView
from ray_sim.model.quotes import Quotes
from ray_sim.model.units import IntArray
from ray_sim.model.welfare_audit import AuditedJobs, MechanismRecord


class MechanismAudit(Protocol):
    """Record of a run under audit."""

    def record(self) -> MechanismRecord:
        """What was recorded, at the end of the run."""


class AnnouncedPolicy(Policy[AnnouncedContext, AnnouncedView]):
    """A scheduler of announced jobs: it plans, starts and evicts them, and charges them.

    It runs under truth=announced, decides once in each round, and answers with an `AnnouncedDecision`.
    """

    schedules: ClassVar[str] = ANNOUNCED
    sees: frozenset[str] = frozenset({"statements"})
    wake_on: Wake = Wake.SLOT | Wake.COMPLETION

    def audited(self, jobs: AuditedJobs) -> MechanismAudit | None:
        """Record the run that follows for `ray-sim run --audit`; None for policies without prices.

        Called before `start`; decisions must be the same.
        """
        return None

    def quotes(self, arrival: IntArray, signal: IntArray) -> Quotes:
        """Offers to jobs with these true arrivals (rounds) and signals, (J,) each; after the run."""
        return Quotes.none(len(arrival))
