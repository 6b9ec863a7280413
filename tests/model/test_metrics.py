"""The summary of a run by hand, and of the jobs that a trim counts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.rigid_worlds import Job as JobRow
from ray_sim.contract.rigid_worlds import busy_world, cluster, edge_cases, failing_world, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.distribution import Distribution, distribution
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.metrics import Trim, jain_index
from ray_sim.model.result import JobStatus, RunResult
from ray_sim.model.units import US_PER_S
from ray_sim.policies.registry import create_policy, policy_classes
from tests.required import new_policy
from tests.worlds import HOUR, Job, availability, cluster_of, column_of, replay, times_of, world_of
from tests.worlds import job_table as small_table

NONE = Distribution(None, None, None, None)


def test_a_summary_by_hand() -> None:
    # 4 GPUs. J1 (2 GPUs, 10 s) 0-10, J2 (4, 5 s, from 5 s) 10-15, J3 (2, 5 s, from 20 s) 20-25.
    summary = replay(world_of([Job(0, 2, 10), Job(5, 4, 5), Job(20, 2, 5)], [4]), "fifo").summary
    assert (summary.jobs, summary.completed) == (3, 3)
    # JCT 10, 10, 5; queued 0, 5, 0.
    assert summary.jct_s.mean == pytest.approx(25 / 3, rel=1e-15)
    assert summary.jct_s.median == 10
    assert summary.queue_s.mean == pytest.approx(5 / 3, rel=1e-15)
    assert summary.queue_s.median == 0
    assert summary.makespan_s == 25
    # GPU-seconds: 2 x 10 + 4 x 5 + 2 x 5 = 50 of 4 x 25, idle time included.
    assert summary.utilisation == {"gpu": 0.5}
    # Progress rates 1, 1/2, 1: (5/2)^2 / (3 x 9/4) = 25/27.
    assert summary.jain_index == pytest.approx(25 / 27, rel=1e-15)
    # J1: alone 0-5, two present 5-10: 1.5 on average; 2 GPUs x 1.5 / 4 < 1, so rho = 10 / 10.
    # J2: two present 5-10, alone 10-15: 1.5; slowdown 4 x 1.5 / 4 = 1.5; rho = 10 / 7.5. J3: rho = 1.
    assert summary.finish_time_fairness.mean == pytest.approx((1 + 4 / 3 + 1) / 3, rel=1e-15)
    assert summary.finish_time_fairness.median == 1
    assert summary.utility is None


def test_the_makespan_counts_from_the_first_submission() -> None:
    summary = replay(world_of([Job(100, 1, 10), Job(105, 1, 10)], [1]), "fifo").summary
    # 100-110, 110-120.
    assert summary.makespan_s == 20
    assert summary.utilisation == {"gpu": 1.0}


def test_utilisation_is_averaged_until_the_last_completion() -> None:
    # J1 ends at 10 s; J2, which never fits, comes at 90 s and counts for nothing.
    summary = replay(world_of([Job(0, 1, 10), Job(90, 9, 1)], [2]), "fifo").summary
    assert summary.utilisation == {"gpu": 0.5}
    assert summary.makespan_s == 10
    assert summary.reasons == {"never_fits": 1}


def test_utilisation_counts_jobs_still_running_at_the_last_completion() -> None:
    # Horizon 8 s: J1 done 0-4 on one of 2 GPUs, J2 unfinished from 2 s on: (4 + 2) / (2 x 4).
    world = world_of([Job(0, 1, 4), Job(2, 1, 100)], [2], params={"horizon_s": 8})
    assert replay(world, "fifo").summary.utilisation == {"gpu": 0.75}


def grouped(groups: list[str | None], jobs: list[Job], gpus: int, **params: object) -> World:
    world = world_of(jobs, [gpus], params=params)
    return replace(world, table=replace(world.table, group=pl.Series(groups, dtype=pl.String)))


def test_a_group_is_done_when_its_last_row_is() -> None:
    # One GPU: 0-10, 10-15, 15-16, 16-20. Group a from 0 to 16, b from 3 to 20; the third row is in none.
    jobs = [Job(0, 1, 10), Job(1, 1, 5), Job(3, 1, 1), Job(4, 1, 4)]
    summary = replay(grouped(["a", None, "a", "b"], jobs, 1), "fifo").summary
    assert summary.group_jct_s is not None
    assert summary.group_jct_s.mean == (16 + 16) / 2
    assert summary.jct_s.mean == (10 + 14 + 13 + 16) / 4
    assert replay(world_of(jobs, [1]), "fifo").summary.group_jct_s is None


def test_a_group_of_which_a_row_does_not_complete_has_no_completion_time() -> None:
    # The horizon cuts the second row of a.
    world = grouped(["a", "b", "a"], [Job(0, 1, 4), Job(0, 1, 5), Job(0, 1, 50)], 3, horizon_s=9)
    assert replay(world, "fifo").summary.group_jct_s == Distribution(5, 5, 5, 5)


def test_more_may_be_promised_than_there_is() -> None:
    # Three jobs of one GPU on 1 GPU, and on 2.5 times as much: two of them at a time.
    jobs = [Job(0, 1, 10)] * 3
    assert column_of(replay(world_of(jobs, [1]), "fifo"), "finish_s") == {"J1": 10, "J2": 20, "J3": 30}
    promised = replay(world_of(jobs, [1], params={"overcommit": 2.5}), "fifo")
    assert column_of(promised, "finish_s") == {"J1": 10, "J2": 10, "J3": 20}
    # 30 GPU-seconds of 2.5 x 20: use and bound are those of the servers so enlarged.
    assert promised.summary.utilisation == {"gpu": 0.6}
    assert promised.summary.certificate is not None
    assert promised.summary.certificate.gap is not None
    assert promised.summary.certificate.gap >= 0


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_factor_on_capacity_must_be_a_number_above_0(factor: float) -> None:
    with pytest.raises(InvalidScenarioError, match="overcommit"):
        world_of([Job(0, 1, 1)], [1], params={"overcommit": factor})


def test_two_jobs_of_the_whole_cluster_in_turn() -> None:
    # 4 GPUs, two jobs of 4 GPUs and 2 h. 2 h / (2 h x 2) and 4 h / (2 h x 1.5).
    result = replay(world_of([Job(0, 4, 2 * HOUR), Job(0, 4, 2 * HOUR)], [4]), "fifo")
    assert result.jobs["rho"].to_list() == pytest.approx([0.5, 4 / 3], rel=1e-15)


def test_a_job_alone_on_its_fair_share_has_a_fairness_of_one() -> None:
    # Two equal jobs on one GPU, one after the other: each has half of it in the mean while present
    # together. J1: 10 s, two present: slowdown 2, rho = 10 / 20. J2: two present half of its 20 s,
    # slowdown 1.5, rho = 20 / 15.
    result = replay(world_of([Job(0, 1, 10), Job(0, 1, 10)], [1]), "fifo")
    assert result.jobs["rho"].to_list() == pytest.approx([0.5, 4 / 3], rel=1e-15)
    assert result.summary.finish_time_fairness.mean == pytest.approx((0.5 + 4 / 3) / 2, rel=1e-15)


def test_rho_counts_the_gpus_that_are_available() -> None:
    # Two servers of 2 GPUs; the second is away 2-6. J1 (2 GPUs) 0-10, J2 (2) waits 0-6, runs 6-10. Two are
    # present all the time, with 4 - 2 x 4 / 10 = 3.2 GPUs: slowdown 2 x 2 / 3.2 = 1.25.
    changes = [(2.0, 1, False), (6.0, 1, True)]
    servers = replace(cluster_of([2, 2]), availability=availability(changes))
    world = build_world(small_table([Job(0, 2, 10), Job(2, 2, 4)]), servers)
    result = replay(world, "fifo")
    assert times_of(result) == {"J1": (0, 10), "J2": (6, 10)}
    # J1: 0.2 x 1 + 0.8 x 2 = 1.8 present; 2 x 1.8 / 3.2 = 1.125. J2: 8 s, 4 - 2 x 4 / 8 = 3; 2 x 2 / 3.
    assert result.jobs["rho"].to_list() == pytest.approx([10 / (10 * 1.125), 8 / (4 * 4 / 3)], rel=1e-15)


def test_rho_is_null_for_jobs_that_do_not_complete_and_for_chunks() -> None:
    world = world_of([Job(0, 1, 4), Job(0, 9, 1), Job(2, 1, 100), Job(0, 1, 0)], [2], params={"horizon_s": 8})
    assert replay(world, "fifo").jobs["rho"].to_list() == [1.0, None, None, None]
    chunks = replay(busy_chunks(10), "chunk_fifo")
    assert chunks.summary.completed > 0
    assert chunks.jobs["rho"].null_count() == 10
    assert chunks.summary.finish_time_fairness == NONE


@pytest.mark.parametrize("seed", range(3))
def test_rho_is_that_of_a_plain_sum_over_instants(seed: int) -> None:
    world = failing_world(30, seed)
    rows = replay(world, "srtf").jobs.rows(named=True)
    outages_s = (world.outages.time + world.table.origin_us) / US_PER_S
    ends = [row["submit_s"] if row["status"] == "rejected" else row["finish_s"] for row in rows]
    instants = {*outages_s, *ends, *(row["submit_s"] for row in rows)}
    for row in (each for each in rows if each["status"] == "completed"):
        times = sorted(time for time in instants if row["submit_s"] <= time <= row["finish_s"])
        present = available = 0.0
        for a, b in itertools.pairwise(times):
            there = np.ones(len(world.cluster), np.bool_)
            for time, server, up in zip(outages_s, world.outages.server, world.outages.up, strict=True):
                there[server] = up if time <= a else there[server]
            here = [each["submit_s"] <= a < end for each, end in zip(rows, ends, strict=True)]
            present += (b - a) * sum(here)
            available += (b - a) * world.cluster.capacity[there, 0].sum() / 1000
        slowdown = max(1.0, row["num_gpus"] * present / available)
        assert row["rho"] == pytest.approx(row["jct_s"] / (row["duration_s"] * slowdown), rel=1e-9)


def test_counts_of_preemptions_and_restarts_are_totals() -> None:
    # One GPU: J1 is suspended twice and resumed twice.
    world = world_of([Job(0, 1, 10), Job(1, 1, 2), Job(5, 1, 2)], [1])
    summary = replay(world, "srtf").summary
    assert (summary.preemptions, summary.restarts) == (2, 2)


def test_a_run_of_nothing_has_no_figures() -> None:
    summary = replay(world_of([], [2]), "fifo").summary
    assert (summary.jobs, summary.completed, summary.makespan_s, summary.jain_index) == (0, 0, None, None)
    assert summary.jct_s == summary.queue_s == summary.finish_time_fairness == NONE
    assert summary.utilisation == {"gpu": 0.0}
    assert summary.flat()["utilisation.gpu"] == 0.0
    assert "makespan_s" not in summary.flat()


def test_a_run_without_any_completion_has_no_times() -> None:
    result = replay(world_of([Job(0, 9, 5)], [2]), "fifo")
    summary = result.summary
    assert (summary.rejected, summary.completed, summary.makespan_s) == (1, 0, None)
    assert summary.utilisation == {"gpu": 0.0}
    assert column_of(result, "status") == {"J1": JobStatus.REJECTED}
    assert column_of(result, "jct_s") == {"J1": None}


def test_jobs_without_length_progress_at_full_rate_and_have_no_fairness() -> None:
    summary = replay(world_of([Job(0, 1, 0), Job(0, 1, 0)], [1]), "fifo").summary
    assert (summary.jct_s.mean, summary.makespan_s, summary.jain_index) == (0, 0, 1)
    assert summary.finish_time_fairness == NONE
    assert summary.utilisation == {"gpu": 0.0}


def test_a_cluster_without_gpus_has_neither_their_utilisation_nor_fairness() -> None:
    summary = replay(world_of([Job(0, 0, 5)], [0]), "fifo").summary
    assert (summary.completed, summary.utilisation, summary.finish_time_fairness) == (1, {}, NONE)


@given(sample=st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_quantiles_interpolate_between_order_statistics(sample: list[int]) -> None:
    result = distribution(np.array(sample, dtype=np.float64))
    ordered = sorted(sample)
    assert result.mean == pytest.approx(sum(sample) / len(sample))
    for q, value in ((0.5, result.median), (0.9, result.p90), (0.99, result.p99)):
        at = q * (len(sample) - 1)
        below = int(at)
        above = min(below + 1, len(sample) - 1)
        assert value == pytest.approx(ordered[below] + (at - below) * (ordered[above] - ordered[below]))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_jains_index_is_one_for_equals_and_one_nth_for_a_monopolist(n: int) -> None:
    assert jain_index(np.full(n, 0.3)) == pytest.approx(1, rel=1e-15)
    assert jain_index(np.eye(n)[0]) == pytest.approx(1 / n, rel=1e-15)


def test_jains_index_of_nothing_is_no_number() -> None:
    assert jain_index(np.empty(0)) is None
    assert jain_index(np.zeros(3)) is None


POLICIES = [name for name, policy in policy_classes().items() if policy.schedules == GANGS]


def _fifo(world: World, trim: Trim | None = None) -> RunResult:
    return run_world(world, create_policy("fifo"), trim=trim)


def _one_gpu(origin_s: float = 0.0, params: Mapping[str, object] | None = None) -> World:
    """Served in order: a 0-10, b 10-20, c 20-30, d 30-35, nothing, e 40-45. JCT 10, 15, 20, 15, 5."""
    jobs: list[JobRow] = [
        (0, 1, 10, "x"),
        (5, 1, 10, "x"),
        (10, 1, 10, "x"),
        (20, 1, 5, "x"),
        (40, 1, 5, "x"),
    ]
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
    fast = run_world(world, new_policy(policy), trim=trim).summary
    assert run_world(world, new_policy(policy), trim=trim, loop="general").summary == fast
    assert run_world(world, new_policy(policy), trim=trim, sites=3).summary == fast


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_certificate_of_a_trimmed_run_bounds_the_jobs_that_count(policy: str) -> None:
    for seed in range(20):
        summary = run_world(busy_world(seed=seed), new_policy(policy), trim=Trim(200, 300)).summary
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
