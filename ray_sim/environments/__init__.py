"""Gymnasium environments of the simulator, and base classes of agents that were trained in them.

The import registers `ray_sim/Placement-v1` and `ray_sim/Queue-v1` where gymnasium is installed
(``ray_sim[gym]``), and their versions 0, which refuse jobs that accept certain GPU types only. Agents need no
gymnasium.
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

_PLACEMENT = "ray_sim.environments.placement:PlacementEnv", "ray_sim.environments.vector:PlacementVector"
_QUEUE = "ray_sim.environments.queue:QueueEnv", "ray_sim.environments.vector:QueueVector"

ENVIRONMENTS = {
    "ray_sim/Placement-v0": (*_PLACEMENT, False),
    "ray_sim/Queue-v0": (*_QUEUE, False),
    "ray_sim/Placement-v1": (*_PLACEMENT, True),
    "ray_sim/Queue-v1": (*_QUEUE, True),
}
"""Entry points of the environment and of its vector, and whether its mask heeds GPU types, by id."""

_get, __dir__, __all__ = lazy_names(__name__)
__all__ += ["ENVIRONMENTS", "register_envs"]


def register_envs() -> None:
    """Register the environments; again without effect."""
    from gymnasium.envs.registration import register, registry

    for name, (entry_point, vector, typed) in ENVIRONMENTS.items():
        if name not in registry:
            register(name, entry_point, vector_entry_point=vector, kwargs={"typed": typed})


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
