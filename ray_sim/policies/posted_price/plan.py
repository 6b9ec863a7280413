"""Launch plans: when an announced job starts, for each arrival and signal that it may have."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch plan with the support on which it was made, sorted by (arrival, signal, duration).

    Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
    section 3: a plan L maps (arrival, signal) to a start.
    """

    arrival: IntArray
    """(n,) rounds, absolute."""
    duration: IntArray
    """(n,) rounds."""
    signal: IntArray
    """(n,) signal of the duration at the arrival."""
    probability: FloatArray
    """(n,) > 0, with sum 1."""
    start: IntArray
    """(n,) round >= arrival, absolute; `ray_sim.model.statement.NEVER_ROUND` where the job is not launched.
    Equal for points of equal (arrival, signal)."""
