"""Room for workers and parameter servers together, against every choice of servers and the definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.kernels.core.placement import RULE_NAMES, place
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.core.room_over_time import (
    FOUND,
    MISSED,
    NO_ROOM,
    NO_RULE,
    ServerSteps,
    judge_room,
    new_room_state,
)
from tests.naive_placement import Gang, choice_of_both, some_choice_holds
from tests.proofs import instances
from tests.random_gangs import free_of, jobs_of, world_with

many = settings(max_examples=instances(2_000, 50))
two_roles = jobs_of(2, most_tasks=4, most_servers=4)


def verdicts(
    job: Sequence[Gang], rule: int, states: Sequence[tuple[list[list[int]], list[bool]]]
) -> list[int]:
    """Verdicts at one instant for each of these states, which follow each other."""
    arrays = world_with(job).arrays
    n, m = len(arrays.capacity), len(states)
    steps = ServerSteps(
        time=np.repeat(np.arange(m), n),
        server=np.tile(np.arange(n), m),
        free=np.array([amounts for free, _ in states for amounts in free], dtype=np.int64),
        there=np.array([each for _, there in states for each in there]),
    )
    found = np.full(m, -1, dtype=np.int8)
    asked = np.ones(m, dtype=np.bool_)
    state = new_room_state(arrays, 0)
    judge_room(rule, arrays, 0, steps, np.arange(m), asked, state, new_scratch(arrays), found)
    return [int(each) for each in found]


def naive_verdict(job: Sequence[Gang], rule: int) -> int:
    if not some_choice_holds(job):
        return NO_ROOM
    if rule == NO_RULE:
        return FOUND
    placed = choice_of_both(job, RULE_NAMES[rule])
    return FOUND if any(placed) else MISSED


def gpu_job(workers: tuple[int, int], ps: tuple[int, int], free: list[int]) -> list[Gang]:
    """Numbers and sizes of workers and parameter servers, on servers of 1,000 with this free."""
    capacity, left = [[1000]] * len(free), [[amount] for amount in free]
    there = [True] * len(free)
    return [Gang(tasks, [size], capacity, left, there) for tasks, size in (workers, ps)]


@pytest.mark.parametrize(
    ("free", "rule", "verdict"),
    [
        # Two workers of 300 and a parameter server of 500. 600 and 500: one choice, workers on s0.
        ([600, 500], NO_RULE, FOUND),
        # The first server takes a worker, the second the other: 200 and 300 are left, and no 500.
        ([500, 600], RULE_NAMES.index("pooled"), MISSED),
        ([500, 600], NO_RULE, FOUND),
        # Both workers fit on s0, or the parameter server does; 900 in sum would hold neither with the other.
        ([600, 300], NO_RULE, NO_ROOM),
        ([600, 499], NO_RULE, NO_ROOM),
        # One server holds all of it only with 1,100.
        ([500, 300, 300], NO_RULE, FOUND),
    ],
)
def test_workers_and_parameter_servers_by_hand(free: list[int], rule: int, verdict: int) -> None:
    job = gpu_job((2, 300), (1, 500), free)
    assert verdicts(job, rule, [(job[0].free, job[0].there)]) == [verdict]


@many
@given(job=two_roles, rule=st.sampled_from([NO_RULE, *range(len(RULE_NAMES))]), data=st.data())
def test_verdicts_are_those_of_all_choices_at_every_instant(
    job: list[Gang], rule: int, data: st.DataObject
) -> None:
    states = [(job[0].free, job[0].there)]
    for _ in range(2):
        there = data.draw(st.lists(st.booleans(), min_size=len(job[0].free), max_size=len(job[0].free)))
        free = data.draw(free_of(job[0].capacity))
        states.append(
            ([amounts if up else [0] * len(amounts) for amounts, up in zip(free, there, strict=True)], there)
        )
    jobs = [[gang._replace(free=free, there=there) for gang in job] for free, there in states]
    assert verdicts(job, rule, states) == [naive_verdict(each, rule) for each in jobs]


@many
@given(job=jobs_of(1, most_tasks=6, most_servers=4), rule=st.sampled_from(range(len(RULE_NAMES))))
def test_one_role_has_room_where_its_tasks_fit_one_by_one(job: list[Gang], rule: int) -> None:
    [gang] = job
    fits = sum(gang.rooms) >= gang.tasks
    assert verdicts(job, NO_RULE, [(gang.free, gang.there)]) == [FOUND if fits else NO_ROOM]
    assert (verdicts(job, rule, [(gang.free, gang.there)]) == [NO_ROOM]) == (not fits)


@many
@given(job=two_roles, rule=st.sampled_from(RULE_NAMES))
def test_two_roles_are_placed_as_the_rules_define(job: list[Gang], rule: str) -> None:
    arrays = world_with(job).arrays
    scratch = new_scratch(arrays)
    free = np.array(job[0].free, dtype=np.int64)
    n = place(RULE_NAMES.index(rule), arrays, 0, free, np.array(job[0].there), scratch)
    placed: list[dict[int, int]] = [{}, {}]
    for k in range(n):
        placed[int(scratch.role[k])][int(scratch.server[k])] = int(scratch.tasks[k])
    assert placed == choice_of_both(job, rule)
