"""Random chunked worlds against a simulator that goes slot by slot with lists and loops."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chunk_worlds import CLOUD, ChunkJob, Row, Script, Server, chunk_world, runs_of
from tests.engine.naive_chunks import ALWAYS, Naive, Sent, simulate
from tests.worlds import fingerprint, replay

SLOTS = 400
"""More than any case below takes."""


class Case(NamedTuple):
    """Jobs, servers, what is dispatched when, and whether chunks overtake."""

    jobs: list[ChunkJob]
    servers: list[Server]
    script: dict[float, list[Row]]
    overtake: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A few jobs on a few workers, with whole seconds, full of ties and short of parameter servers."""
    servers = draw(
        st.lists(
            st.builds(
                Server,
                workers=st.integers(1, 2),
                ps=st.integers(0, 2),
                kind=st.sampled_from([Server().kind, Server().kind, CLOUD]),
                speed=st.sampled_from([1.0, 1.0, 0.5]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    workers = sum(1 if server.kind == CLOUD else server.workers for server in servers)
    times = sorted(draw(st.lists(st.integers(0, 8), min_size=1, max_size=5)))
    few = st.integers(0, 3).map(float)
    jobs = [
        ChunkJob(
            float(at - times[0]),
            draw(st.integers(1, 4)),
            draw(st.integers(1, 5)),
            draw(few),
            draw(few),
            exchange_s=draw(st.sampled_from([0.0, 0.0, 1.0])),
        )
        for at in times
    ]
    script: dict[float, list[Row]] = {}
    for number, job in enumerate(jobs):
        whole = draw(st.booleans())
        delay, worker = draw(st.integers(0, 3)), draw(st.integers(0, workers - 1))
        for unit in range(job.chunks):
            if not whole:
                delay, worker = draw(st.integers(0, 3)), draw(st.integers(0, workers - 1))
            row = (number, unit, worker, draw(st.integers(-2, 2)))
            script.setdefault(job.submit_s + delay, []).append(row)
    return Case(jobs, servers, dict(sorted(script.items())), draw(st.booleans()))


def expected(case: Case) -> Naive:
    """The naive simulation; lengths and upload ends from their definition."""
    worker_server = [
        s
        for s, server in enumerate(case.servers)
        for _ in range(1 if server.kind == CLOUD else server.workers)
    ]
    clouds = {w for w, s in enumerate(worker_server) if case.servers[s].kind == CLOUD}
    in_cloud = {
        job
        for rows in case.script.values()
        for job in range(len(case.jobs))
        if sum(row[0] == job and row[2] in clouds for row in rows) == case.jobs[job].chunks
    }
    dispatches: dict[int, list[Sent]] = {}
    for at, rows in case.script.items():
        for job, unit, worker, key in rows:
            of, server = case.jobs[job], case.servers[worker_server[worker]]
            exchange_s = 0 if job in in_cloud else of.exchange_s
            ready = at + (of.cloud_upload_s if worker in clouds else of.upload_s)
            length = math.ceil(of.chunk_s / server.speed + exchange_s)
            order = sum(len(sent) for sent in dispatches.values())
            dispatches.setdefault(int(at), []).append(Sent(job, unit, worker, key, order, int(ready), length))
    ps = [ALWAYS if server.kind == CLOUD else server.ps for server in case.servers]
    return simulate(
        dispatches,
        ps,
        overtake=case.overtake,
        in_cloud=frozenset(in_cloud),
        on_demand=frozenset(clouds),
        slots=SLOTS,
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(case=cases(), slot_s=st.sampled_from([1.0, None]))
def test_chunks_run_in_the_slots_in_which_a_naive_simulator_runs_them(
    case: Case, slot_s: float | None
) -> None:
    naive = expected(case)
    world = chunk_world(case.jobs, case.servers, slot_s=slot_s)
    result = replay(world, Script(case.script, overtake=case.overtake))
    for chunk in naive.chunks:
        runs = runs_of(result, f"J{chunk.job + 1}", chunk.unit)
        ran = [slot for begin, end in runs for slot in range(int(begin), int(end))]
        assert ran == chunk.ran
    done = [max(c.ran[-1] + 1 for c in naive.chunks if c.job == job) if finished(naive, job) else None
            for job in range(len(case.jobs))]  # fmt: skip
    assert result.jobs["finish_s"].to_list() == done
    assert result.summary.preemptions == naive.preemptions
    # The naive one goes on for ever where jobs stand still for ever.
    if None not in done:
        assert result.summary.stalled_s == naive.stalled


def finished(naive: Naive, job: int) -> bool:
    """Whether all chunks of a job are done."""
    return all(chunk.left == 0 for chunk in naive.chunks if chunk.job == job)


@settings(max_examples=60)
@given(case=cases(), scale=st.sampled_from([2, 3]))
def test_all_times_in_larger_units_give_the_same_run_in_these_units(case: Case, scale: int) -> None:
    # Metamorphic: durations, uploads and submissions scaled, not the slot.
    larger = [
        ChunkJob(
            scale * job.submit_s,
            job.chunks,
            scale * job.chunk_s,
            scale * job.upload_s,
            scale * job.cloud_upload_s,
            scale * job.exchange_s,
        )
        for job in case.jobs
    ]
    script = {scale * at: rows for at, rows in case.script.items()}
    one = replay(chunk_world(case.jobs, case.servers, slot_s=1), Script(case.script, overtake=case.overtake))
    other = replay(chunk_world(larger, case.servers, slot_s=1), Script(script, overtake=case.overtake))
    times = one.jobs["finish_s"].to_list()
    assert other.jobs["finish_s"].to_list() == [None if at is None else scale * at for at in times]


@settings(max_examples=60)
@given(case=cases(), slot_s=st.sampled_from([1.0, None]))
def test_any_number_of_sites_gives_the_same_bytes(case: Case, slot_s: float | None) -> None:
    world = chunk_world(case.jobs, case.servers, slot_s=slot_s)
    one = fingerprint(replay(world, Script(case.script)))
    for sites in range(2, len(case.servers) + 1):
        assert fingerprint(replay(world, Script(case.script), sites=sites)) == one


@pytest.mark.parametrize("policy", ["chunk_fifo", "chunk_spt"])
@settings(max_examples=60)
@given(case=cases())
def test_no_worker_trains_two_chunks_at_a_time_and_none_is_idle_that_could_train(
    policy: str, case: Case
) -> None:
    # With a parameter server for everyone, work is conserved: a worker with an uploaded chunk runs one.
    plenty = [server._replace(ps=9) for server in case.servers]
    result = replay(chunk_world(case.jobs, plenty, slot_s=1, slot_fill="fractional"), policy)
    assert result.summary.completed == len(case.jobs)
    assert result.summary.stalled_s == 0
    slots = sum(server.workers for server in plenty if server.kind != CLOUD)
    assert max(result.timeline["used_worker"].to_list()) <= slots
    for number, job in enumerate(case.jobs):
        for unit in range(job.chunks):
            first = runs_of(result, f"J{number + 1}", unit)[0][0]
            assert first >= job.submit_s + min(job.upload_s, job.cloud_upload_s)
