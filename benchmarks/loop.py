"""The general loop, in which policies written in Python run: decisions and jobs per CPU second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.figures import Figures
from benchmarks.own_policy import Idle, OneWorkerEach, ShortestFirst, ShortestPriority
from benchmarks.processes import cpu_s_of_command
from benchmarks.week import CLUSTER, equal_servers, philly_week
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from workloads.job_table import frame_to_table
from workloads.store import load_workload
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich

OWN_BUDGET, PRIORITY_BUDGET = 4_000, 200_000
"""Least jobs per CPU second of a queue policy in Python, and of a priority, which takes the compiled loop."""

ELASTIC_BUDGET = 4_000
"""Least decisions per CPU second, elastic jobs on six servers."""

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


@pytest.fixture
def week(tmp_path: Path, figures: Figures) -> World:
    """The week on one pool of GPUs."""
    workload, source = philly_week(tmp_path, figures.small)
    figures.input(source)
    return build_world(load_workload(workload), load_cluster(CLUSTER))


def test_a_policy_that_changes_nothing(week: World, figures: Figures) -> None:
    policy = Idle()
    cpu_s = figures.median_s(lambda: run_world(week, policy), 3)
    figures.add("idle.decisions_per_cpu_s", policy.decisions / cpu_s, "decisions/s", "larger")


def test_a_queue_policy_of_twenty_lines(week: World, figures: Figures) -> None:
    cpu_s = figures.median_s(lambda: run_world(week, ShortestFirst(), loop="general"), 3)
    figures.add("own.jobs_per_cpu_s", len(week.table) / cpu_s, "jobs/s", "larger", OWN_BUDGET)


def test_queues_by_a_history(week: World, tmp_path: Path, figures: Figures) -> None:
    policy = create_policy("gittins", {"placement": "pooled", "history": str(tmp_path / "week.parquet")})
    cpu_s = figures.median_s(lambda: run_world(week, policy), 1)
    figures.add("gittins.jobs_per_cpu_s", len(week.table) / cpu_s, "jobs/s", "larger")


def test_a_priority(week: World, figures: Figures) -> None:
    cpu_s = figures.median_s(lambda: run_world(week, ShortestPriority()), 3)
    figures.add("priority.jobs_per_cpu_s", len(week.table) / cpu_s, "jobs/s", "larger", PRIORITY_BUDGET)


def test_elastic_jobs(figures: Figures) -> None:
    _measure_elastic(elastic_world(_jobs(figures)), "elastic", ELASTIC_BUDGET, figures)


@pytest.mark.parametrize("crowd", CROWDS, ids=lambda crowd: crowd.case)
def test_jobs_that_slow_each_other(crowd: Crowd, figures: Figures) -> None:
    result = _measure_elastic(crowded_world(_jobs(figures), crowd), crowd.case, crowd.budget, figures)
    running = float(np.median(result.timeline["running"].to_numpy()))
    figures.add(f"{crowd.case}.median_running_jobs", running, "jobs", "larger", crowd.least_running)


@pytest.mark.parametrize("policy", WEEK_BUDGETS_S)
def test_the_week_with_elastic_jobs(policy: str, tmp_path: Path, figures: Figures) -> None:
    workload, source = philly_week(tmp_path, figures.small)
    figures.input(source)
    command = ["run", "--workload", workload.name, "--cluster", CLUSTER, "--policy", policy, *_WEEK]
    cpu_s_of_command(*command, cwd=tmp_path)  # compiles
    cpu_s: list[float] = []
    figures.once_s(lambda: cpu_s.append(cpu_s_of_command(*command, cwd=tmp_path)))
    figures.add(f"week-{policy}.cpu_s", cpu_s[0], "s", "smaller", WEEK_BUDGETS_S[policy])


def _jobs(figures: Figures) -> int:
    """Jobs on six servers."""
    return 20 if figures.small else ELASTIC_JOBS


def _measure_elastic(world: World, case: str, budget: int, figures: Figures) -> RunResult:
    """Measure decisions of `OneWorkerEach`; returns a result of its runs."""
    figures.input(f"{len(world.table)} elastic jobs on {len(world.cluster.server_names)} servers")
    policy, results = OneWorkerEach(), list[RunResult]()
    cpu_s = figures.median_s(lambda: results.append(run_world(world, policy)), 3)
    figures.add(f"{case}.decisions_per_cpu_s", policy.decisions / cpu_s, "decisions/s", "larger", budget)
    return results[-1]


def elastic_world(jobs: int) -> World:
    """World of elastic synthetic Philly jobs on six servers of eight GPUs."""
    return _world(jobs, 1.0, "optimus_nine_models", equal_servers([ServerKind.PLAIN] * SERVERS, {"gpu": 8}))


def crowded_world(jobs: int, crowd: Crowd) -> World:
    """World of such jobs that slow each other, on servers that have cores too."""
    servers = equal_servers([ServerKind.PLAIN] * crowd.servers, {"gpu": 8, "cpu": crowd.cores})
    slowing = replace(servers, interference=load_interference("harmony_types"))
    return _world(jobs * crowd.times_jobs, crowd.load_scale, "harmony_types", slowing)


def _world(jobs: int, load_scale: float, profile: str, servers: Cluster) -> World:
    drawn = synth("philly", jobs, seed=1, load_scale=load_scale)[0]
    frame, _ = enrich(drawn, load_training_draws(profile), seed=1)
    return build_world(frame_to_table(frame, servers.resources), servers, params={"truth": "placement"})
