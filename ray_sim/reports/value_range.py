"""Ranges of the values of metrics, within which intervals of their means stay."""

from __future__ import annotations

from enum import Enum, auto

_SIGNED = ("welfare.surplus", "audit.load_excess", "policy_figures.")
_SHARES = ("utilisation.", "jain_index", "welfare.eviction_rate")


class ValueRange(Enum):
    """Values that a quantity can have."""

    ANY = auto()
    """Any number, such as a difference."""
    NOT_NEGATIVE = auto()
    """Numbers from 0 on, such as a time or a count."""
    SHARE = auto()
    """Numbers from 0 to 1."""


def metric_range(metric: str) -> ValueRange:
    """Range of a metric: a key of `Summary.flat`, of timing.json or of the scores of an arena."""
    if metric.startswith(_SIGNED):
        return ValueRange.ANY
    share = metric.startswith(_SHARES) or metric.endswith("share")
    return ValueRange.SHARE if share else ValueRange.NOT_NEGATIVE
