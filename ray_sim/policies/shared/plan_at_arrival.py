"""Base class: admit at arrival and fix the whole schedule."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import ClassVar

import numpy as np

from ray_sim.kernels.core.feasibility import MOST_TASKS
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import Exchange, TrainingProfile, UtilityProfile
from ray_sim.model.units import (
    NEVER_US,
    QUANTA_PER_UNIT,
    US_PER_S,
    BoolArray,
    FloatArray,
    IntArray,
    tolerant_ceils,
)
from ray_sim.model.utility import arrival_slot
from ray_sim.policies.shared.booked_plans import JOB, SERVER, SLOT, BookedPlans
from ray_sim.policies.shared.bundles import bundles
from ray_sim.policies.shared.declared_ranges import DeclaredRanges
from ray_sim.policies.shared.idle_capacity import enlarged, left_free
from ray_sim.policy_api import (
    WHOLE_TRACE,
    Decision,
    ElasticContext,
    ElasticPolicy,
    ElasticView,
    JobColumns,
    Parameter,
    State,
    Streams,
    Wake,
    allocation_changes,
)
from ray_sim.solvers.planning.market import Market, SlotPlan
from ray_sim.solvers.planning.prices import Constants, MarketCapacity
from ray_sim.solvers.planning.schedule import Infeasible, NotWorthIt, Obstacle, Schedule
from ray_sim.solvers.planning.slot_job import SampleTimes, SlotJob, slot_job


class Refusal(StrEnum):
    """Reason for the rejection of a job."""

    PRICE = "price"
    """Its best schedule costs at least its utility."""
    INFEASIBLE = "infeasible"
    """It cannot complete by the horizon with the free capacity."""
    SOLVER = "solver"
    """No schedule was found, but one may exist."""


def refusal(outcome: Infeasible | NotWorthIt) -> Refusal:
    """Convert the outcome of a search without a schedule to a reason."""
    if isinstance(outcome, NotWorthIt):
        return Refusal.PRICE
    return Refusal.SOLVER if outcome.obstacle is Obstacle.COARSE_PARTS else Refusal.INFEASIBLE


UNFINISHED = Parameter(
    "unfinished",
    "choice",
    "leave",
    "action when a job is not done at the end of its plan, e.g. if it trains slower than planned. leave: "
    "none; extend: plan the rest of the work like an arriving job, at the current prices",
    choices=("leave", "extend"),
    source="docs/policies/pd_ors.md#what-the-paper-leaves-out",
)
REPLAN = Parameter(
    "replan",
    "choice",
    "none",
    "action when servers are lost. none: plans stay, on the remaining servers; failed: plans on lost servers "
    "are cancelled and the rest of the work is planned again; no plan uses lost servers",
    choices=("none", "failed"),
    source="docs/policies/pd_ors.md#what-the-paper-leaves-out",
)
IDLE = Parameter(
    "idle",
    "choice",
    "leave",
    "use of capacity that no plan uses in a slot. leave: it stays idle; give: admitted jobs get more workers "
    "and parameter servers, in job order, if they train faster with them",
    choices=("leave", "give"),
    source="docs/policies/pd_ors.md#what-the-paper-leaves-out",
)
PRICE_SPAN = Parameter(
    "price_span",
    "float",
    None,
    "upper bound of ln(U / L): L is raised to meet it, so that prices rise before servers are nearly full. "
    "none = the published L",
    minimum=1.0,
    source="docs/models/pd_ors.md#prices",
)
SPEEDS = Parameter(
    "speeds",
    "choice",
    "world",
    "speeds by which plans are made. world: lower bounds by the world's step-time rule and servers, for a "
    "job alone; published: the form of Yu et al. on servers of speed 1, as truth=pd_ors",
    source="docs/models/pd_ors.md#speeds",
    choices=("world", "published"),
)
RECORD = Parameter(
    "record",
    "bool",
    False,
    "whether the timeline has `primal`, the utility of all plans so far, and `dual`, all payoffs so far plus "
    "the cost of all servers at their prices",
    source="docs/models/pd_ors.md#properties-to-check; the dual is never below the primal",
)
OPTIONS = (SPEEDS, PRICE_SPAN, UNFINISHED, REPLAN, RECORD)
"""Parameters of all policies that plan at arrival."""


PUBLISHED_SPAN = 31.0
"""Upper end of ln(U / L), 22 to 31, for the published ranges of utility decay (th2 in [0.01, 1])."""

NEXT_TO_NOTHING = 0.01
"""Share of a job's largest utility below which `admitted_below_1_percent` counts its plan."""


