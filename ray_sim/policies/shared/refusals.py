"""Reasons for which jobs are rejected at arrival."""

from __future__ import annotations

from enum import StrEnum

from ray_sim.solvers.planning.schedule import Infeasible, NotWorthIt, Obstacle


class Refusal(StrEnum):
    """Reason for the rejection of a job."""

    PRICE = "price"
    """Its best schedule costs at least its utility."""
    INFEASIBLE = "infeasible"
    """It cannot complete by the horizon with the free capacity."""
    SOLVER = "solver"
    """No schedule was found, but one may exist."""


def refusal(outcome: Infeasible | NotWorthIt) -> Refusal:
    """Convert the outcome of a search without a schedule to a reason."""
    if isinstance(outcome, NotWorthIt):
        return Refusal.PRICE
    return Refusal.SOLVER if outcome.obstacle is Obstacle.COARSE_PARTS else Refusal.INFEASIBLE
