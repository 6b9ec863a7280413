"""Decisions of the bundled network of harmony."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from benchmarks.environment import harmony_servers
from benchmarks.figures import Figures
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.policies.harmony.policy import Harmony
from ray_sim.policy_api import Decision, View
from workloads.job_table import frame_to_table
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.training.draws import Uniform

NEW_JOBS, DECISION_BUDGET_MS = 5, 2.0
"""New jobs of a decision that is timed, and the largest median of its CPU milliseconds."""

SETS = 40
"""Sets of jobs, each of which has one or two such decisions."""

JOBS = 36
"""Jobs of a set: 3 in each interval, on average."""

_HORIZON_S, _SLOT_S = 14_400, 1200


class _Timed(Harmony):
    """Harmony that notes the CPU time of decisions for `NEW_JOBS` jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.decision_ms: list[float] = []
        self.tasks: list[int] = []

    def decide(self, view: View) -> Decision:
        began = time.process_time()
        decision = super().decide(view)
        took_ms = (time.process_time() - began) * 1000
        if len(view.waiting) == NEW_JOBS:
            self.decision_ms.append(took_ms)
            self.tasks.append(int(view.jobs.gang[view.waiting].sum()))
        return decision


def test_decisions(figures: Figures) -> None:
    worlds = harmony_worlds(4 if figures.small else SETS, seed=3)
    figures.input(f"bundled network, {JOBS} jobs on 6 servers, 3 new jobs in each interval")
    run_world(worlds[0], Harmony())  # compiles
    policies = [_Timed() for _ in worlds]
    figures.once_s(lambda: [run_world(*each) for each in zip(worlds, policies, strict=True)])
    decision_ms = [each for policy in policies for each in policy.decision_ms]
    tasks = [each for policy in policies for each in policy.tasks]
    case = f"new-jobs-{NEW_JOBS}"
    median_ms = statistics.median(decision_ms)
    figures.add(f"{case}.decision_cpu_ms", median_ms, "ms", "smaller", DECISION_BUDGET_MS)
    figures.add(f"{case}.slowest_cpu_ms", max(decision_ms), "ms", "smaller")
    figures.add(f"{case}.mean_tasks", statistics.mean(tasks), "tasks", "neither")


def harmony_worlds(sets: int, seed: int) -> list[World]:
    """Sets of jobs of the types of Harmony that run for minutes to hours, on its servers."""
    draws = load_training_draws("harmony_types")
    shorter = {
        "epochs": Uniform(2, 6, whole=True),
        "samples": Uniform(2_000, 50_000, whole=True),
        "num_workers": Uniform(1, 3, whole=True),
    }
    families = tuple(replace(each, columns={**each.columns, **shorter}) for each in draws.families)
    jobs = replace(draws, families=families)
    request = HorizonRequest(JOBS, horizon_s=_HORIZON_S, arrivals=ArrivalKind.POISSON)
    servers = replace(harmony_servers(), interference=load_interference("harmony_types"))
    params = {"truth": "placement", "slot_s": _SLOT_S, "overcommit": 2.0}
    return [
        build_world(
            frame_to_table(draw_jobs(jobs, request, seed * sets + i)[0], servers.resources),
            servers,
            params=params,
        )
        for i in range(sets)
    ]
