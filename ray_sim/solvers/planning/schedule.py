"""Best schedule of one job at given prices: slots, work in each slot, and servers.

Used by the policy pd_ors; oasis shares `spread_work`, `schedule_of` and the outcomes. The order of
floating-point sums and of equal schedules decides results. Source: Yu et al., algorithms 2 to 4, with the
work in equal parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal, NamedTuple

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.kernels.planning.slot_plan import extend
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.planning.market import Market, SlotPlan
from ray_sim.solvers.planning.rounding_factor import TaskRounding
from ray_sim.solvers.planning.slot_costs import SlotCosts, SlotTasks, WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.trim_schedule import samples_trained, trim

_BOUND_ERROR = 1e-9
"""Relative amount by which rounding errors may raise a lower bound."""


class Obstacle(Enum):
    """Reason why a job has no schedule at any price."""

    HORIZON = "ends_too_late"
    """The job cannot end before the horizon even alone, with all its workers on one server."""
    COARSE_PARTS = "parts_too_coarse"
    """The job might end, but too few whole parts of its work fit in its slots; more parts may help."""
    ROOM = "no_room"
    """Free capacity is too small, or no rounding was found."""


class Effort(NamedTuple):
    """Work of a search; the same on every machine."""

    operations: int
    """Prices of servers, steps of slot programmes, roundings, and comparisons of the table."""
    unsolved: int
    """Number of different slots without a fractional solution, where only single servers were considered."""


NO_EFFORT = Effort(0, 0)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The job cannot be done by the horizon."""

    obstacle: Obstacle
    effort: Effort = NO_EFFORT


@dataclass(frozen=True, slots=True)
class NotWorthIt:
    """No payoff: by the best schedule found, or by a lower bound of the cost of every schedule."""

    utility: float
    cost: float
    """Cost of the best schedule found, or with `by_bound` the least of any with this end."""
    by_bound: bool
    """Whether a bound decided without a search; the job may be infeasible as well."""
    effort: Effort = NO_EFFORT

    @property
    def payoff(self) -> float:
        """Utility minus cost, at most 0; with `by_bound` an upper bound of all schedules."""
        return self.utility - self.cost


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule with more utility than cost."""

    plan: SlotPlan
    end: int
    """Last slot with a worker, counted from the start of the horizon."""
    cost: float
    utility: float
    samples: float
    """Samples that the schedule trains, at least those of the job."""
    effort: Effort = NO_EFFORT

    @property
    def payoff(self) -> float:
        """Utility minus cost, lambda of the paper; > 0 in the outcome of `best_schedule`."""
        return self.utility - self.cost


Outcome = Schedule | Infeasible | NotWorthIt


@dataclass(frozen=True, slots=True)
class Planning:
    """Options of the search for schedules."""

    quanta: int | None = None
    """Number of equal parts of a job's work; by default 4 for each slot of the horizon, and at least 40."""
    rounding: TaskRounding = field(default_factory=TaskRounding)
    round: Literal["each", "last"] = "each"
    """Whether fractions are rounded in every slot before slots are chosen, or only in chosen slots."""

    def number_of(self, slots: int) -> int:
        """Number of parts of the work for a horizon of this many slots."""
        return max(40, 4 * slots) if self.quanta is None else self.quanta


def best_schedule(job: SlotJob, market: Market, planning: Planning, streams: Streams) -> Outcome:
    """Find the schedule of the highest payoff in the search space; ties: the earliest end.

    The search maximises utility minus cost over the last slot, in whole parts. The result is trimmed, and
    returned if its payoff is positive.
    """
    parts = WorkParts.of(job, planning.number_of(len(market.load)))
    if not job.can_end:
        return Infeasible(Obstacle.HORIZON)
    if parts.most * len(job.utility) < parts.number:
        return Infeasible(Obstacle.COARSE_PARTS)
    costs = SlotCosts.of(job, market, parts, planning.rounding, streams)
    outcome = _best(costs, planning)
    return replace(outcome, effort=Effort(int(costs.operations[0]), costs.slots.unsolved))


