"""Random chunked worlds against a simulator that goes slot by slot with lists and loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ray_sim.engine.world import World
from ray_sim.model.result import RunResult
from tests.chunk_worlds import CLOUD, ChunkJob, Row, Script, Server, chunk_world, runs_of
from tests.engine.kinds.chunked.naive_chunks import ALWAYS, Naive, NaiveWorld, Planned, Times, assert_ran_as
from tests.figures import chunked_of
from tests.proofs import instances
from tests.random_worlds import server_changes
from tests.worlds import Change, fingerprint, replay

SLOTS = 400
"""More than any case below takes."""


class Case(NamedTuple):
    """Jobs, servers, what is dispatched when, and whether chunks overtake."""

    jobs: list[ChunkJob]
    servers: list[Server]
    script: dict[float, list[Row]]
    overtake: bool
    keys: dict[float, list[tuple[int, int]]]
    """By second: job, another key of its chunks on workers."""
    preemption_cost_s: int


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
                worker_gib=st.none(),
                ps_gib=st.none(),
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
    keys: dict[float, list[tuple[int, int]]] = {}
    for number, job in enumerate(jobs):
        for delay in draw(st.lists(st.integers(0, 8), max_size=2, unique=True)):
            keys.setdefault(job.submit_s + delay, []).append((number, draw(st.integers(-3, 3))))
    cost_s = draw(st.sampled_from([0, 0, 1, 2]))
    return Case(jobs, servers, dict(sorted(script.items())), draw(st.booleans()), keys, cost_s)


def with_memory(plain: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """The same cases for policies, with jobs of some needs and servers of some memories."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        case = draw(plain)
        need, offer = st.sampled_from([0.0, 0.0, 2.0, 4.0]), st.sampled_from([None, 1.0, 2.0, 4.0])
        jobs = [job._replace(worker_gib=draw(need), ps_gib=draw(need)) for job in case.jobs]
        servers = [server._replace(worker_gib=draw(offer), ps_gib=draw(offer)) for server in case.servers]
        return case._replace(jobs=jobs, servers=servers)

    return drawn()


def world_and_script(
    case: Case, slot_s: float | None, changes: Sequence[Change] = ()
) -> tuple[World, Script]:
    """What the engine is given."""
    world = chunk_world(
        case.jobs, case.servers, slot_s=slot_s, changes=changes, preemption_cost_s=case.preemption_cost_s
    )
    return world, Script(case.script, keys=case.keys, overtake=case.overtake)


def workers_and_times(case: Case, second: int = 1) -> tuple[list[int], frozenset[int], list[Times]]:
    """Server of each worker, workers in the cloud, and times of each job, of which a second has so many."""
    server_of = [
        s
        for s, server in enumerate(case.servers)
        for _ in range(1 if server.kind == CLOUD else server.workers)
    ]
    clouds = frozenset(w for w, s in enumerate(server_of) if case.servers[s].kind == CLOUD)
    speed = [case.servers[s].speed for s in server_of]
    jobs = [
        Times(
            chunks=job.chunks,
            uploads=[
                second * int(job.cloud_upload_s if w in clouds else job.upload_s) for w in range(len(speed))
            ],
            lengths=[second * math.ceil(job.chunk_s / v + job.exchange_s) for v in speed],
            lengths_in_cloud=[second * math.ceil(job.chunk_s / v) for v in speed],
        )
        for job in case.jobs
    ]
    return server_of, clouds, jobs


def expected(case: Case, changes: Sequence[Change] = ()) -> Naive:
    """The naive simulation; lengths and upload ends from their definition."""
    server_of, clouds, jobs = workers_and_times(case)
    at_slot: dict[int, list[tuple[int, bool]]] = {}
    for at, server, up in changes:
        at_slot.setdefault(math.ceil(at), []).append((server, up))
    first_up = {server: up for _, server, up in reversed(changes)}
    world = NaiveWorld(
        jobs=jobs,
        ps=[ALWAYS if server.kind == CLOUD else server.ps for server in case.servers],
        server_of=server_of,
        on_demand=clouds,
        overtake=case.overtake,
        changes=at_slot,
        keys={int(at): rows for at, rows in case.keys.items()},
        preemption_cost=case.preemption_cost_s,
    )
    plan = {int(at): [Planned(*row) for row in rows] for at, rows in case.script.items()}
    return world.simulate(plan, SLOTS, away=[server for server, up in first_up.items() if up])


