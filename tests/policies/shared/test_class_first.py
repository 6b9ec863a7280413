"""fifo and sjf with priority=true: a higher class first, in both loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop
from ray_sim.engine.world import World
from ray_sim.model.teams import JobClass
from tests.worlds import Job, cluster_of, job_table, replay, times_of

CLASSES = (JobClass("high", 5), JobClass("low", 2))


def one_gpu(*classes: JobClass) -> World:
    """J1 runs 0-4; J2 (priority 1), J3 (9), J4 (5), J5 (-3) and J6 (4) wait for its GPU, 1 to 5 s each."""
    jobs = [Job(0, 1, 4), Job(1, 1, 5), Job(2, 1, 4), Job(2, 1, 3), Job(2, 1, 2), Job(3, 1, 1)]
    table = job_table(jobs, columns={"priority": [0, 1, 9, 5, -3, 4]})
    return build_world(table, replace(cluster_of([1]), classes=classes))


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_the_class_goes_before_the_key(loop: Loop) -> None:
    # high: J3, J4 (9 and 5); low: J2, J5, J6 (1 and -3 are below all classes).
    def order(policy: str, *classes: JobClass, **params: Any) -> list[str]:
        result = replay(one_gpu(*classes), policy, loop=loop, **params)
        assert loop == "general" or result.loop == "compiled"
        start = {job: at for job, (at, _) in times_of(result).items()}
        return sorted(start, key=lambda job: start[job] or 0.0)

    assert order("fifo", *CLASSES) == ["J1", "J2", "J3", "J4", "J5", "J6"]
    assert order("fifo", *CLASSES, priority=True) == ["J1", "J3", "J4", "J2", "J5", "J6"]
    assert order("sjf", *CLASSES, priority=True) == ["J1", "J4", "J3", "J6", "J5", "J2"]
    assert order("fifo", priority=True) == ["J1", "J3", "J4", "J6", "J2", "J5"]  # each priority is a class
