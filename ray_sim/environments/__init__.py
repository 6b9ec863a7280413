"""Gymnasium environments of the simulator, and base classes of agents that were trained in them.

The import registers `ray_sim/Placement-v0` and `ray_sim/Queue-v0` where gymnasium is installed
(``ray_sim[gym]``). Agents need no gymnasium.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ray_sim.lazy_names import lazy_names
from ray_sim.model.errors import MissingPackageError

if TYPE_CHECKING:
    from ray_sim.agents.agent import PlacementAgent as PlacementAgent
    from ray_sim.agents.agent import QueueAgent as QueueAgent
    from ray_sim.environments.episodes import Episode as Episode
    from ray_sim.environments.episodes import scenario_episodes as scenario_episodes
    from ray_sim.environments.evaluation import Evaluation as Evaluation
    from ray_sim.environments.evaluation import evaluate as evaluate
    from ray_sim.environments.placement import PlacementEnv as PlacementEnv
    from ray_sim.environments.queue import QueueEnv as QueueEnv
    from ray_sim.environments.rewards import Interval as Interval
    from ray_sim.environments.wrappers import FlatObservations as FlatObservations

ENVIRONMENTS = {
    "ray_sim/Placement-v0": (
        "ray_sim.environments.placement:PlacementEnv",
        "ray_sim.environments.vector:PlacementVector",
    ),
    "ray_sim/Queue-v0": (
        "ray_sim.environments.queue:QueueEnv",
        "ray_sim.environments.vector:QueueVector",
    ),
}
"""Entry points of the environment and of its vector, by id."""

_get, __dir__, __all__ = lazy_names(__name__)
__all__ += ["ENVIRONMENTS", "register_envs"]


def register_envs() -> None:
    """Register the environments; again without effect."""
    from gymnasium.envs.registration import register, registry

    for name, (entry_point, vector_entry_point) in ENVIRONMENTS.items():
        if name not in registry:
            register(id=name, entry_point=entry_point, vector_entry_point=vector_entry_point)


if find_spec("gymnasium") is not None:
    register_envs()


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name == "gymnasium":
            raise MissingPackageError(f"{name} needs gymnasium: pip install 'ray_sim[gym]'") from error
        raise
