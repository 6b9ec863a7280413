"""Announcement profiles: how births, values and outlooks are drawn.

`ray_sim/experiments/inputs/announcement_file.py` reads them from YAML, `announce` draws by them. A new field
needs a key there and a line in docs/engine.md. A field without a default changes nothing that is drawn
only if the draws of the others keep their keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workloads.training.draws import Draw

ValueKind = Literal["deadline", "step", "linear", "sigmoid", "utility"]
Owner = Literal["user", "vc"]


@dataclass(frozen=True, slots=True)
class ValueDraws:
    """Draws of a value function."""

    form: ValueKind
    worth_per_gpu_hour: Draw | None
    """Units for each GPU and hour of the expected run; None where `worth` is drawn."""
    worth: Draw | None
    """Units of the whole job; None where `worth_per_gpu_hour` is drawn."""
    worth_range: tuple[float, float] | None
    """Least and most units of a job: a draw outside becomes the nearer of them; None for no limits."""
    slack: Draw | None
    """Time from the expected arrival until the worth begins to fall, in expected durations; None for the
    form ``utility``, whose worth is the job's utility."""
    most_after_due_s: float | None = None
    """For the form ``utility``: the worth is 0 from so long after `utility_due_s` on."""


@dataclass(frozen=True, slots=True)
class History:
    """Durations of an owner's earlier jobs as the outlook of a job."""

    of: Owner
    jobs: int
    """Most recent jobs that count, >= 1."""
    points: int
    """Most points of the distribution, >= 1."""


@dataclass(frozen=True, slots=True)
class OutlookDraws:
    """Construction of an outlook."""

    duration_error: float
    """Standard deviation of the natural logarithm of the announced durations, >= 0."""
    duration_points: int
    """Points of the lognormal construction, >= 1."""
    arrival_jitter: float
    """Largest distance of the arrival from the announced one, as a share of the lead, in [0, 1)."""
    history: History | None
    """None for the lognormal construction of every job."""


@dataclass(frozen=True, slots=True)
class AnnouncementDraws:
    """An announcement profile."""

    name: str
    title: str
    sha256: str
    """SHA-256 of the profile file."""
    lead_s: Draw
    """Seconds from the birth to the announced arrival."""
    value: ValueDraws
    outlook: OutlookDraws
