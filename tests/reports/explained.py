"""Explanations of all jobs of a run in memory."""

from __future__ import annotations

from ray_sim.engine.world import World
from ray_sim.experiments.explain import facts_of
from ray_sim.model.result import RunResult
from ray_sim.reports.history.explanation import Explanation, RunExplainer


def explain_all(world: World, result: RunResult, **declared: object) -> list[Explanation]:
    """Explain every job, with the declared parameters of the policy."""
    explainer = RunExplainer(facts_of(world, declared), result.jobs, result.events)
    return [explainer.explain(job) for job in range(len(world.table))]
