"""Everything a job can do in a tiny market, by enumeration: the exact mode of the search.

Work is counted exactly, in worker-slots at either rate, instead of in quanta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray, tolerant_ceil
from ray_sim.solvers.planning.market import MarketCapacity
from ray_sim.solvers.planning.slot_job import SlotJob

Counts = tuple[int, int]
"""Worker-slots at the internal rate, and at the external one."""


@dataclass(frozen=True)
class Choice:
    """What a job may hold in a slot."""

    counts: Counts
    held: IntArray
    """(S, 2)."""

    def quanta(self, job: SlotJob) -> IntArray:
        """(S, R)."""
        taken: IntArray = self.held @ job.demand
        return taken


def choices(job: SlotJob, free: IntArray, barred: BoolArray | None = None) -> Iterator[Choice]:
    """All with a worker, and as few parameter servers as it needs; (S, R) free quanta.

    No task that takes the first resource stands on ``barred`` servers, (S,).
    """
    most = job.most_workers
    barred = np.zeros(len(free), np.bool_) if barred is None else barred
    here = [
        [
            held
            for held in product(range(most + 1), repeat=2)
            if (np.array(held) @ job.demand <= room).all()
            and not (bar and (np.array(held) * job.demand[:, 0]).any())
        ]
        for room, bar in zip(free, barred, strict=True)
    ]
    for held in product(*here):
        workers, ps = (sum(column) for column in zip(*held, strict=True))
        if 1 <= workers <= most and ps == tolerant_ceil(workers / job.workers_per_ps):
            on_one = sum(any(each) for each in held) == 1
            yield Choice((workers, 0) if on_one else (0, workers), np.array(held))


def is_enough(job: SlotJob, counts: Counts) -> bool:
    done = counts[0] / job.theta_internal + counts[1] / job.theta_external
    return done >= job.samples * (1 - 1e-9)


def least_costs(
    job: SlotJob, free: IntArray, price: FloatArray, units: IntArray, barred: BoolArray | None = None
) -> FloatArray:
    """(T - a,) least cost of the whole work until each slot, inf where it cannot be done.

    Parameters
    ----------
    free, price : (T, S, R)
    barred : see `choices`
    """
    table: dict[Counts, float] = {(0, 0): 0.0}
    costs = []
    for slot in range(job.arrival, len(free)):
        of_slot: dict[Counts, float] = {(0, 0): 0.0}
        for choice in choices(job, free[slot], barred):
            cost = float((choice.quanta(job) / units * price[slot]).sum())
            of_slot[choice.counts] = min(cost, of_slot.get(choice.counts, np.inf))
        after: dict[Counts, float] = {}
        for (before, paid), (more, cost) in product(table.items(), of_slot.items()):
            counts = (before[0] + more[0], before[1] + more[1])
            after[counts] = min(paid + cost, after.get(counts, np.inf))
        table = after
        costs.append(min((cost for counts, cost in table.items() if is_enough(job, counts)), default=np.inf))
    return np.array(costs)


def best_payoff(job: SlotJob, free: IntArray, price: FloatArray, units: IntArray) -> float:
    """Largest utility less cost; -inf where the work cannot be done."""
    return float((job.utility - least_costs(job, free, price, units)).max())


def optimum(jobs: Sequence[SlotJob], cluster: MarketCapacity, slots: int) -> float:
    """Largest utility of any set of jobs and schedules that fit together."""
    free = np.tile(cluster.capacity, (slots, 1, 1))
    schedules = [_schedules(job, free) for job in jobs]
    return _best(schedules, free)


def _schedules(job: SlotJob, free: IntArray) -> list[tuple[float, IntArray]]:
    """(utility, (T, S, R) quanta) of all schedules that do enough, and would not without their last slot."""
    slots = len(free)
    of_slot = list(choices(job, free[0]))  # all slots are alike
    found: list[tuple[float, IntArray]] = []

    def grow(slot: int, counts: Counts, taken: IntArray) -> None:
        if is_enough(job, counts):
            found.append((float(job.utility[slot - 1 - job.arrival]), taken))
            return
        if slot == slots:
            return
        grow(slot + 1, counts, taken)
        for choice in of_slot:
            more = taken.copy()
            more[slot] = choice.quanta(job)
            grow(slot + 1, (counts[0] + choice.counts[0], counts[1] + choice.counts[1]), more)

    grow(job.arrival, (0, 0), np.zeros_like(free))
    return _undominated(found)


def _undominated(schedules: list[tuple[float, IntArray]]) -> list[tuple[float, IntArray]]:
    """Without those that take as much as another one, and are worth no more."""
    kept: list[tuple[float, IntArray]] = []
    for utility, taken in sorted(schedules, key=lambda each: (-each[0], int(each[1].sum()))):
        if not any(worth >= utility and (other <= taken).all() for worth, other in kept):
            kept.append((utility, taken))
    return kept


def _best(schedules: Sequence[list[tuple[float, IntArray]]], free: IntArray) -> float:
    if not schedules:
        return 0.0
    best = _best(schedules[1:], free)
    hope = sum(max((utility for utility, _ in each), default=0.0) for each in schedules[1:])
    for utility, taken in schedules[0]:
        if utility + hope > best and (taken <= free).all():
            best = max(best, utility + _best(schedules[1:], free - taken))
    return best
