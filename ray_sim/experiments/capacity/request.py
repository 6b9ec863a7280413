"""Question of a plan: what is fixed, what varies, and the goal."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.experiments.capacity.choices import Choices, Mix
from ray_sim.experiments.capacity.goal import Goal
from ray_sim.experiments.scenario import Scenario


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Question of a plan."""

    scenario: Scenario
    """Everything that does not vary; its seed is the first one."""
    goal: Goal
    choices: Choices
    seed_count: int
    """Number of seeds, common to all scenarios; one run each where nothing is drawn."""

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies to compare."""
        return self.choices.policies or (self.scenario.policy,)

    @property
    def seeds(self) -> range:
        """Seeds of the runs."""
        return range(self.scenario.seed, self.scenario.seed + self.seed_count)

    @property
    def most(self) -> Mix:
        """The most servers of every kind."""
        return tuple(axis.high for axis in self.choices.axes)

    def cluster(self, mix: Mix) -> str:
        """Reference of the cluster with a mix of servers."""
        return self.choices.cluster(self.scenario.cluster, mix)

    def at(self, policy: str, mix: Mix) -> Scenario:
        """Scenario of a policy on a mix of servers; only the policy of `scenario` has its parameters."""
        changes: dict[str, object] = {"cluster": self.cluster(mix), "policy": policy}
        if policy != self.scenario.policy:
            changes["params"] = {}
        return self.scenario.model_copy(update=changes)
