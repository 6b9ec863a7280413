"""The linear programme of one slot, for every number of workers at once.

W workers and W / gamma parameter servers are spread over servers, in fractions, at the least cost. What a
server holds is a point (workers, parameter servers) of a polygon, whose edges are the resources that are
used up. Its own edges are all the directions in which a point need ever move: workers up or parameter
servers up while nothing is used up, afterwards along an edge, either way. Polygons of all servers have the
same directions, because the job's demands are the same everywhere; only rooms and prices differ.

So the least cost is found by walking from W = 0: of the few pairs of directions that together add one worker
and 1 / gamma parameter servers, the pair whose cheapest two servers cost least is moved, until one of the
two meets another edge. From an optimal point the cheapest feasible direction is optimal (V is convex), so
every step is a linear piece of V(W), and slopes never fall.

Ties go to the lowest server, and between pairs to the first one, in which workers and parameter servers
go where nothing is used up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.arrays import F64, I64
from ray_sim.kernels.compile import kernel, outlined

ADD_WORKER, ADD_PS = 0, 1
"""The first two moves; every row of resources then has two, towards workers and towards parameter servers."""

AT_MOST, NO_MORE, UNSOLVED = range(3)
"""How a walk ends: at the number of workers wanted, where nothing more fits, or out of steps."""

_USED_UP = 1e-12
"""Share of a room below which what is left of it counts as nothing."""

_SAME = 1e-12
"""Relative difference below which two slopes are equal."""

_FITS = 1e-9
"""Workers beyond the last that fit which count as fitting, as a share of them."""


class Moves(NamedTuple):
    """What a job may do on any server: M rows of resources, D = 2 + 2 M moves, P pairs of moves."""

    worker: F64
    """(M,) what a worker takes of each row."""
    ps: F64
    """(M,) what a parameter server takes; not both are 0."""
    step: F64
    """(D, 2) workers and parameter servers that a unit of each move adds."""
    rate: F64
    """(D, M) what a unit takes of each row; exactly 0 of a row that it moves along."""
    along: I64
    """(D,) the row that must be used up, -1 for the first two moves."""
    barred: I64
    """(D,) bits of the limits that forbid it: rows, then no workers, then no parameter servers."""
    pair: I64
    """(P, 2) moves which together can add one worker and 1 / gamma parameter servers."""
    units: F64
    """(P, 2) how many units of each do so, >= 0."""


class Offer(NamedTuple):
    """What a slot offers the job on S servers."""

    room: F64
    """(S, M) of each row, >= 0."""
    price: F64
    """(S, 2) of a worker and of a parameter server, >= 0."""
    by_worker: I64
    """(S,) servers by the price of a worker, then by number."""
    by_ps: I64
    """(S,) the same of a parameter server."""


class Offers(NamedTuple):
    """What n slots offer: the arrays of `Offer`, with the slot as their first axis."""

    room: F64
    price: F64
    by_worker: I64
    by_ps: I64


class Point(NamedTuple):
    """Working space of a walk: where it has come to on each server."""

    held: F64
    """(S, 2) workers and parameter servers."""
    limits: I64
    """(S,) bits as in `Moves.barred`: what has been met."""
    edge: I64
    """(S,) servers that have met something, in that order."""
    on_edge: I64
    """(S,) 1 for those."""
    cheapest: I64
    """(D,) server with the cheapest unit of each move, -1 without."""
    cost: F64
    """(D,) of that unit."""


class Paths(NamedTuple):
    """The cheapest ways through slots, one after the other.

    Steps ``ptr[i]`` to ``ptr[i + 1]`` are those of slot i, the first from no worker.
    """

    reach: F64
    """Workers after a step."""
    slope: F64
    """Cost of one worker more, with its share of a parameter server; >= 0, never falls."""
    server: I64
    """(N, 2) servers that change; twice the same one where only it does."""
    change: F64
    """(N, 2, 2) workers and parameter servers that each of the two gains for one worker more in all."""
    ptr: I64


@kernel
def offer_of(offers: Offers, slot: int) -> Offer:
    """One of them."""
    return Offer(offers.room[slot], offers.price[slot], offers.by_worker[slot], offers.by_ps[slot])


@kernel
def _bit(limits: int, at: int) -> bool:
    return (limits >> at) & 1 == 1


@kernel
def _start(moves: Moves, offer: Offer, point: Point) -> None:
    rows = len(moves.worker)
    for server in range(len(offer.room)):
        point.held[server, 0], point.held[server, 1] = 0.0, 0.0
        limits = 3 << rows
        for row in range(rows):
            if offer.room[server, row] <= 0.0:
                limits |= 1 << row
        point.limits[server] = limits
        point.on_edge[server] = 0


@kernel
def _unit_cost(moves: Moves, offer: Offer, move: int, server: int) -> float:
    return moves.step[move, 0] * offer.price[server, 0] + moves.step[move, 1] * offer.price[server, 1]


@kernel
def _offer_move(moves: Moves, offer: Offer, move: int, server: int, point: Point) -> None:
    """Let a server's unit of a move be the cheapest, if it is."""
    cost, best = _unit_cost(moves, offer, move, server), point.cheapest[move]
    if best < 0 or cost < point.cost[move] or (cost == point.cost[move] and server < best):
        point.cheapest[move] = server
        point.cost[move] = cost


