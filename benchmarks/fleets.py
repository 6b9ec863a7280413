"""Sites in Ray actors against the same sites in one process."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from benchmarks.figures import Figures, wall_clock
from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.actors.ray_fleet import RayFleet
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import GeneralRun
from ray_sim.engine.sites.fleet import Fleet, LocalFleet
from ray_sim.engine.world import World
from ray_sim.experiments.fanout.connection import cluster as ray_cluster
from ray_sim.model.cluster import ServerKind
from ray_sim.model.job import ChunkProfile
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy

BUDGET = 2.0
"""Largest time on actors, relative to the same number of sites in one process."""

HOUR_S = 3600.0
DAYS = 7.0

SERVERS, JOBS, SITES = 10_000, 100_000, 4


@wall_clock
def test_actors(figures: Figures) -> None:
    servers, jobs = (20, 100) if figures.small else (SERVERS, JOBS)
    world = edge_world(servers, jobs)
    figures.input(f"{servers:,} servers, {jobs:,} chunked jobs in {DAYS:g} days, hourly slots, chunk_spt")
    local_s = _timed_s(world, LocalFleet(world, SITES))
    actors_s: list[float] = []
    with ray_cluster("local"):
        fleet = RayFleet(world, SITES)
        fleet.state()  # the actors have started and loaded their modules
        figures.once_s(lambda: actors_s.append(_timed_s(world, fleet)))
        messages, _ = fleet.traffic
        fleet.close()
    case = f"{SERVERS}-servers"
    figures.add(f"{case}.times_local", actors_s[0] / local_s, "x", "smaller", BUDGET)
    figures.add(f"{case}.local_s", local_s, "s", "smaller")
    figures.add(f"{case}.ms_per_message", actors_s[0] / messages * 1000, "ms", "smaller")


def edge_world(servers: int, n_jobs: int) -> World:
    """World of a week of chunked jobs on edge servers of four workers; 10 jobs per server: a load of 0.8."""
    draw = Streams(0).generator("benchmark-fleets")
    submit = np.sort(draw.uniform(0, DAYS * 24 * HOUR_S, n_jobs)).tolist()
    table = job_table([(at, 1, 1.0, "edge") for at in submit])
    profile = ChunkProfile(
        chunks=draw.integers(1, 11, n_jobs).astype(np.float64),
        epochs=draw.integers(20, 61, n_jobs).astype(np.float64),
        minibatches_per_chunk=np.full(n_jobs, 58.0),
        minibatch_s=draw.uniform(0.001, 0.02, n_jobs) * HOUR_S,
        gradient_mb=draw.uniform(30, 575, n_jobs),
        bandwidth_mbps=draw.uniform(100, 5 * 1024, n_jobs),
        upload_edge_s=draw.choice([1, 2, 3, 4], n_jobs) * HOUR_S,
        upload_cloud_s=np.full(n_jobs, 12 * HOUR_S),
        worker_memory_gib=np.zeros(n_jobs),
        ps_memory_gib=np.zeros(n_jobs),
    )
    edge = replace(cluster([4] * servers, ["edge"] * servers), kind=(ServerKind.EDGE,) * servers)
    params = {"truth": "a_online", "slot_s": HOUR_S}
    return build_world(replace(table, chunk_profile=profile), edge, params=params)


def _timed_s(world: World, fleet: Fleet) -> float:
    """Wall seconds of the loop."""
    loop = GeneralRun(world, create_policy("chunk_spt"), seed=0, fleet=fleet)
    began = time.perf_counter()
    while loop.decide_once():
        pass
    wall_s = time.perf_counter() - began
    assert loop.result(None, "benchmark").summary.completed == len(world.table)
    return wall_s