@dataclass(frozen=True, slots=True)
class PricedServers:
    """Servers of one market, with their prices."""

    servers: IntArray
    """Sorted server indices of the run; the market numbers them 0, 1, ..."""
    market: Market

    def part_of(self, plan: SlotPlan) -> SlotPlan:
        """Select the rows of a plan on these servers, renumbered for the market."""
        rows = np.isin(plan.server, self.servers)
        server = np.searchsorted(self.servers, plan.server[rows])
        return SlotPlan(plan.slot[rows], server, plan.workers[rows], plan.ps[rows])

    def without(self, there: BoolArray, first: int) -> PricedServers:
        """Copy the market with nothing free, from slot ``first`` on, on servers that are unavailable."""
        gone = np.flatnonzero(~there[self.servers])
        if len(gone) == 0:
            return self
        market = replace(self.market, load=self.market.load.copy(), price=self.market.price.copy())
        market.load[first:, gone] = market.cluster.capacity[gone]
        _reprice(market)
        return PricedServers(self.servers, market)


class Planned(ElasticPolicy):
    """Plan each job once, at arrival, over all slots up to the horizon.

    A subclass opens markets and finds the best plan at their prices. Loads and prices stay as sold, whatever
    becomes of the job, unless a plan is taken back.
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
        self._training, self._utility = _profiles(world.jobs)
        self._plans = BookedPlans.nothing()
        self._admitted = np.zeros(len(world.jobs.submit_us), dtype=np.bool_)
        self._short = np.zeros(len(world.jobs.submit_us), dtype=np.bool_)
        """Jobs with work left when a plan of theirs ended."""
        self._counted: Counter[str] = Counter()
        self._bundles = bundles(world, world.jobs.batch)
        self._earned = np.zeros(2)
        """Total utility and total payoff of the schedules of all admitted jobs."""
        self._objectives = np.empty((0, 3))
        """One row per arrival if `record` is set: time, primal and dual objective."""
        self._can_end = 0
        """Jobs that set the lowest and highest prices."""
        self._markets = self._open()
        self._warnings = [*self._warning_of_slowing(), *self._warning_of_horizon()]
        for text in self._warnings:
            warnings.warn(text, UserWarning, stacklevel=2)

    def _warning_of_slowing(self) -> list[str]:
        """Warn if other jobs, links or slow workers may slow a job below the planned speeds."""
        options = self._world.slowing_options
        if not options:
            return []
        return [
            f"policy {self.name} plans by the speeds of jobs alone, on nominal links and without slow "
            f"workers, but this world has {', '.join(options)}, which may slow jobs without a limit that "
            f"helps: plans may end before the work is done. -p unfinished=extend plans the rest again"
        ]

    def _warning_of_horizon(self) -> list[str]:
        """Warn if no job can end in time, so that all will be rejected; not without the whole trace."""
        jobs = len(self._world.jobs.submit_us)
        if self._declared is not None or self._can_end or not jobs:
            return []
        return [
            f"policy {self.name}: none of {jobs} jobs can earn utility by the horizon at the planned speeds, "
            f"even alone on the empty servers, so all will be rejected: give a longer horizon_s, more "
            f"servers, or other jobs"
        ]

    @abstractmethod
    def _open(self) -> Sequence[PricedServers]:
        """Open empty markets on sets of servers that do not overlap."""

    def _market(self, servers: IntArray, cluster: MarketCapacity, constants: Constants) -> PricedServers:
        """Open an empty market on these servers."""
        if self._price_span is not None:
            constants = constants.within(self._price_span)
        return PricedServers(servers, Market.empty(cluster, constants, self._slots))

    @abstractmethod
    def _best_plan(self, job: SlotJob, markets: Sequence[PricedServers]) -> Schedule | Refusal:
        """Find the schedule, with servers of the run, that has the largest positive payoff at these prices.

        The caller carries it out; this method sells nothing.
        """

    def decide(self, view: ElasticView) -> Decision:
        """Plan arriving, failed and unfinished jobs, then place every job as planned for this slot."""
        slot = view.now_us // self._slot_us
        active = np.union1d(view.waiting, view.running)
        kept = np.isin(self._plans.rows[:, JOB], active) & (self._plans.rows[:, SLOT] >= slot)
        self._plans = self._plans.kept(kept)
        if self._replans and len(view.changed_servers):
            self._plan_failed_anew(view, slot)
        over = active[self._admitted[active] & ~np.isin(active, self._plans.rows[:, JOB])]
        self._count_short(over)
        if self._extends:
            self._extend(view, slot, over)
        refused = self._admit(view, slot)
        active = np.setdiff1d(active, list(refused))
        now = self._plans.kept(view.available[self._plans.rows[:, SERVER]]).at(slot)
        if self._gives:
            now = self._enlarged(view, active, now, slot)
        return Decision(
            changes=allocation_changes(view.placements, active, now.placements(active)),
            reject=np.array(list(refused), dtype=np.int64),
            reject_reason=tuple(refused.values()),
            review_us=self._next_us(slot),
        )

    def _next_us(self, slot: int) -> int:
        """Time of the next slot in which a plan changes."""
        change = self._plans.next_change(slot)
        if change is None:
            return NEVER_US
        return (slot + 1 if self._gives else change) * self._slot_us

    def slot_job(self, job: int) -> SlotJob | None:
        """Convert a job of the run to slots; None if no slot begins between its arrival and the horizon."""
        arrival = int(arrival_slot(self._world.jobs.submit_us[job : job + 1], self._slot_us)[0])
        if arrival >= self._slots:
            return None
        slot_s = self._slot_us / US_PER_S
        times = self._sample_times(job)
        planned = slot_job(job, arrival, self._slots, slot_s, self._training, self._utility, times)
        # A job without work has to start in order to end: plan it as if it had one sample.
        return planned if planned.samples > 0 else replace(planned, samples=1.0)

    def _sample_times(self, job: int) -> SampleTimes | None:
        """Time of a sample by number of workers, in the world; None for the published form.

        There are as many workers as the job may have and the servers hold when empty, and their share of
        parameter servers.
        """
        if not self._by_world or self._training.exchange[job] == Exchange.ALL_REDUCE:
            return None
        servers = self._worker_servers(self.partition_of(job))
        demand = self._training.worker_demand[job]
        some = demand > 0
        most = int(min(self._training.batch[job], MOST_TASKS))
        room = np.min(self._world.cluster.capacity[servers][:, some] // demand[some], axis=1, initial=most)
        workers = np.arange(1, max(1, min(most, int(room.sum()))) + 1)
        ps = tolerant_ceils(workers / self._training.workers_per_ps[job])
        jobs = np.full(len(workers), job)
        return SampleTimes(
            *(
                self._world.longest_sample_s(jobs, workers, ps, servers, on_one_server=on_one_server)
                for on_one_server in (True, False)
            )
        )

    def _worker_servers(self, partition: int) -> IntArray:
        """Servers of a partition on which workers may stand."""
        return np.flatnonzero(self._world.server_partition == partition)

    def partition_of(self, job: int) -> int:
        """Index of the market of the servers that the job may use."""
        return int(self._world.jobs.partition[job])

    def _promising(self, partition: int) -> list[SlotJob]:
        """Jobs of a partition that have utility if servers are unbounded."""
        mine = np.flatnonzero(self._world.jobs.partition == partition)
        jobs = [job for job in map(self.slot_job, mine.tolist()) if job is not None]
        return [job for job in jobs if job.can_end and job.most_worth > 0]

    def _counted_jobs(self, partition: int, ends_alone: Callable[[SlotJob], bool]) -> list[SlotJob]:
        """Jobs of a partition that set its prices: those that can end alone and have utility then."""
        counted = [job for job in self._promising(partition) if ends_alone(job)]
        self._can_end += len(counted)
        return counted

    def _admit(self, view: ElasticView, slot: int) -> dict[int, str]:
        """Plan the jobs that have arrived; returns the reasons of those rejected."""
        refused = {}
        for job in np.setdiff1d(view.arrived, view.returned).tolist():
            planned = self.slot_job(job)
            outcome = Refusal.INFEASIBLE if planned is None else self._plan(planned, view, slot)
            if planned is None or isinstance(outcome, Refusal):
                refused[job] = str(outcome)
                self._counted[f"refused_{outcome}"] += 1
            else:
                self._admitted[job] = True
                self._counted["admitted"] += 1
                next_to_nothing = outcome.utility < NEXT_TO_NOTHING * planned.most_worth
                self._counted["admitted_below_1_percent"] += int(next_to_nothing)
            if self._records:
                self._note(view.now_us, outcome)
        return refused

    def _note(self, now_us: int, outcome: Schedule | Refusal) -> None:
        """Record the objectives after an arrival."""
        self._earned += (0.0, 0.0) if isinstance(outcome, Refusal) else (outcome.utility, outcome.payoff)
        costs = sum(priced.market.dual for priced in self._markets)
        row = (now_us, self._earned[0], self._earned[1] + costs)
        self._objectives = np.vstack([self._objectives, row])

    def _plan(self, job: SlotJob, view: ElasticView, slot: int) -> Schedule | Refusal:
        """Book the best plan of a job from now on, or return the reason why there is none."""
        if self._training.exchange[job.number] == Exchange.ALL_REDUCE:
            return Refusal.INFEASIBLE  # the model has no form for jobs without parameter servers
        markets = self._markets
        if self._replans:
            markets = [priced.without(view.available, slot) for priced in markets]
        found = self._best_plan(job, markets)
        if isinstance(found, Refusal):
            return found
        self._plans = self._plans.having(job.number, found.plan)
        self._sell(job, found.plan)
        return found

    def _sell(self, job: SlotJob, plan: SlotPlan) -> None:
        for priced in self._markets:
            priced.market.sell(job, priced.part_of(plan))

    def _take_back(self, job: SlotJob, plan: SlotPlan) -> None:
        for priced in self._markets:
            priced.market.take_back(job, priced.part_of(plan))

    def _rest(self, job: int, view: ElasticView, slot: int) -> SlotJob | None:
        """Work left of a job from now on, as a job; None at the horizon."""
        whole = self.slot_job(job)
        left = float(view.work_left(np.array([job]))[0])
        if whole is None or slot >= self._slots or left <= 0.0:
            return None
        late = slot - whole.arrival
        return replace(whole, arrival=slot, samples=left, utility=whole.utility[late:])

    def _plan_failed_anew(self, view: ElasticView, slot: int) -> None:
        """Plan again where plans use unavailable servers; plans without a replacement stay."""
        lost = ~view.available[self._plans.rows[:, SERVER]]
        for job in np.unique(self._plans.rows[lost, JOB]).tolist():
            rest = self._rest(job, view, slot)
            if rest is None:
                continue
            before, old = self._plans, self._plans.of(job)
            self._plans = before.kept(before.rows[:, JOB] != job)
            self._take_back(rest, old)
            if isinstance(self._plan(rest, view, slot), Refusal):
                self._plans = before
                self._sell(rest, old)
            else:
                self._counted["replanned"] += 1

    def _count_short(self, over: IntArray) -> None:
        """Count admitted jobs that are there when their plan is over, each once."""
        new = over[~self._short[over]]
        if len(new):
            self._short[new] = True
            self._counted["under_delivered"] += len(new)

    def _extend(self, view: ElasticView, slot: int, over: IntArray) -> None:
        """Plan the rest of admitted jobs whose plan is over; jobs without a new plan are given up."""
        for job in over.tolist():
            rest = self._rest(job, view, slot)
            if rest is None or isinstance(self._plan(rest, view, slot), Refusal):
                self._admitted[job] = False
                self._counted["given_up"] += 1
            else:
                self._counted["extended"] += 1

    def _enlarged(self, view: ElasticView, active: IntArray, now: BookedPlans, slot: int) -> BookedPlans:
        """Plans of this slot after idle capacity is given to admitted jobs, in job order."""
        there = self._world.cluster.capacity * view.available[:, None]
        demand = self._world.jobs.role_demand
        for number in active[self._admitted[active]].tolist():
            job = self.slot_job(number)
            mine = self._world.server_partition == self.partition_of(number)
            free = left_free(there, now, demand) * mine[:, None]
            larger = (
                None
                if job is None
                else enlarged(job, now.of(number), slot, self._bundles, free, partial(self._speed, job))
            )
            if larger is not None:
                now = now.kept(now.rows[:, JOB] != number).having(number, larger)
                self._counted["gifts"] += 1
        return now

    def _speed(self, job: SlotJob, plan: SlotPlan) -> float:
        """Speed of a job with the tasks of a plan of one slot, in samples per second or per slot."""
        if not self._by_world:
            workers, servers = int(plan.workers.sum()), len(plan.server)
            return job.samples_trained(workers, on_one_server=servers == 1)
        jobs = np.array([job.number])
        rows = BookedPlans.nothing().having(job.number, plan).placements(jobs)
        return float(self._world.speed_alone(jobs, rows)[0])

    def counts(self) -> dict[str, int]:
        """Return counts of admitted and refused jobs, and of changes of plans."""
        return dict(sorted(self._counted.items()))

    def figures(self) -> dict[str, float]:
        """Return the largest ln(U / L) of any resource, if there is a market."""
        return {PRICE_SPAN.name: self._widest} if self._markets else {}

    def warnings(self) -> list[str]:
        """Warn of a world in which plans may fail, of plans that did, and of a wide span of prices."""
        return [*self._warnings, *self._warnings_of_plans(), *self._warnings_of_prices()]

    def _warnings_of_plans(self) -> list[str]:
        """Warn if jobs had work left when their plan ended."""
        short = self._counted["under_delivered"]
        if not short:
            return []
        cures = ["-p unfinished=extend plans the rest again"] if not self._extends else []
        cures += [] if self._by_world else ["-p speeds=world plans by the speeds of this world"]
        return [
            f"policy {self.name}: {short} of {self._counted['admitted']} admitted jobs had work left when "
            "their plan ended: they trained slower than planned, paused, or lost servers"
            + "".join(f"; {cure}" for cure in cures)
        ]

    def _warnings_of_prices(self) -> list[str]:
        """Warn if prices span more than in the published ranges."""
        if not self._markets or self._widest <= PUBLISHED_SPAN:
            return []
        return [
            f"policy {self.name}: ln(U/L) is {self._widest:.1f}, above the 22 to {PUBLISHED_SPAN:g} of the "
            f"published ranges: prices count for nothing until servers are nearly full, so jobs are admitted "
            f"that earn next to nothing. -p price_span=10 raises L until ln(U/L) is 10; it gives up the "
            f"guarantee that the dual starts at half the optimum or less (D_0 <= OPT/2)"
        ]

    @property
    def _widest(self) -> float:
        return max(float(priced.market.constants.log_ratio.max()) for priced in self._markets)

    def timeline_columns(self) -> dict[str, tuple[IntArray, FloatArray]]:
        """Return the objectives, if they are recorded."""
        if not self._records:
            return {}
        now_us = self._objectives[:, 0].astype(np.int64)
        return {name: (now_us, self._objectives[:, i]) for i, name in enumerate(("primal", "dual"), 1)}

    def state(self) -> State:
        """Return plans and loads; prices follow from these."""
        counted = self.counts()
        return {
            "plans": self._plans.rows.copy(),
            "admitted": self._admitted.copy(),
            "short": self._short.copy(),
            "earned": self._earned.copy(),
            "objectives": self._objectives.copy(),
            "counts": np.array(list(counted.values()), dtype=np.int64),
            "count_names": np.frombuffer(" ".join(counted).encode(), dtype=np.uint8),
            **{f"load.{i}": priced.market.load.copy() for i, priced in enumerate(self._markets)},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._plans = BookedPlans(state["plans"].copy())
        self._admitted[:] = state["admitted"]
        self._short[:] = state["short"]
        self._earned[:] = state["earned"]
        self._objectives = state["objectives"].copy()
        names = state["count_names"].tobytes().decode().split()
        self._counted = Counter(dict(zip(names, state["counts"].tolist(), strict=True)))
        for i, priced in enumerate(self._markets):
            priced.market.load[:] = state[f"load.{i}"]
            _reprice(priced.market)


def _reprice(market: Market) -> None:
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)


def _profiles(jobs: JobColumns) -> tuple[TrainingProfile, UtilityProfile]:
    """Training and utility columns as the profiles that planners take."""
    training = {name: getattr(jobs, name) for name in TrainingProfile.__slots__ if name != "model_names"}
    utility = {name: getattr(jobs, name) for name in UtilityProfile.__slots__}
    return TrainingProfile(**training, model_names=()), UtilityProfile(**utility)
