"""Earliest finish, LAS and SRPT for chunks, slot by slot, from the rules of docs/models/baselines.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.engine.kinds.chunked.naive_a_online import US, NaiveAOnline
from tests.engine.kinds.chunked.naive_chunks import Naive, Planned, Sent

Key = Callable[[Sequence[Sent]], int]
"""Key of a job by its chunks that are not lost."""


def attained(chunks: Sequence[Sent]) -> int:
    """Slots in which chunks of the job were trained."""
    return sum(chunk.trained for chunk in chunks)


def remaining(chunks: Sequence[Sent]) -> int:
    """Slots that chunks of the job still need on their workers."""
    return sum(chunk.left for chunk in chunks)


@dataclass
class NaiveFinishOrder(NaiveAOnline):
    """Each chunk goes where it finishes earliest behind all others; jobs have one key in all queues.

    Without ``key`` all keys are equal. `_greedy` of the base class weighs edge and cloud.
    """

    key: Key | None = None

    def decide(
        self, now: int, result: Naive, due: Sequence[Planned], gone: set[int], kept: Mapping[int, Sent]
    ) -> tuple[dict[int, int], Sequence[Planned]]:
        """Keys of this slot, and the chunks to send with them."""
        on_worker = {(chunk.job, chunk.unit) for chunk in result.chunks}
        sent: list[Planned] = []
        for job in sorted({plan.job for plan in due}):
            units = sorted(plan.unit for plan in due if plan.job == job and (job, plan.unit) not in on_worker)
            sent += self._greedy(now, job, units, result, sent, gone, kept)
        if self.key is None:
            return {}, [replace(plan, key=0) for plan in sent]
        keys = {}
        for job in {plan.job for plan in due}:
            mine = [chunk for chunk in result.chunks if chunk.job == job]
            keys[job] = self.key([*mine, *(self._new(now, plan) for plan in sent if plan.job == job)])
        return keys, [replace(plan, key=keys[plan.job]) for plan in sent]

    def _new(self, now: int, plan: Planned) -> Sent:
        """A chunk that is sent now."""
        times = self.jobs[plan.job]
        length, ready = times.lengths[plan.worker], now + times.uploads[plan.worker]
        return Sent(plan.job, plan.unit, plan.worker, 0, 0, ready, length)

    def _increments(
        self,
        now: int,
        job: int,
        result: Naive,
        placed: Sequence[Planned],
        gone: set[int],
        kept: Mapping[int, Sent],
    ) -> Iterator[tuple[int, ...]]:
        """Time to the finish in microseconds, work left and worker, of each that is there and no cloud."""
        times = self.jobs[job]
        chunks = [*result.chunks, *(self._new(now, plan) for plan in placed)]
        for worker, server in enumerate(self.server_of):
            if server not in gone and worker not in self.on_demand:
                left = sum(chunk.left for chunk in chunks if chunk.worker == worker)
                finish = max(times.uploads[worker], left) + times.lengths[worker]
                yield finish * US, left, worker
