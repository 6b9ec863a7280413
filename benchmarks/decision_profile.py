"""Where the time of a decision goes in the general loop: ``python -m benchmarks.decision_profile``.

Shares are of the time under Python's profiler, which counts calls of Python functions dear and compiled code
cheap: they say where to look, not how long a run takes (`ray-sim bench loop`).
"""

from __future__ import annotations

import cProfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.loop import ELASTIC_JOBS, elastic_world
from benchmarks.own_policy import OneWorkerEach, ShortestFirst
from benchmarks.week import CLUSTER, philly_week
from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from workloads.store import load_workload

PHASES = {
    "advance to the next decision": ("simulation.py", "advance"),
    "what happens at an instant": ("simulation.py", "_happen"),
    "the time of the next instant": ("simulation.py", "_next_instant"),
    "the line of the timeline": ("simulation.py", "_close_instant"),
    "the policy's decide": ("own_policy.py", "decide"),
    "apply the decision": ("simulation.py", "apply"),
    "check it": ("validation.py", "check_decision"),
    "place the jobs": ("run.py", "_place"),
}
"""Functions by what they do; indented ones in the output are parts of the one before."""

PARTS = {"what happens at an instant", "the time of the next instant", "the line of the timeline"} | {
    "check it",
    "place the jobs",
}


def shares(world: World, new_policy: Callable[[], Policy]) -> dict[str, float]:
    """Share of each of `PHASES` in the time of a run in the general loop, once all is compiled."""
    run_world(world, new_policy(), loop="general")
    profile, policy = cProfile.Profile(), new_policy()
    profile.enable()
    run_world(world, policy, loop="general")
    profile.disable()
    spent: dict[tuple[str, str], float] = {}
    whole = 0.0
    for entry in profile.getstats():
        if isinstance(entry.code, str):
            continue
        key = Path(entry.code.co_filename).name, entry.code.co_name
        spent[key] = max(spent.get(key, 0.0), entry.totaltime)
        whole = max(whole, entry.totaltime)
    return {name: spent.get(key, 0.0) / whole for name, key in PHASES.items()}


def main() -> None:
    """Print the shares for a queue policy in the Philly week and for elastic jobs on six servers."""
    with tempfile.TemporaryDirectory(prefix="ray_sim-profile-") as folder:
        workload, source = philly_week(Path(folder))
        week = build_world(load_workload(workload), load_cluster(CLUSTER))
        queue = shares(week, ShortestFirst)
    elastic = shares(elastic_world(ELASTIC_JOBS), OneWorkerEach)
    print(f"queue policy: {source}; elastic: {ELASTIC_JOBS} jobs on six servers")
    for name in PHASES:
        label = ("  " if name in PARTS else "") + name
        print(f"{label:<32}{queue[name]:>8.0%}{elastic[name]:>8.0%}")


if __name__ == "__main__":
    main()
