"""Small worlds of chunked jobs, whose chunks take round times, and policies that are a script for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch, NewKeys
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.view import ChunkedContext, ChunkedPolicy, ChunkedView
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.model.cluster import ChunkDelay, Cluster, ServerKind, memory_mib
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US
from ray_sim.policies.registry import create_policy
from tests import worlds

EDGE, CLOUD, PLAIN = ServerKind.EDGE, ServerKind.CLOUD, ServerKind.PLAIN


class ChunkJob(NamedTuple):
    """``chunks`` chunks of ``chunk_s`` seconds at speed 1, and ``exchange_s`` of communication each."""

    submit_s: float
    chunks: int
    chunk_s: float
    upload_s: float = 0.0
    cloud_upload_s: float = 0.0
    exchange_s: float = 0.0
    vc: str | None = None
    worker_gib: float = 0.0
    ps_gib: float = 0.0
    model: str | None = None


class Server(NamedTuple):
    """A server with so many workers and parameter servers."""

    workers: int = 1
    ps: int = 64
    kind: ServerKind = EDGE
    speed: float = 1.0
    vc: str | None = None
    worker_gib: float | None = None
    """Memory of each worker, None without limit."""
    ps_gib: float | None = None
    server_class: str | None = None


TWO = (Server(), Server())
"""Two edge servers of one worker each."""


def chunk_columns(jobs: Sequence[ChunkJob]) -> dict[str, Sequence[object]]:
    """Columns of one mini-batch per chunk; 2 x 8 q / b is the exchange with b = 16 Mbps."""
    return {
        "chunks": [job.chunks for job in jobs],
        "epochs": [1] * len(jobs),
        "minibatches_per_chunk": [1] * len(jobs),
        "minibatch_s": [float(job.chunk_s) for job in jobs],
        "gradient_mb": [float(job.exchange_s) for job in jobs],
        "bandwidth_mbps": [16.0] * len(jobs),
        "upload_edge_s": [float(job.upload_s) for job in jobs],
        "upload_cloud_s": [float(job.cloud_upload_s) for job in jobs],
        "worker_memory_gib": [float(job.worker_gib) for job in jobs],
        "ps_memory_gib": [float(job.ps_gib) for job in jobs],
        "model": [job.model for job in jobs],
    }


def cluster_of(servers: Sequence[Server]) -> Cluster:
    """Servers s0, s1, ... of one GPU each."""
    bare = worlds.cluster_of(
        [1] * len(servers),
        vc=[server.vc for server in servers],
        speed=[server.speed for server in servers],
    )
    return replace(
        bare,
        kind=tuple(server.kind for server in servers),
        workers=np.array([server.workers for server in servers], dtype=np.int64),
        ps=np.array([server.ps for server in servers], dtype=np.int64),
        worker_memory=memory_mib([server.worker_gib for server in servers]),
        ps_memory=memory_mib([server.ps_gib for server in servers]),
        server_class=tuple(server.server_class for server in servers),
    )


def chunk_world(
    jobs: Sequence[ChunkJob],
    servers: Sequence[Server] = (Server(),),
    *,
    slot_s: float | None = None,
    partition: Partition = "none",
    changes: Sequence[worlds.Change] = (),
    delays: Sequence[ChunkDelay] = (),
    **params: object,
) -> World:
    """Jobs J1, J2, ... in order of submission; in whole slots where ``slot_s`` is given.

    ``changes`` are when servers go and come back, ``delays`` the table by pair, none if empty.
    """
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    rows = [worlds.Job(job.submit_s, 1, job.chunk_s, job.vc) for job in jobs]
    fill = {"slot_fill": "fractional"} if slot_s is None else {"slot_s": slot_s}
    return build_world(
        worlds.job_table(rows, columns=chunk_columns(jobs)),
        replace(
            cluster_of(servers),
            availability=worlds.availability(changes) if changes else None,
            delays=tuple(delays) or None,
        ),
        partition=partition,
        params={"truth": "a_online", **fill, **params},
    )


Row = tuple[int, int, int, int]
"""Job, unit, worker, key."""


def dispatch_of(rows: Sequence[Row], *, overtake: bool = True) -> Dispatch:
    """Chunks in the order listed."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Dispatch(columns[0], columns[1], columns[2], columns[3], overtake=overtake)


def first_idle_ps(view: ChunkedView, cloud: Collection[int] = ()) -> dict[int, list[tuple[int, int, int]]]:
    """Placements that give each active job the idle parameter server of the lowest server, if there is one.

    Jobs that are not active give theirs up. The servers of the ``cloud`` are for the jobs in it.
    """
    idle = dict(enumerate(view.free[:, PARAMETER_SERVER].tolist()))
    placements: dict[int, list[tuple[int, int, int]]] = {job: [] for job in view.idle_holders.tolist()}
    for server in view.placements.of(np.array(list(placements), dtype=np.int64)).server.tolist():
        idle[server] += 1
    for job in view.stalled.tolist():
        mine = (s for s, n in idle.items() if n > 0 and (s in cloud) == bool(view.in_cloud[job]))
        server = next(mine, None)
        if server is not None:
            idle[server] -= 1
            placements[job] = [(server, PARAMETER_SERVER, 1)]
    return placements


