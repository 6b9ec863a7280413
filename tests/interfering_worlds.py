"""Elastic worlds whose jobs slow each other, and a naive recomputation of every job's speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import WORKER
from ray_sim.model.cluster import LinkChanges
from ray_sim.model.interference import PARTS, InterferenceProfile
from ray_sim.model.job import TrainingProfile
from ray_sim.model.units import IntArray
from tests.training import together
from tests.worlds import Change, Job, availability, cluster_of, job_table


def interference(
    worker_load: Mapping[str, Sequence[float]],
    sensitivity: Mapping[str, Sequence[float]],
    ps_load: Mapping[str, Sequence[float]] | None = None,
    channels: Sequence[str] = ("cpu", "nic"),
    between_sockets: Sequence[str] = (),
) -> InterferenceProfile:
    """A profile of these types, in shares of each channel."""
    types = tuple(worker_load)
    nothing = dict.fromkeys(types, [0.0] * len(channels))

    def parts(loads: Mapping[str, Sequence[float]]) -> IntArray:
        whole: IntArray = np.rint(np.array([loads[name] for name in types]) * PARTS).astype(np.int64)
        return whole

    return InterferenceProfile(
        name="test",
        channels=tuple(channels),
        between_sockets=np.array([name in between_sockets for name in channels]),
        types=types,
        worker_load=parts(worker_load),
        ps_load=parts(ps_load or nothing),
        sensitivity=np.array([sensitivity[name] for name in types], dtype=np.float64),
    )


def interfering_world(
    submit_s: Sequence[float],
    jobs: Sequence[tuple[str, TrainingProfile]],
    gpus: Sequence[float],
    profile: InterferenceProfile | None,
    params: Mapping[str, object] | None = None,
    links: LinkChanges | None = None,
    sockets: Sequence[int] | None = None,
    speed: Sequence[float] | None = None,
    changes: Sequence[Change] | None = None,
) -> World:
    """Jobs with the models that they train; see `tests.elastic_worlds.elastic_world`."""
    names = tuple(dict.fromkeys(name for name, _ in jobs))
    training = replace(
        together(*(job for _, job in jobs)),
        model=np.array([names.index(name) for name, _ in jobs]),
        model_names=names,
    )
    table = replace(job_table([Job(at, 1, 100) for at in submit_s]), training=training)
    servers = replace(
        cluster_of(gpus, speed=speed),
        interference=profile,
        links=links,
        sockets=None if sockets is None else np.array(sockets),
        availability=None if changes is None else availability(changes),
    )
    return build_world(table, servers, params={"truth": "placement", **(params or {})})


def naive_slowdown(
    profile: InterferenceProfile,
    held: Mapping[int, Mapping[tuple[int, int], int]],
    types: Sequence[int],
    sockets: Sequence[int],
    job: int,
) -> float:
    """The slowdown of a job by its definition, from what every job holds: (server, role) -> tasks."""
    factors = [1.0]
    for server in {server for (server, _), tasks in held[job].items() if tasks}:
        factor = 1.0
        for q in range(len(profile.channels)):
            if profile.between_sockets[q] and sockets[server] < 2:
                continue
            others = 0.0
            for other, tasks_of in held.items():
                for (at, role), tasks in tasks_of.items():
                    loads = profile.worker_load if role == WORKER else profile.ps_load
                    slowing = tasks - min(tasks, profile.own_tasks if other == job else 0)
                    others += slowing * loads[types[other], q] / PARTS if at == server else 0.0
            factor += profile.sensitivity[types[job], q] * others
        factors.append(factor)
    return max(factors)
