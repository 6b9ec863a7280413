"""Jobs of a workload in slots."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.model.job import UtilityProfile
from ray_sim.model.utility import utility
from ray_sim.solvers.planning.slot_job import slot_job
from tests.solvers.planning.small import floats
from tests.training import profile


def test_times_and_utilities_of_a_job_are_counted_in_slots() -> None:
    # tau 0.1 s, gamma 1, F 100, 50 MB: a sample takes 0.1 + 1 / 100 x 2 x 8 x 50 / 100 = 0.18 s apart and
    # 0.108 s together; slots of 10 s. V = 2 x 1000; d_min = ceil(2000 x 0.0108 / 100) = 1.
    fading = UtilityProfile(floats(10), floats(0.1), floats(20))
    job = slot_job(0, 3, 6, 10.0, profile(), fading)
    assert job.theta_external == pytest.approx(0.018)
    assert job.theta_internal == pytest.approx(0.0108)
    assert (job.samples, job.most_workers, job.shortest) == (2000, 100, 1)
    assert job.utility == pytest.approx([10 / (1 + np.exp(-2)), 10 / (1 + np.exp(-1)), 5.0])


def test_a_utility_far_beyond_its_due_time_is_zero_and_no_warning() -> None:
    steep = UtilityProfile(floats(10), floats(6), floats(5))
    with np.errstate(all="raise", under="ignore"):
        worth = utility(steep, np.array(0), floats(0, 5, 1e6))
    assert worth == pytest.approx([10, 5, 0])
