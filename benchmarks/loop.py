"""Benchmark of the general loop, in which policies written in Python run, and of sites in one process."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.children import python
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.own_policy import Idle, OneWorkerEach, ShortestFirst, ShortestPriority
from benchmarks.week import CLUSTER, philly_week
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.result import RunResult
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from workloads.store import frame_to_table, load_workload
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich

OWN_BUDGET, PRIORITY_BUDGET = 4_000, 200_000
"""Least jobs per CPU second of a queue policy in Python, and of a priority, which takes the compiled loop."""

ELASTIC_BUDGET = 4_000
"""Least decisions per CPU second, elastic jobs on six servers."""

SITES, SITES_BUDGET = 4, 1.2
"""Sites in one process, and the largest CPU time relative to one site."""

WEEK_BUDGETS_S = {"drf": 6.0, "tetris": 7.5, "optimus": 11.0}
"""Largest CPU seconds of whole commands."""

ELASTIC_JOBS = 1_000
SERVERS = 6


class Crowd(NamedTuple):
    """A world of elastic jobs that slow each other, with the budgets of its measurement."""

    case: str
    servers: int
    budget: int
    """Least decisions per CPU second."""
    least_running: int | None = None
    """Least median number of running jobs, over the instants of a run."""
    cores: int = 64
    """Cores of a server. A worker and its parameter server take four together."""
    times_jobs: int = 1
    load_scale: float = 1.0


CROWDS = (
    Crowd("interfering-6", SERVERS, 3_000),
    Crowd("interfering-full-100", 100, 1_000, least_running=500, cores=20, times_jobs=3, load_scale=10.0),
)
"""On the servers of the second, 500 jobs fit at once."""

_WEEK = ("--enrich", "optimus_nine_models", "-w", "truth=placement", "-w", "slot_s=600")


def run(
    step: Step = lambda what: None,
    repetitions: int = 3,
    jobs: int = ELASTIC_JOBS,
    commands: Sequence[str] = tuple(WEEK_BUDGETS_S),
) -> Findings:
    """Measure CPU seconds; medians after a first execution that compiles.

    Parameters
    ----------
    jobs : number of elastic jobs on six servers
    commands : policies of the whole commands
    """
    with tempfile.TemporaryDirectory(prefix="ray_sim-loop-") as folder:
        desk = Path(folder)
        workload, source = philly_week(desk)
        world = build_world(load_workload(workload), load_cluster(CLUSTER))
        step("a policy that changes nothing")
        idle_policy = Idle()
        idle_s = _cpu_s(lambda: run_world(world, idle_policy), repetitions)
        step("a queue policy of 20 lines of Python")
        own_s = _cpu_s(lambda: run_world(world, ShortestFirst(), loop="general"), repetitions)
        step("a priority")
        priority_s = _cpu_s(lambda: run_world(world, ShortestPriority()), repetitions)
        step("placements of elastic jobs on six servers")
        elastic, _ = _elastic(elastic_world(jobs), repetitions)
        slowed: list[Measurement] = []
        for crowd in CROWDS:
            step(f"elastic jobs that slow each other on {crowd.servers} servers")
            slowed += _crowded(jobs, crowd, repetitions)
        step(f"{SITES} sites in one process")
        one_s = _cpu_s(lambda: run_world(world, create_policy("srtf")), repetitions)
        sites_s = _cpu_s(lambda: run_world(world, create_policy("srtf"), sites=SITES), repetitions)
        week = tuple(_week(name, workload, step) for name in commands)
    idle = idle_policy.decisions / idle_s
    own, priority = len(world.table) / own_s, len(world.table) / priority_s
    rows = (
        Measurement("idle", "decisions_per_cpu_s", idle, "decisions/s", "larger"),
        Measurement("own", "jobs_per_cpu_s", own, "jobs/s", "larger", OWN_BUDGET),
        Measurement("priority", "jobs_per_cpu_s", priority, "jobs/s", "larger", PRIORITY_BUDGET),
        Measurement("elastic", "decisions_per_cpu_s", elastic, "decisions/s", "larger", ELASTIC_BUDGET),
        Measurement("sites", "times_one_site", sites_s / one_s, "x", "smaller", SITES_BUDGET),
    )
    return Findings(f"{source}; {jobs} elastic jobs on {SERVERS} servers", rows + tuple(slowed) + week)


def _cpu_s(work: Callable[[], object], repetitions: int) -> float:
    """Median CPU seconds of a function, after one execution that compiles."""
    seconds = []
    for _ in range(repetitions + 1):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds[1:])


def _elastic(world: World, repetitions: int) -> tuple[float, IntArray]:
    """Decisions of `OneWorkerEach` per CPU second of a run, and the jobs running at each of its instants."""
    policy = OneWorkerEach()
    results: list[RunResult] = []
    cpu_s = _cpu_s(lambda: results.append(run_world(world, policy)), repetitions)
    return policy.decisions / cpu_s, results[-1].timeline["running"].to_numpy()


def _crowded(jobs: int, crowd: Crowd, repetitions: int) -> list[Measurement]:
    """Decisions per CPU second among jobs that slow each other, and how many of these run at once."""
    rate, running = _elastic(crowded_world(jobs, crowd), repetitions)
    median = float(np.median(running))
    return [
        Measurement(crowd.case, "decisions_per_cpu_s", rate, "decisions/s", "larger", crowd.budget),
        Measurement(crowd.case, "median_running_jobs", median, "jobs", "larger", crowd.least_running),
    ]


def elastic_world(jobs: int) -> World:
    """World of elastic synthetic Philly jobs on six servers of eight GPUs."""
    return _world(jobs, 1.0, "optimus_nine_models", _servers(SERVERS, {"gpu": 8}))


def crowded_world(jobs: int, crowd: Crowd) -> World:
    """World of such jobs that slow each other, on servers that have cores too."""
    servers = _servers(crowd.servers, {"gpu": 8, "cpu": crowd.cores})
    slowing = replace(servers, interference=load_interference("harmony_types"))
    return _world(jobs * crowd.times_jobs, crowd.load_scale, "harmony_types", slowing)


def _world(jobs: int, load_scale: float, profile: str, servers: Cluster) -> World:
    drawn = synth("philly", jobs, seed=1, load_scale=load_scale)[0]
    frame, _ = enrich(drawn, load_training_draws(profile), seed=1)
    return build_world(frame_to_table(frame, servers.resources), servers, params={"truth": "placement"})


def _servers(count: int, offers: Mapping[str, int]) -> Cluster:
    """Equal servers that offer these GPUs and cores."""
    return Cluster(
        name=f"{count}-servers",
        server_names=tuple(f"s{i}" for i in range(count)),
        resources=tuple(offers),
        capacity=np.tile([1_000 * amount for amount in offers.values()], (count, 1)),
        speed=np.ones(count),
        vc=(None,) * count,
        kind=(ServerKind.PLAIN,) * count,
        gpu_type=(None,) * count,
    )


def _week(policy: str, workload: Path, step: Step) -> Measurement:
    """CPU seconds of the week with elastic jobs as a command, after a run that compiles what it needs."""
    command = ["run", "--workload", workload.name, "--cluster", CLUSTER, "--policy", policy, *_WEEK]
    step(f"ray-sim {' '.join(command)}")
    python("-m", "ray_sim.cli", *command, cwd=workload.parent)
    began = _children_s()
    python("-m", "ray_sim.cli", *command, cwd=workload.parent)
    budget_s = WEEK_BUDGETS_S[policy]
    return Measurement(f"week-{policy}", "cpu_s", _children_s() - began, "s", "smaller", budget_s)


def _children_s() -> float:
    """CPU seconds of child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system
