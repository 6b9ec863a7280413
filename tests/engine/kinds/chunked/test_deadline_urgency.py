"""A_online where jobs in danger go first: their place in queues is one number, their rate another."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.model.result import RunResult
from ray_sim.model.units import IntArray
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import CLOUD, ChunkJob, Server, chunk_world, due_us_of, runs_of
from tests.engine.kinds.chunked.failing_chunk_cases import BASE, Case, cases, naive_facts, plan_of, world_of
from tests.engine.kinds.chunked.naive_a_online import NaiveAOnline
from tests.engine.kinds.chunked.naive_chunks import assert_ran_as
from tests.figures import chunked_of
from tests.proofs import instances, quick_first
from tests.worlds import DOWN, column_of, fingerprint, replay

SLOTS = 300
"""More than any case below takes."""


def naive_world(case: Case, due_us: IntArray, *, counted: bool) -> NaiveAOnline:
    return NaiveAOnline(
        **naive_facts(case),
        overtake=case.preempt,
        due_us=due_us.tolist(),
        slack=Fraction(case.slack),
        counted=counted,
    )


def due_at(world: World, *due_s: float) -> World:
    """The same world with these deadlines."""
    facts = replace(ChunkFacts.in_world(world), due_us=np.array([round(at * 1e6) for at in due_s]))
    return replace(world, facts=facts)


def assert_as_naive(case: Case, *, counted: bool = True) -> RunResult:
    """Every chunk runs in the slots in which the naive simulator runs it, with any number of sites."""
    world = world_of(case, deadline_factor=case.factor)
    params = {"deadlines": "danger", "slack": case.slack, "preempt": case.preempt}
    params["uploads"] = "counted" if counted else "ignored"
    result = replay(world, create_policy("a_online", params))
    naive_policy = naive_world(case, np.array(due_us_of(world)), counted=counted)
    naive = naive_policy.simulate(plan_of(case), SLOTS)
    assert_ran_as(naive, case.jobs, result)
    assert (result.summary.policy_counts or {})["in_danger"] == len(naive_policy.in_danger)
    sites = len(case.servers)
    again = replay(world, create_policy("a_online", params), sites=sites)
    assert fingerprint(again) == fingerprint(result)
    return result


@pytest.mark.slow
@settings(max_examples=instances(300, 8), deadline=None)
@given(case=cases(), counted=st.booleans())
def test_jobs_in_danger_lose_servers_and_pay_for_preemptions_as_in_the_naive_simulator(
    case: Case, counted: bool
) -> None:
    assert_as_naive(case, counted=counted)


@pytest.mark.parametrize("cost_s", [0, 4, 25])
@pytest.mark.parametrize("sites", quick_first([1, 2]))
def test_who_comes_into_danger_when_another_would_overtake_keeps_the_worker(cost_s: int, sites: int) -> None:
    # J1 (40 s, key 40) has the worker from 0 on. At 10 J2 (10 s, key 10) is uploaded and would overtake. But
    # J1 needs 30 s more and is due in 50 < 2 x 30: in danger, it goes first, and trains 0-40. Nothing is
    # preempted or paid. J2 follows, 40-50. Without deadlines J2 takes the worker, 10-20, and J1 pays for it.
    jobs = [ChunkJob(0, 1, 40, 0), ChunkJob(0, 1, 10, 10)]
    world = chunk_world(jobs, [BASE, Server(ps=0)], slot_s=10, deadline_factor=2, preemption_cost_s=cost_s)
    world = due_at(world, 60, 1000)
    taken = replay(world, create_policy("a_online", {"preempt": True}), sites=sites)
    assert runs_of(taken, "J1", 0) == [(0, 10), (20, 50 + -(-cost_s // 10) * 10)]
    danger = {"deadlines": "danger", "preempt": True}
    result = replay(world, create_policy("a_online", danger), sites=sites)
    assert runs_of(result, "J1", 0) == [(0, 40)]
    assert runs_of(result, "J2", 0) == [(40, 50)]
    assert column_of(result, "preemptions") == {"J1": 0, "J2": 0}
    assert not chunked_of(result).preemption_cost_s


@pytest.mark.parametrize(("due_s", "in_danger"), [(10, 0), (11, 1), (20, 1), (21, 0)])
def test_what_a_job_needs_is_its_uploads_and_then_its_chunks_in_turn(due_s: int, in_danger: int) -> None:
    # Two chunks of 4 s on one worker, uploaded by 3. At 1 they need 2 + 4 + 4 = 10 s: too late for 10, in
    # danger below 1 + 2 x 10 = 21. From 3 on, 8 s against 18, they are safe.
    world = chunk_world([ChunkJob(0, 2, 4, 3)], [BASE, Server(ps=0)], slot_s=1, deadline_factor=2)
    world = due_at(world, due_s)
    result = replay(world, create_policy("a_online", {"deadlines": "danger"}))
    assert runs_of(result, "J1", 0) == [(3, 7)]
    assert runs_of(result, "J1", 1) == [(7, 11)]
    assert (result.summary.policy_counts or {})["in_danger"] == in_danger


def test_a_lost_chunk_in_danger_goes_to_the_cloud_where_it_delays_others_more_at_the_edge() -> None:
    # J1 (6 s) starts on s1 and J2 (10 s) on s2, due at 3 x 6 = 18 and 3 x 10 = 30. At 1 both are in danger
    # with slack 4: 17 < 4 x 5 and 29 < 4 x 9. s1 goes at 2. On s2 J1 would go before J2, which has 8 s left:
    # D Q = 6 + 6 (8 / 10) = 10.8. In the cloud it is 3 + 6 = 9: 5-11, and J2 is done at 10.
    jobs = [ChunkJob(0, 1, 6, 0, 3), ChunkJob(0, 1, 10, 0, 90)]
    servers = [BASE, Server(ps=0), Server(ps=0), Server(kind=CLOUD)]
    world = chunk_world(jobs, servers, slot_s=1, deadline_factor=3, changes=[(2.0, 1, DOWN)])
    result = replay(world, create_policy("a_online", {"deadlines": "danger", "slack": 4.0}))
    assert runs_of(result, "J1", 0) == [(0, 2), (5, 11)]
    assert column_of(result, "finish_s") == {"J1": 11, "J2": 10}
    assert (result.summary.policy_counts or {})["in_danger"] == 2
