"""The rule that teaches: tasks of a job together, jobs apart."""

from __future__ import annotations

import numpy as np

from ray_sim.agents.features import ACTION_MASK
from ray_sim.learning.exploration import together_actions
from ray_sim.learning.observations import Observations


def test_a_task_goes_where_its_job_is_and_else_to_the_least_loaded_server() -> None:
    # Three servers, two rows of new jobs. Of row 0 the worker is next: role 0 of row 0.
    placement = np.zeros((4, 3, 4), dtype=np.float32)
    free = np.array([[[0.2], [0.9], [0.5]]] * 4, dtype=np.float32)
    mask = np.zeros((4, 2 * 2 * 3), dtype=np.int8)
    mask[:, 0:3] = 1
    placement[1, 0, 1] = 1.0  # its parameter server is on the fullest server
    placement[2, [0, 2], 0] = 1.0  # one worker each on servers 0 and 2: the less loaded of these
    placement[3, 0, 0] = 2.0
    mask[3, 0] = 0  # where its tasks are is no room
    seen: Observations = {"placement": placement, "free": free, ACTION_MASK: mask}
    assert together_actions(seen, np.ones((3, 1))).tolist() == [1, 0, 2, 1]
