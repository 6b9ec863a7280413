"""Live picture of a simulation that is stepped: jobs on servers at the instant of a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.readable import duration
from ray_sim.model.units import US_PER_S
from ray_sim.plots.axes import axes_of
from ray_sim.reports.plots import colour, literal_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SERVERS = 64
"""Servers in a picture."""


def state(simulation: Simulation, view: View, ax: Axes | None = None, *, resource: str = "gpu") -> Axes:
    """Draw how much of a resource each job holds on each server now; the axes are cleared first.

    Call it after ``simulation.apply``, with the view of that decision.

    Parameters
    ----------
    view : what `simulation.advance` returned

    Raises
    ------
    InvalidInputError : more than `MOST_SERVERS` servers, or jobs that train in chunks
    UnknownNameError : the servers have no such resource
    """
    world = simulation.core.world
    names = world.cluster.server_names
    if len(names) > MOST_SERVERS:
        raise InvalidInputError(f"state: {len(names):,} servers; expected at most {MOST_SERVERS}")
    if isinstance(world.facts, ChunkFacts):
        raise InvalidInputError("state: chunks are no placements; draw `ray_sim.plots.gantt` of the result")
    if resource not in world.facts.resources:
        raise UnknownNameError("resource", resource, world.facts.resources)
    axis, quanta = list(world.facts.resources).index(resource), world.facts.resources[resource]
    jobs = np.concatenate([view.waiting, view.running])
    held = view.placements.of(jobs)
    amount = world.arrays.demand[held.job, held.role, axis] * held.count / quanta
    ax = axes_of(ax)
    ax.clear()
    offered = world.arrays.capacity[:, axis] * view.available / quanta
    ax.barh(range(len(names)), offered, color="none", edgecolor="#7a7a7a")
    taken = np.zeros(len(names))
    for job, server, width in zip(held.job, held.server, amount, strict=True):
        ax.barh(server, width, left=taken[server], color=colour(int(job)), edgecolor="white", linewidth=0.5)
        taken[server] += width
    ax.set_yticks(range(len(names)), [literal_text(name) for name in names], fontsize="small")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{resource} in use")
    now = duration(view.now_us / US_PER_S)
    ax.set_title(f"{now}: {len(view.waiting):,} waiting, {len(view.running):,} running")
    return ax
