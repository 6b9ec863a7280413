"""Worlds in slots whose jobs have utilities, small enough to work out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.world import Partition, World, build_world
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.step_time import pd_ors_sample_s
from tests.training import profile, together
from tests.worlds import Change, Job, availability, cluster_of, job_table

SLOT_S = 100.0


def pd_ors_job(**columns: float) -> TrainingProfile:
    """V = 100 samples of 2 s within a server and 4 s across: 0.02 and 0.04 slots; F = 4, gamma = 1.

    1 s of training, and 1 / 4 x 2 x 8 x 30 MB / 120 or 40 Mbps. A worker takes 2 GPUs, a parameter server 1.
    """
    given = {"epochs": 2, "samples": 50, "batch": 4, "sample_s": 1, "gradient_mb": 30}
    mbps = {"bandwidth_mbps": 40, "internal_bandwidth_mbps": 120}
    return replace(profile(**{**given, **mbps, **columns}), worker_demand=np.array([[2000]]))


def worth(at_once: float, a_slot_later: float) -> tuple[float, float, float]:
    """Maximum, decay and due time with these utilities d = 0 and 1 slots after the arrival."""
    # max / (1 + 1) at the due time 0, and max / (1 + e^decay) a slot later.
    return 2 * at_once, math.log(2 * at_once / a_slot_later - 1) / SLOT_S, 0.0


def utility_world(
    submit_s: Sequence[float],
    jobs: Sequence[TrainingProfile],
    utilities: Sequence[tuple[float, float, float]],
    gpus: Sequence[float],
    slots: int,
    *,
    params: Mapping[str, object] | None = None,
    outages: Sequence[Change] = (),
    vc: Sequence[str] | None = None,
    server_vc: Sequence[str] | None = None,
    speed: Sequence[float] | None = None,
    partition: Partition = "none",
) -> World:
    """Slots of 100 s, and the truth of PD-ORS; servers go and come back with ``outages``."""
    vcs: Sequence[str | None] = [None] * len(jobs) if vc is None else vc
    table = job_table([Job(at, 1, 100.0, label) for at, label in zip(submit_s, vcs, strict=True)])
    columns = np.array(utilities, dtype=np.float64).reshape(-1, 3).T
    table = replace(table, training=together(*jobs), utility=UtilityProfile(*columns))
    cluster = _failing(cluster_of(gpus, vc=server_vc, speed=speed), outages)
    facts = {"truth": "pd_ors", "slot_s": SLOT_S, "horizon_s": slots * SLOT_S}
    return build_world(table, cluster, partition=partition, params={**facts, **(params or {})})


def example_1_a(**others: object) -> World:
    """Three jobs, one server of 6 GPUs, two slots: utilities 5, 4; 9, 3; 2, 1."""
    utilities = [worth(5, 4), worth(9, 3), worth(2, 1)]
    return utility_world([0.0] * 3, [pd_ors_job()] * 3, utilities, [6], 2, **others)  # type: ignore[arg-type]  # as above


def _failing(cluster: Cluster, outages: Sequence[Change]) -> Cluster:
    return replace(cluster, availability=availability(outages)) if outages else cluster


HOUR_S = 3600.0


def paper_world(
    jobs: int,
    servers: int,
    slots: int,
    seed: int,
    *,
    params: Mapping[str, object] | None = None,
    outages: Sequence[Change] = (),
) -> World:
    """Jobs in the published ranges of PD-ORS that could end alone, on servers as there; slots of an hour.

    They ask for 1 to 30 workers, F at most, which FIFO gives them.
    """
    draw = np.random.default_rng(seed)
    submit_s = HOUR_S * np.sort(draw.integers(0, slots, jobs))
    submit_s -= submit_s[0]
    drawn: list[TrainingProfile] = []
    while len(drawn) < jobs:
        job = _paper_job(draw)
        alone_s = job.work * pd_ors_sample_s(job, np.array([0]), True) / job.batch
        if alone_s[0] <= slots * HOUR_S - submit_s[len(drawn)]:
            drawn.append(job)
    fading = np.where(draw.random(jobs) < 0.1, 0.0, draw.uniform(0.01, 1, jobs))
    fading = np.where(draw.random(jobs) < 0.35, draw.uniform(4, 6, jobs), fading)
    due_s = HOUR_S * draw.uniform(1, 15, jobs)
    capacity = [[amount] * servers for amount in (8.0, 72.0, 192.0, 500.0)]
    cluster = cluster_of(capacity[0], cpu=capacity[1], memory_gib=capacity[2], disk_gib=capacity[3])
    table = job_table([Job(at, 1, 100.0) for at in submit_s.tolist()], cluster.resources)
    utility = UtilityProfile(draw.uniform(1, 100, jobs), fading / HOUR_S, due_s)
    table = replace(table, training=together(*drawn), utility=utility)
    facts = {"truth": "pd_ors", "slot_s": HOUR_S, "horizon_s": slots * HOUR_S}
    return build_world(table, _failing(cluster, outages), params={**facts, **(params or {})})


def _paper_job(draw: np.random.Generator) -> TrainingProfile:
    mbps, batch, gamma = draw.uniform(100, 5000), int(draw.integers(1, 201)), int(draw.integers(1, 11))
    workers = min(int(draw.integers(1, 31)), batch)
    job = profile(
        epochs=int(draw.integers(50, 201)),
        samples=int(draw.integers(20_000, 500_001)),
        batch=batch,
        sample_s=HOUR_S * draw.uniform(1e-5, 1e-4),
        gradient_mb=draw.uniform(30, 575),
        bandwidth_mbps=mbps,
        internal_bandwidth_mbps=10 * mbps,
        workers_per_ps=gamma,
        num_workers=workers,
        num_ps=-(-workers // gamma),
    )
    of_worker, of_ps = (
        [[gpus * 1000, draw.integers(1, 11) * 1000, draw.integers(2, 33) * 1024, draw.integers(5, 11) * 1024]]
        for gpus in (draw.integers(0, 5), 0)
    )
    return replace(job, worker_demand=np.array(of_worker), ps_demand=np.array(of_ps))
