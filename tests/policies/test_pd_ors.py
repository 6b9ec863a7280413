"""PD-ORS in the engine: worked examples, and what plans become when the world differs."""

from __future__ import annotations

import polars as pl
import pytest

from ray_sim.engine.run import run_world
from ray_sim.policies.registry import create_policy
from tests.policies.utility_worlds import SLOT_S, example_1_a


def test_example_1_a_runs_as_worked_out() -> None:
    # A holds 2 workers and 2 parameter servers in slot 0, B in slot 1; for C nothing is left.
    result = run_world(example_1_a(), create_policy("pd_ors"))
    jobs = result.jobs
    assert jobs["status"].to_list() == ["completed", "completed", "rejected"]
    assert jobs["reason"].to_list() == [None, None, "infeasible"]
    assert jobs["start_s"].to_list()[:2] == [0, SLOT_S]
    assert jobs["finish_s"].to_list()[:2] == [SLOT_S, 2 * SLOT_S]
    assert jobs["utility"].to_list() == pytest.approx([5, 3, 0])
    starts = result.events.filter(pl.col("event") == "start").select("job_id", "role", "count")
    assert starts.rows() == [("J1", "worker", 2), ("J1", "ps", 2), ("J2", "worker", 2), ("J2", "ps", 2)]
    assert result.summary.policy_counts == {"admitted": 2, "refused_infeasible": 1, "unsolved_slots": 0}
