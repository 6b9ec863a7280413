"""Registers the environments with gymnasium, on import of `ray_sim.environments`."""

from __future__ import annotations

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


def register_envs() -> None:
    """Register the environments; again without effect."""
    from gymnasium.envs.registration import register, registry

    for name, (entry_point, vector_entry_point) in ENVIRONMENTS.items():
        if name not in registry:
            register(id=name, entry_point=entry_point, vector_entry_point=vector_entry_point)
