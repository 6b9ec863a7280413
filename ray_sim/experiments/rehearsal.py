"""Set-up of scenarios with a few of their jobs, so that errors of sweeps and plans appear before any run.

The rehearsal sets up the engine as for a run and does not start it, so it repeats no rule of the engine.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from ray_sim.engine.world import World
from ray_sim.experiments.prepare import start, world_of
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, SynthSpec, WorkloadSpec
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.announcements.profile import AnnouncementDraws
from workloads.job_table import frame_to_table
from workloads.layers.fill import EnrichmentLayer, enriched
from workloads.realisation import realise
from workloads.schema import SCHEMA, with_all_columns
from workloads.store import read_columns, read_frame, read_some
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.job_model import JobModel, fit
from workloads.synthetic.synth import DrawRequest, draw, profile_model
from workloads.training.profile import TrainingDraws

_JOBS = 8
"""Number of jobs that are drawn."""

_ANY_PROFILE = "philly"
"""Profile of jobs that are like those of a file."""

_MODEL = {"model": SCHEMA["model"]}


class Rehearsal:
    """Set-up of scenarios with a cache of the jobs that several of them share."""

    def __init__(self, inputs: HashedInputs) -> None:
        self._inputs = inputs
        self._jobs: dict[WorkloadSpec, pl.DataFrame] = {}

    def world(self, scenario: Scenario) -> World:
        """The world of a scenario with a few jobs of its workload."""
        if scenario.workload not in self._jobs:
            self._jobs[scenario.workload] = self._some_jobs(scenario.workload, scenario.seed)
        try:
            return self._world(scenario, self._jobs[scenario.workload])
        except InvalidInputError:
            if (jobs := self._all_jobs(scenario)) is not None:
                self._world(scenario, jobs)
            raise

    def set_up(self, scenario: Scenario, world: World | None = None) -> None:
        """Raise the error that the engine or the policy would raise at the start of the run.

        Raises
        ------
        InvalidInputError : the policy does not go with this kind of job or this world
        RunFailedError : the policy fails to start
        """
        world = world or self.world(scenario)
        try:
            start(scenario, world)
        except InvalidInputError:
            if (jobs := self._all_jobs(scenario)) is not None:
                start(scenario, self._world(scenario, jobs))
            raise

    def _world(self, scenario: Scenario, jobs: pl.DataFrame) -> World:
        cluster = self._inputs.servers(scenario.cluster, scenario.world)
        return world_of(scenario, frame_to_table(jobs, cluster.resources), cluster)

    def _all_jobs(self, scenario: Scenario) -> pl.DataFrame | None:
        """All jobs of a file that is replayed as it is, for an error that counts them; else None."""
        spec = scenario.workload
        if spec.path is None or not spec.keeps_all or self._inputs.layers(spec):
            return None
        return read_frame(spec.path)

    def _some_jobs(self, spec: WorkloadSpec, seed: int) -> pl.DataFrame:
        if spec.synth is not None:
            jobs = self._drawn(spec, spec.synth, seed)
        else:
            assert spec.path is not None, "a workload without `synth` has a `path`"
            jobs = read_some(spec.path, gaps=spec.keeps_all)
        layers = [EnrichmentLayer(each.draws) for each in self._inputs.layers(spec)]  # keeps infeasible jobs
        jobs, _ = enriched(jobs, layers, seed)
        return _with_models(jobs, self._models(spec))

    def _models(self, spec: WorkloadSpec) -> list[str]:
        """Models that jobs of a workload can have; none where they have none."""
        drawn = [self._inputs.whole_draws(spec), *(layer.draws for layer in self._inputs.layers(spec))]
        training = [each for each in drawn if isinstance(each, TrainingDraws)]
        if names := [family.name for each in training for family in each.families if family.name is not None]:
            return names
        if spec.path is None:
            return []
        jobs = read_columns(spec.path, ("model", "status", "submit_s"))
        if "model" not in jobs.columns:
            return []
        try:
            kept, _ = realise(with_all_columns(jobs), replace(spec.realisation, resample=None), seed=0)
        except InvalidInputError as error:
            raise InvalidWorkloadError(f"{spec.path}: {error}") from error
        return kept["model"].drop_nulls().unique().sort().to_list()

    def _drawn(self, spec: WorkloadSpec, synth: SynthSpec, seed: int) -> pl.DataFrame:
        jobs = min(synth.jobs, _JOBS)
        if synth.training is None:  # arrivals and the imitated workload change no column
            return draw(self._model(spec, synth), DrawRequest(jobs=jobs), seed)
        request = synth.model_copy(update={"jobs": jobs, "feasible_only": False}).request
        assert isinstance(request, HorizonRequest), "jobs of a training profile are drawn within a horizon"
        draws = self._inputs.whole_draws(spec)
        assert draws is not None, "whole jobs are drawn from a training profile"
        return draw_jobs(draws, request, seed)[0]

    def _model(self, spec: WorkloadSpec, synth: SynthSpec) -> JobModel:
        """Model of the jobs; announced ones are like the file's, since bounds hold for their sizes."""
        announced = any(isinstance(layer.draws, AnnouncementDraws) for layer in self._inputs.layers(spec))
        if synth.like is not None and announced:
            return fit(read_frame(synth.like))
        return profile_model(synth.profile or _ANY_PROFILE)


def _with_models(jobs: pl.DataFrame, models: list[str]) -> pl.DataFrame:
    """The jobs of these models, and a copy of the first job for each model that they lack."""
    if not models:
        return jobs
    model = pl.col("model")
    kept = jobs.filter(model.is_null() | model.is_in(models))
    others = pl.DataFrame({"model": [name for name in models if name not in set(kept["model"])]}, _MODEL)
    copies = jobs.head(1).drop("model").join(others, how="cross")
    named = copies.with_columns(job_id=pl.format("{}-{}", "job_id", "model"))
    return pl.concat([kept, named.select(jobs.columns)])
