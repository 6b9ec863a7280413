"""Parametric linear programme of one slot: least cost V(W) of W workers, for every W at once.

The programme spreads W workers and W / gamma parameter servers over servers, in fractions, at the least
cost. The load of a server is a point (workers, parameter servers) in a polygon; each resource that is
exhausted is an edge. A point changes in a few directions only: workers up or parameter servers up in the
interior, else along an edge, either way. All polygons have the same directions, because the demands of the
job are the same on every server; rooms and prices differ.

The solution is a walk from W = 0. Each step takes the pair of directions that adds one worker and 1 / gamma
parameter servers at the least cost, on the cheapest server of each, and advances until one of the two servers
meets another edge. V is convex, so from an optimal point the cheapest feasible direction stays optimal:
each step is a linear piece of V(W), and slopes never fall.

Ties go to the lowest server, and between pairs to the first one, which uses interior directions.

Source: the programme is that of Yu et al., Toward Efficient Online Scheduling for Distributed Machine
Learning Systems (external case of a slot); the parametric walk is ours.
docs/models/pd_ors.md#cost-of-one-slot has both.

`ray_sim/solvers/planning/slots.py` calls `walk_all` for the slots of a job. The order of directions, the ties
and the tolerances decide results: a change of them renews tests/golden/fingerprint.json.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64

ADD_WORKER, ADD_PS = 0, 1
"""The first two directions. Each row of resources adds two: towards workers, towards parameter servers."""

AT_MOST, NO_MORE, UNSOLVED = range(3)
"""End of a walk: reached the number of workers wanted; nothing more fits; limit of steps reached."""

_USED_UP = 1e-12
"""A row counts as exhausted below this share of its room."""

_SAME = 1e-12
"""Relative difference below which two slopes are equal."""

_FITS = 1e-9
"""Tolerance, relative to the workers that fit, within which more workers count as fitting."""


class TaskDirections(NamedTuple):
    """Directions of one job on any server: M rows of resources, D = 2 + 2 M of them, P pairs."""

    worker: F64
    """(M,) demand of a worker, by row."""
    ps: F64
    """(M,) demand of a parameter server, by row; `worker` and `ps` are not both 0 in a row."""
    step: F64
    """(D, 2) workers and parameter servers that a unit of each direction adds."""
    rate: F64
    """(D, M) demand of a unit of each direction, by row; exactly 0 in the row that it follows."""
    along: I64
    """(D,) the row that must be exhausted, -1 for the first two directions."""
    barred: I64
    """(D,) bits of the limits that forbid a direction: exhausted rows, no workers, no parameter servers."""
    pair: I64
    """(P, 2) directions that together can add one worker and 1 / gamma parameter servers."""
    units: F64
    """(P, 2) units of each direction that do so, >= 0."""


class SlotOffer(NamedTuple):
    """Room and prices of one slot on S servers, for one job."""

    room: F64
    """(S, M) free amount by row, >= 0."""
    price: F64
    """(S, 2) of a worker and of a parameter server, >= 0."""
    by_worker: I64
    """(S,) servers by increasing price of a worker, then by number."""
    by_ps: I64
    """(S,) servers by increasing price of a parameter server, then by number."""


class SlotOffers(NamedTuple):
    """Offers of n slots: the arrays of `SlotOffer`, with the slot as first axis."""

    room: F64
    price: F64
    by_worker: I64
    by_ps: I64


class WalkPoint(NamedTuple):
    """Work space of a walk: its current point on each server."""

    held: F64
    """(S, 2) workers and parameter servers."""
    limits: I64
    """(S,) bit mask as in `TaskDirections.barred`: limits that hold with equality."""
    edge: I64
    """(S,) servers that have exhausted a row, in the order of that."""
    on_edge: I64
    """(S,) 1 for the servers in `edge`, else 0."""
    cheapest: I64
    """(D,) server where a unit of each direction is cheapest, -1 if none is feasible."""
    cost: F64
    """(D,) cost of that unit."""


class SlotWalks(NamedTuple):
    """Least-cost walks of several slots, stored one after the other.

    Steps ``ptr[i]`` to ``ptr[i + 1]`` belong to slot i and begin at 0 workers.
    """

    reach: F64
    """Workers after a step."""
    slope: F64
    """Cost of one worker more and of 1 / gamma parameter servers; >= 0, non-decreasing within a slot."""
    server: I64
    """(N, 2) servers that change; the same one twice if only one changes."""
    change: F64
    """(N, 2, 2) workers and parameter servers that each of the two gains per worker more in total."""
    ptr: I64


@kernel
def offer_of(offers: SlotOffers, slot: int) -> SlotOffer:
    """Return the offer of one slot, as views."""
    return SlotOffer(offers.room[slot], offers.price[slot], offers.by_worker[slot], offers.by_ps[slot])


@kernel
def _bit(limits: int, at: int) -> bool:
    """Whether the bit of a limit is set."""
    return (limits >> at) & 1 == 1


@kernel
def _start(directions: TaskDirections, offer: SlotOffer, point: WalkPoint) -> None:
    """Set the point of every server to 0 workers and 0 parameter servers; O(S M)."""
    rows = len(directions.worker)
    for server in range(len(offer.room)):
        point.held[server, 0], point.held[server, 1] = 0.0, 0.0
        limits = 3 << rows
        for row in range(rows):
            if offer.room[server, row] <= 0.0:
                limits |= 1 << row
        point.limits[server] = limits
        point.on_edge[server] = 0


@kernel
def _unit_cost(directions: TaskDirections, offer: SlotOffer, direction: int, server: int) -> float:
    """Return the cost of a unit of a direction on a server; < 0 if the direction frees more than it uses."""
    return (
        directions.step[direction, 0] * offer.price[server, 0]
        + directions.step[direction, 1] * offer.price[server, 1]
    )


@kernel
def _offer_direction(
    directions: TaskDirections, offer: SlotOffer, direction: int, server: int, point: WalkPoint
) -> None:
    """Make a server the cheapest of a direction if its unit costs less; ties go to the lower server."""
    cost, best = _unit_cost(directions, offer, direction, server), point.cheapest[direction]
    if best < 0 or cost < point.cost[direction] or (cost == point.cost[direction] and server < best):
        point.cheapest[direction] = server
        point.cost[direction] = cost


@kernel
def _find_cheapest(
    directions: TaskDirections, offer: SlotOffer, heads: tuple[int, int], edges: int, point: WalkPoint
) -> None:
    """Set the cheapest feasible server of every direction; O(edges x M).

    In the interior the cheapest server of a direction heads a list sorted by price; only servers on an edge
    are compared one by one.
    """
    servers = len(offer.room)
    for direction in range(len(directions.along)):
        point.cheapest[direction] = -1
    if heads[0] < servers:
        _offer_direction(directions, offer, ADD_WORKER, offer.by_worker[heads[0]], point)
    if heads[1] < servers:
        _offer_direction(directions, offer, ADD_PS, offer.by_ps[heads[1]], point)
    for k in range(edges):
        server = point.edge[k]
        limits = point.limits[server]
        for direction in range(2, len(directions.along)):
            if _bit(limits, directions.along[direction]) and limits & directions.barred[direction] == 0:
                _offer_direction(directions, offer, direction, server, point)


@kernel
def _cheapest_pair(directions: TaskDirections, point: WalkPoint) -> tuple[int, float]:
    """Return the cheapest feasible pair of directions and its cost per worker; -1 if there is none; O(P)."""
    best, slope = -1, 0.0
    for pair in range(len(directions.pair)):
        a, b = directions.pair[pair, 0], directions.pair[pair, 1]
        if point.cheapest[a] < 0 or point.cheapest[b] < 0:
            continue
        cost = directions.units[pair, 0] * point.cost[a] + directions.units[pair, 1] * point.cost[b]
        if best < 0 or cost < slope - _SAME * abs(slope):
            best, slope = pair, cost
    return best, slope


@outlined
def _length(
    directions: TaskDirections, offer: SlotOffer, server: int, workers: float, ps: float, point: WalkPoint
) -> tuple[float, int]:
    """Return how many workers in total a server can follow these rates, and the limit it meets; O(M).

    ``workers`` and ``ps`` are the rates of this server per worker more in total. The limit is a row, or
    M + role if the server runs out of that role, or -1.
    """
    rows = len(directions.worker)
    length, limit = np.inf, -1
    for row in range(rows):
        rate = directions.worker[row] * workers + directions.ps[row] * ps
        if rate > 0.0 and not _bit(point.limits[server], row):
            used = directions.worker[row] * point.held[server, 0] + directions.ps[row] * point.held[server, 1]
            left = max(0.0, offer.room[server, row] - used) / rate
            if left < length:
                length, limit = left, row
    for role in range(2):
        rate = workers if role == 0 else ps
        if rate < 0.0 and point.held[server, role] / -rate < length:
            length, limit = point.held[server, role] / -rate, rows + role
    return length, limit


@outlined
def _advance(
    directions: TaskDirections,
    offer: SlotOffer,
    server: int,
    kept: int,
    rates: tuple[float, float],
    length: float,
    limit: int,
    point: WalkPoint,
) -> None:
    """Move a server and set its limits: those in ``kept``, ``limit``, and rows exhausted within tolerance.

    ``limit`` is set even if rounding leaves a rest: otherwise the same step could repeat with length 0.
    """
    rows = len(directions.worker)
    for role in range(2):
        if limit == rows + role:
            point.held[server, role] = 0.0
        else:
            point.held[server, role] = max(0.0, point.held[server, role] + length * rates[role])
    limits = point.limits[server] & kept
    if limit >= 0:
        limits |= 1 << limit
    for row in range(rows):
        room = offer.room[server, row]
        used = directions.worker[row] * point.held[server, 0] + directions.ps[row] * point.held[server, 1]
        if room - used <= _USED_UP * room:
            limits |= 1 << row
    for role in range(2):
        if point.held[server, role] == 0.0:
            limits |= 1 << (rows + role)
    point.limits[server] = limits


@kernel
def _kept(directions: TaskDirections, direction: int) -> int:
    """Return the bit mask of limits that a direction does not leave: rows of rate 0, roles of step 0."""
    rows = len(directions.worker)
    kept = 0
    for row in range(rows):
        if directions.rate[direction, row] == 0.0:
            kept |= 1 << row
    for role in range(2):
        if directions.step[direction, role] == 0.0:
            kept |= 1 << (rows + role)
    return kept


@kernel
def _record(
    paths: SlotWalks,
    step: int,
    first: int,
    reach: float,
    slope: float,
    servers: tuple[int, int],
    rates: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """Append a step. Slopes are clipped from below by the last one: rounding must not make one fall."""
    paths.reach[step], paths.slope[step] = reach, max(slope, 0.0)
    if step > first:
        paths.slope[step] = max(paths.slope[step], paths.slope[step - 1])
    for mover in range(2):
        paths.server[step, mover] = servers[mover]
        for role in range(2):
            paths.change[step, mover, role] = rates[mover][role]


@outlined
def walk(
    directions: TaskDirections,
    offer: SlotOffer,
    most: float,
    point: WalkPoint,
    paths: SlotWalks,
    first: int,
    limit: int,
) -> tuple[int, int]:
    """Write the least-cost walk from 0 to ``most`` workers into steps from ``first`` on.

    Invariant of the loop: the point is optimal for ``reach`` workers, and the two heads point to the
    cheapest servers in the interior. At most ``limit`` steps have a positive length, and at most as many
    have length 0 (an edge met by two servers at once). O((S + n^2) M) for n steps.

    Returns
    -------
    (end, ending) : number after the last step; AT_MOST, NO_MORE or UNSOLVED
    """
    _start(directions, offer, point)
    servers, rows = len(offer.room), len(directions.worker)
    reach, step, edges, head_worker, head_ps = 0.0, first, 0, 0, 0
    for _ in range(2 * limit):
        if reach >= most:
            return step, AT_MOST
        # Heads only advance: O(S) in all steps together.
        while head_worker < servers and (
            point.limits[offer.by_worker[head_worker]] & directions.barred[ADD_WORKER] != 0
        ):
            head_worker += 1
        while head_ps < servers and point.limits[offer.by_ps[head_ps]] & directions.barred[ADD_PS] != 0:
            head_ps += 1
        _find_cheapest(directions, offer, (head_worker, head_ps), edges, point)
        pair, slope = _cheapest_pair(directions, point)
        if pair < 0:
            return step, NO_MORE
        a, b = directions.pair[pair, 0], directions.pair[pair, 1]
        one, two = point.cheapest[a], point.cheapest[b]
        of_a, of_b = directions.units[pair, 0], directions.units[pair, 1]
        rates_a = (of_a * directions.step[a, 0], of_a * directions.step[a, 1])
        rates_b = (of_b * directions.step[b, 0], of_b * directions.step[b, 1])
        kept_a, kept_b = _kept(directions, a), _kept(directions, b)
        if one == two:  # both on one server: its rates add up, and it stays at limits that both keep
            rates_a = (rates_a[0] + rates_b[0], rates_a[1] + rates_b[1])
            rates_b = (0.0, 0.0)
            kept_a &= kept_b
        length, limit_a = _length(directions, offer, one, rates_a[0], rates_a[1], point)
        limit_b = -1
        if one != two:
            of_two, limit_b = _length(directions, offer, two, rates_b[0], rates_b[1], point)
            if of_two < length:  # only the server that stops the step meets its limit; both do if equal
                length, limit_a = of_two, -1
            elif of_two > length:
                limit_b = -1
        if reach + length >= most:
            length, limit_a, limit_b = most - reach, -1, -1
        _advance(directions, offer, one, kept_a, rates_a, length, limit_a, point)
        if one != two:
            _advance(directions, offer, two, kept_b, rates_b, length, limit_b, point)
        for server in (one, two):
            if point.on_edge[server] == 0 and point.limits[server] & ((1 << rows) - 1) != 0:
                point.on_edge[server] = 1
                point.edge[edges] = server
                edges += 1
        if length > 0.0:  # a step of length 0 changes limits only, and is not recorded
            if step - first == limit:
                return step, UNSOLVED
            reach = most if reach + length >= most else reach + length
            _record(paths, step, first, reach, slope, (one, two), (rates_a, rates_b))
            step += 1
    return step, UNSOLVED


@outlined
def walk_all(
    directions: TaskDirections,
    offers: SlotOffers,
    start: int,
    most: float,
    limit: int,
    point: WalkPoint,
    paths: SlotWalks,
    ending: I64,
) -> int:
    """Walk slots from ``start`` on while ``paths`` has room for ``limit`` steps; return the first one left.

    Parameters
    ----------
    ending : (n,) set to the end of each walk
    """
    for slot in range(start, len(offers.room)):
        first = paths.ptr[slot]
        if first + limit > len(paths.reach):
            return slot
        paths.ptr[slot + 1], ending[slot] = walk(
            directions, offer_of(offers, slot), most, point, paths, first, limit
        )
    return len(offers.room)


@outlined
def price_paths(paths: SlotWalks, workers: F64, cost: F64) -> None:
    """Set the least cost, in fractions, of each number of workers in each slot: V(W) read off the paths.

    One pass through the steps of a slot, O(steps + J). Numbers that exceed what fits by more than 1e-9,
    the tolerance of `tolerant_ceil`, cost inf.

    Parameters
    ----------
    workers : (J,) non-decreasing
    cost : (n, J) set
    """
    for slot in range(len(paths.ptr) - 1):
        step, end = paths.ptr[slot], paths.ptr[slot + 1]
        done, paid = 0.0, 0.0
        for j in range(len(workers)):
            while step < end and paths.reach[step] <= workers[j]:
                paid += paths.slope[step] * (paths.reach[step] - done)
                done = paths.reach[step]
                step += 1
            if step < end:
                cost[slot, j] = paid + paths.slope[step] * (workers[j] - done)
            elif workers[j] - done <= _FITS * max(1.0, done):
                cost[slot, j] = paid
            else:
                cost[slot, j] = np.inf