def _best(costs: SlotCosts, planning: Planning) -> Outcome:
    job, bounds = costs.job, costs.bounds() * (1 - _BOUND_ERROR)
    if np.isinf(bounds[-1]):
        return Infeasible(Obstacle.ROOM)
    best = int(np.argmax(job.utility - bounds))
    if job.utility[best] - bounds[best] <= 0:
        return NotWorthIt(float(job.utility[best]), float(bounds[best]), by_bound=True)
    chosen = _chosen_each(costs, bounds[-1]) if planning.round == "each" else _chosen_last(costs, bounds[-1])
    if chosen is None:
        return Infeasible(Obstacle.ROOM)
    return if_worth_it(schedule_of(job, trim(job, chosen)))


def if_worth_it(schedule: Schedule) -> Schedule | NotWorthIt:
    """Return the schedule if its payoff is positive."""
    if schedule.payoff > 0:
        return schedule
    return NotWorthIt(schedule.utility, schedule.cost, by_bound=False)


def _chosen_each(costs: SlotCosts, bound: float) -> list[SlotTasks] | None:
    done = _search(costs, costs.rounded, bound)
    return None if done is None else [tasks for tasks in _tasks(costs, done).values() if tasks is not None]


def _chosen_last(costs: SlotCosts, bound: float) -> list[SlotTasks] | None:
    """Search with fractions and round the chosen slots; repeat without slots that cannot be rounded."""
    unroundable: set[tuple[int, int]] = set()  # (slot, parts of the work)

    def row(slot: int) -> FloatArray:
        cost = costs.in_fractions(slot)
        cost[[done for at, done in unroundable if at == slot]] = np.inf
        return cost

    while (done := _search(costs, row, bound)) is not None:
        tasks = _tasks(costs, done)
        failed = {(slot, int(done[slot])) for slot, held in tasks.items() if held is None}
        if not failed:
            return [held for held in tasks.values() if held is not None]
        unroundable |= failed
    return None


def _tasks(costs: SlotCosts, done: IntArray) -> dict[int, SlotTasks | None]:
    return {slot: costs.tasks(slot, int(done[slot])) for slot in np.flatnonzero(done).tolist()}


def _search(costs: SlotCosts, row: Callable[[int], FloatArray], bound: float) -> IntArray | None:
    return spread_work(costs.job.utility, costs.parts.number, row, bound)


def spread_work(
    utility: FloatArray, n: int, row: Callable[[int], FloatArray], bound: float
) -> IntArray | None:
    """Parts of the work in each slot up to the best end; None if the work cannot be done.

    Slots are counted from the job's arrival.

    One table serves all ends. The search stops when no later end can be better, since no schedule costs less
    than ``bound`` and utilities do not increase.

    Parameters
    ----------
    utility : utility of each slot as the end
    n : number of parts of work
    row : costs of 0, 1, .. parts in a given slot
    """
    cost_of_parts = np.full(n + 1, np.inf)
    cost_of_parts[0] = 0.0
    choices: list[IntArray] = []
    best, payoff = -1, -np.inf
    for slot in range(len(utility)):
        if utility[slot] - bound <= payoff:
            break
        next_cost_of_parts, choice = np.empty(n + 1), np.empty(n + 1, dtype=np.int64)
        extend(cost_of_parts, row(slot), next_cost_of_parts, choice)
        cost_of_parts = next_cost_of_parts
        choices.append(choice)
        if utility[slot] - cost_of_parts[n] > payoff:
            best, payoff = slot, float(utility[slot] - cost_of_parts[n])
    if best < 0:
        return None
    done, left = np.zeros(best + 1, dtype=np.int64), n
    for slot in range(best, -1, -1):
        done[slot] = choices[slot][left]
        left -= done[slot]
    return done


def schedule_of(job: SlotJob, slots: list[SlotTasks]) -> Schedule:
    """Join the tasks of a job in its slots, in slot order."""
    held = np.concatenate([tasks.held for tasks in slots])
    price = np.concatenate([tasks.price for tasks in slots])
    plan = SlotPlan(
        slot=np.repeat([tasks.slot for tasks in slots], [len(tasks.server) for tasks in slots]),
        server=np.concatenate([tasks.server for tasks in slots]),
        workers=held[:, WORKER],
        ps=held[:, PARAMETER_SERVER],
    )
    end = slots[-1].slot
    return Schedule(
        plan=plan,
        end=end,
        cost=sum((price * held).ravel().tolist()),  # NumPy's order of additions may differ
        utility=float(job.utility[end - job.arrival]),
        samples=sum(samples_trained(job, tasks.held) for tasks in slots),
    )
