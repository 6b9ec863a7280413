"""Training of Harmony in rounds: collect experience, improve the networks, now and then validate.

Everything follows from the plan: rounds are synchronous, and units of a round are used in order, so neither
the number of actors nor an actor that dies changes a weight. The state after a round is all that later
rounds depend on.

Source: Bao, Peng, Wu: Deep Learning-based Job Placement in Distributed Machine Learning Clusters, INFOCOM
2019, for the offline and the online phase; docs/models/harmony.md has the choices that are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.engine.states import FINITE, all_within, same, within
from ray_sim.environments.episodes import Episode
from ray_sim.learning.collection import Collected, Collection, Collectors, Guide, Steps, Unit
from ray_sim.learning.curves import PHASES, Curves, Point
from ray_sim.learning.replay import ReplayBatch
from ray_sim.learning.returns import common_errors, lambda_returns, rewards
from ray_sim.learning.reward_model import RewardModel, model_arrays, model_of
from ray_sim.learning.reward_training import RewardTraining, fit_reward_model
from ray_sim.learning.speed_samples import SpeedSamples, draw_samples, joined
from ray_sim.learning.training_plan import TrainingPlan
from ray_sim.learning.update import Learner, UpdateLosses
from ray_sim.learning.validation import mean_jct_s
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US
from ray_sim.policies.harmony.architecture import F32

HELD_OUT = 5
"""One of so many samples is held out from fitting the reward model; of fewer than twice as many it is not
refitted."""

Arrays = Mapping[str, np.ndarray]


class Best(NamedTuple):
    """The network with the least mean JCT in validation."""

    round: int
    jct_s: float
    parameters: Mapping[str, F32]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a training runs on."""

    plan: TrainingPlan
    collection: Collection
    validation: Sequence[Episode]
    slot_us: int


