"""Chunked jobs slot by slot, with lists and loops: an independent word on what must happen.

A slot begins with the servers that go and come back. Then it has two rounds, as the policy of the tests is
asked twice: once for what has happened by itself, then for what its dispatches bring about. In each round
every worker chooses a chunk and active jobs get parameter servers; then all chunks that have both make a
slot of progress. In the first round a chunk that has had the worker before this slot keeps it; in the second
those that overtake take it, and only then somebody is preempted. A chunk that does not overtake waits for one
that has had the worker before this slot, not for one that got it in the first round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ray_sim.model.result import RunResult
from tests.chunk_worlds import ChunkJob, runs_of

ALWAYS = 10**9


@dataclass(frozen=True)
class Planned:
    """A chunk and the worker it is meant for."""

    job: int
    unit: int
    worker: int
    key: int


@dataclass
class Sent:
    """A chunk sent to a worker."""

    job: int
    unit: int
    worker: int
    key: int
    order: int
    ready: int
    left: int
    owed: int = 0
    """Slots of `left` that make up for preemptions, which are the next ones."""
    ran: list[int] = field(default_factory=list)
    """Slots in which it was on the way."""
    trained: int = 0
    """Slots of those in which it did not make up for a preemption."""


@dataclass(frozen=True)
class Times:
    """Slots that a job needs on each worker."""

    chunks: int
    uploads: Sequence[int]
    lengths: Sequence[int]
    lengths_in_cloud: Sequence[int]


@dataclass
class Naive:
    """What became of it all."""

    chunks: list[Sent] = field(default_factory=list)
    """Those that were not lost."""
    lost: list[Sent] = field(default_factory=list)
    stalled: int = 0
    """Slots of active jobs without a parameter server."""
    preemptions: int = 0
    interruptions: dict[int, int] = field(default_factory=dict)
    """Times that a job lost a server, of those that did."""

    def ran(self, job: int, unit: int) -> list[int]:
        """Slots in which a chunk made progress, wherever it was."""
        runs = [c.ran for c in (*self.lost, *self.chunks) if (c.job, c.unit) == (job, unit)]
        return sorted(slot for ran in runs for slot in ran)

    def finish(self, job: int, chunks: int) -> int | None:
        """When a job has ended, None if it has not."""
        done = [c.ran[-1] + 1 for c in self.chunks if c.job == job and c.left == 0]
        return max(done) if len(done) == chunks else None


def assert_ran_as(naive: Naive, jobs: Sequence[ChunkJob], result: RunResult) -> None:
    """Every chunk ran in the slots of the naive simulation, and was preempted as often."""
    for number, job in enumerate(jobs):
        for unit in range(job.chunks):
            runs = runs_of(result, f"J{number + 1}", unit)
            ran = [slot for begin, end in runs for slot in range(int(begin), int(end))]
            assert ran == naive.ran(number, unit)
    assert result.summary.preemptions == naive.preemptions


@dataclass
class NaiveWorld:
    """``ps`` slots by server, the cloud's too; workers ``on_demand`` serve all their chunks at once."""

    jobs: Sequence[Times]
    ps: Sequence[int]
    server_of: Sequence[int]
    """Of each worker."""
    on_demand: frozenset[int]
    overtake: bool
    changes: Mapping[int, Sequence[tuple[int, bool]]]
    """By slot, in order: server, whether it is there from then on."""
    keys: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By slot: job, another key of its chunks that are on workers."""
    preemption_cost: int = 0
    """Slots."""

    def simulate(self, plan: Mapping[int, Sequence[Planned]], slots: int, away: Sequence[int] = ()) -> Naive:
        """``away`` are the servers that are not there at first."""
        result = Naive()
        in_cloud: set[int] = set()
        gone = set(away)
        due: list[Planned] = []
        ps_of: dict[int, int] = {}
        serving: dict[int, Sent] = {}
        for now in range(slots):
            halted = self._change_servers(now, result, gone, ps_of, serving)
            due += plan.get(now, [])
            kept = dict(serving)
            served: list[Sent] = []
            for arriving in (False, True):
                if arriving:
                    new_key, to_send = self.decide(now, result, due, gone, kept)
                    for chunk in result.chunks:
                        chunk.key = new_key.get(chunk.job, chunk.key)
                    self._send(now, result, to_send, gone, in_cloud)
                served = self._choose(now, result.chunks, serving, kept, self.overtake and arriving)
                self._give_ps({chunk.job for chunk in served}, ps_of, gone, in_cloud)
            for chunk in result.chunks:
                ran = chunk.ran and chunk.ran[-1] == now - 1 and chunk.left > 0
                # Who has lost a parameter server is in progress no more.
                if ran and chunk.job not in halted and chunk not in served:
                    result.preemptions += 1
                    chunk.left += self.preemption_cost
                    chunk.owed += self.preemption_cost
            result.stalled += len({chunk.job for chunk in served} - set(ps_of))
            for chunk in served:
                if chunk.job in ps_of:
                    chunk.left -= 1
                    chunk.ran.append(now)
                    if chunk.owed > 0:
                        chunk.owed -= 1
                    else:
                        chunk.trained += 1
        return result

    def decide(
        self, now: int, result: Naive, due: Sequence[Planned], gone: set[int], kept: Mapping[int, Sent]
    ) -> tuple[dict[int, int], Sequence[Planned]]:
        """New keys of jobs, and what is to be sent off of what is due and on no worker."""
        return dict(self.keys.get(now, [])), due

    def _change_servers(
        self, now: int, result: Naive, gone: set[int], ps_of: dict[int, int], serving: dict[int, Sent]
    ) -> list[int]:
        """Returns the jobs that lose their parameter server, whose chunks are in progress no more."""
        went = {server for server, there in self.changes.get(now, []) if not there}
        for server, there in self.changes.get(now, []):
            (gone.discard if there else gone.add)(server)
        # A chunk that would be done now is lost too: servers go before anything else happens.
        lost = [
            chunk
            for chunk in result.chunks
            if self.server_of[chunk.worker] in went and (chunk.left > 0 or chunk.ran[-1] == now - 1)
        ]
        result.lost += lost
        result.chunks = [chunk for chunk in result.chunks if chunk not in lost]
        for worker in [worker for worker in serving if self.server_of[worker] in went]:
            del serving[worker]
        without_ps = [job for job, server in ps_of.items() if server in went]
        for job in without_ps:
            del ps_of[job]
        for job in {chunk.job for chunk in lost} | set(without_ps):
            result.interruptions[job] = result.interruptions.get(job, 0) + 1
        return without_ps

    def _send(
        self, now: int, result: Naive, due: Sequence[Planned], gone: set[int], in_cloud: set[int]
    ) -> None:
        """All that is due and on no worker: to its own worker, else to the first that is there."""
        there = [worker for worker, server in enumerate(self.server_of) if server not in gone]
        sent = {(chunk.job, chunk.unit) for chunk in result.chunks}
        to_send = [
            (plan, plan.worker if plan.worker in there else there[0])
            for plan in due
            if there and (plan.job, plan.unit) not in sent
        ]
        for job in sorted({plan.job for plan, _ in to_send}):
            mine = [chunk for chunk in result.chunks if chunk.job == job]
            if any(chunk.left > 0 for chunk in mine):
                continue
            workers = [worker for plan, worker in to_send if plan.job == job]
            all_to_cloud = self.on_demand.issuperset(workers)
            whole = all_to_cloud and len(mine) + len(workers) == self.jobs[job].chunks
            (in_cloud.add if whole and (job in in_cloud or not mine) else in_cloud.discard)(job)
        for plan, worker in to_send:
            times = self.jobs[plan.job]
            length = (times.lengths_in_cloud if plan.job in in_cloud else times.lengths)[worker]
            order = len(result.chunks) + len(result.lost)
            result.chunks.append(
                Sent(plan.job, plan.unit, worker, plan.key, order, now + times.uploads[worker], length)
            )

    def _choose(
        self,
        now: int,
        chunks: Sequence[Sent],
        serving: dict[int, Sent],
        kept: Mapping[int, Sent],
        overtake: bool,
    ) -> list[Sent]:
        """The chunk that each worker serves; ``serving`` is what it did before, and is brought up to date.

        ``kept`` is what each worker served when the slot before was over, and ``overtake`` whether another
        may take the worker from it.
        """
        there = [chunk for chunk in chunks if chunk.ready <= now and chunk.left > 0]
        for worker in {chunk.worker for chunk in chunks} - self.on_demand:
            mine = [chunk for chunk in there if chunk.worker == worker]
            before = serving.pop(worker, None)
            if mine:
                first = min(mine, key=lambda chunk: (chunk.key, chunk.order))
                had_it = before is not None and before is kept.get(worker)
                stays = had_it and before is not None and before.left > 0 and not overtake
                serving[worker] = before if before is not None and stays else first
        return [*serving.values(), *(chunk for chunk in there if chunk.worker in self.on_demand)]

    def _give_ps(self, active: set[int], ps_of: dict[int, int], gone: set[int], in_cloud: set[int]) -> None:
        for job in set(ps_of) - active:
            del ps_of[job]
        idle = [0 if server in gone else n for server, n in enumerate(self.ps)]
        for server in ps_of.values():
            idle[server] -= 1
        for job in sorted(active - set(ps_of)):
            for server, n in enumerate(idle):
                if n > 0 and (self.ps[server] == ALWAYS) == (job in in_cloud):
                    ps_of[job] = server
                    idle[server] -= 1
                    break
