"""Earliest finish, LAS and SRPT for chunks against a simulator that goes slot by slot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from ray_sim.policies.registry import create_policy
from tests.engine.kinds.chunked.failing_chunk_cases import Case, cases, naive_facts, plan_of, world_of
from tests.engine.kinds.chunked.naive_chunks import assert_ran_as
from tests.engine.kinds.chunked.naive_finish_order import Key, NaiveFinishOrder, attained, remaining
from tests.proofs import instances, quick_first
from tests.worlds import fingerprint, replay

SLOTS = 400
"""More than any case below takes."""


@pytest.mark.parametrize(
    ("policy", "key"),
    quick_first([("chunk_earliest_finish", None), ("chunk_las", attained), ("chunk_srpt", remaining)]),
)
@settings(max_examples=instances(300, 8), deadline=None)
@given(case=cases())
def test_every_chunk_runs_in_the_slots_of_the_naive_simulator_with_any_number_of_sites(
    policy: str, key: Key | None, case: Case
) -> None:
    world = world_of(case)
    params = {} if key is None else {"preempt": case.preempt}
    result = replay(world, create_policy(policy, params))
    twin = NaiveFinishOrder(**naive_facts(case), overtake=key is not None and case.preempt, key=key)
    naive = twin.simulate(plan_of(case), SLOTS)
    assert_ran_as(naive, case.jobs, result)
    assert fingerprint(replay(world, create_policy(policy, params), sites=len(case.servers))) == fingerprint(
        result
    )
