"""When policies are asked: on slots, at events, at the times they asked for."""

from __future__ import annotations

import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.run import run_world
from ray_sim.engine.view import View
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import US_PER_S
from tests.scripted import EVENTS, Decide, scripted
from tests.worlds import Job, replay, times_of, world_of


def noting(asked: list[float], decide: Decide) -> Decide:
    """Note the seconds at which the policy is asked."""

    def noted(view: View) -> Decision:
        asked.append(view.now_us / 1e6)
        return decide(view)

    return noted


def start_all(view: View) -> Decision:
    """Everyone who waits gets one GPU of the first server."""
    return Decision.of({job: [(0, 0, 1)] for job in view.waiting.tolist()})


def test_a_slotted_policy_decides_at_multiples_of_the_slot_and_empty_slots_cost_nothing() -> None:
    # Slots of 10 s. J1 comes at 0 and starts at once; J2 comes at 12 and starts at 20, when J1's end at
    # 5 s is long known; J3 comes after 100,000 empty slots. An end is news for the slot after it: 10, 30.
    jobs = [Job(0, 1, 5), Job(12, 1, 5), Job(1_000_001, 1, 5)]
    asked: list[float] = []
    policy = scripted(noting(asked, start_all), on_slots_only=True)
    result = replay(world_of(jobs, [4], params={"slot_s": 10}), policy)
    assert times_of(result) == {"J1": (0, 5), "J2": (20, 25), "J3": (1_000_010, 1_000_015)}
    assert asked == [0, 10, 20, 30, 1_000_010, 1_000_020]


def test_a_review_at_a_boundary_is_the_only_decision_there() -> None:
    # J1 ends in the instant of its start, at the review at 10 s; J2 starts at the next boundary.
    asked: list[float] = []

    def one_by_one(view: View) -> Decision:
        if view.now_us == 0:
            return Decision(review_us=10_000_000)
        return Decision.of({job: [(0, 0, 1)] for job in view.waiting[:1].tolist()})

    policy = scripted(noting(asked, one_by_one), on_slots_only=True)
    result = replay(world_of([Job(0, 1, 0), Job(0, 1, 5)], [1], params={"slot_s": 10}), policy)
    assert times_of(result) == {"J1": (10, 10), "J2": (20, 25)}
    assert asked == [0, 10, 20, 30]


def test_a_policy_that_wakes_on_slots_is_asked_at_each_while_anyone_is_there() -> None:
    # J1 is there 0-25 s, J2 from 47 s on for 5 s from its start at 50 s.
    asked: list[float] = []
    policy = scripted(noting(asked, start_all), wake=Wake.SLOT)
    result = replay(world_of([Job(0, 1, 25), Job(47, 1, 5)], [4], params={"slot_s": 10}), policy)
    assert times_of(result) == {"J1": (0, 25), "J2": (50, 55)}
    assert asked == [0, 10, 20, 50]


@pytest.mark.slow
def test_slots_are_products_not_sums() -> None:
    # 0.1 s slots: the thousandth begins at exactly 100 s.
    asked: list[float] = []
    policy = scripted(noting(asked, start_all), wake=Wake.SLOT)
    replay(world_of([Job(0, 1, 100.05)], [1], params={"slot_s": 0.1}), policy)
    assert asked == [k / 10 for k in range(1001)]


def test_a_slot_and_an_arrival_at_one_instant_are_one_decision() -> None:
    asked: list[float] = []
    policy = scripted(noting(asked, start_all), wake=Wake.SLOT | EVENTS)
    replay(world_of([Job(0, 1, 5), Job(10, 1, 5)], [4], params={"slot_s": 10}), policy)
    # At 10 s the slot, the arrival and what has happened come together.
    assert asked == [0, 5, 10, 15]


def test_slots_need_a_length() -> None:
    for policy in (scripted(start_all, wake=Wake.SLOT), scripted(start_all, on_slots_only=True)):
        with pytest.raises(InvalidScenarioError, match="-w slot_s="):
            replay(world_of([Job(0, 1, 1)], [1]), policy)


def test_a_policy_is_asked_at_the_time_it_asked_for_and_the_last_request_counts() -> None:
    asked: list[tuple[float, bool]] = []

    def patient(view: View) -> Decision:
        """Start J1 at the review; until then each decision asks for another time."""
        asked.append((view.now_us / 1e6, view.reviewed))
        if view.reviewed:
            return start_all(view)
        return Decision(review_us=view.now_us + 7_000_000)

    # At 0 s it asks for 7 s, at 3 s for 10 s: 7 s is forgotten.
    result = replay(world_of([Job(0, 1, 2), Job(3, 1, 4)], [2]), scripted(patient))
    assert times_of(result) == {"J1": (10, 12), "J2": (10, 14)}
    assert asked == [(0, False), (3, False), (10, True), (12, False), (14, False), (21, True)]


def test_what_happened_since_the_last_decision_is_told_once() -> None:
    told: list[tuple[float, list[int], list[int]]] = []

    def listen(view: View) -> Decision:
        told.append((view.now_us / 1e6, view.arrived.tolist(), view.completed.tolist()))
        return start_all(view)

    # Asked on slots of 10 s: J1 and J2 come and J1 ends in the first, J2 ends in the second.
    jobs = [Job(0, 1, 5), Job(0, 1, 15), Job(4, 1, 1)]
    replay(world_of(jobs, [4], params={"slot_s": 10}), scripted(listen, on_slots_only=True))
    assert told == [(0, [0, 1], []), (10, [2], [0]), (20, [], [1, 2])]


def test_a_job_that_is_refused_on_arrival_wakes_nobody() -> None:
    asked: list[float] = []
    world = world_of([Job(0, 1, 2), Job(1, 9, 2)], [4])
    replay(world, scripted(noting(asked, start_all)))
    assert asked == [0, 2]


def test_waking_on_arrivals_only_leaves_completions_for_the_next_arrival() -> None:
    asked: list[float] = []
    world = world_of([Job(0, 1, 2), Job(5, 1, 2)], [4])
    replay(world, scripted(noting(asked, start_all), wake=Wake.ARRIVAL))
    assert asked == [0, 5]


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["review", "slot"])
def test_a_policy_that_only_asks_again_is_stalled_after_ten_thousand_times(asks: str) -> None:
    asked = []

    def decide(view: View) -> Decision:
        asked.append(view.now_us)
        if len(asked) == 5_000:
            return Decision.of({0: [(0, 0, 1)]})  # counts anew from its end on
        return Decision(review_us=view.now_us + US_PER_S) if asks == "review" else Decision()

    wake = EVENTS | Wake.SLOT if asks == "slot" else EVENTS
    policy = scripted(decide, wake=wake)
    world = world_of([Job(0, 1, 10), Job(0, 1, 10)], [1], params={"slot_s": 1.0})
    jobs = run_world(world, policy).jobs
    assert jobs["status"].to_list() == ["completed", "unfinished"]
    assert jobs["reason"].to_list() == [None, "stalled"]
    assert 15_000 <= len(asked) <= 15_020
