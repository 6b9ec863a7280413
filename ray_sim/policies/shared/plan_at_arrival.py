"""Base class: admit at arrival and fix the whole schedule."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import Exchange
from ray_sim.model.units import NEVER_US, QUANTA_PER_UNIT, US_PER_S, FloatArray, IntArray
from ray_sim.policies.shared.idle_capacity import IdleCapacity
from ray_sim.policies.shared.jobs_in_slots import JobsInSlots
from ray_sim.policies.shared.plan_objectives import PlanObjectives
from ray_sim.policies.shared.plan_renewal import PlanRenewal
from ray_sim.policies.shared.plan_warnings import (
    horizon_warning,
    price_warning,
    short_plan_warning,
    slowing_warning,
)
from ray_sim.policies.shared.planning_parameters import OPTIONS, PRICE_SPAN, DeclaredRanges
from ray_sim.policies.shared.sold_plans import JOB, SERVER, SLOT, BookedPlans, PricedServers, SoldPlans
from ray_sim.policy_api import (
    WHOLE_TRACE,
    Decision,
    ElasticContext,
    ElasticPolicy,
    ElasticView,
    Parameter,
    State,
    Streams,
    Wake,
    allocation_changes,
    within,
)
from ray_sim.solvers.planning.market import Constants, Market, MarketCapacity
from ray_sim.solvers.planning.schedule import Infeasible, NotWorthIt, Obstacle, Outcome, Schedule
from ray_sim.solvers.planning.slot_job import SlotJob

NEXT_TO_NOTHING = 0.01
"""Share of a job's largest utility below which `admitted_below_1_percent` counts its plan."""

NO_ROOM = Infeasible(Obstacle.ROOM)


def refusal(outcome: Infeasible | NotWorthIt) -> str:
    """Reason for which a job is rejected at its arrival.

    ``price``: its best schedule costs at least its utility. ``infeasible``: it cannot complete by the horizon
    with the free capacity. ``solver``: no schedule was found, but one may exist.
    """
    if isinstance(outcome, NotWorthIt):
        return "price"
    return "solver" if outcome.obstacle is Obstacle.COARSE_PARTS else "infeasible"


