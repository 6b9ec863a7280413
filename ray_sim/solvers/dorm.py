"""Dorm's allocation: the containers of applications that use most of the servers, within two bounds.

One bounds how far the shares are from those of dominant resource fairness, the other how many of the
applications that run already are changed.

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
from ray_sim.solvers.milp import Answer, Ending, Programme


@dataclass(frozen=True, slots=True)
class Applications:
    """n applications in the order that breaks ties, and the S servers they share."""

    demand: IntArray
    """(n, R) quanta of a container."""
    least: IntArray
    """(n,) containers."""
    most: IntArray
    """(n,) containers."""
    capacity: IntArray
    """(S, R) quanta."""
    held: IntArray
    """(n, S) containers now."""
    old: BoolArray
    """(n,) whether it runs now: to change what it holds is an adjustment."""

    def first(self, n: int) -> Applications:
        """The first n of them."""
        return Applications(
            self.demand[:n], self.least[:n], self.most[:n], self.capacity, self.held[:n], self.old[:n]
        )

    @property
    def total(self) -> IntArray:
        """(R,) quanta."""
        total: IntArray = self.capacity.sum(axis=0)
        return total

    @property
    def shares(self) -> FloatArray:
        """(n, R) of all there is, of one container; 0 of what there is not."""
        return np.divide(self.demand, self.total, out=np.zeros(self.demand.shape), where=self.total > 0)

    @property
    def dominant(self) -> FloatArray:
        """(n,) dominant share of one container."""
        dominant: FloatArray = self.shares.max(axis=1, initial=0.0)
        return dominant

    @property
    def room(self) -> IntArray:
        """(n, S) containers that each empty server holds, at most as many as the application may have."""
        fit = np.repeat(self.most[:, None], len(self.capacity), axis=1)
        for r in range(len(self.total)):
            some = self.demand[:, r] > 0
            fit[some] = np.minimum(fit[some], self.capacity[:, r] // self.demand[some, r, None])
        return fit

    def may_fit(self) -> bool:
        """False only if the servers together cannot hold the least containers of all."""
        wanted = (self.least[:, None] * self.demand).sum(axis=0)
        return bool((wanted <= self.total).all() and (self.room.sum(axis=1) >= self.least).all())


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on an allocation and on the search for it."""

    theta1: float
    """Fairness loss at most theta1 x 2 m."""
    theta2: float
    """At most this share of the applications that run is changed, rounded up."""
    gap: float
    nodes: int
    """See `Programme.maximise`."""
    in_turn: bool = False
    """Whether containers go on the servers in turn without a search; those that find no room are left out."""


def fair_containers(applications: Applications) -> IntArray:
    """(n,) containers by progressive filling of all servers as one, shares compared exactly."""
    filling = new_filling(applications.demand, applications.most, applications.total, 0)
    nothing = applications.capacity[:0]
    tree = new_server_tree(np.empty(0, dtype=np.int64), nothing, nothing, applications.total)
    fill(filling, new_loads(tree), True, False)
    return filling.got


def utilisation(applications: Applications, containers: IntArray) -> float:
    """Sum over resource types of the used share, which Dorm maximises; containers are (n, S)."""
    return float((containers.sum(axis=1) @ applications.shares).sum())


def fairness_loss(applications: Applications, containers: IntArray) -> float:
    """Sum over applications of the distance between dominant share and fair share; containers are (n, S)."""
    away = np.abs(containers.sum(axis=1) - fair_containers(applications))
    return float((away * applications.dominant).sum())


_FIRST_GAP = 0.25
"""Part of the gap to which the first two searches go, so that both together may stay within it."""


def allocate(applications: Applications, limits: Limits) -> tuple[Ending, IntArray | None]:
    """How the search ended, and (n, S) containers if any were found.

    How many containers each gets is searched for with all servers taken as one, which also bounds what can
    be used. Those whose number changes are put on the servers in turn, or, where few may be changed, by a
    search for them alone. If what that uses is within the gap of the bound, it is as good as asked for; if
    not, all are searched. With `in_turn` nothing is searched on servers, so fairness may suffer more than its
    bound, and whoever does not find its least gets nothing.

    An answer that breaks a capacity when rounded to whole containers counts as none at the limit.

    Raises
    ------
    RunFailedError : the solver failed
    """
    changes = tolerant_ceil(limits.theta2 * int(applications.old.sum()))
    search = _Search(applications, applications.room, fair_containers(applications), limits.theta1, changes)
    everyone = np.ones(len(applications.old), dtype=np.bool_)
    first = replace(limits, gap=_FIRST_GAP * limits.gap)
    outline, total = search.pooled().run(first, everyone)
    if outline.ending is Ending.INFEASIBLE:
        return outline.ending, None
    if outline.values is not None:
        counts = np.rint(outline.values[total]).astype(np.int64)[:, 0]
        few = ~applications.old | (counts != applications.held.sum(axis=1))
        enough = outline.bound / (1 + limits.gap)
        in_turn = place_in_turn(applications, counts, few)
        if search.allows(in_turn) and utilisation(applications, in_turn) >= enough:
            return Ending.FOUND, in_turn
        if limits.in_turn:
            in_turn[in_turn.sum(axis=1) < applications.least] = 0
            return Ending.FOUND, in_turn
        if changes < applications.old.sum():
            _, found = _whole(*search.run(first, few), applications)
            if found is not None and utilisation(applications, found) >= enough:
                return Ending.FOUND, found
    if limits.in_turn:
        return outline.ending, None
    return _whole(*search.run(limits, everyone), applications)


