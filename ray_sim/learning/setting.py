"""What a training runs on, from its plan: job sets, servers, networks' sizes."""

from __future__ import annotations

from ray_sim.engine.world import World
from ray_sim.environments.episodes import scenario_episodes
from ray_sim.learning.collection import Collection
from ray_sim.learning.model_world import job_sets, model_columns
from ray_sim.learning.trainer import Setting
from ray_sim.learning.training_plan import TrainingPlan
from ray_sim.policies.harmony.architecture import Architecture, Form


def setting_of(plan: TrainingPlan) -> Setting:
    """Draw the job sets of a plan.

    Raises
    ------
    InvalidInputError : a part of its scenario is not possible
    InvalidScenarioError : batches of episodes do not know its world
    """
    worlds = _worlds(plan, plan.jobs.seeds)
    validation = _worlds(plan, plan.validation.seeds.seeds)
    models = model_columns([*worlds, *validation]) if plan.models is None else tuple(plan.models)
    sets = job_sets([*worlds, *validation], models)  # refuses what a batch does not know
    cluster, learning = worlds[0].cluster, plan.learning
    architecture = Architecture(
        form=learning.form,
        types=len(models),
        resources=len(cluster.resources),
        servers=len(cluster) if learning.form is Form.DENSE else 0,
        most_jobs=learning.most_jobs,
        most_new=learning.most_new,
        block=learning.block,
        hidden=learning.hidden_widths,
    )
    slot_us = worlds[0].slot_us
    assert slot_us is not None, "job_sets has checked it"
    collection = Collection(
        seed=plan.seed,
        worlds=worlds,
        models=models,
        architecture=architecture,
        capacity=sets.capacity * sets.unit,
        lanes=plan.collecting.lanes,
        steps=plan.collecting.steps,
        lanes_per_set=plan.collecting.lanes_per_set,
        exploration=learning.exploration,
    )
    return Setting(plan, collection, validation, slot_us)


def _worlds(plan: TrainingPlan, seeds: range) -> list[World]:
    return [episode.world for episode in scenario_episodes(plan.scenario, seeds)]