class Planned(ElasticPolicy):
    """Plan each job once, at arrival, over all slots up to the horizon.

    A subclass says which servers are one market and finds the best plan at the prices of markets. Loads and
    prices stay as sold, whatever becomes of the job, unless a plan is taken back.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = OPTIONS
    wake_on: Wake = Wake.ARRIVAL | Wake.SERVER_CHANGE | Wake.REVIEW
    sees: frozenset[str] = frozenset({"utility", "training_profile", WHOLE_TRACE})
    slotted: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    def __init__(
        self,
        speeds: str,
        price_span: float | None,
        unfinished: str,
        replan: str,
        record: bool,
        constants: str,
        ranges: DeclaredRanges,
        idle: str = "leave",
    ) -> None:
        self._by_world = speeds == "world"
        self._declared = ranges if constants == "declared" else None
        """Ranges from which prices come; None where they come from the trace."""
        if self._declared is not None:
            self.sees = self.sees - {WHOLE_TRACE}
        self._price_span = price_span
        self._extends = unfinished == "extend"
        self._replans = replan == "failed"
        self._gives = idle == "give"
        self._records = record
        if self._extends or self._replans:
            self.sees = self.sees | {"work_left"}
        if self._gives:
            self.wake_on = self.wake_on | Wake.COMPLETION

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Open the markets.

        Raises
        ------
        InvalidScenarioError : the horizon is shorter than a slot
        """
        assert world.slot_us is not None, "a slotted policy runs where there are slots"
        assert world.horizon_us is not None, "a bounded policy runs where there is a horizon"
        self._world = world
        self._streams = streams
        self._slot_us = world.slot_us
        self._slots = world.horizon_us // world.slot_us
        if self._slots == 0:
            raise InvalidScenarioError(
                f"policy {self.name} plans in slots: horizon_s={world.horizon_us / US_PER_S:g} is shorter "
                f"than slot_s={world.slot_us / US_PER_S:g}"
            )
        self._quanta_per_unit = np.array(
            [QUANTA_PER_UNIT[name] for name in world.cluster.resources], dtype=np.int64
        )
        self._jobs = self._jobs_in_slots()
        self._admitted = np.zeros(len(world.jobs.submit_us), dtype=np.bool_)
        self._counted: Counter[str] = Counter()
        self._by_price = np.empty((0, 4))
        """(n, 4) jobs refused by price, see `price_warning`."""
        self._can_end = 0
        """Jobs that set the lowest and highest prices."""
        self._sold = SoldPlans(self._open())
        self._renewal = PlanRenewal(self._jobs, self._sold, self._admitted, self._counted, self._plan)
        self._idle = IdleCapacity(world, self._jobs)
        self._objectives = PlanObjectives()
        self._warnings = slowing_warning(self.name, world.slowing_options)
        if self._declared is None and not self._can_end and len(self._admitted):
            self._warnings += horizon_warning(self.name, len(self._admitted))
        for text in self._warnings:
            warnings.warn(text, UserWarning, stacklevel=2)

    def _jobs_in_slots(self) -> JobsInSlots:
        """Jobs of the run as they are planned."""
        return JobsInSlots(self._world, self._slot_us, self._slots, by_world=self._by_world)

    def _open(self) -> list[PricedServers]:
        """Open empty markets in each partition that has jobs that can end with utility."""
        self._markets_in: dict[int, slice] = {}
        """Markets of each partition that has any."""
        markets: list[PricedServers] = []
        for partition in np.unique(self._world.server_partition).tolist():
            sets = self._sets_of_servers(partition)
            clusters = self._clusters(partition, self._world.cluster.capacity)
            if any(cluster.units <= 0 for cluster in clusters):
                continue
            if constants := self._constants(partition, clusters):
                self._markets_in[partition] = slice(len(markets), len(markets) + len(sets))
                markets += [
                    PricedServers(servers, Market.empty(cluster, prices, self._slots))
                    for servers, cluster, prices in zip(sets, clusters, constants, strict=True)
                ]
        return markets

    @abstractmethod
    def _sets_of_servers(self, partition: int) -> list[IntArray]:
        """Servers of each market of a partition; where roles are apart, those for workers first."""

    @abstractmethod
    def _constants(self, partition: int, clusters: list[MarketCapacity]) -> list[Constants]:
        """Lowest and highest prices of the markets of a partition; none if no job counts."""

    def _clusters(self, partition: int, capacity: IntArray) -> list[MarketCapacity]:
        """Capacity of each market of a partition, from the (S, R) quanta of all servers."""
        sets = self._sets_of_servers(partition)
        return [MarketCapacity(capacity[servers], self._quanta_per_unit) for servers in sets]

    def _counted_jobs(self, partition: int, ends_alone: Callable[..., bool]) -> list[SlotJob]:
        """Jobs of a partition that set its prices: those that can end alone and have utility then.

        Parameters
        ----------
        ends_alone : test of a job on what each empty market offers it
        """
        counted = [
            job
            for job in self._jobs.promising(partition)
            if ends_alone(job, *self._clusters(partition, self._jobs.offered(job.number)))
        ]
        self._can_end += len(counted)
        return counted

    @abstractmethod
    def _best_plan(self, job: SlotJob, markets: Sequence[Market]) -> Outcome:
        """Find the schedule that has the largest positive payoff at the prices of its partition's markets.

        Its servers are numbered from 0, market after market. The caller carries it out; this method sells
        nothing.
        """

    def decide(self, view: ElasticView) -> Decision:
        """Plan arriving, failed and unfinished jobs, then place every job as planned for this slot."""
        slot = view.now_us // self._slot_us
        active = np.union1d(view.waiting, view.running)
        rows = self._sold.booked.rows
        kept = np.isin(rows[:, JOB], active) & (rows[:, SLOT] >= slot)
        self._sold.booked = self._sold.booked.kept(kept)
        if self._replans and len(view.changed_servers):
            self._renewal.plan_failed_anew(view, slot)
        over = active[self._admitted[active] & ~np.isin(active, self._sold.booked.rows[:, JOB])]
        self._renewal.count_short(over)
        if self._extends:
            self._renewal.extend(view, slot, over)
        refused = self._admit(view, slot)
        active = np.setdiff1d(active, list(refused))
        booked = self._sold.booked
        now = booked.kept(view.available[booked.rows[:, SERVER]]).at(slot)
        if self._gives:
            takers = active[self._admitted[active]]
            now = self._idle.given(view.available, takers, now, slot, self._counted)
        return Decision(
            changes=allocation_changes(view.placements, active, now.placements(active)),
            reject=np.array(list(refused), dtype=np.int64),
            reject_reason=tuple(refused.values()),
            review_us=self._next_us(slot),
        )

    def _next_us(self, slot: int) -> int:
        """Time of the next slot in which a plan changes."""
        change = self._sold.booked.next_change(slot)
        if change is None:
            return NEVER_US
        return (slot + 1 if self._gives else change) * self._slot_us

    def _admit(self, view: ElasticView, slot: int) -> dict[int, str]:
        """Plan the jobs that have arrived; returns the reasons of those rejected."""
        refused = {}
        for job in np.setdiff1d(view.arrived, view.returned).tolist():
            planned = self._jobs.in_slots(job)
            outcome = NO_ROOM if planned is None else self._plan(planned, view, slot)
            if planned is not None:
                self._note(planned, outcome)
            if not isinstance(outcome, Schedule):
                refused[job] = reason = refusal(outcome)
                self._counted[f"refused_{reason}"] += 1
            if self._records:
                costs = sum(priced.market.dual for priced in self._sold.markets)
                self._objectives.note(view.now_us, outcome, costs)
        return refused

    def _note(self, job: SlotJob, outcome: Outcome) -> None:
        """Note an admission, or a refusal by price."""
        if isinstance(outcome, Schedule):
            self._admitted[job.number] = True
            self._counted["admitted"] += 1
            next_to_nothing = outcome.utility < NEXT_TO_NOTHING * job.most_worth
            self._counted["admitted_below_1_percent"] += int(next_to_nothing)
        elif isinstance(outcome, NotWorthIt):
            row = (job.number, job.most_worth, outcome.cost, self._least_cost(job))
            self._by_price = np.vstack([self._by_price, row])

    def _least_cost(self, job: SlotJob) -> float:
        """Cost of all work of a job at the lowest prices, in fractions of tasks."""
        markets = self._sold.markets[self._markets_in[self._jobs.partition_of(job.number)]]
        demands = (job.worker_demand, job.ps_demand / job.workers_per_ps)
        price = sum(
            priced.market.constants.lowest * float((demand / self._quanta_per_unit).sum())
            for priced, demand in zip((markets[0], markets[-1]), demands, strict=True)
        )
        return job.samples * job.fastest * price

    def _plan(self, job: SlotJob, view: ElasticView, slot: int) -> Outcome:
        """Sell the best plan of a job from now on, or return the reason why there is none."""
        if self._jobs.training.exchange[job.number] == Exchange.ALL_REDUCE:
            return NO_ROOM  # the model has no form for jobs without parameter servers
        here = self._markets_in.get(self._jobs.partition_of(job.number))
        if here is None:
            return NO_ROOM
        offered = self._jobs.offered(job.number)
        if self._replans:
            offered *= view.available[:, None]
        markets = [priced.offering(offered, slot) for priced in self._sold.markets[here]]
        found = self._best_plan(job, [priced.market for priced in markets])
        if not isinstance(found, Schedule):
            return found
        servers = np.concatenate([priced.servers for priced in markets])
        found = replace(found, plan=replace(found.plan, server=servers[found.plan.server]))
        self._sold.sell(job, found.plan)
        return found

    def counts(self) -> dict[str, int]:
        """Return counts of admitted and refused jobs, and of changes of plans."""
        return dict(sorted(self._counted.items()))

    def figures(self) -> dict[str, float]:
        """Return the largest ln(U / L) of any resource, if there is a market."""
        spans = [float(priced.market.constants.log_ratio.max()) for priced in self._sold.markets]
        return {PRICE_SPAN.name: max(spans)} if spans else {}

    def warnings(self) -> list[str]:
        """Warn of a world in which plans may fail, of plans that did, and of prices that fail."""
        short, admitted = self._counted["under_delivered"], self._counted["admitted"]
        return [
            *self._warnings,
            *short_plan_warning(self.name, short, admitted, extends=self._extends, by_world=self._by_world),
            *price_warning(self.name, self.figures().get(PRICE_SPAN.name), self._counted, self._by_price),
        ]

    def timeline_columns(self) -> dict[str, tuple[IntArray, FloatArray]]:
        """Return the objectives, if they are recorded."""
        return self._objectives.timeline_columns() if self._records else {}

    def state(self) -> State:
        """Return plans and loads; prices follow from these."""
        counted = self.counts()
        return {
            "plans": self._sold.booked.rows.copy(),
            "admitted": self._admitted.copy(),
            "short": self._renewal.short.copy(),
            "by_price": self._by_price.copy(),
            **self._objectives.state(),
            "counts": np.array(list(counted.values()), dtype=np.int64),
            "count_names": np.frombuffer(" ".join(counted).encode(), dtype=np.uint8),
            **{f"load.{i}": priced.market.load.copy() for i, priced in enumerate(self._sold.markets)},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        counts = (len(self._admitted), self._slots, len(self._world.server_partition), NEVER_US, NEVER_US)
        within(state, "plans", 0, np.array(counts) - 1)
        for i, priced in enumerate(self._sold.markets):
            within(state, f"load.{i}", 0, priced.market.cluster.capacity)
        self._sold.booked = BookedPlans(state["plans"].copy())
        self._admitted[:] = state["admitted"]
        self._renewal.short[:] = state["short"]
        self._by_price = state["by_price"].copy()
        self._objectives.restore(state)
        names = state["count_names"].tobytes().decode().split()
        self._counted.clear()
        self._counted.update(dict(zip(names, state["counts"].tolist(), strict=True)))
        for i, priced in enumerate(self._sold.markets):
            priced.restore(state[f"load.{i}"])
