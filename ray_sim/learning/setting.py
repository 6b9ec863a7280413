"""What a training runs on, from its plan: job sets, servers, networks' sizes."""

from __future__ import annotations

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.environments.episodes import scenario_episodes
from ray_sim.learning.collection import Collection
from ray_sim.learning.lanes import Lane, capacity_shares
from ray_sim.learning.trainer import Setting
from ray_sim.learning.training_plan import TrainingPlan
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.harmony.architecture import Architecture, Form


def setting_of(plan: TrainingPlan) -> Setting:
    """Draw the job sets of a plan.

    Raises
    ------
    InvalidInputError : a part of its scenario is not possible
    InvalidScenarioError : jobs cannot be placed at slot boundaries, or none of a set can be placed at all
    """
    episodes = scenario_episodes(plan.scenario, plan.jobs.seeds)
    validation = scenario_episodes(plan.scenario, plan.validation.seeds.seeds)
    every, learning, world = [*episodes, *validation], plan.learning, episodes[0].world
    if not isinstance(world.facts, ElasticFacts):
        raise InvalidScenarioError(
            f"world: jobs of truth={world.params.get('truth', 'rigid')} have no models to learn; set "
            "truth=placement"
        )
    names = (ElasticFacts.in_world(each.world).profile.model_names for each in every)
    models = plan.models or sorted(set().union(*names))
    lane = Lane(every, models, learning.most_jobs, learning.most_new)
    for _ in every:
        lane.play()  # refuses job sets that cannot be placed
    cluster = world.cluster
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
    assert world.slot_us is not None, "the lane needs slots"
    collection = Collection(
        seed=plan.seed,
        episodes=episodes,
        models=tuple(models),
        architecture=architecture,
        capacity=capacity_shares(world),
        lanes=plan.collecting.lanes,
        steps=plan.collecting.steps,
        lanes_per_set=plan.collecting.lanes_per_set,
        exploration=learning.exploration,
    )
    return Setting(plan, collection, validation, world.slot_us)
