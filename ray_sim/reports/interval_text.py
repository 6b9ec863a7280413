"""Texts of confidence intervals: the terminal, pages, MLflow and notebooks show the same."""

from __future__ import annotations

from collections.abc import Callable

from ray_sim.model.readable import number
from ray_sim.reports.statistics import FEWEST_VALUES, ConfidenceInterval

TOO_FEW = "too few seeds"
"""Text in place of an interval over 2 to `FEWEST_VALUES` - 1 seeds."""


def interval_text(
    interval: ConfidenceInterval | None, seeds: int, text: Callable[[float], str] = number
) -> str:
    """Ends such as ``3 to 5``; without an interval `TOO_FEW`, or a dash for one run or for no bounds."""
    if interval is None:
        return TOO_FEW if 1 < seeds < FEWEST_VALUES else "-"
    return f"{text(interval.low)} to {text(interval.high)}"


def bracketed(interval: ConfidenceInterval | None, seeds: int, text: Callable[[float], str] = number) -> str:
    """The same in brackets after an estimate, such as `` [3, 5]``; empty instead of a dash."""
    if interval is None:
        return f" [{TOO_FEW}]" if 1 < seeds < FEWEST_VALUES else ""
    return f" [{text(interval.low)}, {text(interval.high)}]"