def assert_alike(case: Case, result: RunResult, naive: Naive) -> None:
    """Every chunk ran in the same slots, and all counts agree."""
    assert_ran_as(naive, case.jobs, result)
    done = [naive.finish(number, job.chunks) for number, job in enumerate(case.jobs)]
    assert result.jobs["finish_s"].to_list() == done
    assert chunked_of(result).preemption_cost_s == naive.preemptions * case.preemption_cost_s
    # The naive one goes on for ever where jobs stand still for ever.
    if None not in done:
        assert chunked_of(result).stalled_s == naive.stalled


@pytest.mark.slow
@settings(max_examples=instances(300, 8))
@given(case=cases(), slot_s=st.sampled_from([1.0, None]))
def test_chunks_run_in_the_slots_in_which_a_naive_simulator_runs_them(
    case: Case, slot_s: float | None
) -> None:
    assert_alike(case, replay(*world_and_script(case, slot_s)), expected(case))


@st.composite
def failing_cases(draw: st.DrawFn, *, whole_seconds: bool) -> tuple[Case, list[Change]]:
    """Cases with one cloud at most, and servers that come and go."""
    case = draw(cases())
    clouds = [i for i, server in enumerate(case.servers) if server.kind == CLOUD]
    assume(len(clouds) <= 1)
    changes = draw(server_changes(len(case.servers)))
    if whole_seconds:
        changes = [(float(math.ceil(at)), server, up) for at, server, up in changes]
    return case, changes


@pytest.mark.slow
@settings(max_examples=instances(400, 8))
@given(failing=st.one_of(
    st.tuples(failing_cases(whole_seconds=False), st.just(1.0)),
    st.tuples(failing_cases(whole_seconds=True), st.none()),
))  # fmt: skip
def test_what_is_lost_with_a_server_is_done_again_as_in_the_naive_simulator(
    failing: tuple[tuple[Case, list[Change]], float | None],
) -> None:
    (case, changes), slot_s = failing
    naive = expected(case, changes)
    result = replay(*world_and_script(case, slot_s, changes))
    assert_alike(case, result, naive)
    if result.summary.unfinished:
        return  # then the naive one may go on longer
    jobs = range(len(case.jobs))
    assert result.jobs["interruptions"].to_list() == [naive.interruptions.get(job, 0) for job in jobs]
    lost = [sum(chunk.trained for chunk in naive.lost if chunk.job == job) for job in jobs]
    assert result.jobs["lost_s"].to_list() == lost
    for sites in range(2, len(case.servers) + 1):
        again = replay(*world_and_script(case, slot_s, changes), sites=sites)
        assert fingerprint(again) == fingerprint(result)


@pytest.mark.slow
@settings(max_examples=instances(60, 8))
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


@pytest.mark.slow
@settings(max_examples=instances(60, 8))
@given(case=cases(), slot_s=st.sampled_from([1.0, None]))
def test_any_number_of_sites_gives_the_same_bytes(case: Case, slot_s: float | None) -> None:
    world = chunk_world(case.jobs, case.servers, slot_s=slot_s)
    one = fingerprint(replay(world, Script(case.script)))
    for sites in range(2, len(case.servers) + 1):
        assert fingerprint(replay(world, Script(case.script), sites=sites)) == one


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["chunk_fifo", "chunk_spt"])
@settings(max_examples=instances(60, 8))
@given(case=cases())
def test_no_worker_trains_two_chunks_at_a_time_and_none_is_idle_that_could_train(
    policy: str, case: Case
) -> None:
    # With a parameter server for everyone, work is conserved: a worker with an uploaded chunk runs one.
    plenty = [server._replace(ps=9) for server in case.servers]
    result = replay(chunk_world(case.jobs, plenty, slot_s=1, slot_fill="fractional"), policy)
    assert result.summary.completed == len(case.jobs)
    assert chunked_of(result).stalled_s == 0
    slots = sum(server.workers for server in plenty if server.kind != CLOUD)
    assert max(result.timeline["used_worker"].to_list()) <= slots
    for number, job in enumerate(case.jobs):
        for unit in range(job.chunks):
            first = runs_of(result, f"J{number + 1}", unit)[0][0]
            assert first >= job.submit_s + min(job.upload_s, job.cloud_upload_s)
