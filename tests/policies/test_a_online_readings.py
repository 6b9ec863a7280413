"""Whole runs of A_online by each reading of C4 and C5, against a simulator of its definition."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.model.cluster import ChunkDelay
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, ChunkJob, Server, chunk_world
from tests.figures import chunked_of
from tests.proofs import instances, quick_first
from tests.worlds import replay

READINGS = tuple(product(("counted", "ignored"), (False, True)))
"""`uploads` and `preempt`."""


@dataclass(eq=False)
class Chunk:
    """A chunk that has been dispatched, in slots."""

    of: int
    ready: int
    length: int
    chunks: int
    left: int
    end: int = 0

    @property
    def density(self) -> Fraction:
        """Share of the job's training that a slot gives, gamma."""
        return Fraction(1, self.chunks * self.length)


def first(
    queue: list[Chunk], left: dict[Chunk, int], at: int, ran: Chunk | None, preempt: bool
) -> Chunk | None:
    """The chunk that a worker trains in a slot; a queue is in the order of dispatch."""
    if ran is not None and left[ran] > 0 and not preempt:
        return ran
    there = [chunk for chunk in queue if chunk.ready <= at and left[chunk] > 0]
    return max(there, key=lambda chunk: chunk.density, default=None)


def increment(
    queue: list[Chunk], ran: Chunk | None, now: int, new: Chunk, uploads: str, preempt: bool
) -> Fraction:
    """Q of 2.2 with its four terms; ``ran`` is the chunk of the slot before now."""
    left = {chunk: chunk.left for chunk in queue}
    for at in range(now, new.ready):
        ran = first(queue, left, at, ran, preempt)
        if ran is not None:
            left[ran] -= 1
    q = Fraction(new.ready - now + new.length, new.chunks)
    for chunk in queue:
        if left[chunk] == 0 or (uploads == "ignored" and chunk.ready > new.ready):
            continue
        if chunk.density >= new.density or (chunk is ran and not preempt):
            q += Fraction(left[chunk], new.chunks)
        else:
            q += new.length * Fraction(left[chunk], chunk.chunks * chunk.length)
    return q


Delays = dict[tuple[str | None, str], list[int]]
"""Upload and factor by the model of the job and the class of the server, a worker's number or cloud."""


