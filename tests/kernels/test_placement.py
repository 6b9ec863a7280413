"""The placement rules against their definitions, written out in plain Python with exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import I64, new_scratch
from ray_sim.kernels.core.placement import RULE_NAMES, place
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.job import JobTable
from ray_sim.model.units import QUANTA_PER_UNIT
from tests.worlds import Job, world_of

Placement = dict[int, int]
"""Tasks by server; nothing where the gang does not fit."""

SIZES = st.sampled_from([0, 256, 512, 512, 1024])
"""Powers of two, so that the kernels' shares of a server are exact in floating point too."""


class Gang(NamedTuple):
    """One gang and the servers it may use."""

    tasks: int
    demand: list[int]
    capacity: list[list[int]]
    free: list[list[int]]
    """Nothing of servers that are not there."""
    there: list[bool]

    def room(self, amounts: list[int]) -> int:
        """How many tasks amounts of each resource hold."""
        rooms = [amount // asked for amount, asked in zip(amounts, self.demand, strict=True) if asked > 0]
        return min(rooms, default=self.tasks)

    @property
    def servers(self) -> range:
        return range(len(self.capacity))

    @property
    def rooms(self) -> list[int]:
        """How many tasks each server holds now."""
        return [
            self.room(amounts) if there else 0 for amounts, there in zip(self.free, self.there, strict=True)
        ]

    @property
    def fits_on_one(self) -> bool:
        """Whether one server, were it empty, would hold the whole gang."""
        return any(self.room(amounts) >= self.tasks for amounts in self.capacity)

    def free_share(self, server: int, placed: int) -> Fraction:
        """Free capacity of the demanded resources, as shares of the largest server's."""
        largest = [max(sizes) for sizes in zip(*self.capacity, strict=True)]
        left = zip(self.free[server], self.demand, largest, strict=True)
        return sum(
            (Fraction(f - placed * d, big) for f, d, big in left if d > 0 and big > 0), start=Fraction(0)
        )

    def load(self, server: int, placed: int) -> Fraction:
        """Sum over resources of the used share of the server."""
        amounts = zip(self.capacity[server], self.free[server], self.demand, strict=True)
        return sum((Fraction(c - f + placed * d, c) for c, f, d in amounts if c > 0), start=Fraction(0))


def in_order(gang: Gang) -> Placement:
    """Fill the servers in index order."""
    placed: Placement = {}
    for server in gang.servers:
        left = gang.tasks - sum(placed.values())
        placed[server] = min(left, gang.rooms[server])
    return whole(gang, {server: n for server, n in placed.items() if n > 0})


def whole(gang: Gang, placed: Placement) -> Placement:
    """All of the gang or nothing."""
    return placed if sum(placed.values()) == gang.tasks else {}


def first_fit(gang: Gang) -> Placement:
    """The first server that holds all; a gang too large for any server fills them in order."""
    if not gang.fits_on_one:
        return in_order(gang)
    return next(({server: gang.tasks} for server in gang.servers if gang.rooms[server] >= gang.tasks), {})


def best_fit(gang: Gang, tasks: int, apart_from: Placement) -> Placement:
    """All on the server with the least free capacity that suffices."""
    suffice = [s for s in gang.servers if gang.rooms[s] >= tasks and s not in apart_from]
    return {min(suffice, key=lambda s: gang.free_share(s, 0)): tasks} if suffice else {}


def consolidate(gang: Gang) -> Placement:
    """Best fit; larger gangs take completely free servers, largest first, and the rest is best fit."""
    if gang.fits_on_one:
        return best_fit(gang, gang.tasks, {})
    placed: Placement = {}
    untouched = [s for s in gang.servers if gang.free[s] == gang.capacity[s] and gang.rooms[s] > 0]
    for server in sorted(untouched, key=lambda s: -gang.rooms[s]):
        if gang.rooms[server] <= gang.tasks - sum(placed.values()):
            placed[server] = gang.rooms[server]
    left = gang.tasks - sum(placed.values())
    return whole(gang, placed | best_fit(gang, left, placed) if left else placed)


def one_by_one(gang: Gang, preference: Callable[[int, int], tuple[Fraction | int, ...]]) -> Placement:
    """Each task to the server with room whose preference (server, tasks there) is smallest."""
    placed: Counter[int] = Counter()
    for _ in range(gang.tasks):
        able = [s for s in gang.servers if gang.rooms[s] > placed[s]]
        if not able:
            return {}
        placed[min(able, key=lambda s: preference(s, placed[s]))] += 1
    return dict(placed)


def spread(gang: Gang) -> Placement:
    """Each task to the server with the fewest tasks of the gang; of those, to the one with most free."""
    return one_by_one(gang, lambda server, placed: (placed, -gang.free_share(server, placed)))


def load_balance(gang: Gang) -> Placement:
    """Each task to the least loaded server."""
    return one_by_one(gang, lambda server, placed: (gang.load(server, placed),))


DEFINITIONS: dict[str, Callable[[Gang], Placement]] = {
    "pooled": in_order,
    "first_fit": first_fit,
    "consolidate": consolidate,
    "spread": spread,
    "load_balance": load_balance,
}
every_rule = pytest.mark.parametrize("rule", RULE_NAMES)


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    resources = draw(st.integers(1, 2))
    sizes = st.lists(SIZES, min_size=resources, max_size=resources)
    capacity = draw(st.lists(sizes, min_size=1, max_size=6))
    demand = draw(
        st.lists(st.sampled_from([0, 64, 128, 128, 300, 512]), min_size=resources, max_size=resources)
    )
    tasks = draw(st.integers(1, 12))
    there = draw(
        st.lists(st.sampled_from([True, True, False]), min_size=len(capacity), max_size=len(capacity))
    )
    free = draw(free_of(capacity))
    free = [amounts if up else [0] * resources for amounts, up in zip(free, there, strict=True)]
    return Gang(tasks, demand, capacity, free, there)


@st.composite
def free_of(draw: st.DrawFn, upper: list[list[int]], lower: list[list[int]] | None = None) -> list[list[int]]:
    """Free amounts between two bounds; whole servers are often at the upper one."""
    lower = lower or [[0] * len(amounts) for amounts in upper]
    return [
        high if draw(st.booleans()) else [draw(st.integers(a, b)) for a, b in zip(low, high, strict=True)]
        for low, high in zip(lower, upper, strict=True)
    ]


def world_with(gang: Gang) -> World:
    """A world whose only job is the gang."""
    n, names = len(gang.capacity), tuple(QUANTA_PER_UNIT)[: len(gang.demand)]
    cluster = Cluster(
        name="test",
        server_names=tuple(f"s{i}" for i in gang.servers),
        resources=names,
        capacity=np.array(gang.capacity, dtype=np.int64),
        speed=np.ones(n),
        vc=(None,) * n,
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=(None,) * n,
    )
    table = JobTable(
        job_id=pl.Series(["gang"]),
        submit_us=np.zeros(1, np.int64),
        work_us=np.zeros(1, np.int64),
        tasks=np.array([gang.tasks]),
        demand=np.array([gang.demand]),
        resources=names,
        num_gpus=np.ones(1),
        vc=np.full(1, -1),
    )
    return build_world(table, cluster)


def placed_by(rule: str, gang: Gang) -> Placement:
    """What the kernel does."""
    world = world_with(gang)
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
