"""The increment Q of A_online, by going through slots with lists and fractions: an independent word on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class OnWorker:
    """A chunk on a worker, in slots; ``order`` is that of dispatch."""

    chunks: int
    length: int
    ready: int
    left: int
    order: int
    place: int | None = None
    """In the queue, where that is not the inverse of its average rate."""

    @property
    def inverse_rate(self) -> int:
        """D p."""
        return self.chunks * self.length

    @property
    def key(self) -> tuple[int, int]:
        """Largest average rate 1 / (D p) first, or by its own place; then the order of dispatch."""
        return self.inverse_rate if self.place is None else self.place, self.order


@dataclass
class Future:
    """What a worker does from now on: slots in which each chunk is trained, by its order."""

    slots: dict[int, list[int]]
    left: dict[int, int]
    serving: int | None
    """The order of the chunk that was trained in the last slot and is not done."""


def future(
    on_worker: Sequence[OnWorker], now: int, until: int | None, serving: int | None, *, preempt: bool
) -> Future:
    """Slot by slot until ``until``, or until nothing is left."""
    found = Future({c.order: [] for c in on_worker}, {c.order: c.left for c in on_worker}, serving)
    slot = now
    while any(found.left.values()) and (until is None or slot < until):
        waiting = [c for c in on_worker if c.ready <= slot and found.left[c.order] > 0]
        stays = [c for c in waiting if c.order == found.serving and not preempt]
        best = min(stays or waiting, key=lambda c: c.key, default=None)
        found.serving = None
        if best is not None:
            found.left[best.order] -= 1
            found.slots[best.order].append(slot)
            found.serving = best.order if found.left[best.order] else None
        slot += 1
    return found


def increment(
    on_worker: Sequence[OnWorker],
    new: OnWorker,
    now: int,
    serving: int | None,
    *,
    preempt: bool,
    counted: bool,
) -> Fraction:
    """Q, in slots, by its four terms; C4 counts chunks in upload, C5 puts the chunk that runs at t0 first."""
    plan = future(on_worker, now, new.ready, serving, preempt=preempt)
    there = [c for c in on_worker if (counted or c.ready <= new.ready) and plan.left[c.order] > 0]
    first = [] if preempt else [c for c in there if c.order == plan.serving]
    faster = [c for c in there if c.key <= new.key and c not in first]
    slower = [c for c in there if c.key > new.key and c not in first]
    waiting = sum(plan.left[c.order] for c in (*first, *faster))
    delayed = sum(Fraction(plan.left[c.order], c.inverse_rate) for c in slower)
    return Fraction(new.ready - now + waiting + new.length, new.chunks) + new.length * delayed


def total(on_worker: Sequence[OnWorker], now: int, serving: int | None, *, preempt: bool) -> Fraction:
    """F of what is left, as if all had been released now."""
    plan = future(on_worker, now, None, serving, preempt=preempt)
    cost = Fraction(0)
    for c in on_worker:
        mean = sum(Fraction(2 * (slot - now) + 1, 2 * c.length) for slot in plan.slots[c.order])
        cost += (mean + Fraction(c.length, 2)) / c.chunks
    return cost


def change(
    on_worker: Sequence[OnWorker], new: OnWorker, now: int, serving: int | None, *, preempt: bool
) -> Fraction:
    """By how much F grows."""
    with_it = total([*on_worker, new], now, serving, preempt=preempt)
    return with_it - total(on_worker, now, serving, preempt=preempt)
