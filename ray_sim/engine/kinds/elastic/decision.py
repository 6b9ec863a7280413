"""Decisions about elastic jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ray_sim.engine.decision import Decision
from ray_sim.model.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Estimates:
    """Estimates of elastic jobs, compared with the truth and without effect. Arrays of equal lengths.

    Numbers are >= 0, NaN where the policy has no belief.
    """

    job: IntArray
    """Sorted, each in the system and not ended by this decision."""
    speed: FloatArray
    """Samples per second with what the job holds by this decision, restart pauses left out."""
    work_left: FloatArray
    """Samples."""


@dataclass(frozen=True, slots=True)
class ElasticDecision(Decision):
    """A decision with what the policy believes of its jobs."""

    estimates: Estimates | None = None
    """Recorded, without effect."""

    def records(self) -> Iterator[tuple[str, object, type]]:
        """Estimates, beside those of every decision."""
        yield from Decision.records(self)
        yield "estimates", self.estimates, Estimates
