"""What a view tells of the past of jobs."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.decision import Decision
from ray_sim.engine.view import View
from ray_sim.model.units import NEVER_US
from tests.scripted import at_times, scripted
from tests.worlds import Job, replay, world_of

HERE = [(0, 0, 1)]


def test_the_last_start_and_the_time_waited_in_a_run_with_a_suspension() -> None:
    # One GPU. J1 runs from 0 s to 4 s and from 7 s on; J2, submitted at 2 s, from 4 s to 7 s.
    script = at_times(
        {
            0.0: Decision.of({0: HERE}),
            4.0: Decision.of({0: [], 1: HERE}),
            7.0: Decision.of({0: HERE}),
            9.0: Decision(),
        }
    )
    told: dict[int, tuple[list[int], list[int]]] = {}

    def decide(view: View) -> Decision:
        jobs = np.arange(view.arrivals)
        jobs = jobs[np.isin(jobs, np.concatenate([view.waiting, view.running]))]
        times = view.last_start_us(jobs), view.waited_us(jobs)
        told[view.now_us // 10**6] = times[0].tolist(), (times[1] // 10**6).tolist()
        return script(view)

    replay(world_of([Job(0, 1, 10), Job(2, 1, 3)], [1]), scripted(decide))
    assert told == {
        0: ([NEVER_US], [0]),
        2: ([0, NEVER_US], [0, 0]),
        4: ([0, NEVER_US], [0, 2]),
        7: ([0], [3]),
        9: ([7 * 10**6], [3]),
        13: ([], []),
    }
