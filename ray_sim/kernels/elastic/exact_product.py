"""Exact comparison of products of two integers that exceed 64 bits."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel

_HALF = 31
_LOW = 2**_HALF - 1


@kernel
def product_above(a: int, b: int, c: int, d: int) -> int:
    """Return the sign of a b - c d, for 0 <= a, b, c, d < 2**62.

    Each product is split into high x 2**62 + low with low < 2**62; the parts are compared in turn.
    """
    high_ab, low_ab = _product(a, b)
    high_cd, low_cd = _product(c, d)
    if high_ab != high_cd:
        return 1 if high_ab > high_cd else -1
    if low_ab != low_cd:
        return 1 if low_ab > low_cd else -1
    return 0


@kernel
def _product(a: int, b: int) -> tuple[int, int]:
    """Return the high and the low part; factors split at 31 bits keep intermediate values below 2**63."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + a_low * b_high
    low = a_low * b_low + ((middle & _LOW) << _HALF)
    return a_high * b_high + (middle >> _HALF) + (low >> (2 * _HALF)), low & (2 ** (2 * _HALF) - 1)
