"""`ray_sim/Queue-v1`: choose which waiting job starts next, or wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ray_sim.agents.agent import QueueAgent
from ray_sim.agents.arguments import names_in
from ray_sim.agents.round import Observation
from ray_sim.environments.episodes import Episodes, ScenarioSource
from ray_sim.environments.rewards import Reward
from ray_sim.environments.scheduling_env import SchedulingEnv


class _FromOutside(QueueAgent):
    """The environment gives its actions."""

    name: ClassVar[str] = "ray_sim/Queue"

    def act(self, observation: Observation) -> int:
        raise AssertionError("the environment gives the actions")


class QueueEnv(SchedulingEnv):
    """Starts waiting gangs in an order of choice; see docs/environments.md.

    Parameters
    ----------
    episodes : worlds, or `Episode`s, of rigid or elastic jobs; or `scenario` and `seeds`, see
        `scenario_episodes`
    most_jobs, observe, scaled, placement : see `QueueSettings`
    reward : ``jct``, ``progress``, or a function of an `Interval`
    reward_scale_s : scale of ``jct`` in seconds
    typed : whether jobs may accept certain GPU types only; the mask heeds them
    """

    def __init__(
        self,
        episodes: Episodes | None = None,
        *,
        scenario: ScenarioSource | None = None,
        seeds: Iterable[int] | None = None,
        most_jobs: int = QueueAgent.most_jobs,
        observe: Sequence[str] | None = None,
        scaled: bool = False,
        placement: str = QueueAgent.placement,
        reward: str | Reward = "jct",
        reward_scale_s: float = 3600.0,
        render_mode: str | None = None,
        typed: bool = True,
    ) -> None:
        self._most_jobs, self._placement, self._scaled = most_jobs, placement, scaled
        self._observe = None if observe is None else names_in("observe", observe)
        super().__init__(episodes, scenario, seeds, reward, reward_scale_s, render_mode, typed)

    def new_agent(self) -> QueueAgent:
        """A policy for one world; the environment gives its actions."""
        agent = _FromOutside()
        agent.most_jobs, agent.placement, agent.scaled = self._most_jobs, self._placement, self._scaled
        agent.declare(self._observe)
        return agent
