"""Dorm's allocation: the containers of applications that use most of the servers, within two bounds.

One bound limits the distance of shares from those of dominant resource fairness, the other the number of
running applications that are changed.

Source: Sun, Wen, Ta, Yan, Towards Distributed Machine Learning in Shared Clusters: A
Dynamically-Partitioned Approach, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ray_sim.kernels.elastic.dominant_shares import fill, new_filling
from ray_sim.kernels.elastic.least_loaded import new_loads
from ray_sim.kernels.elastic.server_tree import new_server_tree
from ray_sim.model.units import BoolArray, FloatArray, IntArray, tolerant_ceil
from ray_sim.solvers.milp import Answer, Programme, SearchEnd


@dataclass(frozen=True, slots=True)
class Applications:
    """n applications, in the order that breaks ties, and the S servers that they share."""

    demand: IntArray
    """(n, R) quanta of one container."""
    least: IntArray
    """(n,) least number of containers."""
    most: IntArray
    """(n,) largest number of containers."""
    capacity: IntArray
    """(S, R) quanta."""
    allowed: BoolArray
    """(n, S) servers that may hold containers of each application."""
    held: IntArray
    """(n, S) current containers."""
    old: BoolArray
    """(n,) whether it is running: a change of its containers is an adjustment."""

    def first(self, n: int) -> Applications:
        """Select the first n applications."""
        return Applications(
            self.demand[:n],
            self.least[:n],
            self.most[:n],
            self.capacity,
            self.allowed[:n],
            self.held[:n],
            self.old[:n],
        )

    @property
    def total(self) -> IntArray:
        """(R,) quanta."""
        total: IntArray = self.capacity.sum(axis=0)
        return total

    @property
    def shares(self) -> FloatArray:
        """(n, R) share of one container in the total; 0 where the total is 0."""
        return np.divide(self.demand, self.total, out=np.zeros(self.demand.shape), where=self.total > 0)

    @property
    def dominant(self) -> FloatArray:
        """(n,) dominant share of one container."""
        dominant: FloatArray = self.shares.max(axis=1, initial=0.0)
        return dominant

    @property
    def room(self) -> IntArray:
        """(n, S) containers that each empty server may hold, at most the application's largest number."""
        fit = np.where(self.allowed, self.most[:, None], 0)
        for r in range(len(self.total)):
            some = self.demand[:, r] > 0
            fit[some] = np.minimum(fit[some], self.capacity[:, r] // self.demand[some, r, None])
        return fit

    def may_fit(self) -> bool:
        """Whether the pooled servers hold the least containers of all; False proves that they do not fit."""
        wanted = (self.least[:, None] * self.demand).sum(axis=0)
        return bool((wanted <= self.total).all() and (self.room.sum(axis=1) >= self.least).all())


@dataclass(frozen=True, slots=True)
class AllocationLimits:
    """Bounds on an allocation and on the search for it."""

    theta1: float
    """Bound on the fairness loss: theta1 x 2 m."""
    theta2: float
    """Largest share of the running applications that may change, rounded up to whole applications."""
    gap: float
    nodes: int
    """See `Programme.maximise`."""
    in_turn: bool = False
    """Whether to fill servers in order, without a search; applications without room are left out."""


def fair_containers(applications: Applications) -> IntArray:
    """(n,) containers by progressive filling of the pooled servers, with exact comparison of shares."""
    filling = new_filling(applications.demand, applications.most, applications.total, 0)
    nothing = applications.capacity[:0]
    tree = new_server_tree(np.empty(0, dtype=np.int64), nothing, nothing, applications.total)
    fill(filling, new_loads(tree), True, False)
    return filling.got


def utilisation(applications: Applications, containers: IntArray) -> float:
    """Sum over resource types of the used share, Dorm's objective; containers are (n, S)."""
    return float((containers.sum(axis=1) @ applications.shares).sum())


def fairness_loss(applications: Applications, containers: IntArray) -> float:
    """Sum over applications of |dominant share - fair share|; containers are (n, S)."""
    away = np.abs(containers.sum(axis=1) - fair_containers(applications))
    return float((away * applications.dominant).sum())


_FIRST_GAP = 0.25
"""Part of the gap that the first two searches use, so that together they stay within it."""


def allocate(applications: Applications, limits: AllocationLimits) -> tuple[SearchEnd, IntArray | None]:
    """Result of the search, and (n, S) containers if any were found.

    First the numbers of containers are found with all servers pooled, which also bounds the objective. The
    applications whose number changes are placed on the servers in order, or, if few may change, by a search
    for them alone. If the result is within the gap of the bound, it is accepted; otherwise a search covers
    all applications. With `in_turn` there is no search on servers: the fairness loss may exceed its bound,
    and an application without room for its least gets nothing.

    A solution that exceeds a capacity when rounded to whole containers counts as none at the limit.

    Raises
    ------
    RunFailedError : the solver failed
    """
    changes = tolerant_ceil(limits.theta2 * int(applications.old.sum()))
    search = _Search(applications, applications.room, fair_containers(applications), limits.theta1, changes)
    all_free = np.ones(len(applications.old), dtype=np.bool_)
    first = replace(limits, gap=_FIRST_GAP * limits.gap)
    outline, total = search.pooled().run(first, all_free)
    if outline.ending is SearchEnd.INFEASIBLE:
        return outline.ending, None
    if outline.values is not None:
        counts = np.rint(outline.values[total]).astype(np.int64)[:, 0]
        few = ~applications.old | (counts != applications.held.sum(axis=1))
        enough = outline.bound / (1 + limits.gap)
        in_turn = place_in_turn(applications, counts, few)
        if search.allows(in_turn) and utilisation(applications, in_turn) >= enough:
            return SearchEnd.FOUND, in_turn
        if limits.in_turn:
            in_turn[in_turn.sum(axis=1) < applications.least] = 0
            return SearchEnd.FOUND, in_turn
        if changes < applications.old.sum():
            _, found = _whole(*search.run(first, few), applications)
            if found is not None and utilisation(applications, found) >= enough:
                return SearchEnd.FOUND, found
    if limits.in_turn:
        return outline.ending, None
    return _whole(*search.run(limits, all_free), applications)


def most_together(applications: Applications, limits: AllocationLimits) -> int:
    """Largest n for which the first n applications can have their least containers together.

    Bisection is valid because fewer applications fit where more do. A search that ends at the node limit
    counts as a failure; with `in_turn` there is no search.
    """
    low, high = 0, len(applications.least)
    some = high
    while low < high:
        if _least_fit(applications.first(some), limits):
            low = some
        else:
            high = some - 1
        some = (low + high + 1) // 2
    return low


def _least_fit(applications: Applications, limits: AllocationLimits) -> bool:
    if not applications.may_fit():
        return False
    all_free = np.ones(len(applications.old), dtype=np.bool_)
    in_turn = place_in_turn(applications, applications.least, all_free)
    if (in_turn.sum(axis=1) == applications.least).all() or limits.in_turn:
        return bool((in_turn.sum(axis=1) == applications.least).all())
    programme = Programme()
    x = programme.variables(applications.room, gain=np.zeros(applications.room.shape), whole=True)
    for i, least in enumerate(applications.least.tolist()):
        programme.row(least, x[i], np.ones(x.shape[1]), least)
    _fit(programme, x, applications)
    return programme.maximise(gap=limits.gap, nodes=limits.nodes).ending is SearchEnd.FOUND


def place_in_turn(applications: Applications, counts: IntArray, free: BoolArray) -> IntArray:
    """(n, S) containers, at most ``counts`` of each application, on the lowest servers with room.

    Applications that are not ``free`` stay. The others go by falling dominant share: first the least of each,
    then the rest.
    """
    placed = np.where(free[:, None], 0, applications.held)
    left = applications.capacity - np.einsum("nr,ns->sr", applications.demand, placed)
    order = np.flatnonzero(free)[np.argsort(-applications.dominant[free], kind="stable")].tolist()
    first = np.minimum(counts, applications.least)
    for wanted in (first, counts - first):
        for i in order:
            demand = applications.demand[i]
            some = demand > 0
            fit = (left[:, some] // demand[some]).min(axis=1, initial=wanted[i])
            fit[~applications.allowed[i]] = 0
            more = np.diff(np.minimum(np.cumsum(fit), wanted[i]), prepend=0)
            placed[i] += more
            left -= np.outer(more, demand)
    return placed


@dataclass(frozen=True, slots=True)
class _Search:
    """Programme of Dorm: allocations within two bounds."""

    applications: Applications
    room: IntArray
    """(n, S) largest number of containers of each application on each server."""
    fair: IntArray
    """(n,) containers of a fair allocation."""
    theta1: float
    changes: int
    """Largest number of running applications that change."""

    def allows(self, containers: IntArray) -> bool:
        """Whether each application has its least, and the fairness loss is within its bound."""
        if (containers.sum(axis=1) < self.applications.least).any():
            return False
        return self.theta1 >= 1 or fairness_loss(self.applications, containers) <= self._most_loss

    @property
    def _most_loss(self) -> float:
        return self.theta1 * 2 * int((self.applications.total > 0).sum())

    def pooled(self) -> _Search:
        """Relax to one server with the total capacity; its optimum bounds that of every allocation."""
        one = replace(
            self.applications,
            capacity=self.applications.total[None],
            allowed=np.any(self.applications.allowed, axis=1, keepdims=True),
            held=self.applications.held.sum(axis=1, keepdims=True),
        )
        room = np.minimum(self.applications.most, self.room.sum(axis=1))[:, None]
        return replace(self, applications=one, room=room)

    def run(self, limits: AllocationLimits, free: BoolArray) -> tuple[Answer, IntArray]:
        """Solution, and (n, S) variables of the containers; applications that are not ``free`` stay."""
        programme, applications = Programme(), self.applications
        gain = np.repeat(applications.shares.sum(axis=1)[:, None], self.room.shape[1], axis=1)
        least = np.where(free[:, None], 0, applications.held)
        most = np.where(free[:, None], self.room, applications.held)
        x = programme.variables(most, gain=gain, whole=True, lower=least)
        every = np.ones(x.shape[1])
        for i in range(len(x)):
            programme.row(float(applications.least[i]), x[i], every, float(applications.most[i]))
        _fit(programme, x, applications)
        if self.theta1 < 1:
            self._be_fair(programme, x)
        if self.changes < applications.old.sum():
            self._keep(programme, x, np.flatnonzero(applications.old & free))
        return programme.maximise(gap=limits.gap, nodes=limits.nodes), x

    def _be_fair(self, programme: Programme, x: IntArray) -> None:
        """Add loss variables, at least |share - fair share| each, and the bound on their sum."""
        dominant = self.applications.dominant
        fair = self.fair * dominant
        loss = programme.variables(np.full(len(x), np.inf), gain=np.zeros(len(x)), whole=False)
        for i in range(len(x)):
            columns, share = np.append(x[i], loss[i]), np.full(x.shape[1], dominant[i])
            programme.row(-np.inf, columns, np.append(share, -1.0), fair[i])
            programme.row(fair[i], columns, np.append(share, 1.0), np.inf)
        programme.row(-np.inf, loss, np.ones(len(loss)), self._most_loss)

    def _keep(self, programme: Programme, x: IntArray, old: IntArray) -> None:
        """Limit the changed applications among ``old``: only those whose switch is 1 may differ from now."""
        switch = programme.variables(np.ones(len(old)), gain=np.zeros(len(old)), whole=True)
        for i, s in zip(old.tolist(), switch.tolist(), strict=True):
            held, room = self.applications.held[i], self.room[i]
            here = np.flatnonzero(held > 0)
            for j in here.tolist():
                pair = np.array([x[i, j], s])
                programme.row(held[j], pair, np.array([1, held[j]]), np.inf)
                programme.row(-np.inf, pair, np.array([1, held[j] - room[j]]), held[j])
            elsewhere = np.append(np.delete(x[i], here), s)
            ones = np.ones(len(elsewhere) - 1)
            most = min(int(self.applications.most[i]), int(room.sum()))
            programme.row(-np.inf, elsewhere, np.append(ones, -most), 0.0)
        programme.row(-np.inf, switch, np.ones(len(switch)), self.changes)


def _fit(programme: Programme, x: IntArray, applications: Applications) -> None:
    """Add the capacities, divided by the greatest common divisor of demands, for small rounding errors."""
    for r in range(len(applications.total)):
        demand = applications.demand[:, r]
        some = demand > 0
        if some.any():
            unit = np.gcd.reduce(demand[some])
            for j, offered in enumerate((applications.capacity[:, r] // unit).tolist()):
                programme.row(-np.inf, x[some, j], demand[some] // unit, offered)


def _whole(answer: Answer, x: IntArray, applications: Applications) -> tuple[SearchEnd, IntArray | None]:
    if answer.values is None:
        return answer.ending, None
    containers = np.rint(answer.values[x]).astype(np.int64)
    used = np.einsum("nr,ns->sr", applications.demand, containers)
    if (used > applications.capacity).any():
        return SearchEnd.LIMIT, None
    return answer.ending, containers
