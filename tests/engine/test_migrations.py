"""Targets become changes of the jobs alone that hold something else; among alike servers jobs stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.migrations import allocation_changes, keeping_places, kinds_of_servers
from ray_sim.engine.placements import VisiblePlacements
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.units import IntArray
from tests.elastic_worlds import elastic_world
from tests.proofs import instances
from tests.scripted import scripted
from tests.training import Placement, profile, rows
from tests.worlds import Job, cluster_of, job_table

THERE = np.ones(4, dtype=np.bool_)
ALIKE = np.zeros(4, dtype=np.int64)
PAIR, NONE = (1, 1), (0, 0)


def holding(placements: Sequence[Placement], servers: int = 4) -> VisiblePlacements:
    """What jobs hold that were placed like this."""
    jobs = [profile() for _ in placements]
    held: list[VisiblePlacements] = []

    def decide(view: View) -> Decision:
        held.append(view.placements)
        return Decision(changes=allocation_changes(view.placements, view.arrived, rows(*placements)))

    world = elastic_world([0] * len(jobs), jobs, [40] * servers)
    simulation = Simulation(world, scripted(decide, elastic=True))
    view = simulation.advance()
    assert view is not None
    simulation.apply(decide(view))
    return held[0]


def named(
    placements: Sequence[Placement], target: Sequence[Placement], kind: IntArray = ALIKE
) -> list[list[int]]:
    """Servers of each job once names are chosen."""
    placed, jobs = holding(placements), np.arange(len(target))
    found = keeping_places(placed, jobs, rows(*target), kind, THERE)
    return [sorted(set(found.server[a:b].tolist())) for a, b in zip(found.ptr, found.ptr[1:], strict=False)]


def test_jobs_that_rotated_stay_where_they_are() -> None:
    """A, B and C on servers 0, 1, 2; the first has gone, and the others would each move up by one."""
    before = [[NONE, PAIR], [NONE, NONE, PAIR]]
    assert named(before, [[PAIR], [NONE, PAIR]]) == [[1], [2]]


def test_servers_of_another_kind_are_not_swapped() -> None:
    before = [[NONE, PAIR], [NONE, NONE, PAIR]]
    after = [[PAIR], [NONE, PAIR]]
    assert named(before, after, kind=np.array([0, 1, 1, 1])) == [[0], [2]]


def test_the_servers_that_let_most_jobs_stay_are_paired_first() -> None:
    """A and B shared a server, and are to share one with C: it may be theirs or that of C, who is one."""
    before = [[PAIR], [PAIR], [NONE, PAIR]]
    assert named(before, [[NONE, PAIR]] * 3) == [[0], [0], [0]]


def test_a_job_on_many_servers_stays_only_if_all_of_it_does() -> None:
    before = [[PAIR, PAIR], [NONE, NONE, PAIR]]
    assert named(before, [[NONE, NONE, PAIR, PAIR], [PAIR]]) == [[0, 1], [2]]
    # What it holds is another number: nothing is gained, so names stay as they were given.
    assert named(before, [[NONE, PAIR, PAIR, PAIR], [PAIR]]) == [[0, 1, 3], [2]]


def test_servers_that_are_gone_are_not_given() -> None:
    there = np.array([True, False, True, True])
    placed = holding([[NONE, PAIR]])
    target = rows([PAIR])
    assert keeping_places(placed, np.arange(1), target, ALIKE, there).server.tolist() == [0, 0]


def test_kinds_are_capacity_speed_and_pools() -> None:
    cluster = cluster_of([4, 4, 8, 4, 4], speed=[1, 1, 1, 2, 1], vc=["a", "a", "a", "a", "b"])
    kinds = kinds_of_servers(cluster, build_world(job_table([]), cluster, partition="vc").arrays)
    assert kinds[0] == kinds[1]
    assert len(set(kinds.tolist())) == 4


def test_servers_that_a_job_tells_apart_are_of_two_kinds() -> None:
    cluster = replace(cluster_of([4, 4, 4]), gpu_type=("T4", "V100", "P100"))
    jobs = job_table([Job(0, 1, 1)] * 2, columns={"gpu_types": ["T4|P100", None]})
    kinds = kinds_of_servers(cluster, build_world(jobs, cluster).arrays)
    assert kinds[0] == kinds[2] != kinds[1]


@st.composite
def placements(draw: st.DrawFn, jobs: int, servers: int) -> list[Placement]:
    tasks = st.tuples(st.integers(0, 2), st.integers(0, 1))
    sparse = st.one_of(st.just(NONE), st.just(NONE), st.just(PAIR), tasks)
    each = st.lists(sparse, min_size=servers, max_size=servers)
    return draw(st.lists(each, min_size=jobs, max_size=jobs))


def loads(target: Rows, kind: IntArray) -> list[tuple[object, ...]]:
    """Of each server its kind and all that is to be there, in no order."""
    owner = np.repeat(np.arange(len(target.ptr) - 1), np.diff(target.ptr))
    there: dict[int, list[tuple[int, int, int]]] = {s: [] for s in range(len(kind))}
    columns = (owner.tolist(), target.role.tolist(), target.tasks.tolist())
    for server, row in zip(target.server.tolist(), zip(*columns, strict=True), strict=True):
        there[server].append(row)
    return sorted((int(kind[s]), tuple(content)) for s, content in there.items())


def unchanged(placed: VisiblePlacements, target: Rows) -> int:
    """Jobs with placements that keep them."""
    n = len(target.ptr) - 1
    changes = allocation_changes(placed, np.arange(n), target)
    changed = set() if changes is None else set(changes.job.tolist())
    held = np.flatnonzero(np.diff(placed.rows_of(np.arange(n)).ptr))
    return len(set(held.tolist()) - changed)


@settings(max_examples=instances(60), deadline=None)
@given(st.data())
def test_only_names_change_and_no_job_that_stayed_is_lost_in_number(data: st.DataObject) -> None:
    """Placements, targets and kinds of servers are drawn."""
    n_jobs, n_servers = data.draw(st.integers(1, 6)), 4
    kind = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n_servers, max_size=n_servers)))
    placed = holding(data.draw(placements(n_jobs, n_servers)))
    jobs, target = np.arange(n_jobs), rows(*data.draw(placements(n_jobs, n_servers)))
    found = keeping_places(placed, jobs, target, kind, THERE)
    assert loads(found, kind) == loads(target, kind)
    assert unchanged(placed, found) >= unchanged(placed, target)
    np.testing.assert_array_equal(found.ptr, target.ptr)
    for begin, end in zip(found.ptr, found.ptr[1:], strict=False):
        keys = (found.server[begin:end] * 2 + found.role[begin:end]).tolist()
        assert keys == sorted(set(keys))


@pytest.mark.parametrize("servers", [4, 40])
def test_what_only_bears_other_names_stays_as_it_is(servers: int) -> None:
    """Three jobs on single servers and one on all others, which are more than are weighed with each other."""
    spread = [*[NONE] * 3, *[PAIR] * (servers - 3)]
    before = [[(2, 1)], [NONE, (2, 2)], [NONE, NONE, (1, 2)], spread]
    after: list[Placement] = [list(reversed([*job, *[NONE] * (servers - len(job))])) for job in before]
    placed, alike = holding(before, servers), np.zeros(servers, dtype=np.int64)
    there = np.ones(servers, dtype=np.bool_)
    found = keeping_places(placed, np.arange(4), rows(*after), alike, there)
    assert unchanged(placed, found) == 4


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
