"""Paired evaluation: the metric of an agent beside those of baselines, on the same draws of jobs.

Users call `evaluate` with an agent that they train in an environment (docs/environments.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from ray_sim.engine.run import run_world
from ray_sim.environments.scheduling_env import SchedulingEnv
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.readable import text_of
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from ray_sim.reports.compare import JCT, completion_note, no_value
from ray_sim.reports.page import Cell, Table
from ray_sim.reports.small_tables import page_table_html, page_table_text
from ray_sim.reports.statistics import ConfidenceInterval, bracketed, mean_interval, paired_difference

Player = Callable[[Any], int] | str
"""Chooses a valid action for an observation; or the name of a policy, which runs as under `simulate`."""

AGENT = "agent"
"""Label of the agent among those of the baselines."""


@dataclass(frozen=True, slots=True)
class BaselineDifference:
    """The agent against one baseline, in the metric's unit."""

    mean: float
    """Mean of the baseline over the draws."""
    difference: float
    """Mean of agent minus baseline, draw by draw."""
    interval: ConfidenceInterval | None
    """95 % interval of the difference; None for fewer than five draws."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """Result of `evaluate`; prints, and shows in a notebook, as a table."""

    metric: str
    mean: float
    """Mean of the agent over the draws."""
    baselines: Mapping[str, BaselineDifference]
    results: Mapping[str, Sequence[RunResult]]
    """Results by label, one for each draw, those of `AGENT` first; `ray_sim.compare` takes them."""

    def _repr_html_(self) -> str:
        return page_table_html(*self._titled_table())

    def __repr__(self) -> str:
        return page_table_text(*self._titled_table())

    def _titled_table(self) -> tuple[str, Table]:
        draws, text = len(self.results[AGENT]), text_of(self.metric)
        lines = [(AGENT, self.mean, "-")] + [
            (label, each.mean, text(each.difference) + bracketed(each.interval, draws, text))
            for label, each in self.baselines.items()
        ]
        rows = tuple(
            (Cell(label), Cell(text(mean), True), Cell(change, True)) for label, mean, change in lines
        )
        runs = self.results.items()
        completed = ((label, i, run.summary.completed) for label, of in runs for i, run in enumerate(of))
        table = Table(("", "mean", "agent minus this [95 %]"), rows, completion_note(completed) or "")
        return f"{self.metric}, {draws:,} draws of jobs", table


def evaluate(
    agent: Player, env: gymnasium.Env[Any, Any], baselines: Player | Iterable[Player] = (), metric: str = JCT
) -> Evaluation:
    """Run an agent and baselines on every episode of an environment, and compare them draw by draw.

    Parameters
    ----------
    agent : called with each observation of ``env``, or a trained policy as ``module:Class``
    env : `QueueEnv` or `PlacementEnv`, wrapped or not, whose episodes have seeds that training has not seen
    baselines : policies, and functions such as the agent, labelled by their names
    metric : a key of `Summary.flat`

    Raises
    ------
    InvalidInputError : an argument is none of these, an episode has no seed, or no job completed in a run
    ForbiddenActionError : an action is not valid
    """
    inner = getattr(env, "unwrapped", None)
    if not isinstance(inner, SchedulingEnv):
        raise InvalidInputError(f"env: must be a QueueEnv or a PlacementEnv, got {env!r}")
    if None in (seeds := [episode.seed for episode in inner.episodes]):
        raise InvalidInputError(f"env: episode {seeds.index(None)} has no seed; give Episode(world, seed)")
    players = {AGENT: _checked(agent)}
    for each in [baselines] if isinstance(baselines, str) or callable(baselines) else baselines:
        label = each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
        if label in players:
            raise InvalidInputError(f"baselines: two are named {label!r}; give functions different names")
        players[label] = _checked(each)
    results = {label: _results(env, inner, player) for label, player in players.items()}
    flat = {label: [run.summary.flat() for run in runs] for label, runs in results.items()}
    known = set.intersection(*(set(each) for runs in flat.values() for each in runs))
    if metric not in known:
        raise no_value(metric, known)
    values = {label: np.array([each[metric] for each in runs]) for label, runs in flat.items()}
    own, compared = values.pop(AGENT), {}
    for label, theirs in values.items():
        change = paired_difference(own, theirs)
        compared[label] = BaselineDifference(
            float(theirs.mean()), float(change.mean()), mean_interval(change)
        )
    return Evaluation(metric, float(own.mean()), compared, results)


def _checked(player: Player) -> Player:
    """The name of a policy that there is, or the function."""
    if isinstance(player, str):
        create_policy(player)
    elif not callable(player):
        raise InvalidInputError(f"agent, baselines: must be functions, or names of policies, got {player!r}")
    return player


def _results(env: gymnasium.Env[Any, Any], inner: SchedulingEnv, player: Player) -> list[RunResult]:
    """The result of each episode, under a policy or with the actions of a function."""
    if isinstance(player, str):
        return [run_world(world, create_policy(player), seed=seed or 0) for world, seed in inner.episodes]
    results = []
    for episode in range(len(inner.episodes)):
        seen, over = env.reset(options={"episode": episode})[0], False
        while not over:
            seen, _, terminated, truncated, _ = env.step(player(seen))
            over = terminated or truncated
        results.append(inner.result())
    return results
