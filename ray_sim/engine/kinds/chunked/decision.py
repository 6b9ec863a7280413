"""Decisions about chunked jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from ray_sim.engine.decision import Decision
from ray_sim.model.units import IntArray


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Chunks sent to workers, in the order given; equal lengths.

    A worker serves the first uploaded chunk by (key, order of dispatch). Whole jobs that go to the
    cloud at once, with no parameter server elsewhere, are trained there without communication.
    """

    job: IntArray
    unit: IntArray
    worker: IntArray
    """Numbers as in `WorkerSlots`; that of a cloud's server is a new worker for each chunk."""
    key: IntArray
    overtake: bool = True
    """Whether they take the worker from a chunk behind them in the order; else they wait for its end."""


@dataclass(frozen=True, slots=True)
class NewKeys:
    """Another place in the queues for all chunks of some jobs that are on workers; equal lengths.

    Those that are sent off in the same decision keep the key that they are given there.
    """

    job: IntArray
    """Sorted, each in the system and not ended by this decision."""
    key: IntArray


@dataclass(frozen=True, slots=True)
class ChunkedDecision(Decision):
    """A decision that also sends chunks to workers; ``changes`` gives and takes parameter servers."""

    dispatch: Dispatch | None = None
    keys: NewKeys | None = None

    @property
    def idle(self) -> bool:
        """Whether it changes no job: it may report something, or ask for a review."""
        dispatches = self.dispatch is not None and len(self.dispatch.job) > 0
        return not dispatches and self.keys is None and super(ChunkedDecision, self).idle

    @property
    def served(self) -> set[int]:
        """Jobs that are given a parameter server or a worker."""
        held = super(ChunkedDecision, self).served
        return held if self.dispatch is None else held | set(self.dispatch.job.tolist())

    def columns(self) -> Iterator[tuple[str, object, int]]:
        """Fields of every decision, then those of the dispatch and of new keys."""
        yield from Decision.columns(self)
        for name, given in (("dispatch", self.dispatch), ("keys", self.keys)):
            if given is not None:
                parts = [field.name for field in fields(given) if field.name != "overtake"]
                yield from ((f"{name}.{part}", getattr(given, part), 1) for part in parts)

    def records(self) -> Iterator[tuple[str, object, type]]:
        """Dispatch and new keys, beside those of every decision."""
        yield from Decision.records(self)
        yield "dispatch", self.dispatch, Dispatch
        yield "keys", self.keys, NewKeys
