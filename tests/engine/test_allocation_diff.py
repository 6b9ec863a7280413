"""Targets become changes of those jobs alone that hold something else."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.decision import Decision
from ray_sim.engine.migrations import allocation_changes
from ray_sim.engine.run import run_world
from ray_sim.engine.view import View
from ray_sim.kernels.core.job_rows import Rows
from tests.elastic_worlds import elastic_world
from tests.scripted import scripted
from tests.training import profile, rows

STAYS, GROWS, IS_PLACED_AGAIN, SHRINKS_TO_NOTHING = range(4)


def test_only_jobs_that_hold_something_else_change() -> None:
    """Four jobs start with a worker and a parameter server; of four targets three bring a change."""
    before = rows([(1, 1)], [(1, 1)], [(1, 1)], [(1, 1)])
    after = rows([(1, 1)], [(2, 1)], [(1, 1)], [])
    again = np.array([False, False, True, False])
    seen: list[tuple[list[int], list[int], list[int]]] = []

    def decide(view: View) -> Decision:
        jobs = np.union1d(view.waiting, view.running)
        if view.reviewed:
            changes = allocation_changes(view.placements, jobs, after, again)
            assert changes is not None
            seen.append((changes.job.tolist(), changes.ptr.tolist(), changes.tasks.tolist()))
            return Decision(changes=changes)
        changes = allocation_changes(view.placements, jobs, before) if len(jobs) == 4 else None
        assert allocation_changes(view.placements, jobs, _nothing(len(jobs))) is None
        return Decision(changes=changes, review_us=1_000_000)

    world = elastic_world([0] * 4, [profile()] * 4, [20], {"horizon_s": 2})
    run_world(world, scripted(decide, elastic=True))
    assert seen == [([GROWS, IS_PLACED_AGAIN, SHRINKS_TO_NOTHING], [0, 2, 4, 4], [2, 1, 1, 1])]


def _nothing(jobs: int) -> Rows:
    return rows(*[[]] * jobs)
