"""Menus: the price of a node in each round, and the expected load that it follows.

The price of a job of c nodes that starts at t and lasts d rounds is c times the sum of the node prices of
rounds t to t + d - 1. It is infinite if one of these rounds is sold out.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
algorithm 2, and section 4 for exponential prices. The formula and infinite prices are ours: without them a
plan can buy rounds above the highest value of a job, for the tail of a long duration counts by its small
probability, and the booked load exceeds the relaxed capacity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.planner import PlannedJob
from ray_sim.policy_api import within

MOST_ROUNDS = 50_000_000
"""Most rounds of a run; a menu takes 16 bytes for each."""

LARGEST_PRICE = 2**62
"""Bound on the price of a job in nano; the difference to a value then fits 64 bits."""


@dataclass(frozen=True, slots=True)
class RelaxedCapacity:
    """Nodes that the relaxed problem may book, in expectation.

    Raises
    ------
    InvalidScenarioError : no load may be booked at all, since a single job may exceed the relaxed capacity,
        or there are more than `MOST_ROUNDS` rounds
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

    def __init__(self, capacity: RelaxedCapacity) -> None:
        self.capacity = capacity
        self.booked: IntArray = np.zeros(capacity.horizon, dtype=np.int64)
        """(T,) expected load of each round in nano nodes."""
        self._price: IntArray = np.zeros(capacity.horizon, dtype=np.int64)

    def node_prices(self, first: int, rounds: int) -> tuple[IntArray, BoolArray]:
        """Copies of the node prices in nano, and sold-out flags, of rounds from ``first`` until T.

        The price of a sold-out round is finite here, and never to be charged.
        """
        sold_out = self.booked[first : first + rounds] > self.capacity.safe_load
        return self._price[first : first + rounds].copy(), sold_out

    def book(self, concurrency: int, start: IntArray, duration: IntArray, probability: FloatArray) -> None:
        """Book the plan of a job, by point of its distribution; see `book_load`."""
        first, end = book_load(concurrency, start, duration, probability, self.booked)
        self._price[first:end] = self.priced(first, self.booked[first:end])

    def bought(self, report: PlannedJob) -> BoolArray | None:
        """(n,) points of a report that may be bought at zero surplus; None for none."""
        return None

    @abstractmethod
    def priced(self, first: int, booked: IntArray) -> IntArray:
        """(n,) prices of a node in nano, of rounds from ``first``, as they are with this load, (n,)."""

    def state(self) -> dict[str, IntArray]:
        """What changes during a run, as copies."""
        return {"booked": self.booked.copy()}

    def restore(self, state: Mapping[str, IntArray]) -> None:
        """Continue from a `state`."""
        self.booked[:] = within(state, "booked", 0, NEVER_ROUND)
        self._price[:] = self.priced(0, self.booked)


class ExponentialPrices(Menu):
    """Menu A, for adversarial arrivals: prices p(y) = L (B^(y / kappa) - 1) of the booked load y.

    With L = 1 / (2 C_m D_m) and B = 1 + 2 H C_m D_m, p(0) = 0 and p(kappa) = H: a job of the highest value
    buys no round at kappa.

    Parameters
    ----------
    most_duration : D_m, upper bound on durations in rounds, >= 1
    most_value : H, upper bound on values in units, > 0

    Raises
    ------
    InvalidScenarioError : the price of the largest job may not fit 64 bits
    """

    def __init__(self, capacity: RelaxedCapacity, most_duration: int, most_value: float) -> None:
        super().__init__(capacity)
        size = capacity.most_concurrency * most_duration
        if size * most_value * NANO > LARGEST_PRICE:
            raise InvalidScenarioError(
                f"menu=exponential: H C_m D_m must be at most {LARGEST_PRICE / NANO:.3g} so that prices in "
                f"1e-9 of a unit fit 64 bits, but H = {most_value:g}, C_m = {capacity.most_concurrency:,} "
                f"nodes and D_m = {most_duration:,} rounds give {size * most_value:.3g}: use a larger unit "
                "of value or longer rounds, or cut statements by -w clip_statements=true with "
                "most_value or most_duration_s"
            )
        self._scale = NANO / (2.0 * size)
        self._base = 1.0 + 2.0 * most_value * size

    def priced(self, first: int, booked: IntArray) -> IntArray:
        """See `Menu.priced`."""
        price = np.empty_like(booked)
        price_rounds(booked, self.capacity.safe_load, self._scale, self._base, price)
        return price


@outlined
def book_load(concurrency: int, start: I64, duration: I64, probability: F64, booked: I64) -> tuple[int, int]:
    """Add the expected load of a plan, (n,) each, to ``booked``, (T,); return the rounds that changed.

    A point adds ``probability * (concurrency * 10^9)``, to the nearest nano node, while it would run, and
    nothing where its start is `NEVER_ROUND`. The rounds are (0, 0) if nothing starts. O(sum of durations).
    """
    first, end = len(booked), 0
    for i in range(len(start)):
        if start[i] == NEVER_ROUND:
            continue
        load = int(np.rint(probability[i] * (concurrency * NANO)))
        until = min(start[i] + duration[i], len(booked))
        for tau in range(start[i], until):
            booked[tau] += load
        first, end = min(first, start[i]), max(end, until)
    return min(first, end), end


@kernel
def exponential_price(load: int, full: int, scale: float, base: float) -> int:
    """Return ``scale (base^(load / full) - 1)``, rounded; a load above ``full`` costs as much as ``full``."""
    return int(np.rint(scale * (base ** (min(load, full) / full) - 1.0)))


@outlined
def price_rounds(booked: I64, full: int, scale: float, base: float, price: I64) -> None:
    """Set prices by `exponential_price` of the booked load, (n,) each; O(n)."""
    for tau in range(len(booked)):
        price[tau] = exponential_price(booked[tau], full, scale, base)
