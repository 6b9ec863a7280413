"""Placement rules by their definitions, one task after the other, in exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

Placement = dict[int, int]
"""Tasks by server; nothing where the gang does not fit."""


class Gang(NamedTuple):
    """One gang and the servers it may use."""

    tasks: int
    demand: list[int]
    capacity: list[list[int]]
    free: list[list[int]]
    """Nothing of servers that are not there."""
    there: list[bool]
    larger: bool = False
    """Whether these are tasks of a job that no empty server holds, though it may hold them."""

    def room(self, amounts: list[int]) -> int:
        """Number of tasks that fit in these amounts, one for each resource."""
        rooms = [amount // asked for amount, asked in zip(amounts, self.demand, strict=True) if asked > 0]
        return min(rooms, default=self.tasks)

    @property
    def servers(self) -> range:
        return range(len(self.capacity))

    @property
    def rooms(self) -> list[int]:
        """Number of tasks that fit on each server with what is free on it."""
        return [
            self.room(amounts) if there else 0 for amounts, there in zip(self.free, self.there, strict=True)
        ]

    @property
    def fits_on_one(self) -> bool:
        """Whether one server, were it empty, would hold the whole gang."""
        return not self.larger and any(self.room(amounts) >= self.tasks for amounts in self.capacity)

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


def choice_of_both(gangs: Sequence[Gang], rule: str) -> list[Placement]:
    """Placements of workers and of parameter servers, by role; empty where the rule finds no servers.

    A job that one empty server holds is one task under `first_fit` and `consolidate`. Else parameter servers
    get what the workers leave, in index order unless the rule goes task by task.
    """
    workers, ps = gangs
    whole_job = [workers.tasks * a + ps.tasks * b for a, b in zip(workers.demand, ps.demand, strict=True)]
    together = workers._replace(tasks=1, demand=whole_job)
    if rule in ("first_fit", "consolidate"):
        if together.fits_on_one:
            servers = list(DEFINITIONS[rule](together))
            return [{server: gang.tasks for server in servers if gang.tasks} for gang in gangs]
        workers = workers._replace(larger=True)
    first = DEFINITIONS[rule](workers) if workers.tasks else {}
    if sum(first.values()) < workers.tasks:
        return [{}, {}]
    free = [
        [f - first.get(server, 0) * d for f, d in zip(amounts, workers.demand, strict=True)]
        for server, amounts in enumerate(workers.free)
    ]
    second = rule if rule in ("spread", "load_balance") else "pooled"
    then = DEFINITIONS[second](ps._replace(free=free)) if ps.tasks else {}
    return [first, then] if sum(then.values()) == ps.tasks else [{}, {}]


def some_choice_holds(gangs: Sequence[Gang]) -> bool:
    """Whether any choice of servers holds all tasks of all roles: every choice is tried, server by server."""
    placed = {(0,) * len(gangs)}
    for server in gangs[0].servers:
        if not gangs[0].there[server]:
            continue
        placed = {
            tuple(min(a + b, gang.tasks) for a, b, gang in zip(before, here, gangs, strict=True))
            for before in placed
            for here in product(*(range(gang.tasks + 1) for gang in gangs))
            if all(
                sum(n * gang.demand[r] for n, gang in zip(here, gangs, strict=True)) <= free
                for r, free in enumerate(gangs[0].free[server])
            )
        }
    return tuple(gang.tasks for gang in gangs) in placed
