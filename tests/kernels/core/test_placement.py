"""The placement rules against their definitions, written out in plain Python with exact fractions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.placement import RULE_NAMES, place
from ray_sim.kernels.core.queue_arrays import new_scratch
from tests.naive_placement import DEFINITIONS, Gang, Placement
from tests.random_gangs import free_of, gangs, world_with
from tests.worlds import Job, world_of

every_rule = pytest.mark.parametrize("rule", RULE_NAMES)


def placed_by(rule: str, gang: Gang) -> Placement:
    """What the kernel does."""
    world = world_with([gang])
    amounts: I64 = np.array(gang.free, dtype=np.int64)
    before = amounts.copy()
    scratch = new_scratch(world.arrays)
    n = place(RULE_NAMES.index(rule), world.arrays, 0, amounts, np.array(gang.there), scratch)
    assert (amounts == before).all()
    servers = scratch.server[:n].tolist()
    assert servers == sorted(set(servers))
    return dict(zip(servers, scratch.tasks[:n].tolist(), strict=True))


@every_rule
@given(gang=gangs())
def test_each_rule_does_what_its_definition_says(rule: str, gang: Gang) -> None:
    assert placed_by(rule, gang) == DEFINITIONS[rule](gang)


@every_rule
@given(gang=gangs())
def test_a_rule_places_the_whole_gang_on_servers_that_have_room_or_nothing(rule: str, gang: Gang) -> None:
    placed = placed_by(rule, gang)
    assert sum(placed.values()) in (0, gang.tasks)
    for server, tasks in placed.items():
        assert gang.there[server]
        for free, asked in zip(gang.free[server], gang.demand, strict=True):
            assert tasks * asked <= free


@every_rule
@given(gang=gangs(), data=st.data())
def test_what_fits_fits_also_when_more_is_free(rule: str, gang: Gang, data: st.DataObject) -> None:
    # A queue blocks a class of jobs for the rest of an instant on the strength of this.
    assume(placed_by(rule, gang))
    free = data.draw(free_of(gang.capacity, gang.free))
    assert placed_by(rule, gang._replace(free=free, there=[True] * len(free)))


@every_rule
@given(gang=gangs())
def test_every_rule_places_on_empty_servers_what_their_capacity_holds(rule: str, gang: Gang) -> None:
    holds = sum(min(gang.tasks, gang.room(amounts)) for amounts in gang.capacity) >= gang.tasks
    empty = gang._replace(free=gang.capacity, there=[True] * len(gang.capacity))
    assert bool(placed_by(rule, empty)) == holds


def placement_of(rule: str, gpus: float, capacity: list[float], taken: list[float]) -> Placement:
    """Of one job on GPU servers, some of whose GPUs are taken; by server in whole GPUs."""
    world = world_of([Job(0, gpus, 1)], capacity)
    free = world.arrays.capacity - np.array([[int(1000 * t)] for t in taken])
    scratch = new_scratch(world.arrays)
    n = place(RULE_NAMES.index(rule), world.arrays, 0, free, world.there, scratch)
    return dict(zip(scratch.server[:n].tolist(), scratch.tasks[:n].tolist(), strict=True))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # 4 GPUs; four servers of 8 with 2, 8, 5 and 4 free.
        ("pooled", {0: 2, 1: 2}),
        ("first_fit", {1: 4}),
        ("consolidate", {3: 4}),
        ("spread", {0: 1, 1: 1, 2: 1, 3: 1}),
        # Loads 6/8, 0/8, 3/8, 4/8: s1 reaches 3/8 with its third task; the fourth is a tie of s1 and
        # s2 at 3/8, which the lower index wins.
        ("load_balance", {1: 4}),
    ],
)
def test_a_job_that_one_server_holds(rule: str, expected: Placement) -> None:
    assert placement_of(rule, 4, [8, 8, 8, 8], [6, 0, 3, 4]) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # 12 GPUs, more than any server; 2, 8, 5 and 4 free of 8, 8, 8 and 4.
        ("pooled", {0: 2, 1: 8, 2: 2}),
        ("first_fit", {0: 2, 1: 8, 2: 2}),
        # Wholly free are s1 (8) and s3 (4): 8 + 4.
        ("consolidate", {1: 8, 3: 4}),
        ("spread", {0: 2, 1: 4, 2: 3, 3: 3}),
    ],
)
def test_a_job_larger_than_every_server(rule: str, expected: Placement) -> None:
    assert placement_of(rule, 12, [8, 8, 8, 4], [6, 0, 3, 0]) == expected


def test_consolidate_puts_the_rest_of_a_large_job_where_it_leaves_least() -> None:
    # 11 GPUs on servers of 8: s2 is wholly free and takes 8; the 3 left fit on s0 (4 free) and s1 (3 free).
    assert placement_of("consolidate", 11, [8, 8, 8], [4, 5, 0]) == {1: 3, 2: 8}
    # Without a server that holds the rest alone, scattered GPUs (2 + 2) do not help.
    assert placement_of("consolidate", 11, [8, 8, 8], [6, 6, 0]) == {}
    assert placement_of("pooled", 11, [8, 8, 8], [6, 6, 0]) == {0: 2, 1: 2, 2: 7}


def test_ties_go_to_the_lowest_index() -> None:
    for rule in ("first_fit", "consolidate", "load_balance"):
        assert placement_of(rule, 1, [4, 4, 4], [4, 2, 2]) == {1: 1}
    assert placement_of("spread", 2, [4, 4, 4, 4], [4, 2, 2, 2]) == {1: 1, 2: 1}


def test_a_fraction_of_a_gpu_fits_to_the_last_thousandth() -> None:
    # 0.4 of 1 GPU is left by 0.6; 0.4001 takes 401 milli-GPU, one too many.
    assert placement_of("consolidate", 0.4, [1], [0.6]) == {0: 1}
    assert placement_of("consolidate", 0.4001, [1], [0.6]) == {}
