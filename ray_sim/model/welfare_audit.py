"""Data of the audit of announced jobs: what a policy with prices is asked, and what it recorded.

`ray_sim/experiments/announced_audit.py` asks, the policy returns a `MechanismRecord`, and
`ray_sim/certificates/announced_audit.py` checks it. Policies get these types from `ray_sim.policy_api`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Size of an audit."""

    jobs: int = 3
    """Largest number of jobs whose misreports are tried."""
    futures: int = 4
    """Most joint futures of all jobs that are run; of more, so many are drawn."""
    nodes: int = 100
    """Limit on the nodes of the search for the best welfare."""


@dataclass(frozen=True, slots=True)
class MechanismRecord:
    """Prices, plans and bookings of a mechanism, kept from the births of J jobs on."""

    relaxed: int
    """C', the load that may be booked in a round, in 1e-9 nodes."""
    least_failure: float
    """eps / 10, up to which failure estimates count as 0."""
    booked: IntArray
    """(T,) expected load of all plans, in 1e-9 nodes."""
    start: IntArray
    """(J,) start that the plan has for what came; `NEVER_ROUND` for none."""
    price: IntArray
    """(J,) price at the birth of what the job ran or would have run, in 1e-9 of a unit; 0 without a start."""
    points: int
    """Number of points of all plans: a point books a load rounded by at most half a 1e-9."""
    fallen: tuple[tuple[int, int], ...]
    """Job and round of a price that had been higher at an earlier birth; the first of each job."""
    regret_bound: float
    """2 (mu + eps / 10) H: bound of the theorem on gains, in units."""
