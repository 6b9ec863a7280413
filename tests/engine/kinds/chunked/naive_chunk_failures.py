"""Chunked jobs that fail at random, from event to event with lists and loops: an independent word.

An instant is that of `NaiveWorld`: chunks that are done leave, jobs fail, workers choose, the policy of the
tests dispatches, workers choose again. Jobs of one GPU for each chunk that makes progress fail where their
hazard reaches the chance that was drawn; in whole slots they fail at the end of the slot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ray_sim.model.streams import Streams, text_entities
from tests.engine.kinds.chunked.naive_chunks import Naive, NaiveWorld, Planned, Sent

US = 1_000_000


@dataclass
class Attempt:
    """What a job has done so far, in microseconds of progress, and in hazard of its attempt."""

    chance: float
    ran: int = 0
    begin: int = 0
    """Progress before the attempt."""
    hazard: float = 0.0
    gpus: int = 0
    due: int | None = None
    """Progress in the attempt at which the job fails on so many GPUs."""


@dataclass
class Fates:
    """What became of the jobs."""

    chunks: Naive = field(default_factory=Naive)
    end_us: dict[int, int] = field(default_factory=dict)
    status: dict[int, str] = field(default_factory=dict)
    failures: list[tuple[int, int, int]] = field(default_factory=list)
    """Instant, job, progress lost, of those that are tried again."""
    suspensions: list[tuple[int, int, int]] = field(default_factory=list)
    worked_us: dict[int, int] = field(default_factory=dict)
    """Time of workers on each job's chunks."""


