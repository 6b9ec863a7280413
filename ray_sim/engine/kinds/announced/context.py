"""World facts that policies for announced jobs get beside those of every policy."""

from __future__ import annotations

from ray_sim.engine.kinds.announced.bounds import StatementBounds
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only_record
from ray_sim.engine.world import World
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.statement import Statements


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
