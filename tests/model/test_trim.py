"""Which jobs a trimmed summary is over, and over what time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.contract.rigid_worlds import Job, busy_world, cluster, edge_cases, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.distribution import distribution
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy, policy_classes

POLICIES = [name for name, policy in policy_classes().items() if policy.schedules == GANGS]


def _fifo(world: World, trim: Trim | None = None) -> RunResult:
    return run_world(world, create_policy("fifo"), trim=trim)


def _one_gpu(origin_s: float = 0.0, params: Mapping[str, object] | None = None) -> World:
    """Served in order: a 0-10, b 10-20, c 20-30, d 30-35, nothing, e 40-45. JCT 10, 15, 20, 15, 5."""
    jobs: list[Job] = [(0, 1, 10, "x"), (5, 1, 10, "x"), (10, 1, 10, "x"), (20, 1, 5, "x"), (40, 1, 5, "x")]
    table = job_table([(origin_s + job[0], *job[1:]) for job in jobs])
    return build_world(table, cluster([1], ["x"]), params=params)


def test_the_summary_is_over_jobs_submitted_after_the_warm_up_and_before_the_cool_down() -> None:
    # Submissions 0 .. 40: from 5 to 20 come b, c and d. JCT 15, 20, 15, queueing delays 5, 10, 10.
    found = _fifo(_one_gpu(), Trim(warm_up_s=5, cool_down_s=20)).summary
    assert (found.jobs, found.completed, found.trimmed_jobs) == (3, 3, 2)
    assert found.jct_s.mean == pytest.approx((15 + 20 + 15) / 3)
    assert found.jct_s.median == 15
    assert found.queue_s.mean == pytest.approx((5 + 10 + 10) / 3)
    # Last completion, d's at 35, minus first submission, b's at 5.
    assert found.makespan_s == 30
    # Progress rates 10/15, 10/20, 5/15 = 2/3, 1/2, 1/3: (3/2)^2 / (3 (4/9 + 1/4 + 1/9)).
    assert found.jain_index == pytest.approx((9 / 4) / (3 * (16 + 9 + 4) / 36))


def test_utilisation_is_over_the_window_of_submissions() -> None:
    # From 5 to 40 the GPU is busy but for 35 .. 40; in the whole run, 0 .. 45, busy 40.
    assert _fifo(_one_gpu(), Trim(warm_up_s=5)).summary.utilisation["gpu"] == pytest.approx(30 / 35)
    assert _fifo(_one_gpu()).summary.utilisation["gpu"] == pytest.approx(40 / 45)
    # Jobs before the window keep the GPU busy in it: from 5 to 20 it is a's, b's and c's.
    assert _fifo(_one_gpu(), Trim(5, 20)).summary.utilisation["gpu"] == 1


def test_what_a_horizon_cuts_off_is_no_time_of_the_window() -> None:
    # The run ends at 15, e never comes: from 5 on the GPU is busy, and after 15 nobody knows.
    world = _one_gpu(params={"horizon_s": 15})
    found = _fifo(world, Trim(warm_up_s=5)).summary
    assert (found.jobs, found.completed, found.trimmed_jobs) == (4, 0, 1)
    assert found.utilisation["gpu"] == 1
    assert found.makespan_s is None


def test_the_trimmed_jobs_are_simulated_all_the_same() -> None:
    whole, trimmed = _fifo(_one_gpu()), _fifo(_one_gpu(), Trim(5, 20))
    for frame in ("jobs", "events", "timeline"):
        assert getattr(whole, frame).equals(getattr(trimmed, frame))


def test_without_a_trim_every_job_counts_and_none_is_said_to_be_trimmed() -> None:
    assert _fifo(_one_gpu()).summary.trimmed_jobs is None
    nothing_cut = _fifo(_one_gpu(), Trim()).summary
    assert (nothing_cut.jobs, nothing_cut.trimmed_jobs) == (5, 0)


def test_both_ends_of_the_window_count_to_the_microsecond() -> None:
    # 0.1 + 0.2 is above 0.3 in floating point, and in microseconds it is not.
    world = build_world(
        job_table([(0.1, 1, 1, "x"), (0.3, 1, 1, "x"), (0.6, 1, 1, "x"), (0.7, 1, 1, "x")]),
        cluster([1], ["x"]),
    )
    assert _fifo(world, Trim(0.2, 0.1)).summary.jobs == 2
    assert _fifo(world, Trim(0.200001, 0.1)).summary.jobs == 1
    assert _fifo(world, Trim(0.2, 0.100001)).summary.jobs == 1


@pytest.mark.parametrize("origin_s", [1234.5, 2.0**31])
def test_the_window_counts_from_the_first_submission_wherever_that_is(origin_s: float) -> None:
    assert _fifo(_one_gpu(origin_s), Trim(5, 20)).summary == _fifo(_one_gpu(), Trim(5, 20)).summary


def test_a_trim_that_leaves_no_job_is_refused() -> None:
    with pytest.raises(InvalidScenarioError, match="the 5 submissions span 40 s, trim less"):
        _fifo(_one_gpu(), Trim(30, 15))
    with pytest.raises(InvalidScenarioError, match="trim: no job"):  # a window, but nobody comes in it
        _fifo(_one_gpu(), Trim(21, 1))
    with pytest.raises(InvalidScenarioError, match="the 0 submissions"):
        _fifo(edge_cases()["no job"], Trim(0, 0))


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_trim_is_a_time_from_zero_on(seconds: float) -> None:
    with pytest.raises(InvalidScenarioError, match=r"trim\.warm_up_s: must be 0 to"):
        Trim(warm_up_s=seconds)
    with pytest.raises(InvalidScenarioError, match=r"trim\.cool_down_s: must be 0 to"):
        Trim(cool_down_s=seconds)


@given(seed=st.integers(0, 20), warm_up_s=st.integers(0, 500), cool_down_s=st.integers(0, 500))
def test_a_trimmed_summary_is_that_of_the_rows_of_its_jobs(
    seed: int, warm_up_s: int, cool_down_s: int
) -> None:
    world = busy_world(seed=seed)
    result = _fifo(world, Trim(warm_up_s, cool_down_s))
    submit_s = result.jobs["submit_s"].to_numpy()
    inside = (submit_s >= submit_s.min() + warm_up_s) & (submit_s <= submit_s.max() - cool_down_s)
    rows = result.jobs.filter(inside)
    assert result.summary.jobs == len(rows)
    assert result.summary.trimmed_jobs == len(world.table) - len(rows)
    assert result.summary.jct_s == distribution(rows["jct_s"].drop_nulls().to_numpy())
    assert result.summary.preemptions == rows["preemptions"].sum()


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_both_loops_and_any_sites_trim_alike(policy: str) -> None:
    world, trim = busy_world(partition="vc"), Trim(100, 200)
    fast = run_world(world, create_policy(policy), trim=trim).summary
    assert run_world(world, create_policy(policy), trim=trim, loop="general").summary == fast
    assert run_world(world, create_policy(policy), trim=trim, sites=3).summary == fast


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_certificate_of_a_trimmed_run_bounds_the_jobs_that_count(policy: str) -> None:
    for seed in range(20):
        summary = run_world(busy_world(seed=seed), create_policy(policy), trim=Trim(200, 300)).summary
        found, mean_s = summary.certificate, summary.jct_s.mean
        assert found is not None
        assert mean_s is not None
        assert found.bound_s <= mean_s
        assert found.gap == pytest.approx(mean_s / found.bound_s - 1, abs=1e-12)


def test_the_certificate_of_the_example_is_of_its_three_jobs() -> None:
    # One GPU, (submit, run) = (5, 10), (10, 10), (20, 5) alone: the shortest remaining first is busy in
    # 5-15, 15-20, then d in 20-25, then c until 30. JCT 10, 20, 5 = 35 / 3.
    found = _fifo(_one_gpu(), Trim(5, 20)).summary.certificate
    assert found is not None
    assert found.b2_s == pytest.approx(35 / 3, rel=2e-9)
