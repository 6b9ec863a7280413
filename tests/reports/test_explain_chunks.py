"""Explanations of the waits of chunked jobs agree with a naive replay of the events, and with an example."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.world import World
from ray_sim.experiments.explain import facts_of
from ray_sim.reports.history.explanation_text import event_rows
from ray_sim.reports.history.holdings import read_history
from ray_sim.reports.history.reasons import find_waits
from tests.chunk_worlds import CLOUD, EDGE, ChunkJob, Server, chunk_world
from tests.proofs import instances
from tests.random_worlds import server_changes
from tests.reports.explained import explain_all
from tests.reports.naive_reasons import naive_chunk_reasons
from tests.worlds import replay


def test_a_chunked_job_waits_while_no_chunk_makes_progress() -> None:
    # One worker. Chunks of 10 s after an upload of 5: J1 trains 5-15-25, J2 (one chunk) uploads until 6 and
    # waits for the worker until 25.
    world = chunk_world(
        [ChunkJob(0, 2, 10, upload_s=5), ChunkJob(1, 1, 10, upload_s=5)], [Server()], slot_s=1.0
    )
    result = replay(world, "chunk_fifo")
    facts = facts_of(world, {})
    events = read_history(result.events, result.jobs, facts.servers)
    waits = find_waits(events, result.jobs, chunked=True)
    total = np.bincount(waits.job, waits.end_us - waits.begin_us, minlength=2) / 1e6
    assert total.tolist() == result.jobs["queue_s"].to_list()
    first = explain_all(world, result)[0]
    assert event_rows(first)[2:4] == [
        ("5 s", "started (chunk 0)", "s0"),
        ("15 s", "finished (chunk 0)", "s0"),
    ]
    chunks = events.holdings.role == 2
    assert (events.holdings.end_us - events.holdings.begin_us)[chunks].tolist() == [10_000_000] * 3
    assert {part.reason for each in explain_all(world, result) for w in each.waits for part in w.parts} == {
        "chunks"
    }


@st.composite
def chunk_worlds(draw: st.DrawFn) -> World:
    """Chunked jobs that want parameter servers of two sizes, which are few and come and go."""
    servers = [
        Server(
            workers=draw(st.integers(0, 2)),
            ps=draw(st.integers(0, 2)),
            kind=draw(st.sampled_from([EDGE, EDGE, EDGE, CLOUD])),
            ps_gib=draw(st.sampled_from([None, 4, 8])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    submits = sorted(draw(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=6)))
    jobs = [
        ChunkJob(
            submit,
            chunks=draw(st.integers(1, 3)),
            chunk_s=draw(st.integers(1, 8)),
            upload_s=draw(st.integers(0, 3)),
            cloud_upload_s=draw(st.integers(0, 12)),
            ps_gib=draw(st.sampled_from([0, 6])),
        )
        for submit in submits
    ]
    return chunk_world(jobs, servers, slot_s=1.0, changes=draw(server_changes(len(servers))))


@settings(max_examples=instances(200, 30))
@given(world=chunk_worlds(), policy=st.sampled_from(["chunk_fifo", "chunk_spt", "chunk_earliest_finish"]))
def test_reasons_of_chunked_jobs_agree_with_a_replay(world: World, policy: str) -> None:
    result = replay(world, policy)
    expected = naive_chunk_reasons(world, result)
    for found in explain_all(world, result):
        for wait in found.waits:
            for time_us, reasons in expected.items():
                if wait.begin_s <= time_us / 1e6 < wait.end_s:
                    [part] = [part for part in wait.parts if part.begin_s <= time_us / 1e6 < part.end_s]
                    assert part.reason == reasons[found.job_id]