def simulated(
    jobs: list[ChunkJob], speeds: list[int], delays: Delays, uploads: str, preempt: bool
) -> list[list[int]]:
    """End of each chunk of each job, with edge workers of these speeds and a cloud of speed 1."""
    queues: list[list[Chunk]] = [[] for _ in speeds]
    ran: list[Chunk | None] = [None for _ in speeds]
    sent: list[list[Chunk]] = [[] for _ in jobs]
    now = 0
    while not all(sent) or any(chunk.left for queue in queues for chunk in queue):
        for number, job in enumerate(jobs):
            if job.submit_s != now:
                continue
            upload, factor = delays.get((job.model, "cloud"), [int(job.cloud_upload_s), 1])
            in_cloud, alone = now + upload, int(job.chunk_s) * factor
            apart = alone + int(job.exchange_s)
            everywhere = False
            for turn in range(job.chunks):
                offers = []
                for worker, speed in enumerate(speeds):
                    upload, factor = delays.get((job.model, str(worker)), [int(job.upload_s), 1])
                    length = -(-int(job.chunk_s) * factor // speed) + int(job.exchange_s)
                    new = Chunk(number, now + upload, length, job.chunks, length)
                    q = increment(queues[worker], ran[worker], now, new, uploads, preempt)
                    offers.append((q, worker, new))
                q, worker, new = min(offers, key=lambda offer: offer[:2])
                if turn == 0:
                    everywhere = Fraction(in_cloud - now + alone, job.chunks) < q
                length = alone if everywhere else apart
                if everywhere or Fraction(in_cloud - now + apart, job.chunks) < q:
                    sent[number].append(Chunk(number, in_cloud, length, job.chunks, 0, in_cloud + length))
                else:
                    queues[worker].append(new)
                    sent[number].append(new)
        for worker, queue in enumerate(queues):
            served = first(queue, {chunk: chunk.left for chunk in queue}, now, ran[worker], preempt)
            if served is not None:
                served.left -= 1
                served.end = now + 1
            ran[worker] = served
        now += 1
    return [[chunk.end for chunk in chunks] for chunks in sent]


def drawn(seed: int) -> tuple[list[ChunkJob], list[int], Delays]:
    """Jobs that come close together, on one to three workers, with a cloud that some of them take.

    Every second case has delays by pair.
    """
    draw = np.random.default_rng(seed)
    submits = np.sort(draw.integers(0, 12, draw.integers(2, 9)))
    jobs = [
        ChunkJob(
            float(at - submits[0]),
            int(draw.integers(1, 5)),
            int(draw.choice([2, 4, 6, 8, 12])),
            int(draw.integers(0, 5)),
            int(draw.integers(4, 26)),
            exchange_s=int(draw.integers(0, 3)),
            model="ab"[number % 2],
        )
        for number, at in enumerate(submits)
    ]
    speeds = draw.choice([1, 2], draw.integers(1, 4)).tolist()
    workers = [str(worker) for worker in range(len(speeds))] if seed % 2 else []
    edges = [(pair, draw.integers((0, 1), (6, 4)).tolist()) for pair in product("ab", workers)]
    clouds = [((model, "cloud"), draw.integers((4, 1), (26, 3)).tolist()) for model in "ab" if workers]
    return jobs, list(map(int, speeds)), dict(edges + clouds)


def run(
    jobs: list[ChunkJob],
    speeds: list[int],
    delays: Delays | None = None,
    *,
    cost_s: float = 0,
    **params: object,
) -> RunResult:
    servers = [Server(speed=speed, server_class=str(worker)) for worker, speed in enumerate(speeds)]
    table = [
        ChunkDelay(str(model), label, *map(float, given)) for (model, label), given in (delays or {}).items()
    ]
    world = chunk_world(
        jobs,
        [*servers, Server(kind=CLOUD, server_class="cloud")],
        slot_s=1,
        delays=table,
        preemption_cost_s=cost_s,
    )
    return replay(world, create_policy("a_online", params))


def ends_of(result: RunResult, jobs: list[ChunkJob]) -> list[list[float]]:
    """End of each chunk of each job."""
    done = result.events.filter((result.events["role"] == "chunk") & (result.events["event"] == "finish"))
    at = {(job, unit): end for job, unit, end in done.select("job_id", "count", "time_s").rows()}
    return [[at[f"J{number + 1}", unit] for unit in range(job.chunks)] for number, job in enumerate(jobs)]


@pytest.mark.slow
def test_every_chunk_ends_in_the_slot_in_which_a_simulator_of_the_definition_ends_it() -> None:
    alike = dict.fromkeys(combinations(READINGS, 2), 0)
    tried = instances(1_000)
    for seed in range(tried):
        jobs, speeds, delays = drawn(seed)
        ends = {}
        for uploads, preempt in READINGS:
            result = run(jobs, speeds, delays, uploads=uploads, preempt=preempt)
            found = ends_of(result, jobs)
            assert found == simulated(jobs, speeds, delays, uploads, preempt), (seed, uploads, preempt)
            assert result.summary.certificate is not None
            assert (result.summary.certificate.gap or 0) > -1e-8
            ends[uploads, preempt] = found
        for one, other in alike:
            alike[one, other] += ends[one] == ends[other]
    assert max(alike.values()) < 0.9 * tried  # so that each pair of readings is told apart


def test_a_chunk_that_runs_to_its_end_pays_for_no_preemption() -> None:
    # J1 trains 0-8; J2 comes at 2 with D p = 2. Interrupted, J1 ends at 8 + 2 + 3 = 13; else J2 ends at 10.
    jobs = [ChunkJob(0, 1, 8, 0, 99), ChunkJob(2, 1, 2, 0, 99)]
    for cost_s in (0, 3):
        waits = run(jobs, [1], cost_s=cost_s)
        assert waits.jobs["finish_s"].to_list() == [8, 10]
        assert (waits.summary.preemptions, chunked_of(waits).preemption_cost_s) == (0, 0)
    interrupted = run(jobs, [1], cost_s=3, preempt=True)
    assert interrupted.jobs["finish_s"].to_list() == [13, 4]
    assert chunked_of(interrupted).preemption_cost_s == 3


@pytest.mark.parametrize("policy", quick_first(["a_online", "chunk_spt", "chunk_las", "chunk_srpt"]))
def test_by_default_no_rule_for_chunks_interrupts_the_one_that_runs(policy: str) -> None:
    world = busy_chunks(seed=0)
    assert replay(world, create_policy(policy)).summary.preemptions == 0
    assert replay(world, create_policy(policy, {"preempt": True})).summary.preemptions > 0
