"""Benchmark of sites in Ray actors against the same sites in one process, with a cost model."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import command, descendants, require_proc
from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.actors.ray_fleet import RayFleet
from ray_sim.engine.build_world import build_world
from ray_sim.engine.general import GeneralRun
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.sites.fleet import Fleet, LocalFleet
from ray_sim.engine.world import World
from ray_sim.experiments.fanout import cluster as ray_cluster
from ray_sim.model.cluster import ServerKind
from ray_sim.model.errors import RunFailedError
from ray_sim.model.job import ChunkProfile
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy

BUDGET = 2.0
"""Largest time on actors, relative to the same number of sites in one process."""

HOUR_S = 3600.0
DAYS = 7.0

FITTED = ((1_000, 10_000, 1), (1_000, 10_000, 4), (8_000, 10_000, 2), (2_000, 20_000, 2), (4_000, 40_000, 4))
"""Servers, jobs and sites of the runs to which the cost model is fitted."""

CHECKED = (10_000, 100_000, 4)
"""Servers, jobs and sites of the run on which the model is checked."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and memory of one run on a fleet of actors."""

    wall_s: float
    instants: int
    decisions: int
    messages: int
    bytes: int
    chunks: int
    site_mb: float
    """Private memory of the largest site."""

    def amounts(self, servers: int) -> list[float]:
        """Terms of the cost model: messages, servers x decisions, chunks."""
        return [self.messages, servers * self.decisions, self.chunks]


def run(step: Step = lambda what: None) -> Findings:
    """Measure runs of several sizes on actors, and the largest also in one process."""
    require_proc()
    step("in one process")
    world = edge_world(*CHECKED[:2])
    local_s, _, _ = _timed(world, LocalFleet(world, CHECKED[2]))
    with ray_cluster("local"):
        costs = []
        for servers, jobs, sites in (*FITTED, CHECKED):
            step(f"{servers:,} servers and {jobs:,} jobs on {sites} actors")
            costs.append(_on_actors(edge_world(servers, jobs), sites))
        step("on one actor, for its memory")
        single = _on_actors(world, 1)
    *fitted, checked = costs
    amounts = np.array([cost.amounts(case[0]) for cost, case in zip(fitted, FITTED, strict=True)])
    scale = amounts.max(axis=0)
    solution, _ = nnls(amounts / scale, np.array([cost.wall_s for cost in fitted]))
    price_s = solution / scale
    of_checked = np.array(checked.amounts(CHECKED[0]))
    predicted_s = float(of_checked @ price_s)
    nodes = 100  # one site per node: servers, jobs and messages grow by this factor, decisions do not
    grown_s = float(of_checked @ price_s) * nodes / CHECKED[2]
    case = f"{CHECKED[0]}-servers"
    return Findings(
        f"{CHECKED[0]:,} servers, {CHECKED[1]:,} chunked jobs in {DAYS:g} days, hourly slots, chunk_spt",
        (
            Measurement(case, "times_local", checked.wall_s / local_s, "x", "smaller", BUDGET),
            Measurement(case, "local_s", local_s, "s", "smaller"),
            Measurement(case, "actors_s", checked.wall_s, "s", "smaller"),
            Measurement(case, "instants_per_s", checked.instants / checked.wall_s, "1/s", "larger"),
            Measurement(case, "messages_per_instant", checked.messages / checked.instants, "", "smaller"),
            Measurement(case, "kb_per_instant", checked.bytes / checked.instants / 1000, "kB", "smaller"),
            Measurement(case, "site_mb_of_1", single.site_mb, "MB", "smaller"),
            Measurement(case, "site_mb_of_4", checked.site_mb, "MB", "smaller"),
            Measurement("model", "ms_per_message", price_s[0] * 1e3, "ms", "smaller"),
            Measurement("model", "ns_per_server_and_decision", price_s[1] * 1e9, "ns", "smaller"),
            Measurement("model", "us_per_chunk", price_s[2] * 1e6, "us", "smaller"),
            Measurement(case, "predicted_over_measured", predicted_s / checked.wall_s, "x", "neither"),
            Measurement(f"{nodes}-nodes", "predicted_s", grown_s, "s", "neither"),
        ),
    )


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


def _timed(world: World, fleet: Fleet) -> tuple[float, int, int]:
    """Wall seconds of the loop, number of instants with events, and number of decisions."""
    loop = GeneralRun(world, create_policy("chunk_spt"), seed=0, fleet=fleet)
    began = time.perf_counter()
    while loop.decide_once():
        pass
    wall_s = time.perf_counter() - began
    result = loop.result(None, "benchmark")
    if result.summary.completed != len(world.table):
        raise RunFailedError(f"only {result.summary.completed} of {len(world.table)} jobs completed")
    return wall_s, len(result.timeline), len(result.decision_seconds)


def _on_actors(world: World, sites: int) -> Cost:
    fleet = RayFleet(world, sites)
    fleet.state()  # the actors have started and loaded their modules
    wall_s, instants, decisions = _timed(world, fleet)
    site_mb = max(map(_private_mb, filter(_is_site, descendants(os.getpid()))))
    messages, bytes_ = fleet.traffic
    fleet.close()
    chunks = int(ChunkFacts.in_world(world).chunks.sum())
    return Cost(wall_s, instants, decisions, messages, bytes_, chunks, site_mb)


def _is_site(pid: int) -> bool:
    return command(pid).startswith("ray::SiteActor")


def _private_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1000
