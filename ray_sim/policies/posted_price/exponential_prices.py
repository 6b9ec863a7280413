"""Menu A, for adversarial arrivals: node prices that grow exponentially with the booked load.

p(y) = L (B^(y / kappa) - 1) with L = 1 / (2 C_m D_m) and B = 1 + 2 H C_m D_m, so that p(0) = 0 and p(kappa)
= H: a job of the highest value buys no round at kappa.

Source: Babaioff et al. (WWW 2022), section 4, who state exponential prices and a ratio of O(log(D_m H)); the
formula is ours.
"""

from __future__ import annotations

from typing import ClassVar

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NANO
from ray_sim.model.units import IntArray
from ray_sim.policies.posted_price.menu import LARGEST_PRICE, Menu, RelaxedCapacity
from ray_sim.policies.posted_price.menu_kernels import price_rounds


class ExponentialPrices(Menu):
    """Menu A.

    Parameters
    ----------
    capacity
        Nodes and rounds.
    most_duration
        D_m, upper bound on durations in rounds, >= 1.
    most_value
        H, upper bound on values in units, > 0.

    Raises
    ------
    InvalidScenarioError
        If the price of the largest job may not fit 64 bits.
    """

    buys_at_zero: ClassVar[bool] = False

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

    def _set_prices(self, booked: IntArray, price: IntArray) -> None:
        price_rounds(booked, self.capacity.safe_load, self._scale, self._base, price)