@dataclass
class FailingWorld(NaiveWorld):
    """Times of `Times`, and of ``preemption_cost``, are microseconds; servers stay."""

    grid_us: int = 1
    mean_us: float = math.inf
    """GPU-microseconds to a failure."""
    shape: float = 1.0
    retries: int = 0
    suspends: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By instant, jobs from which the policy takes the parameter server if they train."""
    nothing: bool = False
    """Whether these lose their completed chunks too."""

    def fail(self, plan: Mapping[int, Sequence[Planned]]) -> Fates:
        """Run to the end, or until nothing is due any more; jobs come when their first chunk is due."""
        self._tries = [0] * len(self.jobs)
        self._attempts = [Attempt(self._chance(job, 0)) for job in range(len(self.jobs))]
        fates, due = Fates(), list[Planned]()
        in_cloud: set[int] = set()
        ps_of: dict[int, int] = {}
        serving: dict[int, Sent] = {}
        progress: list[Sent] = []
        now, times = 0, sorted({*plan, *self.keys, *self.suspends})
        while True:
            result = fates.chunks
            due += plan.get(now, [])
            self._complete(now, fates)
            failed = [job for job, at in self._due(now, fates, progress).items() if at <= now]
            for job in failed:
                self._fail(now, job, fates, ps_of, serving)
            kept, overtakes = dict(serving), bool(failed)
            here = [each for each in due if each.job not in fates.end_us]
            served: list[Sent] = []
            for turn in range(3):
                # Who overtakes settles after what the policy has said, or when a stop frees workers.
                served = self._choose(
                    now, result.chunks, serving, kept, self.overtake and (overtakes or turn > 0)
                )
                active, held = {chunk.job for chunk in served}, set(ps_of)
                self._give_ps(active, ps_of, set(), in_cloud)
                returned: list[tuple[int, int]] = []
                if turn == 0:
                    for job in sorted(set(self.suspends.get(now, [])) & active & held):
                        lost = self._stop(job, result, ps_of, serving, self.nothing)
                        returned += [(chunk.job, chunk.unit) for chunk in lost]
                        fates.suspensions.append((now, job, sum(chunk.trained for chunk in lost)))
                    if returned:
                        self._choose(now, result.chunks, serving, kept, self.overtake)
                    new_key = dict(self.keys.get(now, []))
                    for chunk in result.chunks:
                        chunk.key = new_key.get(chunk.job, chunk.key)
                to_send = [each for each in here if (each.job, each.unit) not in returned]
                self._send(now, result, to_send, set(), in_cloud)
            for chunk in progress:
                if chunk in result.chunks and chunk.left > 0 and chunk not in served:
                    result.preemptions += 1
                    chunk.left += self.preemption_cost
                    chunk.owed += self.preemption_cost
            progress = [chunk for chunk in served if chunk.job in ps_of]
            self._look_at(progress)
            following = [at for at in times if at > now]
            following += [chunk.ready for chunk in result.chunks if chunk.ready > now]
            following += [now + chunk.left for chunk in progress]
            following += self._due(now, fates, progress).values()
            if not following:
                return fates
            until = min(following)
            self._progress(now, until, fates, progress)
            now = until

    def _chance(self, job: int, attempt: int) -> float:
        entity = text_entities([f"J{job + 1}"])
        return -math.log1p(-float(Streams(0).uniforms("failure", entity, np.array([attempt]))[0]))

    def _scale(self) -> float:
        return self.mean_us / math.gamma(1 + 1 / self.shape)

    def _look_at(self, progress: Sequence[Sent]) -> None:
        """Find anew when jobs fail whose number of GPUs is another."""
        for job, attempt in enumerate(self._attempts):
            gpus = sum(chunk.job == job for chunk in progress)
            if gpus in (0, attempt.gpus):
                continue
            done, left = attempt.ran - attempt.begin, max(attempt.chance - attempt.hazard, 0.0)
            at = (done / self._scale()) ** self.shape + left / gpus
            attempt.gpus, attempt.due = gpus, max(math.ceil(self._scale() * at ** (1 / self.shape)), 1)

    def _due(self, now: int, fates: Fates, progress: Sequence[Sent]) -> dict[int, int]:
        """When each job fails if all stays as it is."""
        running = {chunk.job for chunk in progress}
        found: dict[int, int] = {}
        for job, attempt in enumerate(self._attempts):
            if attempt.due is None or job in fates.end_us:
                continue
            wait = attempt.due - (attempt.ran - attempt.begin)
            if job in running or wait <= 0:
                found[job] = -(-(now + max(wait, 0)) // self.grid_us) * self.grid_us
        return found

    def _progress(self, now: int, until: int, fates: Fates, progress: Sequence[Sent]) -> None:
        """Let chunks, and the hazards of their jobs, go on."""
        lasts = until - now
        for chunk in progress:
            paid = min(chunk.owed, lasts)
            chunk.left, chunk.owed = chunk.left - lasts, chunk.owed - paid
            chunk.trained += lasts - paid
            fates.worked_us[chunk.job] = fates.worked_us.get(chunk.job, 0) + lasts
        for job in {chunk.job for chunk in progress}:
            attempt, gpus = self._attempts[job], sum(chunk.job == job for chunk in progress)
            before = attempt.ran - attempt.begin
            attempt.ran += lasts
            parts = [(done / self._scale()) ** self.shape for done in (before, before + lasts)]
            attempt.hazard += gpus * (parts[1] - parts[0])

    def _complete(self, now: int, fates: Fates) -> None:
        for job, times in enumerate(self.jobs):
            done = sum(chunk.job == job and chunk.left == 0 for chunk in fates.chunks.chunks)
            if done == times.chunks and job not in fates.end_us:
                fates.end_us[job], fates.status[job] = now, "completed"

    def _fail(
        self, now: int, job: int, fates: Fates, ps_of: dict[int, int], serving: dict[int, Sent]
    ) -> None:
        """Stop a job; it has one try less."""
        lost, attempt = self._stop(job, fates.chunks, ps_of, serving), self._attempts[job]
        self._tries[job] += 1
        if self._tries[job] > self.retries:
            fates.end_us[job], fates.status[job] = now, "failed"
            return
        fates.failures.append((now, job, sum(chunk.trained for chunk in lost)))
        self._attempts[job] = Attempt(self._chance(job, self._tries[job]), attempt.ran, attempt.ran)

    def _stop(
        self,
        job: int,
        result: Naive,
        ps_of: dict[int, int],
        serving: dict[int, Sent],
        nothing: bool = False,
    ) -> list[Sent]:
        """A job loses its parameter server and all chunks that are not done, or all; returns these."""
        mine = [each for each in result.chunks if each.job == job and (each.left > 0 or nothing)]
        result.lost += mine
        result.chunks = [chunk for chunk in result.chunks if chunk not in mine]
        ps_of.pop(job, None)
        for worker in [worker for worker, chunk in serving.items() if chunk in mine]:
            del serving[worker]
        return mine
