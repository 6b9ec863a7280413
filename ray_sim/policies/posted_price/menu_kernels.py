"""Compiled loops of menus: book expected load, and price the rounds that it changed."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.model.statement import NANO, NEVER_ROUND


@outlined
def book_load(concurrency: int, start: I64, duration: I64, probability: F64, booked: I64) -> tuple[int, int]:
    """Add the expected load of a plan to ``booked``, (T,); return the range of rounds that changed.

    The range is (0, 0) if nothing is launched. O(sum of durations).
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
