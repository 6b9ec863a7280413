"""`ray_sim/Placement-v1`: place the workers and parameter servers of new jobs, one at each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ray_sim.agents.agent import PlacementAgent
from ray_sim.agents.arguments import names_in
from ray_sim.agents.round import Observation
from ray_sim.environments.episodes import Episodes, ScenarioSource, check_models
from ray_sim.environments.rewards import Reward
from ray_sim.environments.scheduling_env import SchedulingEnv


class _FromOutside(PlacementAgent):
    """The environment gives its actions."""

    name: ClassVar[str] = "ray_sim/Placement"

    def act(self, observation: Observation) -> int:
        raise AssertionError("the environment gives the actions")


class PlacementEnv(SchedulingEnv):
    """Places gangs at slot boundaries; see docs/environments.md.

    Parameters
    ----------
    episodes : worlds, or `Episode`s, of rigid or elastic jobs with ``slot_s``; or `scenario` and `seeds`, see
        `scenario_episodes`
    most_jobs, most_new, observe, scaled, models : see `PlacementSettings`
    reward : ``progress``, ``jct``, or a function of an `Interval`
    reward_scale_s : scale of ``jct`` in seconds
    typed : whether jobs may accept certain GPU types only; the mask heeds them
    """

    def __init__(
        self,
        episodes: Episodes | None = None,
        *,
        scenario: ScenarioSource | None = None,
        seeds: Iterable[int] | None = None,
        most_jobs: int = PlacementAgent.most_jobs,
        most_new: int | None = None,
        observe: Sequence[str] | None = None,
        scaled: bool = False,
        models: Sequence[str] | None = None,
        reward: str | Reward = "progress",
        reward_scale_s: float = 3600.0,
        render_mode: str | None = None,
        typed: bool = True,
    ) -> None:
        self._most_jobs, self._most_new, self._scaled = most_jobs, most_new, scaled
        self._observe = None if observe is None else names_in("observe", observe)
        self._models = None if models is None else names_in("models", models)
        super().__init__(episodes, scenario, seeds, reward, reward_scale_s, render_mode, typed)
        if models is None and "type" in self.entries:
            check_models(self.episodes)

    def new_agent(self) -> PlacementAgent:
        """A policy for one world; the environment gives its actions."""
        agent = _FromOutside()
        agent.most_jobs, agent.most_new, agent.scaled = self._most_jobs, self._most_new, self._scaled
        agent.declare(self._observe)
        agent.models = self._models
        return agent
