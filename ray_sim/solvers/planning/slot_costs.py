"""Least cost of each part of a job's work in each slot of the horizon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ray_sim.kernels.planning.slot_tasks import Spread, price_externally, price_internally
from ray_sim.kernels.planning.slot_tasks import Tasks as Holding
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray, IntArray, tolerant_ceils
from ray_sim.solvers.planning.market import Market
from ray_sim.solvers.planning.rounding_factor import TaskRounding
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import Slots, solve_slots

_SAME = 1e-12
"""Relative difference below which two costs count as equal."""

_FEWEST_SAMPLES = 1e-100
"""Fewest samples of a part, so that no part of some work is 0."""


@dataclass(frozen=True, slots=True)
class WorkParts:
    """Equal parts of the work of a job; j = 1 .. most of them are done in a slot."""

    number: int
    """K."""
    most: int
    """Most parts that all workers do in a slot at the faster rate, at most K."""
    internal: IntArray
    """(most,) whole workers for j parts on one server."""
    external: FloatArray
    """(most,) workers for j parts on several servers, in the published form fractional."""

    @classmethod
    def of(cls, job: SlotJob, number: int) -> WorkParts:
        """Cut the work into this many parts."""
        samples = max(job.samples / number, _FEWEST_SAMPLES)
        most = min(number, job.parts_per_slot(samples))
        done: FloatArray = samples * np.arange(1, most + 1, dtype=np.float64)
        internal = tolerant_ceils(job.workers_for(done, on_one_server=True))
        return cls(number, most, internal, job.workers_for(done, on_one_server=False))


@dataclass(frozen=True, slots=True)
class SlotTasks:
    """Tasks of a job in one slot."""

    slot: int
    server: IntArray
    """(n,) sorted."""
    held: IntArray
    """(n, 2) workers and parameter servers."""
    price: FloatArray
    """(n, 2) price of one task of each role."""


@dataclass(frozen=True, slots=True)
class SlotCosts:
    """Costs of the m slots from the job's arrival on, numbered from there.

    Slots with equal loads are one state and are solved once; only their random numbers differ.
    """

    job: SlotJob
    parts: WorkParts
    tries: int
    state: IntArray
    """(m,) state of each slot."""
    slots: Slots
    """The n states."""
    inside: FloatArray
    """(n, most) least cost on one server, inf where it does not fit."""
    inside_server: IntArray
    """(n, most) server with that cost."""
    fractions: FloatArray
    """(n, most) least fractional cost."""
    pays: IntArray
    """(n, most) 1 where several servers may be cheaper: whole tasks cost at least as much as fractions."""
    any_pays: BoolArray
    """(n,) whether several servers may be cheaper for any number of parts."""
    gain: FloatArray
    """(n, most) factor on fractions before rounding."""
    key: npt.NDArray[np.uint64]
    """(m, most) keys of the random numbers for rounding."""
    spread: Spread
    holding: Holding
    best: Holding
    operations: IntArray
    """(1,) operations so far, see `schedule.Effort`."""

    @classmethod
    def of(
        cls, job: SlotJob, market: Market, parts: WorkParts, rounding: TaskRounding, streams: Streams
    ) -> SlotCosts:
        """Solve every state on one server and in fractions."""
        state, first = _states(market.load[job.arrival :])
        load, price = market.load[job.arrival + first], market.price[job.arrival + first]
        free = market.cluster.capacity - load
        slots = solve_slots(job, free, price, market.cluster.quanta_per_unit)
        inside = np.empty((len(first), parts.most))
        inside_server = np.empty((len(first), parts.most), dtype=np.int64)
        price_internally(slots.rooms, parts.internal, inside, inside_server)
        fractions = slots.least_cost(parts.external)
        pays = _is_cheaper(fractions, inside)
        slot, done = np.meshgrid(np.arange(len(state)), np.arange(1, parts.most + 1), indexing="ij")
        entities = (np.full(slot.size, job.number), (job.arrival + slot).ravel(), done.ravel())
        servers = free.shape[1]
        return cls(
            job=job,
            parts=parts,
            tries=rounding.tries,
            state=state,
            slots=slots,
            inside=inside,
            inside_server=inside_server,
            fractions=fractions,
            pays=pays.astype(np.int64),
            any_pays=np.logical_or.reduce(pays, axis=1),
            gain=rounding.gains(slots.rooms, parts.external),
            key=streams.states("rounding", *entities).reshape(slot.shape),
            spread=Spread(np.zeros((servers, 2)), *_no_servers(servers)),
            holding=_no_tasks(servers),
            best=_no_tasks(servers),
            operations=np.array([inside.size * servers + slots.paths.ptr[-1]]),
        )

    def bounds(self) -> FloatArray:
        """(m,) lower bound on the cost of a schedule that ends by each slot; inf where none fits."""
        return self.slots.bounds(self.state, self.job.samples * self.job.fastest)

    def in_fractions(self, slot: int) -> FloatArray:
        """(most + 1,) minimum of the cost on one server and the fractional cost."""
        at = self.state[slot]
        self._count_comparisons()
        return np.append(0.0, np.minimum(self.inside[at], self.fractions[at]))

    def rounded(self, slot: int) -> FloatArray:
        """(most + 1,) minimum of the cost on one server and the cost of rounded fractions."""
        at = self.state[slot]
        row = np.append(0.0, self.inside[at])
        self._count_comparisons()
        if self.any_pays[at]:
            outside = self._round(slot, self.pays[at])
            np.copyto(row[1:], outside, where=_is_cheaper(outside, row[1:]))
        return row

    def _count_comparisons(self) -> None:
        """Count those of one row of the table: min(k, most) for each number k of parts."""
        most = self.parts.most
        self.operations[0] += most * self.parts.number - most * (most - 1) // 2

    def tasks(self, slot: int, done: int) -> SlotTasks | None:
        """Tasks for ``done`` >= 1 parts at the cost of `rounded`; None where it is inf."""
        at, j = self.state[slot], done - 1
        asked = self.pays[at].copy()
        asked[:j], asked[done:] = 0, 0
        if asked.any() and _is_cheaper(self._round(slot, asked)[j], self.inside[at, j]):
            in_use = self.best.server[: self.best.size[0]]
            server = in_use[self.best.held[in_use].any(axis=1)]
            held = self.best.held[server]
        elif np.isfinite(self.inside[at, j]):
            server, workers = self.inside_server[at, [j]], self.parts.internal[[j]]
            held = np.stack([workers, tolerant_ceils(workers / self.job.workers_per_ps)], axis=1)
        else:
            return None
        price = self.slots.rooms.offers.price[at, server]
        return SlotTasks(self.job.arrival + slot, server, held, price)

    def _round(self, slot: int, asked: IntArray) -> FloatArray:
        """(most,) cost of rounded fractions; inf where not requested, or where no rounding was found."""
        cost, at = np.empty(len(asked)), self.state[slot]
        self.operations[0] += self.tries * asked.sum()
        # Products of random bits overflow; numpy warns about it where kernels are not compiled.
        with np.errstate(over="ignore"):
            price_externally(
                self.slots.rooms,
                self.slots.paths,
                at,
                self.parts.external,
                asked,
                self.gain[at],
                self.key[slot],
                self.tries,
                self.spread,
                self.holding,
                self.best,
                cost,
            )
        return cost


def _is_cheaper(outside: FloatArray, inside: FloatArray) -> BoolArray:
    """Whether several servers cost less than one, by more than rounding errors."""
    cheaper: BoolArray = outside < inside * (1 - _SAME)
    return cheaper


def _states(load: IntArray) -> tuple[IntArray, IntArray]:
    """(m,) state of each slot, by its load, and (n,) first slot of each state."""
    numbers: dict[bytes, int] = {}
    state = np.array([numbers.setdefault(of_slot.tobytes(), len(numbers)) for of_slot in load])
    return state, np.unique(state, return_index=True)[1]


def _no_servers(servers: int) -> tuple[IntArray, IntArray, IntArray]:
    """Create an empty sparse list of servers: server, listed, size."""
    return np.empty(servers, np.int64), np.zeros(servers, np.int64), np.zeros(1, np.int64)


def _no_tasks(servers: int) -> Holding:
    return Holding(np.zeros((servers, 2), np.int64), *_no_servers(servers), total=np.zeros(2, np.int64))