@kernel
def _find_cheapest(moves: Moves, offer: Offer, heads: tuple[int, int], edges: int, point: Point) -> None:
    servers = len(offer.room)
    for move in range(len(moves.along)):
        point.cheapest[move] = -1
    if heads[0] < servers:
        _offer_move(moves, offer, ADD_WORKER, offer.by_worker[heads[0]], point)
    if heads[1] < servers:
        _offer_move(moves, offer, ADD_PS, offer.by_ps[heads[1]], point)
    for k in range(edges):
        server = point.edge[k]
        limits = point.limits[server]
        for move in range(2, len(moves.along)):
            if _bit(limits, moves.along[move]) and limits & moves.barred[move] == 0:
                _offer_move(moves, offer, move, server, point)


@kernel
def _cheapest_pair(moves: Moves, point: Point) -> tuple[int, float]:
    """Pair and its cost for one worker more; -1 without."""
    best, slope = -1, 0.0
    for pair in range(len(moves.pair)):
        a, b = moves.pair[pair, 0], moves.pair[pair, 1]
        if point.cheapest[a] < 0 or point.cheapest[b] < 0:
            continue
        cost = moves.units[pair, 0] * point.cost[a] + moves.units[pair, 1] * point.cost[b]
        if best < 0 or cost < slope - _SAME * abs(slope):
            best, slope = pair, cost
    return best, slope


@outlined
def _length(
    moves: Moves, offer: Offer, server: int, workers: float, ps: float, point: Point
) -> tuple[float, int]:
    """How far a server can go at these rates, and the limit that it meets there."""
    rows = len(moves.worker)
    length, limit = np.inf, -1
    for row in range(rows):
        rate = moves.worker[row] * workers + moves.ps[row] * ps
        if rate > 0.0 and not _bit(point.limits[server], row):
            used = moves.worker[row] * point.held[server, 0] + moves.ps[row] * point.held[server, 1]
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
    moves: Moves,
    offer: Offer,
    server: int,
    kept: int,
    rates: tuple[float, float],
    length: float,
    limit: int,
    point: Point,
) -> None:
    """Move a server and tell at what it is: ``kept`` of its limits, ``limit``, and what is as good as met."""
    rows = len(moves.worker)
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
        used = moves.worker[row] * point.held[server, 0] + moves.ps[row] * point.held[server, 1]
        if room - used <= _USED_UP * room:
            limits |= 1 << row
    for role in range(2):
        if point.held[server, role] == 0.0:
            limits |= 1 << (rows + role)
    point.limits[server] = limits


@kernel
def _kept(moves: Moves, move: int) -> int:
    """Limits at which a server stays that is at them and moves so."""
    rows = len(moves.worker)
    kept = 0
    for row in range(rows):
        if moves.rate[move, row] == 0.0:
            kept |= 1 << row
    for role in range(2):
        if moves.step[move, role] == 0.0:
            kept |= 1 << (rows + role)
    return kept


