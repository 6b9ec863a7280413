"""Small worlds of chunked jobs on which every policy for them must hold its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.contract.rigid_worlds import SLOT_S, EdgeCase, Job, cluster, failing, job_table, longer
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.cluster import Cluster, ServerKind, memory_mib
from ray_sim.model.job import ChunkProfile, JobTable
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray

PLAIN, EDGE, CLOUD = ServerKind.PLAIN, ServerKind.EDGE, ServerKind.CLOUD

_FACTS: dict[str, object] = {"preemption_cost_s": 20}


def _profile(n: int, seed: int) -> dict[str, FloatArray]:
    """Chunks of one to ten slots, with ties, uploads and communication."""
    draw = Streams(seed).generator("contract-chunks")
    return {
        "chunks": draw.integers(1, 7, n).astype(np.float64),
        "epochs": draw.integers(1, 3, n).astype(np.float64),
        "minibatches_per_chunk": np.full(n, 5.0),
        "minibatch_s": draw.choice([6.0, 6.0, 13.0, 31.7], n),
        "gradient_mb": draw.choice([0.0, 50.0, 575.0], n),
        "bandwidth_mbps": draw.choice([100.0, 5120.0], n),
        "upload_edge_s": draw.choice([0.0, 60.0, 95.0], n),
        "upload_cloud_s": draw.choice([600.0, 900.0], n),
        "worker_memory_gib": draw.choice([0.0, 8.0], n),
        "ps_memory_gib": draw.choice([0.0, 8.0], n),
    }


def _chunked(table: JobTable, seed: int = 0, same: Mapping[str, float] | None = None) -> JobTable:
    """The jobs with a training profile; columns in ``same`` have one value for all of them."""
    n = len(table)
    profile = _profile(n, seed) | {name: np.full(n, value) for name, value in (same or {}).items()}
    return replace(table, chunk_profile=ChunkProfile(**profile))


def _world(
    table: JobTable,
    servers: Cluster,
    partition: Partition = "none",
    params: Mapping[str, object] | None = None,
) -> World:
    facts = {"truth": "a_online", "slot_s": SLOT_S, "deadline_factor": 3, **(params or {})}
    return build_world(table, servers, partition=partition, params=facts)


def _slots(
    servers: Cluster, workers: Sequence[int], ps: Sequence[int], kinds: Sequence[ServerKind]
) -> Cluster:
    return replace(servers, workers=np.array(workers), ps=np.array(ps), kind=tuple(kinds))


def busy_chunks(n: int = 60, seed: int = 0, *, partition: Partition = "none", limited: bool = False) -> World:
    """Six edge and plain servers and a cloud, two virtual clusters, fewer parameter servers than workers.

    Only where they are ``limited`` some lack the memory for some jobs, which takes policies that heed it.
    """
    vcs = ["a", "a", "a", "b", "b", "b", "a"]
    servers = _slots(
        cluster([4, 4, 8, 2, 4, 4, 8], vcs, [1, 1, 1, 0.5, 1, 1, 2]),
        [2, 1, 3, 1, 0, 2, 0],
        [1, 0, 2, 0, 2, 1, 0],
        [EDGE, EDGE, PLAIN, EDGE, EDGE, EDGE, CLOUD],
    )
    if limited:
        servers = replace(
            servers,
            worker_memory=memory_mib([4, 8, None, 4, None, 16, 16]),
            ps_memory=memory_mib([None, 4, 16, None, 16, 4, None]),
        )
    draw = Streams(seed).generator("contract-chunk-jobs")
    submit = np.cumsum(draw.integers(0, 80, n)).tolist()
    jobs: list[Job] = [(float(s), 1, 100.0, str(draw.choice(["a", "b"]))) for s in submit]
    fill = "whole" if seed % 2 == 0 else "fractional"
    return _world(_chunked(job_table(jobs), seed), servers, partition, {**_FACTS, "slot_fill": fill})


def failing_chunks(n: int = 60, seed: int = 0) -> World:
    """The busy world, whose servers and cloud go every few minutes and come back without their chunks."""
    world = busy_chunks(n, seed)
    fill = "whole" if seed % 2 == 0 else "fractional"
    return _world(world.table, failing(world.cluster, seed), params={**_FACTS, "slot_fill": fill})


def chunk_edge_cases() -> dict[str, EdgeCase]:
    """Worlds that trip careless policies, by what is special about them."""
    two = cluster([4, 4], ["a", "a"])
    edge = _slots(two, [2, 1], [1, 2], [EDGE, EDGE])
    some: list[Job] = [(float(at), 1, 10.0, "a") for at in (0, 0, 61, 61, 200)]
    cases: dict[str, tuple[list[Job], Cluster, dict[str, float]]] = {
        "no job": ([], edge, {}),
        "one job": (some[:1], edge, {}),
        "all at once": ([(3.0, 1, 10.0, "a")] * 20, edge, {}),
        "chunks of no length": (some, edge, {"minibatch_s": 0.0, "gradient_mb": 0.0}),
        "no edge server": (some, _slots(two, [0, 0], [0, 0], [CLOUD, CLOUD]), {}),
        "no worker but the cloud's": (some, _slots(two, [0, 0], [2, 0], [EDGE, CLOUD]), {}),
        "no parameter server": (some, _slots(two, [2, 1], [0, 0], [EDGE, PLAIN]), {}),
        "no worker": (some, _slots(two, [0, 0], [1, 1], [EDGE, EDGE]), {}),
    }
    worlds = {
        name: (_world(_chunked(job_table(jobs), same=columns), servers), name != "no parameter server")
        for name, (jobs, servers, columns) in cases.items()
    }
    stranded = job_table([(0.0, 1, 10.0, "a"), (0.0, 1, 10.0, "nowhere"), (1.0, 1, 10.0, "a")])
    worlds["a vc without servers"] = (_world(_chunked(stranded), edge, "vc"), True)
    return worlds


def with_longer_chunks(world: World, jobs: BoolArray) -> World:
    """The same world with longer mini-batches of these jobs."""
    facts = ChunkFacts.in_world(world)
    times = facts.times
    profile = replace(times.profile, minibatch_s=longer(times.profile.minibatch_s, jobs, 3))
    return replace(world, facts=replace(facts, times=replace(times, profile=profile)))
