"""A further step-time rule is one class: the engine, its policies and its certificates take it as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import KindParameter
from ray_sim.engine.kinds.elastic.jobs import ElasticJobs
from ray_sim.engine.kinds.elastic.rules import StepTimeInputs, StepTimeRule
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import WORKER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameters import Parameter
from ray_sim.model.progress_rule import NO_JOBS, PlacementRows, rows_of, tasks_of
from ray_sim.model.training_progress import SpeedProgress
from ray_sim.model.units import US_PER_S, FloatArray, IntArray
from ray_sim.policies.registry import create_policy
from ray_sim.reports.tables import summary_rows
from tests.elastic_worlds import elastic_world
from tests.training import profile
from tests.worlds import times_of


@dataclass(frozen=True, slots=True)
class LinearProgress:
    """Every worker trains the same number of samples per second, whatever else the job holds."""

    speed: FloatArray
    per_worker: float
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        return self.samples_per_s(jobs, rows_of(placements, jobs)) / US_PER_S

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        return np.multiply(self.per_worker, tasks_of(rows, WORKER), dtype=np.float64)

    def on_reference_servers(self, servers: int) -> LinearProgress:
        return replace(self, speed=np.ones(servers))

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        return NO_JOBS


class LinearRule(StepTimeRule):
    """The rule: one class, with a parameter of its own."""

    truth: ClassVar[str] = "linear"
    summary: ClassVar[str] = "elastic jobs train in proportion to their workers"
    parameters: ClassVar[tuple[KindParameter, ...]] = (
        KindParameter(
            Parameter("samples_per_worker_s", "float", 1.0, "samples of a worker per second", minimum=0.0),
            "is about linear jobs",
        ),
    )

    def progress(self, inputs: StepTimeInputs) -> SpeedProgress:
        per_worker = inputs.values["samples_per_worker_s"]
        assert isinstance(per_worker, float)
        return LinearProgress(inputs.speed, per_worker)


KINDS = (*JOB_KINDS, ElasticJobs(LinearRule()))


def linear(world: World, **params: object) -> World:
    """The same jobs and servers under the linear rule."""
    given = {"truth": "linear", **params}
    return build_world(world.table, world.cluster, params=given, kinds=KINDS)


TWO_JOBS = elastic_world([0, 0], [profile(), profile()], [4])
"""Two epochs of 1,000 samples each, one worker and one parameter server asked for."""


def test_jobs_train_by_the_new_rule() -> None:
    # 2,000 samples at 20 per second and worker.
    result = run_world(linear(TWO_JOBS, samples_per_worker_s=20), create_policy("fifo"))
    assert times_of(result) == {"J1": (0, 100), "J2": (0, 100)}


@pytest.mark.parametrize("name", ["drf", "tetris", "dorm", "optimus"])
def test_policies_for_elastic_jobs_take_it(name: str) -> None:
    params = {"remaining": "known"} if name == "optimus" else {}
    result = run_world(linear(TWO_JOBS, samples_per_worker_s=20, slot_s=10), create_policy(name, params))
    assert result.summary.completed == 2
    assert result.summary.utility_certificate is None  # it states no limits
    assert result.summary.certificate is None
    assert result.summary.no_certificate == "truth=linear states no limits of the speed of elastic jobs"
    text = ("no lower bound on mean JCT", result.summary.no_certificate)
    assert text in summary_rows(result.summary)


def test_its_parameter_is_refused_under_other_rules() -> None:
    with pytest.raises(InvalidScenarioError, match="is about linear jobs; set truth=linear"):
        linear(TWO_JOBS, truth="placement", samples_per_worker_s=20)
    with pytest.raises(InvalidScenarioError, match="nic: is about the places of elastic jobs"):
        linear(TWO_JOBS, nic="per_link")
