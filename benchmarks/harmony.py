"""Benchmark of decisions of the bundled network of harmony."""

from __future__ import annotations

import statistics
import time

from benchmarks.harmony_worlds import JOBS, harmony_worlds
from benchmarks.measurement import Findings, Measurement, Step
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.policies.harmony.policy import Harmony
from ray_sim.policy_api import Decision, View

NEW_JOBS, DECISION_BUDGET_MS = 5, 2.0
"""New jobs of a decision that is timed, and the largest median of its CPU milliseconds."""

SETS = 40


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


def run(step: Step = lambda what: None, sets: int = SETS) -> Findings:
    """Measure decisions for five new jobs in CPU milliseconds, after a run that compiles.

    Parameters
    ----------
    sets : sets of jobs, each of which has one or two such decisions
    """
    step(f"runs of {sets} sets of jobs")
    worlds = harmony_worlds(sets, seed=3)
    run_world(worlds[0], Harmony())
    timed = [_timed(world) for world in worlds]
    decision_ms = [each for policy in timed for each in policy.decision_ms]
    tasks = [each for policy in timed for each in policy.tasks]
    case = f"new-jobs-{NEW_JOBS}"
    rows = (
        Measurement(
            case, "decision_cpu_ms", statistics.median(decision_ms), "ms", "smaller", DECISION_BUDGET_MS
        ),
        Measurement(case, "slowest_cpu_ms", max(decision_ms), "ms", "smaller"),
        Measurement(case, "mean_tasks", statistics.mean(tasks), "tasks", "neither"),
        Measurement(case, "decisions", len(decision_ms), "decisions", "neither"),
    )
    return Findings(f"bundled network, {JOBS} jobs on 6 servers, 3 new jobs in each interval", rows)


def _timed(world: World) -> _Timed:
    policy = _Timed()
    run_world(world, policy)
    return policy
