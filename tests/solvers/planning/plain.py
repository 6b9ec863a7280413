"""The search without any of the shortcuts: every slot, quantum and end by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray, IntArray, tolerant_ceil
from ray_sim.solvers.planning.market import Market
from ray_sim.solvers.planning.rounding_factor import covering_gain, packing_gain
from ray_sim.solvers.planning.schedule import Planning
from ray_sim.solvers.planning.slot_costs import SlotTasks
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import solve_slots
from tests.solvers.planning.test_slots import point_at

WORKER, PS = 0, 1
Held = tuple[float, IntArray | None]
"""Cost, and (S, 2) tasks; None with a cost of inf."""


class PlainSlot:
    """One slot for one job; no task that takes the first resource stands on ``barred`` servers, (S,)."""

    def __init__(
        self,
        job: SlotJob,
        free: IntArray,
        price: FloatArray,
        units: IntArray,
        barred: BoolArray | None = None,
    ) -> None:
        self.job, self.free = job, free
        barred = np.zeros(len(free), np.bool_) if barred is None else barred
        self.forbidden = np.outer(barred, job.demand[:, 0] > 0)
        in_fractions = free.copy()
        in_fractions[barred, 0] = 0
        self.slots = solve_slots(job, in_fractions[None], price[None], units)
        self.price = self.slots.rooms.offers.price[0]

    def fits(self, held: IntArray) -> bool:
        return not held[self.forbidden].any() and bool((held @ self.job.demand <= self.free).all())

    def cost(self, held: IntArray) -> float:
        in_order: list[float] = (self.price * held).ravel().tolist()
        return sum(in_order)

    def ps_for(self, workers: int) -> int:
        return tolerant_ceil(workers / self.job.workers_per_ps)

    def on_one_server(self, samples: float) -> Held:
        workers = tolerant_ceil(samples * self.job.theta_internal)
        best: Held = (np.inf, None)
        for server in range(len(self.free)):
            held = np.zeros((len(self.free), 2), np.int64)
            held[server] = workers, self.ps_for(workers)
            if workers <= self.job.most_workers and self.fits(held) and self.cost(held) < best[0]:
                best = self.cost(held), held
        return best

    def rounded(self, samples: float, gain: float, tries: int, draw: Callable[[int], FloatArray]) -> Held:
        """``draw`` gives (S, 2) numbers in [0, 1) for each try."""
        workers = samples * self.job.theta_external
        if not np.isfinite(self.slots.least_cost(np.array([workers]))[0, 0]):
            return np.inf, None
        point = gain * np.maximum(point_at(self.slots, workers), 0)
        assert not point[self.forbidden].any()
        needed = tolerant_ceil(workers)
        best: Held = (np.inf, None)
        held = np.zeros_like(self.free[:, :2])
        for attempt in range(tries):
            held = np.floor(point).astype(np.int64)
            held += draw(attempt) < point - held
            total = held.sum(axis=0)
            enough = needed <= total[WORKER] <= self.job.most_workers and total[PS] >= self.ps_for(
                total[WORKER]
            )
            if enough and self.fits(held):
                self.drop(held, WORKER, needed)
                self.drop(held, PS, self.ps_for(needed))
                if self.cost(held) < best[0]:
                    best = self.cost(held), held
        if best[1] is None and self.repair(held, needed):
            best = self.cost(held), held
        return best

    def repair(self, held: IntArray, needed: int) -> bool:
        for server in range(len(held)):
            while (held[server] @ self.job.demand > self.free[server]).any():
                of_two = [role for role in (PS, WORKER) if held[server, role] > 0]
                held[server, max(of_two, key=lambda role: self.price[server, role])] -= 1
        self.drop(held, WORKER, self.job.most_workers)
        if not self.add(held, WORKER, needed):
            return False
        self.drop(held, WORKER, needed)
        if not self.add(held, PS, self.ps_for(needed)):
            return False
        self.drop(held, PS, self.ps_for(needed))
        return True

    def drop(self, held: IntArray, role: int, down_to: int) -> None:
        while held[:, role].sum() > down_to:
            some = [server for server in range(len(held)) if held[server, role] > 0]
            held[max(some, key=lambda server: (self.price[server, role], -server)), role] -= 1

    def add(self, held: IntArray, role: int, up_to: int) -> bool:
        while held[:, role].sum() < up_to:
            room = []
            for server in range(len(held)):
                more = held.copy()
                more[server, role] += 1
                if self.fits(more):
                    room.append((self.price[server, role], server))
            if not room:
                return False
            held[min(room)[1], role] += 1
        return True

    def gain(self, planning: Planning, samples: float) -> float:
        rounding = planning.rounding
        if rounding.favour == "covering":
            return covering_gain(samples * self.job.theta_external, rounding.delta)
        if rounding.favour == "packing":
            ratios = [float(self.job.most_workers)]
            for room, demand in product(self.free, self.job.demand):
                if (room >= demand).all():
                    ratios += [has / asked for has, asked in zip(room, demand, strict=True) if asked]
            return packing_gain(self.free.size + 1, min(ratios), rounding.delta)
        return 1.0


def plain_search(
    job: SlotJob, market: Market, planning: Planning, streams: Streams, barred: BoolArray | None = None
) -> tuple[float, list[SlotTasks]] | None:
    """Payoff in quanta of the best end, the earliest of equals, and its tasks; None where no work is done.

    ``barred`` as in `PlainSlot`.
    """
    quanta = planning.number_of(len(market.load))
    samples = job.samples / quanta
    most = min(quanta, int(job.most_workers / (job.fastest * samples) + 1e-9))
    n_servers = len(market.cluster.capacity)

    def state_of(slot: int) -> PlainSlot:
        free = market.cluster.capacity - market.load[slot]
        return PlainSlot(job, free, market.price[slot], market.cluster.quanta_per_unit, barred)

    def configured(slot: int, done: int) -> Held:
        state = state_of(slot)
        inside = state.on_one_server(done * samples)

        def draw(attempt: int) -> FloatArray:
            of_server = np.arange(2 * n_servers)
            entities = [np.full(2 * n_servers, each) for each in (job.number, slot, done, attempt)]
            return streams.uniforms("rounding", *entities, of_server).reshape(-1, 2)

        gain = state.gain(planning, done * samples)
        outside = state.rounded(done * samples, gain, planning.rounding.tries, draw)
        return outside if outside[0] < inside[0] * (1 - 1e-12) else inside

    slots = range(job.arrival, len(market.load))
    table = {(slot, done): configured(slot, done) for slot in slots for done in range(1, most + 1)}
    best: tuple[float, list[SlotTasks]] | None = None
    for end in slots:
        cost, choice = _cheapest(table, range(job.arrival, end + 1), quanta, most)
        payoff = float(job.utility[end - job.arrival]) - cost
        if np.isfinite(cost) and (best is None or payoff > best[0]):
            tasks = []
            for slot, done in choice:
                state = state_of(slot)
                held = table[slot, done][1]
                assert held is not None
                server = np.flatnonzero(held.any(axis=1))
                tasks.append(SlotTasks(slot, server, held[server], state.price[server]))
            best = payoff, tasks
    return best


def _cheapest(
    table: dict[tuple[int, int], Held], slots: range, quanta: int, most: int
) -> tuple[float, list[tuple[int, int]]]:
    """Least cost of all quanta in these slots, and the slots with their quanta; the fewest late of equals."""
    least: dict[int, tuple[float, list[tuple[int, int]]]] = {0: (0.0, [])}
    for slot in slots:
        after: dict[int, tuple[float, list[tuple[int, int]]]] = {}
        for total in range(quanta + 1):
            options = []
            for done in range(min(most, total) + 1):
                if total - done in least:
                    before, choice = least[total - done]
                    cost = table[slot, done][0] if done else 0.0
                    options.append((cost + before, done, choice))
            options = [each for each in options if np.isfinite(each[0])]
            if options:
                cost, done, choice = min(options, key=lambda each: each[:2])
                after[total] = cost, [*choice, (slot, done)] if done else choice
        least = after
    return least.get(quanta, (np.inf, []))
