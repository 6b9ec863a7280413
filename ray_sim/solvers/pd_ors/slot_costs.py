"""What the slots of a horizon cost a job, quantum by quantum of its work."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ray_sim.kernels.slot_plan import bound_costs
from ray_sim.kernels.slot_tasks import price_externally, price_internally
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray, IntArray, scaled_down, tolerant_ceils
from ray_sim.solvers.pd_ors.gain import Rounding
from ray_sim.solvers.pd_ors.job import SlotJob
from ray_sim.solvers.pd_ors.market import Market
from ray_sim.solvers.pd_ors.moves import slot_moves
from ray_sim.solvers.pd_ors.slot import SlotProblem, Workspace, slot_room, solve_slot


@dataclass(frozen=True, slots=True)
class Quanta:
    """Equal parts of the work of a job; j = 1 .. most of them are done in a slot."""

    number: int
    """K."""
    most: int
    """Quanta that all workers do in a slot at the faster rate; at most K."""
    internal: IntArray
    """(most,) whole workers that j quanta take on one server."""
    external: FloatArray
    """(most,) workers, in fractions, that they take on several."""

    @classmethod
    def of(cls, job: SlotJob, number: int) -> Quanta:
        """So many parts."""
        samples = job.samples / number
        most = min(number, int(scaled_down(1.0, job.most_workers / (job.fastest * samples))))
        done: FloatArray = samples * np.arange(1, most + 1, dtype=np.float64)
        return cls(number, most, tolerant_ceils(done * job.theta_internal), done * job.theta_external)


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a job holds in a slot."""

    slot: int
    server: IntArray
    """(n,) sorted."""
    held: IntArray
    """(n, 2) workers and parameter servers."""
    price: FloatArray
    """(n, 2) of each."""


@dataclass(frozen=True, slots=True)
class _OnOneServer:
    """(most,) least cost on one server, inf where none has room, and which."""

    cost: FloatArray
    server: IntArray


@dataclass(frozen=True)
class SlotCosts:
    """Costs of the slots from the job's arrival on. Slots with equal loads are solved once.

    Slots count from the arrival here.
    """

    job: SlotJob
    quanta: Quanta
    rounding: Rounding
    streams: Streams
    work: Workspace
    state: IntArray
    """(T - a,) of each slot: a number into the next two."""
    problems: list[SlotProblem]
    inside: list[_OnOneServer] = field(repr=False)

    @classmethod
    def of(
        cls, job: SlotJob, market: Market, quanta: Quanta, rounding: Rounding, streams: Streams
    ) -> SlotCosts:
        """Solve every different slot in fractions, and on one server."""
        moves = slot_moves(job)
        work = Workspace.of(moves, len(market.cluster.capacity))
        numbers: dict[bytes, int] = {}
        state = []
        problems, inside = [], []
        for slot in range(job.arrival, len(market.load)):
            load = market.load[slot].tobytes()
            if load not in numbers:
                numbers[load] = len(numbers)
                room = slot_room(job, market.state(slot), market.cluster.quanta_per_unit)
                problems.append(solve_slot(job, moves, room, work))
                cost, server = np.empty(quanta.most), np.empty(quanta.most, dtype=np.int64)
                price_internally(room, quanta.internal, cost, server)
                inside.append(_OnOneServer(cost, server))
            state.append(numbers[load])
        return cls(job, quanta, rounding, streams, work, np.array(state), problems, inside)

    @property
    def unsolved(self) -> int:
        """Different slots of which the least cost in fractions was not found."""
        return sum(not problem.solved for problem in self.problems)

    def bounds(self) -> FloatArray:
        """(T - a,) no schedule that ends in or before a slot costs less; inf where none fits."""
        segments = [problem.segments(self.job.most_workers) for problem in self.problems]
        sizes = np.array([len(slope) for slope, _ in segments])
        space = int(sizes[self.state].sum())
        bound = np.empty(len(self.state))
        bound_costs(
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([slope for slope, _ in segments]),
            np.concatenate([length for _, length in segments]),
            self.state,
            np.array([self.job.samples * self.job.fastest]),
            np.empty(space),
            np.empty(space),
            bound,
        )
        return bound

    def in_fractions(self, slot: int) -> FloatArray:
        """(most + 1,) the lesser of the cost on one server and that in fractions."""
        at = self.state[slot]
        cheaper = np.minimum(self.inside[at].cost, self.problems[at].least_cost(self.quanta.external))
        return np.append(0.0, cheaper)

    def rounded(self, slot: int) -> FloatArray:
        """(most + 1,) the lesser of the cost on one server and that of rounded fractions."""
        inside = self.inside[self.state[slot]].cost
        return np.append(0.0, np.minimum(inside, self._round(slot, self._may_pay(slot))))

    def tasks(self, slot: int, done: int) -> Tasks | None:
        """What ``done`` >= 1 quanta take at the cost of `rounded`; None where that is inf."""
        at, j = self.state[slot], done - 1
        inside, price = self.inside[at], self.problems[at].room.offer.price
        asked = self._may_pay(slot)
        asked[:j] = False
        outside = self._round(slot, asked[:done])[j]
        if outside < inside.cost[j]:
            best = self.work.best
            server = np.sort(best.server[: best.size[0]])
            server = server[best.held[server].any(axis=1)]
            held = best.held[server]
        elif np.isfinite(inside.cost[j]):
            server, workers = inside.server[[j]], self.quanta.internal[j]
            held = np.array([[workers, tolerant_ceils(workers / self.job.workers_per_ps)]], dtype=np.int64)
        else:
            return None
        return Tasks(self.job.arrival + slot, server, held, price[server])

    def _may_pay(self, slot: int) -> BoolArray:
        """(most,) where several servers may be cheaper than one: whole tasks cost no less than fractions."""
        at = self.state[slot]
        fractions = self.problems[at].least_cost(self.quanta.external)
        pays: BoolArray = np.isfinite(fractions) & (fractions < self.inside[at].cost)
        return pays

    def _round(self, slot: int, asked: BoolArray) -> FloatArray:
        """(n,) cost of rounded fractions, for the first quanta; inf where not asked."""
        n = len(asked)
        cost = np.full(n, np.inf)
        if not asked.any():
            return cost
        problem, workers = self.problems[self.state[slot]], self.quanta.external[:n]
        entities = (np.full(n, self.job.number), np.full(n, self.job.arrival + slot), np.arange(1, n + 1))
        price_externally(
            problem.room,
            problem.path,
            workers,
            asked.astype(np.int64),
            self.rounding.gains(problem.room, workers),
            self.streams.states("rounding", *entities),
            self.rounding.tries,
            self.work.spread,
            self.work.tasks,
            self.work.best,
            cost,
        )
        return cost
