"""Decisions that break a rule of the world, each by the least that breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision, QueueLevels
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import IntArray
from tests.scripted import scripted
from tests.toys import PartialFacts
from tests.worlds import Job, changes_of, cluster_of, column_of, job_table, times_of, world_of

Rows = list[tuple[int, int, int]]

J1, J2, J3, J4 = range(4)


def levels(*rows: tuple[int, int]) -> QueueLevels:
    """Each (job, level)."""
    return QueueLevels(*np.array(rows, dtype=np.int64).reshape(-1, 2).T)


def jobs(*numbers: int) -> IntArray:
    return np.array(numbers, dtype=np.int64)


def small_world() -> World:
    """At 1 s: J1 holds 2 of the 4 GPUs of s0, J2 (3 GPUs) waits, J3 has ended, J4 is still to come."""
    return world_of(
        [Job(0, 2, 50, "a"), Job(0, 3, 50, "a"), Job(0, 1, 1, "a"), Job(100, 1, 1, "a")],
        [4, 4, 4],
        vc=["a", "a", "b"],
    )


def at_one_second(world: World) -> Simulation:
    """The simulation when it asks for the decision of the second 1."""
    simulation = Simulation(world, scripted(lambda view: Decision()))
    assert simulation.advance() is not None
    simulation.apply(Decision.of({J1: [(0, 0, 2)], J3: [(0, 0, 1)]}))
    view = simulation.advance()
    assert view is not None
    assert (view.now_us, view.completed.tolist()) == (1_000_000, [J3])
    return simulation


def refused(simulation: Simulation, decision: Decision) -> str:
    """The text with which the decision is refused; nothing may have changed by it."""
    before = simulation.state()
    with pytest.raises(InfeasibleDecisionError) as refusal:
        simulation.apply(decision)
    after = simulation.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("placements", "words"),
    [
        ({J2: [(1, 0, 2)]}, ["all 3 tasks of job J2", "gangs run whole"]),
        ({J2: [(0, 0, 1), (1, 0, 1)]}, ["all 3 tasks of job J2"]),
        ({J2: [(0, 0, 3)]}, ["job J2 on server s0", "1 gpu too many of 4"]),
        ({J2: [(2, 0, 3)]}, ["job J2 on server s2", "outside the job's partition"]),
        ({J2: [(3, 0, 3)]}, ["job J2 on server number 3, of 3"]),
        ({J2: [(-1, 0, 3)]}, ["job J2 on server number -1"]),
        ({J2: [(1, 0, 4)]}, ["job J2 on server s1", "1 to the gang's"]),
        ({J2: [(0, 0, 0), (1, 0, 3)]}, ["job J2 on server s0", "1 to the gang's"]),
        ({J2: [(0, 0, -1), (1, 0, 4)]}, ["job J2 on server s0", "1 to the gang's"]),
        ({J2: [(1, 0, 2**62)]}, ["job J2 on server s1", "1 to the gang's"]),
        ({J2: [(1, 1, 3)]}, ["job J2 on server s1", "role"]),
        ({J2: [(1, -1, 3)]}, ["job J2 on server s1", "role"]),
        ({J2: [(1, 0, 1), (1, 0, 2)]}, ["job J2 on server s1 twice or out of order"]),
        ({J2: []}, ["suspends job J2, which holds nothing"]),
        ({J3: [(1, 0, 1)]}, ["job J3, which is not in the system now"]),
        ({J4: [(1, 0, 1)]}, ["job J4, which is not in the system now"]),
        ({4: [(1, 0, 1)]}, ["job number 4", "0 to 3"]),
        ({-1: [(1, 0, 1)]}, ["job number -1", "0 to 3"]),
    ],
)
def test_holdings_that_break_a_rule_are_refused_by_name(
    placements: dict[int, Rows], words: Sequence[str]
) -> None:
    text = refused(at_one_second(small_world()), Decision.of(placements))
    assert text.startswith("at 1 s: policy scripted ")
    assert all(word in text for word in words), text


def test_a_job_or_a_row_listed_twice_or_out_of_order_is_refused() -> None:
    row = [(1, 0, 3)]
    for rows in ([(J2, row), (J2, row)], [(J2, row), (J1, [(0, 0, 2)])]):
        text = refused(at_one_second(small_world()), Decision(changes=changes_of(rows)))
        assert "twice or out of order" in text
    backwards = changes_of([(J2, [(1, 0, 1), (0, 0, 2)])])
    text = refused(at_one_second(small_world()), Decision(changes=backwards))
    assert "lists job J2 on server s0 twice or out of order" in text


@pytest.mark.parametrize(("gpus", "fits"), [(0.4, True), (0.401, False)])
def test_capacity_is_exact_to_a_thousandth_of_a_gpu(gpus: float, fits: bool) -> None:
    # 0.6 of the one GPU is held: 0.6 + 0.4 = 1 fits, 0.6 + 0.401 exceeds it by 0.001.
    simulation = Simulation(
        world_of([Job(0, 0.6, 5), Job(0, gpus, 5)], [1]), scripted(lambda view: Decision())
    )
    assert simulation.advance() is not None
    both = Decision.of({J1: [(0, 0, 1)], J2: [(0, 0, 1)]})
    if fits:
        simulation.apply(both)
    else:
        assert "job J2 on server s0: 0.001 gpu too many of 1" in refused(simulation, both)


def test_what_a_job_gives_up_is_free_for_the_same_decision() -> None:
    # J1 moves from s0 to s1, J2 takes the 3 GPUs of s0 that only J1's move leaves.
    simulation = at_one_second(small_world())
    simulation.apply(Decision.of({J1: [(1, 0, 2)], J2: [(0, 0, 3)]}))


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        (Decision(reject=jobs(J1)), ["rejects job J1, which runs"]),
        (Decision(reject=jobs(J3)), ["J3", "not in the system"]),
        (Decision(reject=jobs(J4)), ["J4", "not in the system"]),
        (Decision(reject=jobs(9)), ["9", "not in the system"]),
        (Decision(evict=jobs(-1)), ["-1", "not in the system"]),
        (Decision(evict=jobs(J3)), ["J3", "not in the system"]),
        (Decision(reject=jobs(J2, J2)), ["J2", "twice"]),
        (Decision(evict=jobs(J1, J1)), ["J1", "twice"]),
        (Decision(reject=jobs(J2), evict=jobs(J2)), ["J2", "twice"]),
        (replace(Decision.of({J2: [(1, 0, 3)]}), reject=jobs(J2)), ["J2", "ends and places"]),
        (replace(Decision.of({J1: [(1, 0, 2)]}), evict=jobs(J1)), ["J1", "ends and places"]),
        (Decision(levels=levels((9, 0))), ["job number 9"]),
        (Decision(levels=levels((J1, 0), (J1, 1))), ["job J1 twice or out of order"]),
        (Decision(levels=levels((J1, -1))), ["J1", "-1"]),
        (Decision(review_us=1_000_000), ["review at or before now"]),
        (Decision(review_us=0), ["review at or before now"]),
    ],
)
def test_other_answers_that_break_a_rule_are_refused_by_name(
    decision: Decision, words: Sequence[str]
) -> None:
    text = refused(at_one_second(small_world()), decision)
    assert text.startswith("at 1 s: policy scripted ")
    assert all(word in text for word in words), text


def test_what_an_evicted_job_held_is_free_for_the_same_decision() -> None:
    # J1 leaves s0 for good, and J2 takes 3 of its 4 GPUs at the same instant.
    simulation = at_one_second(small_world())
    simulation.apply(replace(Decision.of({J2: [(0, 0, 3)]}), evict=jobs(J1)))
    assert simulation.state()["placements.pool.free"][:, 0].tolist() == [1000, 4000, 4000]
    while simulation.advance() is not None:
        simulation.apply(Decision())
    result = simulation.result()
    assert column_of(result, "status")["J1"] == "evicted"
    assert times_of(result)["J2"] == (1.0, 51.0)


def test_counts_whose_demand_would_overflow_are_refused() -> None:
    # 2**31 workers of 2**30 GiB ask for 2**71 MiB, which is 0 in 64 bits.
    table = job_table([Job(0, 0, 1)], ("gpu", "memory_gib"), {"memory_gib_per_task": [float(2**30)]})
    rigid = build_world(table, cluster_of([1], memory_gib=[2**30]))
    assert isinstance(rigid.facts, RigidFacts)
    facts = PartialFacts(**{field.name: getattr(rigid.facts, field.name) for field in fields(RigidFacts)})
    for count in (2, 2**20, 2**31, 2**33, 2**62):
        simulation = Simulation(replace(rigid, facts=facts), scripted(lambda view: Decision()))
        assert simulation.advance() is not None
        assert "job J1 on server s0" in refused(simulation, Decision.of({J1: [(0, 0, count)]}))


@pytest.mark.parametrize(
    ("placements", "text"),
    [
        ({J1 + 0.9: [(0, 0, 1)]}, r"found job 0.9 \(float\)"),
        ({J1: [(0.9, 0, 1)]}, r"found server 0.9 \(float\) in row \(0.9, 0, 1\)"),
        ({J1: [(0, 0, 1.0)]}, r"found count 1.0 \(float\)"),
        ({J1: [(0, True, 1)]}, r"found role True \(bool\)"),
        ({J1: [(0, 0, 2**63)]}, "found count 9223372036854775808"),
        ({J1: [(0, 0)]}, r"found row \(0, 0\) \(tuple\) of job 0"),
        ({J1: None}, r"found None \(NoneType\) for job 0"),
        ({J1: [7]}, r"found row 7 \(int\) of job 0"),
        ({"J1": []}, r"found job 'J1' \(str\)"),
        ([J1], "found list"),
    ],
)
def test_holdings_that_are_not_of_whole_numbers_are_refused_by_their_row(placements: Any, text: str) -> None:
    with pytest.raises(InfeasibleDecisionError, match=rf"whole numbers, {text}"):
        Decision.of(placements)


def test_holdings_may_be_whole_numbers_of_numpy() -> None:
    one, other = np.int32(1), np.array([[0, 0, 2]])
    placements: Any = {one: [(one, np.uint8(0), one)], np.int64(0): other}
    changes = Decision.of(placements).changes
    assert changes is not None
    assert (changes.job.tolist(), changes.server.tolist(), changes.tasks.tolist()) == ([0, 1], [0, 1], [2, 1])


@st.composite
def decisions(draw: st.DrawFn) -> dict[int, Rows]:
    """Placements on servers 0 to 2 for jobs of the small world, mostly wrong in some way."""
    row = st.tuples(st.integers(0, 2), st.just(0), st.integers(1, 3))
    rows = st.lists(row, max_size=2, unique_by=lambda row: row[0])
    return draw(st.dictionaries(st.sampled_from([J1, J2]), rows, min_size=1, max_size=2))


@given(placements=decisions())
def test_a_decision_is_taken_exactly_when_the_rules_allow_it(placements: dict[int, Rows]) -> None:
    gangs, held = {J1: 2, J2: 3}, {J1: [(0, 0, 2)], J2: []}
    after: dict[int, Rows] = {**held, **placements}
    allowed = (
        all(sum(row[2] for row in rows) in (0, gangs[job]) for job, rows in after.items())
        and all(row[0] in (0, 1) for rows in after.values() for row in rows)
        and all(
            sum(row[2] for rows in after.values() for row in rows if row[0] == server) <= 4
            for server in (0, 1)
        )
        and all(rows or held[job] for job, rows in placements.items())
    )
    simulation = at_one_second(small_world())
    if not allowed:
        refused(simulation, Decision.of(placements))
        return
    simulation.apply(Decision.of(placements))
    taken = [sum(row[2] for rows in after.values() for row in rows if row[0] == s) for s in range(3)]
    assert simulation.state()["placements.pool.free"][:, 0].tolist() == [4000 - 1000 * n for n in taken]
