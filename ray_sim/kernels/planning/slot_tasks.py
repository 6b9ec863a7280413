"""Whole workers and parameter servers of one job in one slot: on one server, or rounded from fractions.

The internal case puts the whole job on the cheapest server with room. The external case rounds a point of
the fractional path of `parametric_slot_lp` at random, several times, and repairs the last attempt if none is
feasible.

Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, algorithm 4
(internal and external case, randomised rounding), docs/models/pd_ors.md#cost-of-one-slot; the repair is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, PARAMETER_SERVER, WORKER
from ray_sim.kernels.planning.parametric_slot_lp import SlotOffer, SlotOffers, SlotWalks, offer_of
from ray_sim.kernels.planning.random_bits import substate, uniform

U64 = npt.NDArray[np.uint64]


class Room(NamedTuple):
    """One slot and one job that asks for a part of it; amounts in quanta."""

    free: I64
    """(S, R) free quanta."""
    demand: I64
    """(2, R) demand of a worker and of a parameter server."""
    most_workers: int
    workers_per_ps: float
    offer: SlotOffer


class Rooms(NamedTuple):
    """n slots and one job; fields as in `Room`, with the slot as first axis."""

    free: I64
    """(n, S, R)."""
    demand: I64
    most_workers: int
    workers_per_ps: float
    offers: SlotOffers


class Spread(NamedTuple):
    """Workers and parameter servers per server, in fractions; work space."""

    held: F64
    """(S, 2), 0 but for the ``server`` listed."""
    server: I64
    """(S,)."""
    in_list: I64
    """(S,) 0 or 1."""
    size: I64
    """(1,)."""


class Tasks(NamedTuple):
    """Workers and parameter servers per server, in whole numbers."""

    held: I64
    """(S, 2), 0 but for the ``server`` listed."""
    server: I64
    """(S,)."""
    in_list: I64
    """(S,) 0 or 1."""
    size: I64
    """(1,)."""
    total: I64
    """(2,) of each role."""


@kernel
def room_of(rooms: Rooms, slot: int) -> Room:
    """Return one slot, as views."""
    offer = offer_of(rooms.offers, slot)
    return Room(rooms.free[slot], rooms.demand, rooms.most_workers, rooms.workers_per_ps, offer)


@kernel
def whole_above(x: float) -> int:
    """Return the smallest integer >= x within a relative 1e-9: the rule of `model.units.tolerant_ceil`."""
    nearest = np.rint(x)
    if abs(x - nearest) <= 1e-9 * max(1.0, abs(x)):
        return int(nearest)
    return int(np.ceil(x))


@kernel
def _fits(room: Room, server: int, workers: int, ps: int) -> bool:
    """Whether a server has room for these numbers of workers and parameter servers; O(R)."""
    for r in range(room.free.shape[1]):
        if workers * room.demand[WORKER, r] + ps * room.demand[PARAMETER_SERVER, r] > room.free[server, r]:
            return False
    return True


@kernel
def _cheapest_server(room: Room, workers: int, ps: int) -> tuple[int, float]:
    """Return the cheapest server with room for all, and the cost; (-1, inf) if there is none; O(S)."""
    best, least = -1, np.inf
    for server in range(len(room.free)):
        cost = room.offer.price[server, WORKER] * workers + room.offer.price[server, PARAMETER_SERVER] * ps
        if (best < 0 or cost < least) and _fits(room, server, workers, ps):
            best, least = server, cost
    return best, least


@outlined
def price_internally(rooms: Rooms, workers: I64, cost: F64, server: I64) -> None:
    """Set the least cost on one server of each number of workers in each slot, and that server.

    Ties go to the lowest server. The cost is inf and the server -1 where no server has room, or where the
    number exceeds what the job may have. O(n J S R).

    Parameters
    ----------
    workers : (J,)
    cost, server : (n, J) set
    """
    for slot in range(len(rooms.free)):
        room = room_of(rooms, slot)
        for j in range(len(workers)):
            server[slot, j], cost[slot, j] = -1, np.inf
            if workers[j] <= room.most_workers:
                ps = whole_above(workers[j] / room.workers_per_ps)
                server[slot, j], cost[slot, j] = _cheapest_server(room, workers[j], ps)


@kernel
def _clear(spread: Spread | Tasks) -> None:
    """Empty the listed servers and the list; O(listed), not O(S)."""
    for k in range(spread.size[0]):
        server = spread.server[k]
        spread.held[server, WORKER], spread.held[server, PARAMETER_SERVER] = 0, 0
        spread.in_list[server] = 0
    spread.size[0] = 0


@kernel
def _list(spread: Spread | Tasks, server: int) -> None:
    """Add a server to the list unless it is there."""
    if spread.in_list[server] == 0:
        spread.in_list[server] = 1
        spread.server[spread.size[0]] = server
        spread.size[0] += 1


@kernel
def _follow(paths: SlotWalks, step: int, length: float, spread: Spread) -> None:
    """Add a part of a step, ``length`` workers in total, to the two servers that it changes."""
    for mover in range(2):
        server = paths.server[step, mover]
        _list(spread, server)
        for role in range(2):
            spread.held[server, role] += length * paths.change[step, mover, role]


@kernel
def _add(tasks: Tasks, server: int, role: int, n: int) -> None:
    """Add n tasks of a role to a server and to the total; n may be negative."""
    tasks.held[server, role] += n
    tasks.total[role] += n


@outlined
def draw(
    room: Room, spread: Spread, rounding_factor: float, key: np.uint64, patient: bool, tasks: Tasks
) -> bool:
    """Round every number, times ``rounding_factor``, up with the probability of its fraction, else down.

    Returns whether all servers have room; without ``patient`` it stops at the first that has not. The
    random number of a server and a role depends on ``key``, server and role only, not on the order of
    servers. O(listed x R).
    """
    _clear(tasks)
    tasks.total[WORKER], tasks.total[PARAMETER_SERVER] = 0, 0
    fine = True
    for k in range(spread.size[0]):
        server = spread.server[k]
        _list(tasks, server)
        for role in range(2):
            scaled = rounding_factor * max(0.0, spread.held[server, role])
            below = int(np.floor(scaled))
            up = uniform(substate(key, 2 * server + role)) < scaled - below
            _add(tasks, server, role, below + int(up))
        if not _fits(room, server, tasks.held[server, WORKER], tasks.held[server, PARAMETER_SERVER]):
            fine = False
            if not patient:
                return False
    return fine


@kernel
def _ps_needed(room: Room, tasks: Tasks) -> int:
    """Return the parameter servers that the workers need."""
    return whole_above(tasks.total[WORKER] / room.workers_per_ps)


@kernel
def _is_enough(room: Room, needed: int, tasks: Tasks) -> bool:
    """Whether there are ``needed`` workers, no more than allowed, and enough parameter servers."""
    workers = tasks.total[WORKER]
    return needed <= workers <= room.most_workers and tasks.total[PARAMETER_SERVER] >= _ps_needed(room, tasks)


@kernel
def _drop_dearest(room: Room, role: int, tasks: Tasks) -> None:
    """Remove one task of a role from the server with the highest price, of equals the lowest; O(listed)."""
    dearest, highest = -1, 0.0
    for k in range(tasks.size[0]):
        server = tasks.server[k]
        price = room.offer.price[server, role]
        if tasks.held[server, role] > 0 and (
            dearest < 0 or price > highest or (price == highest and server < dearest)
        ):
            dearest, highest = server, price
    _add(tasks, dearest, role, -1)


@outlined
def _drop_beyond(room: Room, role: int, needed: int, tasks: Tasks) -> None:
    """Remove the most expensive tasks of a role until ``needed`` are left."""
    while tasks.total[role] > needed:
        _drop_dearest(room, role, tasks)


@outlined
def _make_room(room: Room, tasks: Tasks) -> None:
    """Remove tasks from overfull servers, the more expensive role first, of equals a parameter server."""
    price = room.offer.price
    for k in range(tasks.size[0]):
        server = tasks.server[k]
        while not _fits(room, server, tasks.held[server, WORKER], tasks.held[server, PARAMETER_SERVER]):
            role = PARAMETER_SERVER
            if tasks.held[server, PARAMETER_SERVER] == 0 or (
                tasks.held[server, WORKER] > 0 and price[server, WORKER] > price[server, PARAMETER_SERVER]
            ):
                role = WORKER
            _add(tasks, server, role, -1)


@outlined
def _add_up_to(room: Room, role: int, needed: int, tasks: Tasks) -> bool:
    """Add tasks of a role to the cheapest servers with room; return whether ``needed`` are reached."""
    order = room.offer.by_worker if role == WORKER else room.offer.by_ps
    for k in range(len(order)):
        server = order[k]
        while tasks.total[role] < needed and _fits(
            room,
            server,
            tasks.held[server, WORKER] + int(role == WORKER),
            tasks.held[server, PARAMETER_SERVER] + int(role == PARAMETER_SERVER),
        ):
            _list(tasks, server)
            _add(tasks, server, role, 1)
        if tasks.total[role] >= needed:
            break
    return tasks.total[role] >= needed


@kernel
def repair(room: Room, needed: int, tasks: Tasks) -> bool:
    """Greedy repair of rounded tasks: make them fit and be enough; return whether that succeeded.

    Workers first: the number of parameter servers follows from theirs. Surplus workers are removed before
    parameter servers are added, because these may need the room.
    """
    _make_room(room, tasks)
    _drop_beyond(room, WORKER, room.most_workers, tasks)
    if not _add_up_to(room, WORKER, needed, tasks):
        return False
    _drop_beyond(room, WORKER, needed, tasks)
    if not _add_up_to(room, PARAMETER_SERVER, _ps_needed(room, tasks), tasks):
        return False
    _drop_beyond(room, PARAMETER_SERVER, _ps_needed(room, tasks), tasks)
    return True


@kernel
def _sort(tasks: Tasks) -> None:
    """Insertion sort of the listed servers."""
    for k in range(1, tasks.size[0]):
        server, at = tasks.server[k], k
        while at > 0 and tasks.server[at - 1] > server:
            tasks.server[at] = tasks.server[at - 1]
            at -= 1
        tasks.server[at] = server


@kernel
def _cost(room: Room, tasks: Tasks) -> float:
    """Return the cost, summed in server order so that the same tasks always give the same float."""
    _sort(tasks)
    cost = 0.0
    for k in range(tasks.size[0]):
        server = tasks.server[k]
        for role in range(2):
            cost += room.offer.price[server, role] * tasks.held[server, role]
    return cost


@outlined
def _copy(tasks: Tasks, copy: Tasks) -> None:
    """Replace the content of ``copy``; O(listed)."""
    _clear(copy)
    for k in range(tasks.size[0]):
        server = tasks.server[k]
        _list(copy, server)
        for role in range(2):
            copy.held[server, role] = tasks.held[server, role]
    for role in range(2):
        copy.total[role] = tasks.total[role]


@outlined
def _round(
    room: Room,
    spread: Spread,
    needed: int,
    rounding_factor: float,
    key: np.uint64,
    tries: int,
    tasks: Tasks,
    best: Tasks,
) -> float:
    """Return the least cost of ``tries`` random roundings, inf if none is feasible; its tasks in ``best``.

    Surplus tasks of a feasible rounding are removed before it is priced. If none is feasible, the last one
    is drawn again, without an early stop, and repaired.
    """
    least = np.inf
    for attempt in range(tries):
        fits = draw(room, spread, rounding_factor, substate(key, attempt), False, tasks)
        if fits and _is_enough(room, needed, tasks):
            _drop_beyond(room, WORKER, needed, tasks)
            _drop_beyond(room, PARAMETER_SERVER, _ps_needed(room, tasks), tasks)
            cost = _cost(room, tasks)
            if cost < least:
                least = cost
                _copy(tasks, best)
    if least == np.inf:
        draw(room, spread, rounding_factor, substate(key, tries - 1), True, tasks)
        if repair(room, needed, tasks):
            least = _cost(room, tasks)
            _copy(tasks, best)
    return least


@outlined
def price_externally(
    rooms: Rooms,
    paths: SlotWalks,
    slot: int,
    wanted: F64,
    asked: I64,
    rounding_factor: F64,
    key: U64,
    tries: int,
    spread: Spread,
    tasks: Tasks,
    best: Tasks,
    cost: F64,
) -> None:
    """Set the cost of rounded points of a slot's path, one per number of wanted workers.

    One pass along the path: ``spread`` is the point with ``wanted[j]`` workers. Each point is multiplied by
    ``rounding_factor`` and rounded ``tries`` times (`_round`). The cost is inf where no rounding and no
    repair is feasible, and where ``asked`` is 0. O(steps + J x tries x listed x R).

    Parameters
    ----------
    wanted : (J,) workers, non-decreasing
    asked : (J,) 0 or 1
    rounding_factor : (J,) factor before rounding
    key : (J,) states of the streams (job, slot, work part) of `Streams`; try, server and role are added
    best : set to the tasks of the last point with a finite cost
    cost : (J,) set
    """
    room = room_of(rooms, slot)
    step, end, done = paths.ptr[slot], paths.ptr[slot + 1], 0.0
    for j in range(len(wanted)):
        cost[j] = np.inf
        while step < end and paths.reach[step] <= wanted[j]:
            _follow(paths, step, paths.reach[step] - done, spread)
            done = paths.reach[step]
            step += 1
        if step < end and wanted[j] > done:
            _follow(paths, step, wanted[j] - done, spread)
            done = wanted[j]
        if asked[j]:
            needed = whole_above(wanted[j])
            cost[j] = _round(room, spread, needed, rounding_factor[j], key[j], tries, tasks, best)
    _clear(spread)
