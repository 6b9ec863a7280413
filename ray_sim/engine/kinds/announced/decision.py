"""Decisions about announced jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ray_sim.engine.decision import Decision
from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class Launches:
    """When jobs are to start: binding from now on; equal lengths."""

    job: IntArray
    """Sorted; each has come, waits or is started or evicted by this decision, and has no start yet."""
    start_us: IntArray
    """Now, or the beginning of a later round."""


@dataclass(frozen=True, slots=True)
class Charges:
    """Payments of jobs that have completed; equal lengths."""

    job: IntArray
    """Sorted; completed, and not charged before."""
    price: IntArray
    """In 1e-9 of a unit, >= 0."""


@dataclass(frozen=True, slots=True)
class AnnouncedDecision(Decision):
    """A decision that also fixes starts and charges jobs.

    A job that is not charged pays nothing. A running job stays where it is until it completes or is evicted.
    """

    launches: Launches | None = None
    charges: Charges | None = None

    @property
    def idle(self) -> bool:
        """Whether it changes no job: it may tell something, or ask for a review."""
        return self.launches is None and self.charges is None and super(AnnouncedDecision, self).idle

    def columns(self) -> Iterator[tuple[str, object, int]]:
        """Fields of every decision, then those of starts and payments."""
        yield from Decision.columns(self)
        if self.launches is not None:
            yield "launches.job", self.launches.job, 1
            yield "launches.start_us", self.launches.start_us, 1
        if self.charges is not None:
            yield "charges.job", self.charges.job, 1
            yield "charges.price", self.charges.price, 1

    def records(self) -> Iterator[tuple[str, object, type]]:
        """Starts and payments, beside those of every decision."""
        yield from Decision.records(self)
        yield "launches", self.launches, Launches
        yield "charges", self.charges, Charges
