"""Random small worlds of chunked jobs whose servers go and come back, for the engine and for naive twins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypedDict

import numpy as np
from hypothesis import strategies as st

from ray_sim.engine.world import World
from ray_sim.model.cluster import ChunkDelay
from tests.chunk_worlds import CLOUD, ChunkJob, Server, chunk_world
from tests.engine.kinds.chunked.naive_chunks import ALWAYS, Planned, Times
from tests.worlds import DOWN, UP, Change

BASE = Server(workers=0, ps=64)
"""A server for parameter servers alone, which never goes."""


class Case(NamedTuple):
    """Jobs on servers of which the first is `BASE`, and the last a cloud or not."""

    jobs: list[ChunkJob]
    servers: list[Server]
    changes: list[Change]
    cost_s: int
    factor: float
    slack: float
    preempt: bool
    delays: Sequence[ChunkDelay]
    """One per pair, or none at all."""

    def pair(self, job: ChunkJob, server: Server) -> tuple[int, int]:
        """Slots of the upload, and of the training of a chunk without communication."""
        for model, server_class, upload_s, factor in self.delays:
            if (model, server_class) == (job.model, server.server_class) and upload_s is not None:
                return int(upload_s), int(job.chunk_s * factor)
        return int(job.cloud_upload_s if server.kind == CLOUD else job.upload_s), int(job.chunk_s)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Some jobs that are due soon, on a few workers that go and come back."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    edges = [
        Server(workers=int(generator.integers(1, 3)), ps=0, server_class="xyx"[i])
        for i in range(generator.integers(1, 4))
    ]
    cloud = [Server(kind=CLOUD, server_class="z")] * int(generator.integers(0, 2))
    at = np.sort(generator.integers(0, 14, draw(st.integers(1, 7))))
    jobs = [
        ChunkJob(
            float(submit - at[0]),
            int(generator.integers(1, 4)),
            int(generator.integers(1, 8)),
            float(generator.integers(0, 3)),
            float(generator.integers(0, 12)),
            exchange_s=float(generator.integers(0, 2)),
            model=str(generator.choice(["a", "b"])),
        )
        for submit in at
    ]
    changes: list[Change] = []
    for server in range(1, len(edges) + len(cloud) + 1):
        times = np.sort(generator.choice(np.arange(1, 25), 2 * int(generator.integers(0, 3)), replace=False))
        changes += [(float(t), server, DOWN if i % 2 == 0 else UP) for i, t in enumerate(times.tolist())]
    return Case(
        jobs=jobs,
        servers=[BASE, *edges, *cloud],
        changes=sorted(changes),
        cost_s=int(generator.integers(0, 3)),
        factor=draw(st.sampled_from([1.5, 2.25, 3.0, 4.5])),
        slack=draw(st.sampled_from([1.25, 2.0, 3.0])),
        preempt=draw(st.booleans()),
        delays=_delays(generator) if draw(st.booleans()) else [],
    )


def _delays(generator: np.random.Generator) -> list[ChunkDelay]:
    return [
        ChunkDelay(model, label, float(generator.integers(0, 12 if label == "z" else 5)), factor)
        for model, label in product("ab", "xyz")
        for factor in generator.choice([1.0, 2.0], 1).tolist()
    ]


class NaiveFacts(TypedDict):
    """Arguments of `NaiveWorld`."""

    jobs: Sequence[Times]
    ps: Sequence[int]
    server_of: Sequence[int]
    on_demand: frozenset[int]
    changes: Mapping[int, Sequence[tuple[int, bool]]]
    preemption_cost: int


def naive_facts(case: Case) -> NaiveFacts:
    """The case in slots of a second."""
    server_of = [
        s
        for s, server in enumerate(case.servers)
        for _ in range(server.workers if server.kind != CLOUD else 1)
    ]
    clouds = frozenset(w for w, s in enumerate(server_of) if case.servers[s].kind == CLOUD)
    changes: dict[int, list[tuple[int, bool]]] = {}
    for at, server, up in case.changes:
        changes.setdefault(math.ceil(at), []).append((server, up))
    return NaiveFacts(
        jobs=[
            Times(
                chunks=job.chunks,
                uploads=[upload for upload, _ in pairs],
                lengths=[training + int(job.exchange_s) for _, training in pairs],
                lengths_in_cloud=[training for _, training in pairs],
            )
            for job in case.jobs
            for pairs in [[case.pair(job, case.servers[s]) for s in server_of]]
        ],
        ps=[ALWAYS if server.kind == CLOUD else server.ps for server in case.servers],
        server_of=server_of,
        on_demand=clouds,
        changes=changes,
        preemption_cost=case.cost_s,
    )


def plan_of(case: Case) -> dict[int, list[Planned]]:
    """All chunks, due when their jobs come, for no worker yet."""
    plan: dict[int, list[Planned]] = {}
    for number, job in enumerate(case.jobs):
        plan.setdefault(int(job.submit_s), []).extend(
            Planned(number, unit, -1, 0) for unit in range(job.chunks)
        )
    return plan


def world_of(case: Case, deadline_factor: float | None = None) -> World:
    """The world of a case, in slots of a second."""
    return chunk_world(
        case.jobs,
        case.servers,
        slot_s=1,
        changes=case.changes,
        delays=case.delays,
        preemption_cost_s=case.cost_s,
        deadline_factor=deadline_factor,
    )
