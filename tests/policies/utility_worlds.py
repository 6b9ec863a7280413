"""Worlds in slots whose jobs have utilities, small enough to work out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.cluster import Cluster, LinkChanges
from ray_sim.model.job import TrainingProfile, UtilityProfile
from tests.training import profile, together
from tests.worlds import Change, Job, availability, cluster_of, job_table
from workloads.job_table import frame_to_table
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest

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
    links: LinkChanges | None = None,
    partition: Partition = "none",
) -> World:
    """Slots of 100 s, and the truth of PD-ORS; servers go and come back with ``outages``."""
    vcs: Sequence[str | None] = [None] * len(jobs) if vc is None else vc
    table = job_table([Job(at, 1, 100.0, label) for at, label in zip(submit_s, vcs, strict=True)])
    columns = np.array(utilities, dtype=np.float64).reshape(-1, 3).T
    table = replace(table, training=together(*jobs), utility=UtilityProfile(*columns))
    cluster = replace(_failing(cluster_of(gpus, vc=server_vc, speed=speed), outages), links=links)
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
    horizon_s = slots * HOUR_S
    frame, _ = draw_jobs(
        load_training_draws("pd_ors"), HorizonRequest(jobs, horizon_s, feasible_only=True), seed
    )
    cluster = cluster_of(
        [8.0] * servers, cpu=[72.0] * servers, memory_gib=[192.0] * servers, disk_gib=[500.0] * servers
    )
    facts = {"truth": "pd_ors", "slot_s": HOUR_S, "horizon_s": horizon_s, **(params or {})}
    return build_world(frame_to_table(frame, cluster.resources), _failing(cluster, outages), params=facts)
