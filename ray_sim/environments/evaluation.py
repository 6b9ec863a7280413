"""Paired evaluation: the metric of an agent beside those of baselines, on the same draws of jobs.

Users call `evaluate` with an agent that they train in an environment (docs/environments.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.environments.scheduling_env import SchedulingEnv
from ray_sim.experiments.scenario import parsed
from ray_sim.experiments.sweep_entries import PolicySpec
from ray_sim.model.errors import InvalidInputError, failure_text
from ray_sim.model.readable import number, text_of
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from ray_sim.reports.compare import JCT, completion_note, lower_is_better, no_value
from ray_sim.reports.page import Cell, Table
from ray_sim.reports.small_tables import page_table_html, page_table_text
from ray_sim.reports.statistics import (
    ConfidenceInterval,
    bracketed,
    mean_interval,
    paired_difference,
    shortfall,
    superiority,
)
from ray_sim.reports.tables import legend

Player = Callable[[Any], int] | str | Mapping[str, object] | Policy | type[Policy]
"""Chooses a valid action for an observation; or a policy, which runs as under `simulate`.

A policy is a name, a mapping as in a sweep, ``{"name": "sjf", "params": {"backfill": True}}``, an object, of
which each draw runs a copy, or a class.
"""

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
    wins: float
    """Share of the draws in which the agent is better; a tie counts one half."""


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
        lines = [(AGENT, text(self.mean), "-", "-")]
        for label, each in self.baselines.items():
            change = text(each.difference) + bracketed(each.interval, draws, text)
            lines.append((label, text(each.mean), change, number(each.wins)))
        rows = tuple((Cell(label), *(Cell(value, True) for value in values)) for label, *values in lines)
        runs = self.results.items()
        completed = ((label, i, run.summary.completed) for label, of in runs for i, run in enumerate(of))
        cover = any(each.interval for each in self.baselines.values()) and shortfall(draws)
        notes = completion_note(completed) or "", legend(["wins"] if self.baselines else []), str(cover or "")
        columns = "", "mean", "agent minus this [95 %]", "wins"
        return f"{self.metric}, {draws:,} draws of jobs", Table(columns, rows, "; ".join(filter(None, notes)))


def evaluate(
    agent: Player, env: gymnasium.Env[Any, Any], baselines: Player | Iterable[Player] = (), metric: str = JCT
) -> Evaluation:
    """Run an agent and baselines on every episode of an environment, and compare them draw by draw.

    Parameters
    ----------
    agent : called with each observation of ``env``, or a policy
    env : `QueueEnv` or `PlacementEnv`, wrapped or not, whose episodes have seeds that training has not seen
    baselines : the same, labelled by their names
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
    players: dict[str, tuple[Player, Callable[[], Policy] | None]] = {AGENT: (agent, _labelled(agent)[1])}
    several = isinstance(baselines, Iterable) and not isinstance(baselines, str | Mapping)
    given: Any = baselines if several else [baselines]
    for each in given:
        label, new_policy = _labelled(each)
        if label in players:
            raise InvalidInputError(f"baselines: two are named {label!r}; give other names, or labels")
        players[label] = each, new_policy
    results = {label: _results(env, inner, *player) for label, player in players.items()}
    flat = {label: [run.summary.flat() for run in runs] for label, runs in results.items()}
    known = set.intersection(*(set(each) for runs in flat.values() for each in runs))
    if metric not in known:
        raise no_value(metric, known)
    values = {label: np.array([each[metric] for each in runs]) for label, runs in flat.items()}
    own, compared = values.pop(AGENT), {}
    for label, theirs in values.items():
        change = paired_difference(own, theirs)
        wins = superiority(change if lower_is_better(metric) else -change)
        compared[label] = BaselineDifference(
            float(theirs.mean()), float(change.mean()), mean_interval(change), wins
        )
    return Evaluation(metric, float(own.mean()), compared, results)


def _labelled(player: Any) -> tuple[str, Callable[[], Policy] | None]:
    """The label of a player, and what makes its policy for each draw; None for a function of observations.

    Raises
    ------
    InvalidInputError : it is no player
    """
    if isinstance(player, str | Mapping):
        content = {"name": player} if isinstance(player, str) else dict(player)
        spec = parsed(PolicySpec, content, "agent, baselines", ())
        if spec.world:
            raise InvalidInputError("agent, baselines: world: only in a sweep; the environment has one")
        create_policy(spec.name, spec.params)  # errors come before the first run
        return spec.label or spec.configuration, partial(create_policy, spec.name, spec.params)
    is_class = isinstance(player, type)
    label = getattr(player, "__name__", type(player).__name__)
    if issubclass(player if is_class else type(player), Policy):
        return label, partial(_made, player)
    if callable(player) and not is_class:
        return label, None
    raise InvalidInputError(
        "agent, baselines: must be functions, or policies: a name, {'name': 'sjf', 'params': {'backfill': "
        f"True}}}}, an object or a class; got {player!r}"
    )


def _made(policy: Policy | type[Policy]) -> Policy:
    """A new policy of a class; or a copy of an object, which serves one run, with the same networks."""
    shared = {id(value): value for name, value in vars(policy).items() if name in policy.unchanging}
    try:
        return policy() if isinstance(policy, type) else deepcopy(policy, shared)
    except Exception as error:  # of a user's class
        raise InvalidInputError(
            f"agent, baselines: no copy of {policy!r} for each draw: {failure_text(error)}; give an object "
            "that has not run, or a name with parameters"
        ) from error


def _results(
    env: gymnasium.Env[Any, Any], inner: SchedulingEnv, player: Any, new_policy: Callable[[], Policy] | None
) -> list[RunResult]:
    """The result of each episode, under a policy or with the actions of a function."""
    if new_policy is not None:
        return [run_world(world, new_policy(), seed=seed or 0) for world, seed in inner.episodes]
    results = []
    for episode in range(len(inner.episodes)):
        seen, over = env.reset(options={"episode": episode})[0], False
        while not over:
            seen, _, terminated, truncated, _ = env.step(player(seen))
            over = terminated or truncated
        results.append(inner.result())
    return results
