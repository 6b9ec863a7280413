"""A_online: dispatch of a job over 1,000 workers with long queues, and a week on 100 servers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.figures import Figures
from benchmarks.week import equal_servers
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.chunked.chunk_queues import ChunkQueues
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.increment_query import (
    IncrementQuery,
    Rule,
    SiteOffers,
    merged_offers,
    sites_choice,
)
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.kernels.chunked.increments import DispatchedChunks
from ray_sim.kernels.chunked.queue_state import ChunkRows
from ray_sim.model.cluster import ServerKind
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy
from workloads.job_table import frame_to_table
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich

WORKERS, QUEUED = 1_000, 100
"""Workers, and chunks queued on each."""

JOBS, SERVERS, WORKERS_PER_SERVER = 10_650, 100, 8
"""Number of jobs, equal to that of the Philly week."""

DISPATCH_BUDGET_S = 0.001
WEEK_BUDGET_S = 10.0

_CHUNKS = 10
_SLOT_US = 3_600_000_000
_UPLOAD_SLOTS = 2


def test_a_dispatch(figures: Figures) -> None:
    workers, queued = (10, 5) if figures.small else (WORKERS, QUEUED)
    figures.input(f"a job of {_CHUNKS} chunks over queues of unlike chunks")
    cpu_s = figures.median_s(_dispatch(workers, queued), 21)
    case = f"{WORKERS}-workers-{QUEUED}-queued"
    figures.add(f"{case}.dispatch_cpu_s", cpu_s, "s", "smaller", DISPATCH_BUDGET_S)


def test_a_week(figures: Figures) -> None:
    world = week(30 if figures.small else JOBS)
    figures.input(
        f"{len(world.table):,} synthetic Philly jobs with the training of jsac_edge_cloud on {SERVERS} edge "
        f"servers of {WORKERS_PER_SERVER} workers and a cloud"
    )
    run_world(week(30), create_policy("a_online"))  # compiles
    cpu_s = figures.once_s(lambda: run_world(world, create_policy("a_online")))
    figures.add("week.cpu_s", cpu_s, "s", "smaller", WEEK_BUDGET_S)
    figures.add("week.chunks", int(ChunkFacts.in_world(world).chunks.sum()), "chunks", "neither")


def _dispatch(workers: int, queued: int) -> Callable[[], None]:
    """The choice of the workers of a job; all jobs differ."""
    queues, draw = _queues(workers, queued), Streams(2).generator("bench-a-online")
    every, kinds = np.arange(workers), np.zeros(workers, dtype=np.int64)

    def dispatch() -> None:
        length = int(draw.integers(2, 170)) * _SLOT_US
        new = IncrementQuery(
            count=_CHUNKS,
            partition=0,
            memory_level=0,
            ready_us=np.array([_UPLOAD_SLOTS * _SLOT_US]),
            length_us=np.array([length]),
            key=np.array([_CHUNKS * length]),
            inverse_rate=np.array([_CHUNKS * length]),
            rule=Rule.CHEAPEST,
            preempt=True,
            exact=False,
            given_workers=np.empty(0, dtype=np.int64),
            dispatched=DispatchedChunks.none(),
        )
        merged_offers(SiteOffers(**sites_choice(new, queues, every, kinds, 0, 0)), _CHUNKS)

    return dispatch


def _queues(workers: int, queued: int) -> ChunkQueues:
    """Workers with an equal number of uploaded chunks of different jobs each."""
    draw, n = Streams(1).generator("bench-a-online"), workers * queued
    length, job = draw.integers(2, 170, n) * _SLOT_US, np.arange(n)
    nothing = np.zeros(n, dtype=np.int64)
    worker = draw.permutation(np.repeat(np.arange(workers), queued))
    queues = ChunkQueues(np.zeros(workers, dtype=np.bool_), n)
    key = draw.integers(1, 11, n) * length
    queues.dispatch(ChunkRows(worker, key, job, nothing, nothing, length, nothing + 1, key))
    queues.set_ps(job, nothing + 1)
    queues.advance(0)
    return queues


def week(jobs: int) -> World:
    """World of chunked synthetic Philly jobs, edge servers (one parameter server per worker), and a cloud."""
    frame, _ = enrich(synth("philly", jobs, seed=1)[0], load_training_draws("jsac_edge_cloud"), seed=1)
    kinds = [ServerKind.EDGE] * SERVERS + [ServerKind.CLOUD]
    servers = equal_servers(kinds, {"gpu": WORKERS_PER_SERVER})
    return build_world(frame_to_table(frame), servers, params={"truth": "a_online", "slot_s": 3600.0})
