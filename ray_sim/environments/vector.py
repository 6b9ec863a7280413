"""Several environments in one process, whose observations are written into arrays of all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ray_sim.agents.arguments import MOST_ROWS, whole_number
from ray_sim.environments.placement import PlacementEnv
from ray_sim.environments.queue import QueueEnv
from ray_sim.environments.scheduling_env import Observations, SchedulingEnv
from ray_sim.model.errors import InvalidInputError

Bools = npt.NDArray[np.bool_]


class SchedulingVector(VectorEnv[Observations, npt.NDArray[np.int64], npt.NDArray[Any]]):
    """Steps like `gymnasium.vector.SyncVectorEnv`, with automatic resets in the next step.

    An environment whose episode has ended has no valid action; the next step resets it, whatever its action.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  # as gymnasium has it

    def __init__(self, kind: type[SchedulingEnv], num_envs: int, options: Mapping[str, Any]) -> None:
        num_envs = whole_number("num_envs", num_envs, 1, MOST_ROWS)
        first = kind(**options)
        shared = {**options, "episodes": first.episodes, "scenario": None, "seeds": None}
        self.envs = [first, *(kind(**shared) for _ in range(num_envs - 1))]
        self.num_envs = num_envs
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self._shown: Observations = {
            name: np.zeros((num_envs, *(space.shape or ())), space.dtype)
            for name, space in first.entries.items()
        }
        for i, env in enumerate(self.envs):
            env.observation_arrays = {name: array[i] for name, array in self._shown.items()}
        self._ended = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed : number i gets ``seed + i``, or element i
        options : of every environment, see `SchedulingEnv.reset`
        """
        if seed is None or isinstance(seed, int):
            seeds: Sequence[int | None] = [None if seed is None else seed + i for i in range(self.num_envs)]
        else:
            seeds = seed
        if len(seeds) != self.num_envs:
            raise InvalidInputError(f"seed: must have {self.num_envs} elements, got {len(seeds)}")
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        infos: dict[str, Any] = {}
        for i, env in enumerate(self.envs):
            info = env.begin(seeds[i], options)
            env.round.refresh()
            _note(infos, info, i, self.num_envs)
        return self._observations(), infos

    def step(
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[Observations, npt.NDArray[np.float64], Bools, Bools, dict[str, Any]]:
        """Carry out one action in every environment.

        Raises
        ------
        ForbiddenActionError : an action is not valid; environments before it have been stepped
        """
        if len(actions) != self.num_envs:
            raise InvalidInputError(f"actions: must have {self.num_envs} elements, got {len(actions)}")
        infos: dict[str, Any] = {}
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), dtype=np.bool_)
        for i, (env, action, ended) in enumerate(
            zip(self.envs, np.asarray(actions).tolist(), self._ended.tolist(), strict=True)
        ):
            if ended:
                info = env.begin(None, None)
            else:
                rewards[i], terminated[i], truncated[i], info = env.take(action)
            env.round.refresh()
            if info:
                _note(infos, info, i, self.num_envs)
        self._ended = terminated | truncated
        return self._observations(), rewards, terminated, truncated, infos

    def _observations(self) -> Observations:
        return {name: array.copy() for name, array in self._shown.items()}

    def action_masks(self) -> Bools:
        """(num_envs, n) actions that are valid now."""
        return np.array([env.action_masks() for env in self.envs])


def _note(infos: dict[str, Any], info: dict[str, Any], i: int, count: int) -> None:
    """Add the numbers of environment i, in the form of `VectorEnv`, in a fraction of its time."""
    for key, value in info.items():
        if key not in infos:
            infos[key] = np.zeros(count, dtype=type(value))
            infos[f"_{key}"] = np.zeros(count, dtype=np.bool_)
        infos[key][i] = value
        infos[f"_{key}"][i] = True


class PlacementVector(SchedulingVector):
    """`PlacementEnv` several times; takes its arguments."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        super().__init__(PlacementEnv, num_envs, options)


class QueueVector(SchedulingVector):
    """`QueueEnv` several times; takes its arguments."""

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        super().__init__(QueueEnv, num_envs, options)
