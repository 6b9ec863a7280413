"""Base class of the environments: it steps a `Simulation` whose decisions come from outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ray_sim.agents.agent import Agent
from ray_sim.agents.arguments import whole_number
from ray_sim.agents.features import ACTION_MASK, F32, Feature
from ray_sim.agents.round import Round
from ray_sim.engine.run_meter import Reading, RunMeter
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.environments.episodes import Episodes, ScenarioSource, check_slots, check_untyped, episodes_of
from ray_sim.environments.rewards import Interval, Reward, interval_between, reward_of
from ray_sim.kernels.core.arrays import I8
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError, InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.model.streams import SEEDS

Observations = dict[str, F32 | I8]
Step = tuple[Observations, float, bool, bool, dict[str, Any]]


class RenderModeError(InvalidInputError, TypeError):
    """A render mode is asked for. `make_vec_env` of Stable-Baselines3 does without after a TypeError."""


class _Stage:
    """One world with the arrays of its runs, which are used again in every episode."""

    def __init__(self, world: World, agent: Agent) -> None:
        self._world = world
        self._agent = agent
        self._simulation: Simulation | None = None
        self._meter: RunMeter | None = None
        self._shown_in: Mapping[str, F32 | I8] | None = None
        self.round: Round

    def begin(self, seed: int) -> Simulation:
        """A new run."""
        if self._simulation is None:
            self._simulation = Simulation(self._world, self._agent, seed=seed)
        else:
            self._simulation = self._simulation.again(seed)
        self._agent.start(self._simulation.world, self._simulation.streams)
        self.round = self._agent.round
        return self._simulation

    def write_into(self, arrays: Mapping[str, F32 | I8]) -> None:
        """Write observations into these arrays, the same ones in each call; see `Round.write_into`."""
        if self._shown_in is not arrays:
            self._shown_in = arrays
            self.round.write_into(arrays)

    def meter(self, simulation: Simulation) -> RunMeter:
        """The meter, at 0."""
        if self._meter is None:
            self._meter = RunMeter(self._world, simulation)
        self._meter.clear()
        return self._meter


class SchedulingEnv(gymnasium.Env[Observations, np.int64], ABC):
    """An environment in which an action is a part of a scheduling decision.

    Every step carries out one action. As long as a further action is valid at the same instant, the reward
    is 0. Otherwise the decision is validated and carried out, and the simulation runs to the next one with a
    valid action; the reward is that of the interval in between.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as gymnasium declares it

    def __init__(
        self,
        episodes: Episodes | None,
        scenario: ScenarioSource | None,
        seeds: Iterable[int] | None,
        reward: str | Reward,
        reward_scale_s: float,
        render_mode: str | None,
        typed: bool,
    ) -> None:
        if render_mode is not None:
            raise RenderModeError(f"render_mode: there is none but None, got {render_mode!r}")
        self.render_mode = None
        self._reward = reward_of(reward, reward_scale_s)
        self.episodes = episodes_of(episodes, scenario, seeds)
        """What `reset` draws from; ``options={"episode": i}`` chooses number i."""
        if not typed:
            check_untyped(self.episodes, self.new_agent().name)
        if self.new_agent().slotted:
            check_slots(self.episodes)
        self._stages: dict[int, _Stage] = {}
        self._simulation: Simulation | None = None
        self._over = True
        self.observation_arrays: Mapping[str, F32 | I8] | None = None
        """Arrays by name in which observations appear, for a vector of environments."""
        self.interval: Interval
        """The latest one that ended."""
        first = self._stage_of(self.episodes[0].world)
        first.begin(0)
        self._round = first.round
        self._form = first.round.features
        self.entries: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(0.0, feature.high, feature.shape, np.float32)
            for name, feature in first.round.features.items()
        }
        """Spaces of the entries of an observation, by name."""
        self.entries[ACTION_MASK] = spaces.MultiBinary(first.round.actions)
        self.observation_space = cast("spaces.Space[Observations]", spaces.Dict(self.entries))
        self.action_space = ValidActions(first.round.actions, self._current_mask)

    @abstractmethod
    def new_agent(self) -> Agent:
        """A policy for one world; the environment gives its actions."""

    def _current_mask(self) -> I8 | None:
        return None if self._over else self._round.mask

    def _stage_of(self, world: World) -> _Stage:
        if id(world) not in self._stages:
            self._stages[id(world)] = _Stage(world, self.new_agent())
        return self._stages[id(world)]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : of `np_random`, which draws the episode where there are several, and the seed of one without
        options : ``episode``, the number of the episode

        Raises
        ------
        InvalidInputError : another option, or no such episode
        InvalidScenarioError : an episode in which no action is ever valid, or of another form than the first
        """
        info = self.begin(seed, options)
        return self._round.observation(), info

    def begin(self, seed: int | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """`reset` without its observation; returns the info."""
        super().reset(seed=seed)
        number = self._chosen(options or {})
        world, run_seed = self.episodes[number]
        if run_seed is None:
            run_seed = int(self.np_random.integers(SEEDS, dtype=np.uint64))
        stage = self._stage_of(world)
        self._simulation = simulation = stage.begin(run_seed)
        if self.observation_arrays is not None:
            stage.write_into(self.observation_arrays)
        self._round, self._meter = stage.round, stage.meter(simulation)
        if self._round.features != self._form:
            raise InvalidScenarioError(
                f"episode {number}: its observations have not the form of episode 0: "
                f"{_form_text(self._round.features)}; {_form_text(self._form)}; give `observe` and `models`"
            )
        self._reading = Reading(0, 0.0, 0.0, 0, 0, 0)
        reading, _ = self._run_on(simulation)
        if self._over:
            raise InvalidScenarioError(f"episode {number}: no action is valid in the whole run")
        self._reading = reading
        return {"episode": number}

    def _chosen(self, options: Mapping[str, Any]) -> int:
        """The number of the next episode."""
        for name in options:
            if name != "episode":
                raise InvalidInputError(f"reset: unknown option {name!r}; known: episode")
        count = len(self.episodes)
        if "episode" not in options:
            return int(self.np_random.integers(count)) if count > 1 else 0
        return whole_number("reset: episode", options["episode"], 0, count - 1)

    def _run_on(self, simulation: Simulation) -> tuple[Reading, int]:
        """Run to the next decision with a valid action, or to the end; also the number of decisions."""
        decisions = 0
        while (view := simulation.advance()) is not None:
            decisions += 1
            self._round.open(view)
            if self._round.pending:
                self._over = False
                return self._meter.read(view.now_us, simulation.arrivals), decisions
            simulation.apply(self._round.decision())
        self._over = True
        self._round.close()
        return self._meter.read(simulation.end_us, simulation.arrivals), decisions

    def step(self, action: np.int64 | int) -> Step:
        """Carry out one action.

        Raises
        ------
        ForbiddenActionError : it is not valid now, or the episode is over; nothing has been changed
        """
        reward, terminated, truncated, info = self.take(action)
        return self._round.observation(), reward, terminated, truncated, info

    def take(self, action: object) -> tuple[float, bool, bool, dict[str, Any]]:
        """`step` without its observation."""
        simulation = self._simulation
        if simulation is None or self._over:
            raise ForbiddenActionError("the episode is over, or has not begun: call reset")
        self._round.take(action)
        if self._round.pending:
            return 0.0, False, False, {}
        simulation.apply(self._round.decision())
        reading, decisions = self._run_on(simulation)
        self.interval, self._reading = interval_between(self._reading, reading), reading
        reward = self._reward(self.interval)
        terminated = self._over and simulation.done
        return reward, terminated, self._over and not terminated, _info(self.interval, decisions)

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """(n,) actions that are valid now, as sb3-contrib asks for them."""
        return self._round.mask.astype(np.bool_)

    @property
    def round(self) -> Round:
        """What shows the world and takes actions."""
        return self._round

    @property
    def simulation(self) -> Simulation:
        """The run of this episode, to look at.

        Raises
        ------
        InvalidInputError : there is none before the first reset
        """
        if self._simulation is None:
            raise InvalidInputError("simulation: call reset first")
        return self._simulation

    def new_job(self, row: int) -> int | None:
        """Index of the job that a row of the observation shows as new, None for other rows."""
        return self._round.new_job(row)

    def result(self) -> RunResult:
        """The result of the episode, equal to that of ``ray-sim run``.

        Raises
        ------
        InvalidInputError : the episode is not over
        """
        if self._simulation is None or not self._over:
            raise InvalidInputError("result: the episode is not over")
        return self._simulation.result()


def _form_text(features: Mapping[str, Feature]) -> str:
    return ", ".join(f"{name} {feature.shape}" for name, feature in features.items())


def _info(interval: Interval, decisions: int) -> dict[str, Any]:
    """What the last step of an interval tells beside its reward."""
    return {
        "time_s": interval.end_s,
        "length_s": interval.end_s - interval.begin_s,
        "decisions": decisions,
        "completed": interval.completed,
        "waiting": interval.waiting,
        "running": interval.running,
    }


class ValidActions(spaces.Discrete):
    """Actions 0 to n - 1, of which `sample` without a mask draws one that is valid now.

    Pickled, copied and batched it is a plain `Discrete`.
    """

    def __init__(self, n: int, mask: Callable[[], I8 | None]) -> None:
        super().__init__(n)
        self._mask = mask

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Draw an action; see `gymnasium.spaces.Discrete.sample`."""
        if mask is None and probability is None:
            mask = self._mask()
            if mask is not None and not mask.any():
                mask = None
        return super().sample(mask=mask, probability=probability)

    def __reduce__(self) -> tuple[type[spaces.Discrete], tuple[int]]:
        return spaces.Discrete, (int(self.n),)
