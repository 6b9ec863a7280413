"""Certificates of welfare: what the announced jobs of a run could earn at most.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
2, for the benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import Statements
from ray_sim.model.units import IntArray
from ray_sim.solvers.launch_plan_lp import launch_plan_bound
from ray_sim.solvers.utility_optimum import SearchLimits
from ray_sim.solvers.welfare_bound import welfare_bound
from ray_sim.solvers.welfare_optimum import best_welfare, fractional_welfare

EX_POST = "ex post"
PRICED_ROUNDS = "prices of rounds"


class WelfareLimits(NamedTuple):
    """Announced jobs whose welfare is bounded, and the nodes that they share."""

    statements: Statements
    """True statements of n jobs."""
    arrival: IntArray
    """(n,) rounds, from the birth on."""
    duration: IntArray
    """(n,) rounds, >= 1."""
    nodes: int
    """Capacity in every round."""
    rounds: int
    """Last round in which a job can finish."""


@dataclass(frozen=True, slots=True)
class WelfareOptimum:
    """Bound on the welfare of one run, and the best schedule behind it; fields as of `WelfareAudit`."""

    optimum_kind: str
    optimum_bound: float
    optimum: float | None = None
    optimum_proven: bool | None = None
    lp_bound: float | None = None


def optimum_after_the_fact(limits: WelfareLimits, search: SearchLimits) -> WelfareOptimum:
    """Best schedule that a search finds, and a bound; the cheap bound if the programme is too large.

    Raises
    ------
    RunFailedError : the solver failed
    """
    cheap = welfare_bound(*limits)
    try:
        relaxed = fractional_welfare(*limits)
        best = best_welfare(*limits, search)
    except InvalidScenarioError:  # more variables than the solver is given
        return WelfareOptimum(PRICED_ROUNDS, cheap)
    bound = max(min(best.bound, relaxed, cheap), best.welfare)
    return WelfareOptimum(EX_POST, bound, best.welfare, best.proven, relaxed)


def launch_plans(limits: WelfareLimits) -> float | None:
    """Bound on the expected welfare of schedulers that learn of durations as signals tell, in units.

    None if the programme is too large; see `launch_plan_bound`.
    """
    try:
        return launch_plan_bound(limits.statements, limits.nodes, limits.rounds)
    except InvalidScenarioError:
        return None


def ratio_to(bound: float | None, welfare: float) -> float | None:
    """``bound / welfare``; None without a bound, or where nothing was earned."""
    return bound / welfare if bound is not None and welfare > 0 else None
