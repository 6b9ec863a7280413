"""FIFO on servers that fail against a loop over whole seconds that is too simple to be wrong.

Tasks are placed one by one in the order of the servers; jobs of 0 GPUs need a server like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from tests.proofs import instances
from tests.random_worlds import PolicyChoice
from tests.worlds import (
    DOWN,
    UP,
    Change,
    Job,
    availability,
    cluster_of,
    column_of,
    job_table,
    replay,
    times_of,
)

END = 400


@dataclass(slots=True)
class Progress:
    """One job while it is in the naive loop."""

    job: Job
    done: int = 0
    """Seconds of work."""
    since: int | None = None
    """Latest start while it runs."""
    servers: list[int] = field(default_factory=list)
    """Server of each GPU, or of the one task that takes none."""
    start: int | None = None
    finish: int | None = None
    interruptions: int = 0
    lost: int = 0


@dataclass(slots=True)
class Servers:
    """GPUs and presence of each server."""

    gpus: list[int]
    there: list[bool]

    def place(self, gpus: int, running: list[Progress]) -> list[int]:
        """Server of each task of a job; empty where the job does not fit."""
        free = list(self.gpus)
        for job in running:
            for server in job.servers:
                free[server] -= job.job.gpus > 0
        here = [server for server, there in enumerate(self.there) if there]
        if gpus == 0:
            return here[:1]
        slots = [server for server in here for _ in range(free[server])]
        return slots[:gpus] if len(slots) >= gpus else []


def naive_jobs(
    jobs: list[Job], servers: Servers, changes: list[Change], checkpoint: int, backfill: bool
) -> list[Progress]:
    """Every job at the end, in the order of submission."""
    progress = [Progress(job) for job in sorted(jobs, key=lambda job: job.submit_s)]
    for now in range(END):
        for _, server, up in (change for change in changes if change[0] == now):
            servers.there[server] = up
            for job in progress:
                if not up and server in job.servers:
                    interrupt(job, now, checkpoint)
        arrived = [job for job in progress if job.job.submit_s <= now]
        complete(arrived, now)
        serve(arrived, servers, now, backfill)
        while complete(arrived, now):  # jobs that started with no work left
            serve(arrived, servers, now, backfill)
    return progress


def complete(arrived: list[Progress], now: int) -> bool:
    """End the jobs whose work is done; whether there were any."""
    ended = False
    for job in arrived:
        if job.since is not None and job.done + now - job.since == job.job.duration_s:
            job.finish, job.since, job.servers, ended = now, None, [], True
    return ended


def serve(arrived: list[Progress], servers: Servers, now: int, backfill: bool) -> None:
    """Start waiting jobs in order of submission; without backfilling, only those before one that waits."""
    for job in arrived:
        if job.since is not None or job.finish is not None or job.job.gpus > sum(servers.gpus):
            continue
        job.servers = servers.place(int(job.job.gpus), arrived)
        if job.servers:
            job.since = now
            job.start = now if job.start is None else job.start
        elif not backfill:
            break


def interrupt(job: Progress, now: int, checkpoint: int) -> None:
    """Stop a running job, which keeps its work up to its last checkpoint since its latest start."""
    assert job.since is not None
    ran = now - job.since
    kept = ran if checkpoint == 0 else ran // checkpoint * checkpoint
    job.done += kept
    job.lost += ran - kept
    job.interruptions += 1
    job.since, job.servers = None, []


WHOLE_JOBS = st.lists(
    st.builds(
        Job,
        st.integers(0, 12).map(float),
        st.sampled_from([0.0, 0.0, 1.0, 2.0, 4.0, 9.0]),
        st.integers(1, 9).map(float),
    ),
    min_size=1,
    max_size=10,
)


@st.composite
def whole_changes(draw: st.DrawFn, servers: int) -> tuple[list[bool], list[Change]]:
    """Servers that are there at first, and changes at whole seconds after which all are there."""
    first = draw(st.lists(st.booleans(), min_size=servers, max_size=servers))
    there, changes = list(first), []
    for now in sorted(draw(st.lists(st.integers(0, 20), max_size=10))):
        server = draw(st.integers(0, servers - 1))
        there[server] = not there[server]
        changes.append((float(now), server, there[server]))
    changes += [(25.0, server, UP) for server in range(servers) if not there[server]]
    return first, changes


@pytest.mark.slow
@settings(max_examples=instances(500, 50))
@given(data=st.data(), jobs=WHOLE_JOBS, gpus=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3))
def test_every_job_is_lost_and_starts_again_as_in_the_naive_loop(
    data: st.DataObject, jobs: list[Job], gpus: list[int]
) -> None:
    first, changes = data.draw(whole_changes(len(gpus)))
    checkpoint, backfill = data.draw(st.sampled_from([0, 2, 3, 100])), data.draw(st.booleans())
    # A server that is absent at first has its first change upwards; without one it is there.
    first = [there or all(server != s for _, server, _ in changes) for s, there in enumerate(first)]
    cluster = replace(cluster_of([float(n) for n in gpus]), availability=availability(changes))
    world = build_world(job_table(jobs), cluster, params={"checkpoint_s": checkpoint})
    result = replay(world, PolicyChoice("fifo", {"placement": "pooled", "backfill": backfill}).create())
    expected = naive_jobs(jobs, Servers(list(gpus), first), changes, checkpoint, backfill)
    names = [f"J{i + 1}" for i in sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)]
    assert times_of(result) == {n: (j.start, j.finish) for n, j in zip(names, expected, strict=True)}
    ends = {n: (j.interruptions, j.lost) for n, j in zip(names, expected, strict=True)}
    interruptions, lost = column_of(result, "interruptions"), column_of(result, "lost_s")
    assert {name: (interruptions[name], lost[name]) for name in ends} == ends


def test_the_naive_loop_is_right_where_the_answer_is_known() -> None:
    """One GPU fails at 4 s and is back at 6 s; a job of 0 GPUs waits as long as the other one."""
    jobs = [Job(0, 1, 10), Job(0, 0, 10)]
    found = naive_jobs(jobs, Servers([1], [True]), [(4.0, 0, DOWN), (6.0, 0, UP)], 3, backfill=True)
    assert [(job.start, job.finish, job.lost) for job in found] == [(0, 13, 1), (0, 13, 1)]
