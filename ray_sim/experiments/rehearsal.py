"""Scenarios set up with a few of their jobs, so that what the engine refuses is refused before anything runs.

Nothing is repeated here of what the engine asks of a policy, a kind of job and a world: the engine is set up,
as for a run, and not let run.
"""

from __future__ import annotations

import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.general import GeneralRun
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.world import World
from ray_sim.experiments.availability_file import split_world
from ray_sim.experiments.content import Inputs
from ray_sim.experiments.scenario import Scenario, SynthSpec, WorkloadSpec
from ray_sim.policies.registry import create_policy
from workloads.store import frame_to_table, read_some
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.synth import Request, draw, profile_model
from workloads.training.enrich import enrich

_JOBS = 8
"""Jobs that are drawn."""

_ANY_PROFILE = "philly"
"""Synthetic jobs have the same columns, whatever they are like."""


class Rehearsal:
    """Sets scenarios up, and keeps the jobs that several of them share."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._jobs: dict[WorkloadSpec, pl.DataFrame] = {}

    def world(self, scenario: Scenario) -> World:
        """The world of a scenario with a few jobs of its workload.

        Raises
        ------
        InvalidInputError : such a world cannot be, whatever the policy
        """
        cluster = self._inputs.servers(scenario.cluster, scenario.world)
        if scenario.workload not in self._jobs:
            self._jobs[scenario.workload] = self._some_jobs(scenario.workload, scenario.seed)
        table = frame_to_table(self._jobs[scenario.workload], cluster.resources)
        params, _ = split_world(scenario.world)
        return build_world(table, cluster, partition=scenario.partition, params=params)

    def set_up(self, scenario: Scenario, world: World | None = None) -> None:
        """Raise what the engine or the policy would refuse at the start of the run.

        Parameters
        ----------
        world : of the scenario, if it is at hand

        Raises
        ------
        InvalidInputError : the policy does not go with this kind of job or this world
        RunFailedError : the policy fails to start
        """
        world = world or self.world(scenario)
        policy = create_policy(scenario.policy, scenario.params)
        GeneralRun(world, policy, seed=scenario.seed, fleet=LocalFleet(world, scenario.sites))

    def _some_jobs(self, spec: WorkloadSpec, seed: int) -> pl.DataFrame:
        if spec.synth is not None:
            jobs = self._drawn(spec.synth, seed)
        else:
            assert spec.path is not None, "a workload without `synth` has a `path`"
            jobs = read_some(spec.path, gaps=spec.realisation.keeps_all)
        if spec.enrich is not None:
            jobs, _ = enrich(jobs, self._inputs.training_draws(spec.enrich.profile), seed)
        return jobs

    def _drawn(self, spec: SynthSpec, seed: int) -> pl.DataFrame:
        jobs = min(spec.jobs, _JOBS)
        if spec.training is None:  # when they come, and like whom they are, changes no column
            return draw(profile_model(_ANY_PROFILE), Request(jobs=jobs), seed)
        request = spec.model_copy(update={"jobs": jobs, "feasible_only": False}).request
        assert isinstance(request, HorizonRequest), "jobs of a training profile are drawn within a horizon"
        return draw_jobs(self._inputs.training_draws(spec.training), request, seed)[0]