class Trainer:
    """A training, from round to round."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._plan = setting, setting.plan
        plan, collection = setting.plan, setting.collection
        self._learner = Learner(plan.learning, collection.architecture, Streams(plan.seed))
        self._model: RewardModel | None = None
        self._model_error = np.nan
        self._measured: SpeedSamples | None = None
        self.best: Best | None = None
        self.curves = Curves()

    @property
    def round(self) -> int:
        """Rounds done."""
        return len(self.curves)

    @property
    def done(self) -> bool:
        """Whether all rounds are done."""
        return self.round == self._plan.rounds

    def parameters(self) -> dict[str, F32]:
        """Of the policy network now."""
        return self._learner.parameters()

    def do_round(self, collectors: Collectors) -> Point:
        """Do one round.

        Raises
        ------
        TrainingDivergedError : a loss is not finite; the state before the round is to be kept
        """
        number, phase = self.round, self._plan.phase(self.round)
        if number and phase != self._plan.phase(number - 1):
            self._learner.forget()
        if phase == "offline" and self._model is None:
            self._fit(self._drawn_samples())
        guide = Guide(self.parameters(), phase == "imitation", self._model if phase == "offline" else None)
        units = [Unit(number, i) for i in range(self._plan.collecting.units)]
        collected = collectors.collect(units, guide)
        losses = self._learn(collected, imitate=phase == "imitation")
        if phase == "online":
            self._refit(number, collected)
        point = self._point(phase, collected, losses)
        self.curves.add(point)
        return point

    def _learn(self, collected: Sequence[Collected], imitate: bool) -> UpdateLosses:
        """Fill the buffer and improve the networks; returns mean losses."""
        for each in collected:
            self._learner.put(self._batch(each.steps))
        losses = [self._learner.step(imitate=imitate) for _ in range(self._plan.updates)]
        self._learner.check(imitate=imitate)
        return UpdateLosses(*np.mean(losses, axis=0).tolist())

    def _batch(self, steps: Steps) -> ReplayBatch:
        """The actions whose interval has ended, in order of time."""
        config, slot_us = self._plan.learning, self._setting.slot_us
        count, lanes = steps.action.shape
        observations = steps.observations.items()
        # Copies: arrays that come from an actor are read-only, which PyTorch does not know.
        flat = {name: array.reshape(-1, *array.shape[2:]).copy() for name, array in observations}
        values = self._learner.values(flat).reshape(count + 1, lanes)
        reward = rewards(steps, config.reward, config.discount, slot_us)
        found = lambda_returns(steps, reward, values, config.discount, config.trace_decay, slot_us)
        baseline, lanes_per_set = values[:-1], self._plan.collecting.lanes_per_set
        if lanes_per_set > 1:
            baseline = baseline + common_errors(steps, found.returns - baseline, found.known, lanes_per_set)
        rows = np.flatnonzero(found.known)
        return ReplayBatch(
            {name: array[rows] for name, array in flat.items()},
            steps.action.ravel()[rows],
            steps.log_probability.ravel()[rows],
            found.returns.ravel()[rows],
            baseline.ravel()[rows],
        )

    def _drawn_samples(self) -> SpeedSamples:
        """Speeds in traces of a mixture of rules."""
        collection = self._setting.collection
        return draw_samples(
            collection.episodes, collection.models, self._plan.rewards.samples, self._plan.seed
        )

    def _refit(self, number: int, collected: Sequence[Collected]) -> None:
        """Keep measured speeds, and fit the reward model to them when it is due."""
        every = self._plan.rewards.refit_every
        if not every:
            return
        parts = [each.measured for each in collected if each.measured is not None]
        kept = [] if self._measured is None else [self._measured]
        if kept or parts:
            self._measured = joined([*kept, *parts]).part(slice(-self._plan.rewards.samples, None))
        online = number + 1 - self._plan.phases.imitation - self._plan.phases.offline
        if online % every == 0 and self._measured is not None and len(self._measured) >= 2 * HELD_OUT:
            self._fit(self._measured)

    def _fit(self, samples: SpeedSamples) -> None:
        plan, numbers = self._plan, np.arange(len(samples))
        held = numbers % HELD_OUT == 0
        fitted = fit_reward_model(
            samples.part(np.flatnonzero(~held)),
            samples.part(np.flatnonzero(held)),
            len(self._setting.collection.models),
            RewardTraining(epochs=plan.rewards.epochs, target=plan.rewards.target),
            plan.seed,
        )
        self._model, self._model_error = fitted.model, fitted.errors[-1].held_out

    def _point(self, phase: str, collected: Sequence[Collected], losses: UpdateLosses) -> Point:
        """The round's point of the curves; validates when it is due."""
        number = self.round
        progress = sum(float(each.steps.progress.sum()) for each in collected)
        length = sum(float(each.steps.length_us.sum()) for each in collected)
        present = sum(float(each.steps.present_us.sum()) for each in collected)
        due = (number + 1) % self._plan.validation.every == 0 or number + 1 == self._plan.rounds
        jct_s = self._validate(number) if due else np.nan
        return Point(
            round=number,
            phase=phase,
            samples=sum(each.steps.action.size for each in collected),
            reward=progress / length * self._setting.slot_us if length else np.nan,
            jobs_present=present / length if length else np.nan,
            policy_loss=losses.policy,
            value_loss=losses.value,
            entropy=losses.entropy,
            reward_model_error=self._model_error,
            validation_jct_s=jct_s,
        )

    def _validate(self, number: int) -> float:
        parameters = self.parameters()
        jct_s = mean_jct_s(self._setting.collection, self._setting.validation, parameters)
        if self.best is None or jct_s < self.best.jct_s:
            self.best = Best(number, jct_s, parameters)
        return jct_s

    def state(self) -> dict[str, np.ndarray]:
        """All that later rounds depend on, as arrays by name."""
        found = {f"learner.{name}": array for name, array in self._learner.state().items()}
        found |= {f"curves.{name}": array for name, array in self.curves.arrays().items()}
        found["model_error"] = np.array(self._model_error)
        if self._model is not None:
            found |= {f"model.{name}": array for name, array in model_arrays(self._model).items()}
        if self._measured is not None:
            names = ("kind", "tasks", "speed")
            found |= {f"measured.{name}": getattr(self._measured, name) for name in names}
        if self.best is not None:
            found["best_round"], found["best_jct_s"] = np.array(self.best.round), np.array(self.best.jct_s)
            found |= {f"best.{name}": array for name, array in self.best.parameters.items()}
        return found

    def restore(self, state: Arrays) -> None:
        """Continue from a `state` of a training with the same plan."""
        rounds, types = len(state["curves.round"]), len(self._setting.collection.models)
        within({"rounds": np.array(rounds)}, "rounds", 0, self._plan.rounds)
        same("curves.round", np.arange(rounds), state["curves.round"])
        within(state, "curves.phase", 0, len(PHASES) - 1)
        within(state, "curves.samples", 0, NEVER_US)
        for name, high in (("best_round", rounds - 1), ("best_jct_s", FINITE), ("measured.tasks", NEVER_US)):
            if name in state:
                within(state, name, 0, high)
        if "measured.kind" in state:
            within(state, "measured.kind", -1, types - 1)
        for name in ("model", "best"):
            all_within({key: np.abs(array) for key, array in _under(name, state).items()})
        self._learner.restore(_under("learner", state))
        self.curves = Curves.of(_under("curves", state))
        self._model_error = float(state["model_error"])
        model, measured = _under("model", state), _under("measured", state)
        self._model = model_of(model, len(self._setting.collection.models)) if model else None
        self._measured = SpeedSamples(**measured) if measured else None
        if "best_round" in state:
            parameters = _under("best", state)
            self.best = Best(int(state["best_round"]), float(state["best_jct_s"]), parameters)


def _under(prefix: str, state: Arrays) -> dict[str, np.ndarray]:
    """Arrays whose names begin with a prefix and a dot, without both."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in state.items() if name.startswith(start)}
