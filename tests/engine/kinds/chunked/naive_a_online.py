"""A_online with jobs in danger, slot by slot: all increments anew, all jobs looked at in every slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.engine.kinds.chunked.naive_chunks import Naive, NaiveWorld, Planned, Sent
from tests.engine.kinds.chunked.naive_increments import OnWorker, increment

US = 10**6
"""Increments are rounded to microseconds, of slots of a second."""

FIRST = 10**12
"""More than any D p: a job in danger that is due at t has the place t - FIRST."""


@dataclass
class NaiveAOnline(NaiveWorld):
    """Each job's chunks are due when it comes, for no worker yet; here is where they go and in which order.

    One cloud at most, the worker of the highest number on demand.
    """

    due_us: Sequence[int] = ()
    """Deadlines of jobs in microseconds."""
    slack: Fraction = Fraction(2)
    counted: bool = True
    """Whether chunks that are still in upload at t0 count in increments."""
    in_danger: set[int] = field(default_factory=set)

    def decide(
        self, now: int, result: Naive, due: Sequence[Planned], gone: set[int], kept: Mapping[int, Sent]
    ) -> tuple[dict[int, int], Sequence[Planned]]:
        """Jobs in danger get new places; chunks of one job after another go where they add least.

        Sites learn the new places after they have been asked: increments are by those of the slot before.
        """
        found = [job for job in sorted({plan.job for plan in due}) if self._in_danger(now, job, result)]
        self.in_danger |= set(found)
        on_worker = {(chunk.job, chunk.unit) for chunk in result.chunks}
        sent: list[Planned] = []
        for job in sorted({plan.job for plan in due}):
            units = [plan.unit for plan in due if plan.job == job and (job, plan.unit) not in on_worker]
            sent += self._greedy(now, job, sorted(units), result, sent, gone, kept)
        return {job: self._place(job, 0) for job in found}, sent

    def _in_danger(self, now: int, job: int, result: Naive) -> bool:
        """Whether the job comes into danger in this slot."""
        live = [chunk for chunk in result.chunks if chunk.job == job and chunk.left > 0]
        if not live or job in self.in_danger:
            return False
        ends = []
        for worker in {chunk.worker for chunk in live}:
            mine = sorted((chunk for chunk in live if chunk.worker == worker), key=lambda chunk: chunk.ready)
            end = now
            for chunk in mine:
                # A worker on demand trains one chunk alone.
                end = max(now if worker in self.on_demand else end, chunk.ready) + chunk.left
                ends.append(end)
        needs, left = (max(ends) - now) * US, self.due_us[job] - now * US
        return needs <= left < self.slack * needs

    def _place(self, job: int, inverse_rate: int) -> int:
        """In queues, in slots; deadlines keep their order when they are not whole slots."""
        return self.due_us[job] - FIRST * US if job in self.in_danger else inverse_rate

    def _greedy(
        self,
        now: int,
        job: int,
        units: Sequence[int],
        result: Naive,
        sent: Sequence[Planned],
        gone: set[int],
        kept: Mapping[int, Sent],
    ) -> Sequence[Planned]:
        times, placed = self.jobs[job], list(sent)
        cloud = next((w for w in self.on_demand if self.server_of[w] not in gone), None)
        alone = mixed = Fraction(0)
        if cloud is not None:
            alone = Fraction(times.uploads[cloud] + times.lengths_in_cloud[cloud])
            mixed = Fraction(times.uploads[cloud] + times.lengths[cloud])
        whole, only_cloud = len(units) == times.chunks, False
        for turn, unit in enumerate(units):
            best = min(self._increments(now, job, result, placed, gone, kept), default=None)
            if best is None and cloud is None:
                return []
            if turn == 0 and cloud is not None:
                only_cloud = best is None or (whole and alone * US < best[0])
            if best is None or (cloud is not None and (only_cloud or mixed * US < best[0])):
                assert cloud is not None
                only_cloud, worker = True, cloud
            else:
                worker = best[-1]
            length = times.lengths[worker]
            placed.append(Planned(job, unit, worker, self._place(job, times.chunks * length)))
        return placed[len(sent) :]

    def _increments(
        self,
        now: int,
        job: int,
        result: Naive,
        placed: Sequence[Planned],
        gone: set[int],
        kept: Mapping[int, Sent],
    ) -> Iterator[tuple[int, ...]]:
        """D Q in microseconds, and the worker, of each that is there and no cloud."""
        times = self.jobs[job]
        for worker, server in enumerate(self.server_of):
            if server in gone or worker in self.on_demand:
                continue
            length, ready = times.lengths[worker], now + times.uploads[worker]
            before = [self._on_worker(c) for c in result.chunks if c.worker == worker and c.left > 0]
            later = [plan for plan in placed if plan.worker == worker]
            for order, plan in enumerate(later, 10**6):
                other = self.jobs[plan.job]
                before.append(
                    OnWorker(
                        other.chunks, other.lengths[worker], now + other.uploads[worker],
                        other.lengths[worker], order, plan.key,
                    )
                )  # fmt: skip
            new = OnWorker(
                times.chunks, length, ready, length, 10**9, self._place(job, times.chunks * length)
            )
            holder = kept.get(worker)
            serving = None if holder is None or holder.left == 0 else holder.order
            q = increment(before, new, now, serving, preempt=self.overtake, counted=self.counted)
            yield round(q * times.chunks * US), worker

    def _on_worker(self, chunk: Sent) -> OnWorker:
        times = self.jobs[chunk.job]
        return OnWorker(
            times.chunks, times.lengths[chunk.worker], chunk.ready, chunk.left, chunk.order, chunk.key
        )
