"""Menu: the price of a node in each round, and the expected load that it follows.

The price of a job of c nodes that starts at t and lasts d rounds is c times the sum of the node prices of
rounds t to t + d - 1. It is infinite if one of these rounds is sold out.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
algorithm 2. Infinite prices are ours: without them a plan can buy rounds above the highest value of a job,
for the tail of a long duration counts by its small probability, and the booked load exceeds the relaxed
capacity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NANO
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.menu_kernels import book_load
from ray_sim.policies.posted_price.planner_kernels import PlannedJob

MOST_ROUNDS = 50_000_000
"""Most rounds of a run; a menu takes 16 bytes for each."""

LARGEST_PRICE = 2**62
"""Bound on the price of a job in nano; the difference to a value then fits 64 bits."""


@dataclass(frozen=True, slots=True)
class RelaxedCapacity:
    """Nodes that the relaxed problem may book, in expectation.

    Raises
    ------
    InvalidScenarioError
        If no load may be booked at all, since a single job may exceed the relaxed capacity, or there are more
        than `MOST_ROUNDS` rounds.
    """

    nodes: int
    """C, >= 1."""
    most_concurrency: int
    """C_m, upper bound on the nodes of a job, >= 1."""
    eps: float
    """In [0, 10); a tenth of it is the share of nodes that is kept free."""
    horizon: int
    """T; a run has rounds 0 to T - 1, and what is not finished by T is cancelled."""

    def __post_init__(self) -> None:
        if self.horizon > MOST_ROUNDS:
            raise InvalidScenarioError(
                f"horizon_s: prices of {self.horizon:,} rounds up to the horizon may not fit the memory, at "
                f"most {MOST_ROUNDS:,} are allowed: choose an earlier horizon (-w horizon_s) or longer "
                "rounds (-w slot_s)"
            )
        if self.safe_load <= 0:
            raise InvalidScenarioError(
                f"menu: (1 - eps / 10) C - C_m must be > 0, but eps = {self.eps:g}, C = {self.nodes:,} nodes "
                f"and C_m = {self.most_concurrency:,} nodes per job give {self.safe_load / NANO:g}: use more "
                "nodes or a smaller eps, or leave the largest jobs out of the workload"
            )

    @property
    def relaxed(self) -> int:
        """C' = (1 - eps / 10) C, in nano nodes."""
        return round((1.0 - self.eps / 10.0) * self.nodes * NANO)

    @property
    def safe_load(self) -> int:
        """Load kappa = C' - C_m, in nano nodes; a round with more booked load is sold out."""
        return self.relaxed - self.most_concurrency * NANO


class Menu(ABC):
    """Prices of a node for each round; those that a job pays are fixed at its birth.

    A job books at most C_m in a round, up to half a nano node per point of its distribution, and only where
    at most kappa is booked. So the booked load of plans stays at or below C' (up to this rounding), whatever
    the signal. Jobs that outlast their reports are booked on top of it.
    """

    buys_at_zero: ClassVar[bool]
    """Whether jobs may buy at zero surplus."""

    def __init__(self, capacity: RelaxedCapacity) -> None:
        self.capacity = capacity
        self.booked: IntArray = np.zeros(capacity.horizon, dtype=np.int64)
        """(T,) expected load of each round in nano nodes."""
        self._price: IntArray = np.zeros(capacity.horizon, dtype=np.int64)

    def node_prices(self, first: int, rounds: int) -> tuple[IntArray, BoolArray]:
        """Return prices of a node in nano and sold-out flags of ``rounds`` rounds from ``first``.

        Both arrays are copies, and end at T. The price of a sold-out round is finite here, and never to be
        charged.
        """
        sold_out = self.booked[first : first + rounds] > self.capacity.safe_load
        return self._price[first : first + rounds].copy(), sold_out

    def book(self, concurrency: int, start: IntArray, duration: IntArray, probability: FloatArray) -> None:
        """Book the plan of a job: ``probability`` times ``concurrency`` nodes while each point would run.

        Parameters
        ----------
        concurrency
            Nodes of the job.
        start, duration, probability
            (n,) plan and distribution of the job. `NEVER_ROUND` books nothing. The load of a point is
            ``probability * (concurrency * 10^9)`` to the nearest nano node.
        """
        first, end = book_load(concurrency, start, duration, probability, self.booked)
        self._price_rounds(first, end)

    def bought(self, report: PlannedJob) -> BoolArray | None:
        """Return which points of a report may be bought at zero surplus, (n,); None for none."""
        return None

    def priced(self, first: int, booked: IntArray) -> IntArray:
        """Return the prices of a node in nano, of rounds from ``first``, as they are with this load, (n,)."""
        price = self._price[first : first + len(booked)].copy()
        self._set_prices(booked, price)
        return price

    def _price_rounds(self, first: int, end: int) -> None:
        """Set ``_price[first:end]`` after a change of their load."""
        self._set_prices(self.booked[first:end], self._price[first:end])

    @abstractmethod
    def _set_prices(self, booked: IntArray, price: IntArray) -> None:
        """Set the prices of rounds, (n,), by their load, where they follow it."""

    def state(self) -> dict[str, IntArray]:
        """What changes during a run, as copies."""
        return {"booked": self.booked.copy()}

    def restore(self, state: Mapping[str, IntArray]) -> None:
        """Continue from a `state`."""
        self.booked[:] = state["booked"]
        self._price_rounds(0, len(self.booked))
