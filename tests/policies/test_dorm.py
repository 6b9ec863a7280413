"""dorm, worked out by hand. Every worker and parameter server of `tests.training.profile` takes one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.run import run_world
from ray_sim.model.job import TrainingProfile
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.training import profile

NOTHING = {"theta1_raised": 0, "theta2_raised": 0, "left_out": 0, "node_limit": 0, "kept": 0}


def dorm(
    jobs: Sequence[TrainingProfile], gpus: Sequence[float], submit_s: Sequence[float], **params: object
) -> RunResult:
    world = elastic_world(submit_s, jobs, gpus, {"restart_cost_s": 10})
    return run_world(world, create_policy("dorm", params))


def workers(result: RunResult, job: str, time_s: float) -> int:
    """Workers that a job is given at this second, 0 if nothing changes."""
    rows = result.events.filter(job_id=job, time_s=time_s, role="worker")
    return int(rows["count"].sum())


def test_the_job_that_runs_makes_room_for_the_new_one_and_pays_a_restart() -> None:
    """Bundles of two of eight GPUs, shares of 1/4: fair are 2 and 2, and 3 and 1 would lose 1/2 of 0.2."""
    result = dorm([profile(), profile()], [8], [0, 30])
    assert workers(result, "J1", 0) == 4
    assert (workers(result, "J1", 30), workers(result, "J2", 30)) == (2, 2)
    assert result.jobs["restarts"][0] >= 1
    assert result.summary.policy_counts == NOTHING


def test_on_slots_a_job_waits_for_the_next_one() -> None:
    """The second comes at 30 s, within the slot of 100 s, and both get two bundles at its end."""
    world = elastic_world([0, 30], [profile(epochs=4), profile(epochs=20)], [8], {"slot_s": 100})
    result = run_world(world, create_policy("dorm", {"when": "slot"}))
    assert result.jobs["start_s"].to_list() == [0, 100]
    assert (workers(result, "J1", 100), workers(result, "J2", 100)) == (2, 2)
    # 40 steps: 30.3 of 10 / 4 + 0.8 s by 100 s, the others of 10 / 2 + 0.8 s by 156 s; then the second grows.
    assert result.jobs["finish_s"][0] == pytest.approx(100 + (40 - 100 / 3.3) * 5.8, abs=1e-5)
    assert workers(result, "J2", 200) == 4


def test_bounds_that_cannot_be_met_are_raised_and_counted() -> None:
    """No change allowed: the first keeps all, the second must have one; so both bounds go, one by one."""
    result = dorm([profile(), profile(epochs=40)], [8], [0, 30], theta2=0)
    assert workers(result, "J1", 30) + workers(result, "J2", 30) == 4
    counts = result.summary.policy_counts
    assert counts is not None
    assert counts["theta2_raised"] == 1
    # When the first ends the other may not grow, and is 3/4 from the fair share, of which 0.2 is allowed.
    assert counts["theta1_raised"] == 1


def test_within_the_bound_on_changes_the_others_stay() -> None:
    """Three jobs on nine pairs of GPUs; the fourth takes from one of them, as 0.1 x 3 is rounded up to 1."""
    jobs = [profile(epochs=20)] * 4
    result = dorm(jobs, [18], [0, 0, 0, 30], theta1=1)
    changed = [job for job in ("J1", "J2", "J3") if workers(result, job, 30)]
    assert len(changed) == 1
    assert workers(result, "J4", 30) >= 1


def test_the_newest_waits_where_not_all_can_have_a_bundle() -> None:
    result = dorm([profile(), profile(), profile()], [2, 2], [0, 0, 30])
    assert (workers(result, "J1", 0), workers(result, "J2", 0)) == (1, 1)
    assert result.jobs["start_s"][2] == 216
    # At 30 s, and not when the two end at once.
    assert result.summary.policy_counts == NOTHING | {"left_out": 1}


def sized(*gpus: int) -> list[TrainingProfile]:
    """Jobs whose bundle takes so many GPUs."""
    return [replace(profile(), worker_demand=np.array([[1000 * n - 1000]])) for n in gpus]


def test_whoever_may_not_fit_at_the_node_limit_waits() -> None:
    """Ten jobs of 414 GPUs in all do not go on four servers of 105, which takes long to find out."""
    jobs = sized(50, 58, 21, 25, 52, 57, 29, 32, 54, 36)
    params: dict[str, object] = {"theta1": 1, "theta2": 1, "cap": "asked", "node_limit": 1}
    result = dorm(jobs, [105] * 4, [0] * 9 + [30], **params)
    assert result.jobs["start_s"].to_list() == [0] * 9 + [216]
    assert result.summary.policy_counts == NOTHING | {"left_out": 1}


@pytest.mark.slow
def test_at_the_node_limit_without_an_answer_nothing_changes() -> None:
    """All five fit, but one node does not tell how within so small a loss of fairness."""
    params: dict[str, object] = {"theta1": 0.01, "theta2": 1, "gap": 0, "node_limit": 1}
    result = dorm(sized(26, 17, 32, 25, 50), [83] * 4, [0] * 4 + [30], **params)
    assert result.summary.policy_counts is not None
    assert result.summary.policy_counts["kept"] == 1
    assert set(result.events.filter(time_s=30)["event"]) == {"submit"}
    assert result.jobs["start_s"][4] > 30


def test_what_no_server_holds_is_rejected_by_name() -> None:
    assert dorm([profile()], [1], [0]).summary.reasons == {"never_fits": 1}
    assert dorm([profile()], [1, 1], [0]).summary.reasons == {"bundle_never_fits": 1}