@kernel
def _record(
    paths: Paths,
    step: int,
    first: int,
    reach: float,
    slope: float,
    servers: tuple[int, int],
    rates: tuple[tuple[float, float], tuple[float, float]],
) -> None:
    """Add a step; rounding errors make no slope fall."""
    paths.reach[step], paths.slope[step] = reach, max(slope, 0.0)
    if step > first:
        paths.slope[step] = max(paths.slope[step], paths.slope[step - 1])
    for mover in range(2):
        paths.server[step, mover] = servers[mover]
        for role in range(2):
            paths.change[step, mover, role] = rates[mover][role]


@outlined
def walk(
    moves: Moves, offer: Offer, most: float, point: Point, paths: Paths, first: int, limit: int
) -> tuple[int, int]:
    """The cheapest way from no worker to ``most`` into steps from ``first`` on: their end, and how it ended.

    O((S + n^2) M) for n steps, of which ``limit`` are allowed.
    """
    _start(moves, offer, point)
    servers, rows = len(offer.room), len(moves.worker)
    reach, step, edges, head_worker, head_ps = 0.0, first, 0, 0, 0
    for _ in range(2 * limit):
        if reach >= most:
            return step, AT_MOST
        while head_worker < servers and (
            point.limits[offer.by_worker[head_worker]] & moves.barred[ADD_WORKER] != 0
        ):
            head_worker += 1
        while head_ps < servers and point.limits[offer.by_ps[head_ps]] & moves.barred[ADD_PS] != 0:
            head_ps += 1
        _find_cheapest(moves, offer, (head_worker, head_ps), edges, point)
        pair, slope = _cheapest_pair(moves, point)
        if pair < 0:
            return step, NO_MORE
        a, b = moves.pair[pair, 0], moves.pair[pair, 1]
        one, two = point.cheapest[a], point.cheapest[b]
        of_a, of_b = moves.units[pair, 0], moves.units[pair, 1]
        rates_a = (of_a * moves.step[a, 0], of_a * moves.step[a, 1])
        rates_b = (of_b * moves.step[b, 0], of_b * moves.step[b, 1])
        kept_a, kept_b = _kept(moves, a), _kept(moves, b)
        if one == two:
            rates_a = (rates_a[0] + rates_b[0], rates_a[1] + rates_b[1])
            rates_b = (0.0, 0.0)
            kept_a &= kept_b
        length, limit_a = _length(moves, offer, one, rates_a[0], rates_a[1], point)
        limit_b = -1
        if one != two:
            of_two, limit_b = _length(moves, offer, two, rates_b[0], rates_b[1], point)
            if of_two < length:
                length, limit_a = of_two, -1
            elif of_two > length:
                limit_b = -1
        if reach + length >= most:
            length, limit_a, limit_b = most - reach, -1, -1
        _advance(moves, offer, one, kept_a, rates_a, length, limit_a, point)
        if one != two:
            _advance(moves, offer, two, kept_b, rates_b, length, limit_b, point)
        for server in (one, two):
            if point.on_edge[server] == 0 and point.limits[server] & ((1 << rows) - 1) != 0:
                point.on_edge[server] = 1
                point.edge[edges] = server
                edges += 1
        if length > 0.0:
            if step - first == limit:
                return step, UNSOLVED
            reach = most if reach + length >= most else reach + length
            _record(paths, step, first, reach, slope, (one, two), (rates_a, rates_b))
            step += 1
    return step, UNSOLVED


@outlined
def walk_all(
    moves: Moves, offers: Offers, start: int, most: float, limit: int, point: Point, paths: Paths, ending: I64
) -> int:
    """Walk through the slots from ``start`` on while there is room for ``limit`` steps: the first one left.

    Parameters
    ----------
    ending : (n,) how each walk ended
    """
    for slot in range(start, len(offers.room)):
        first = paths.ptr[slot]
        if first + limit > len(paths.reach):
            return slot
        paths.ptr[slot + 1], ending[slot] = walk(
            moves, offer_of(offers, slot), most, point, paths, first, limit
        )
    return len(offers.room)


@outlined
def price_paths(paths: Paths, workers: F64, cost: F64) -> None:
    """Least cost in fractions of (J,) numbers of workers, which do not fall, in (n,) slots; inf if too many.

    Too many are 1e-9 more than fit, as for the tolerant ceil.

    Parameters
    ----------
    cost : (n, J)
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