def most_together(applications: Applications, limits: Limits) -> int:
    """How many of the first applications can have their least containers at the same time.

    By bisection, as fewer fit where more do. A search that ends at the limit of nodes counts as a no, and
    with `in_turn` no search is made.
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


def _least_fit(applications: Applications, limits: Limits) -> bool:
    if not applications.may_fit():
        return False
    everyone = np.ones(len(applications.old), dtype=np.bool_)
    in_turn = place_in_turn(applications, applications.least, everyone)
    if (in_turn.sum(axis=1) == applications.least).all() or limits.in_turn:
        return bool((in_turn.sum(axis=1) == applications.least).all())
    programme = Programme()
    x = programme.variables(applications.room, gain=np.zeros(applications.room.shape), whole=True)
    for i, least in enumerate(applications.least.tolist()):
        programme.row(least, x[i], np.ones(x.shape[1]), least)
    _fit(programme, x, applications)
    return programme.maximise(gap=limits.gap, nodes=limits.nodes).ending is Ending.FOUND


def place_in_turn(applications: Applications, counts: IntArray, free: BoolArray) -> IntArray:
    """(n, S) containers, of each at most ``counts`` and as many as find room, on the lowest servers.

    Those that are not ``free`` stay; of the others the largest dominant shares come first, all with their
    least before any with more.
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
            more = np.diff(np.minimum(np.cumsum(fit), wanted[i]), prepend=0)
            placed[i] += more
            left -= np.outer(more, demand)
    return placed


@dataclass(frozen=True, slots=True)
class _Search:
    """What is searched: allocations within two bounds."""

    applications: Applications
    room: IntArray
    """(n, S) most containers of each on each server."""
    fair: IntArray
    """(n,) containers."""
    theta1: float
    changes: int
    """Most old applications that are changed."""

    def allows(self, containers: IntArray) -> bool:
        """Whether each has enough, and the loss of fairness is within its bound."""
        if (containers.sum(axis=1) < self.applications.least).any():
            return False
        return self.theta1 >= 1 or fairness_loss(self.applications, containers) <= self._most_loss

    @property
    def _most_loss(self) -> float:
        return self.theta1 * 2 * int((self.applications.total > 0).sum())

    def pooled(self) -> _Search:
        """The same with one server that has all there is: whatever uses it best, no allocation uses more."""
        one = replace(
            self.applications,
            capacity=self.applications.total[None],
            held=self.applications.held.sum(axis=1, keepdims=True),
        )
        room = np.minimum(self.applications.most, self.room.sum(axis=1))[:, None]
        return replace(self, applications=one, room=room)

    def run(self, limits: Limits, free: BoolArray) -> tuple[Answer, IntArray]:
        """The answer, and (n, S) variables of the containers; applications that are not ``free`` stay."""
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
        """Losses no less than the distance from the fair share on either side, and a bound on their sum."""
        dominant = self.applications.dominant
        fair = self.fair * dominant
        loss = programme.variables(np.full(len(x), np.inf), gain=np.zeros(len(x)), whole=False)
        for i in range(len(x)):
            columns, share = np.append(x[i], loss[i]), np.full(x.shape[1], dominant[i])
            programme.row(-np.inf, columns, np.append(share, -1.0), fair[i])
            programme.row(fair[i], columns, np.append(share, 1.0), np.inf)
        programme.row(-np.inf, loss, np.ones(len(loss)), self._most_loss)

    def _keep(self, programme: Programme, x: IntArray, old: IntArray) -> None:
        """At most so many of these hold anything else than now: only those whose switch is 1 may."""
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
    """Capacities, in units of the largest common divisor of all demands: small numbers, small errors."""
    for r in range(len(applications.total)):
        asked = applications.demand[:, r]
        some = asked > 0
        if some.any():
            unit = np.gcd.reduce(asked[some])
            for j, offered in enumerate((applications.capacity[:, r] // unit).tolist()):
                programme.row(-np.inf, x[some, j], asked[some] // unit, offered)


def _whole(answer: Answer, x: IntArray, applications: Applications) -> tuple[Ending, IntArray | None]:
    if answer.values is None:
        return answer.ending, None
    containers = np.rint(answer.values[x]).astype(np.int64)
    used = np.einsum("nr,ns->sr", applications.demand, containers)
    if (used > applications.capacity).any():
        return Ending.LIMIT, None
    return answer.ending, containers
