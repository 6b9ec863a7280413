"""Jobs and clusters so small that everything about them can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.shared.sold_plans import PricedServers
from ray_sim.solvers.planning.market import Market, MarketCapacity
from ray_sim.solvers.planning.slot_job import SlotJob


def ints(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


EXAMPLE_A = SlotJob(
    number=0,
    arrival=0,
    samples=100.0,
    theta_internal=0.02,
    theta_external=0.04,
    most_workers=4,
    workers_per_ps=1.0,
    worker_demand=ints(2),
    ps_demand=ints(1),
    utility=floats(5, 4),
)
"""Job A of example 1.A."""

EXAMPLE_B = replace(
    EXAMPLE_A, most_workers=6, workers_per_ps=2.0, worker_demand=ints(4, 2), ps_demand=ints(2, 4)
)
"""The job of example 1.B; two servers with (10, 10) and (8, 12) free at prices (1, 1) and (2, 0.5)."""
B_FREE, B_PRICE = np.array([[[10, 10], [8, 12]]]), np.array([[[1.0, 1.0], [2.0, 0.5]]])
B_UNITS = ints(1, 1)


def servers(*capacity: Sequence[int]) -> MarketCapacity:
    """One row each, in quanta that are units."""
    of_servers = np.array(capacity, dtype=np.int64)
    return MarketCapacity(of_servers, np.ones(of_servers.shape[1], dtype=np.int64))


def offered_beside(market: Market, barred: BoolArray) -> Market:
    """What a job is offered that may not take the first resource of ``barred`` servers, (S,)."""
    offered = market.cluster.capacity.copy()
    offered[barred, 0] = 0
    return PricedServers(np.arange(len(offered)), market).offering(offered, 0).market


def drawn_job(draw: np.random.Generator, number: int, slots: int, resources: int) -> SlotJob:
    """Up to 4 workers; one or two slots of all of them are enough."""
    arrival = int(draw.integers(0, slots))
    theta = float(draw.choice([0.02, 0.025, 0.05]))
    worth = np.sort(draw.integers(1, 40, slots - arrival))[::-1].astype(np.float64)
    demand = draw.integers(0, 3, (2, resources))
    if not demand.any():
        demand[0, 0] = 1
    return SlotJob(
        number=number,
        arrival=arrival,
        samples=float(draw.choice([40, 80, 100, 200])),
        theta_internal=theta,
        theta_external=theta * float(draw.choice([1.0, 1.5, 2.0])),
        most_workers=int(draw.integers(1, 5)),
        workers_per_ps=float(draw.integers(1, 4)),
        worker_demand=demand[0],
        ps_demand=demand[1],
        utility=worth,
    )