def due_us_of(world: World) -> list[int]:
    """Deadlines of a world's jobs, which must have some."""
    due_us = ChunkFacts.in_world(world).due_us
    assert due_us is not None
    return [int(at) for at in due_us]


class Script(ChunkedPolicy):
    """Dispatches, gives keys and suspends at the seconds written; it gives active jobs parameter servers.

    A chunk whose server is not there goes to the first worker that is, or waits for one; so does a chunk
    that was lost, whose own worker comes first.
    """

    name: ClassVar[str] = "script"
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.REVIEW | Wake.SERVER_CHANGE

    def __init__(
        self,
        script: Mapping[float, Sequence[Row]],
        *,
        keys: Mapping[float, Sequence[tuple[int, int]]] | None = None,
        suspends: Mapping[float, Sequence[int]] | None = None,
        overtake: bool = True,
        serves: bool = True,
    ) -> None:
        self._suspends = tuple((round(at * 1e6), tuple(jobs)) for at, jobs in (suspends or {}).items())
        self._keys = tuple((round(at * 1e6), tuple(rows)) for at, rows in sorted((keys or {}).items()))
        self._script = tuple((round(time_s * 1e6), tuple(rows)) for time_s, rows in sorted(script.items()))
        self._overtake, self._serves = overtake, serves

    def start(self, world: ChunkedContext, streams: Streams) -> None:
        self._cloud = frozenset(world.workers.server[world.workers.on_demand].tolist())
        self._server = world.workers.server
        self._told = -1

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        dispatch = self._dispatch(view) if len(view.returned) or self._anything_new(view) else None
        written = (*self._script, *self._keys, *self._suspends)
        later = [at for at, _ in written if at > view.now_us]
        placements = first_idle_ps(view, self._cloud) if self._serves else {}
        if view.reviewed:
            suspended = {job for at, jobs in self._suspends if at == view.now_us for job in jobs}
            placements |= {job: [] for job in suspended & set(view.running.tolist())}
        return ChunkedDecision.of(
            placements, dispatch=dispatch, keys=self._new_keys(view), review_us=min(later, default=NEVER_US)
        )

    def _new_keys(self, view: ChunkedView) -> NewKeys | None:
        written = dict(rows for at, of_time in self._keys if at == view.now_us for rows in of_time)
        there = np.intersect1d(np.array(list(written), dtype=np.int64), [*view.waiting, *view.running])
        if not view.reviewed or len(there) == 0:
            return None
        return NewKeys(there, np.array([written[job] for job in there.tolist()], dtype=np.int64))

    def _anything_new(self, view: ChunkedView) -> bool:
        written = [at for at, _ in self._script if self._told < at <= view.now_us]
        return bool(written) or len(view.changed_servers) > 0

    def _dispatch(self, view: ChunkedView) -> Dispatch | None:
        self._told = view.now_us
        there = np.flatnonzero(view.available[self._server]).tolist()
        due = [row for at, rows in self._script if at <= view.now_us for row in rows]
        there_now = {*view.waiting.tolist(), *view.running.tolist()}
        open_jobs = np.array(sorted({row[0] for row in due} & there_now), dtype=np.int64)
        to_send = {(job, unit) for job, unit in np.transpose(view.undispatched(open_jobs)).tolist()}
        chosen = [
            (job, unit, worker if worker in there else there[0], key)
            for job, unit, worker, key in due
            if (job, unit) in to_send and there
        ]
        return dispatch_of(chosen, overtake=self._overtake) if chosen else None


def run_script(
    jobs: Sequence[ChunkJob],
    script: Mapping[float, Sequence[Row]],
    servers: Sequence[Server] = TWO,
    *,
    sites: int = 1,
    slot_s: float | None = None,
    overtake: bool = True,
) -> RunResult:
    """Chunks dispatched at the seconds of the script, on two workers unless said otherwise."""
    return worlds.replay(
        chunk_world(jobs, servers, slot_s=slot_s), Script(script, overtake=overtake), sites=sites
    )


def runs_of(result: RunResult, job: str, chunk: int) -> list[tuple[float, float]]:
    """When a chunk made progress, as (from, to) in seconds."""
    rows = result.events.filter(
        (pl.col("job_id") == job) & (pl.col("role") == "chunk") & (pl.col("count") == chunk)
    )
    times = rows.select("time_s", "event").rows()
    begins = [time for time, event in times if event == "start"]
    ends = [time for time, event in times if event in ("stop", "finish")]
    return list(zip(begins, ends, strict=True))


def run(
    policy: str,
    jobs: Sequence[ChunkJob],
    servers: Sequence[Server],
    changes: Sequence[worlds.Change] = (),
    **params: object,
) -> RunResult:
    """Run a policy on slots of a second."""
    world = chunk_world(jobs, servers, slot_s=1, changes=changes)
    return worlds.replay(world, create_policy(policy, params))
