"""Jobs in the engine that progress by what their workers and parameter servers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER, WorldArrays
from ray_sim.model.job import TrainingProfile
from ray_sim.model.progress_rule import ProgressRule
from ray_sim.model.training_progress import pd_ors_progress, placement_progress
from ray_sim.model.units import US_PER_S, FloatArray
from tests.scripted import EVENTS, at_times, scripted
from tests.toys import PartialFacts
from tests.training import profile, together
from tests.worlds import Job, replay, times_of, world_of

J1, J2 = 0, 1
SAMPLES = 1000
"""Of each job; work is counted in samples."""


def with_two_roles(arrays: WorldArrays) -> WorldArrays:
    """Parameter servers demand what workers do."""
    return arrays._replace(demand=np.repeat(arrays.demand, 2, axis=1))


@pytest.mark.parametrize(
    ("make", "packed_s", "split_s"),
    [
        # The first 30 s on one server: 30 x 100 / 6.6 = 454.545 samples, the other 545.455 apart at 100 / 21.
        (placement_progress, 66.0, 30 + (1000 - 30 * 100 / 6.6) * 21 / 100),
        # gamma = 2: theta = 0.116 s on one server, 0.26 s apart, two workers.
        (pd_ors_progress, 58.0, 30 + (1000 - 30 * 2 / 0.116) * 0.26 / 2),
    ],
)
def test_a_job_is_rated_anew_when_its_placement_changes(
    make: Callable[[TrainingProfile, FloatArray], ProgressRule], packed_s: float, split_s: float
) -> None:
    job = profile(workers_per_ps=2)
    both = together(job, job)
    script = {
        0.0: Decision.of({job: [(job, WORKER, 2), (job, PARAMETER_SERVER, 1)] for job in (J1, J2)}),
        30.0: Decision.of({J2: [(1, WORKER, 2), (2, PARAMETER_SERVER, 1)]}),
    }
    work_s = SAMPLES / US_PER_S
    world = world_of([Job(0, 1, work_s), Job(0, 1, work_s)], [8, 8, 8])
    truth = make(both, np.ones(3))
    gangs = world.facts
    facts = PartialFacts(with_two_roles(gangs.arrays), gangs.beyond_capacity, 16, gangs.resources, truth)
    world = replace(world, facts=facts)
    result = replay(world, scripted(at_times(script), wake=EVENTS | Wake.REVIEW))
    ends = {name: end for name, (_, end) in times_of(result).items()}
    assert ends == pytest.approx({"J1": packed_s, "J2": split_s}, abs=1e-5)
