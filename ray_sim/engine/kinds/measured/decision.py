"""Decisions about measured jobs: which of them share a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ray_sim.engine.decision import Decision
from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class Guests:
    """Jobs that are placed on the GPU of another one; equal lengths."""

    job: IntArray
    """Sorted, each at most once. The decision places each with one row of no tasks, on the host's server."""
    host: IntArray
    """Job that holds the GPU."""


@dataclass(frozen=True, slots=True)
class MeasuredDecision(Decision):
    """A decision that may place jobs of one GPU on a GPU that another such job holds."""

    guests: Guests | None = None

    def columns(self) -> Iterator[tuple[str, object, int]]:
        """Guests and hosts, beside the columns of every decision."""
        yield from Decision.columns(self)
        if self.guests is not None:
            yield "guests.job", self.guests.job, 1
            yield "guests.host", self.guests.host, 1

    def records(self) -> Iterator[tuple[str, object, type]]:
        """Guests, beside those of every decision."""
        yield from Decision.records(self)
        yield "guests", self.guests, Guests
