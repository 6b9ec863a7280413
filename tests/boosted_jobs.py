"""A fourth kind of job, for tests: gangs that a decision may boost to twice their speed for five seconds.

It has all that a kind may have: a progress rule and a world parameter, an event, a part in sites that reports
the end of a boost, a decision field, an observation, a column and a figure of results, and state for
snapshots. No other file knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import polars as pl

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import NO_JOBS, Decision, Wake
from ray_sim.engine.job_queue import JobQueue
from ray_sim.engine.kinds.base import JobKind, KindParameter
from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.kinds.run import KindOutcome, KindRun
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.sites.part import NO_EVENTS, PartCommands, PartFacts, PartRouting, SitePart
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import State
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import EVENT_JOB, EVENT_NAMES, RUNNING, WorldArrays
from ray_sim.kernels.core.record import add_event
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.figures import GangFigures
from ray_sim.model.parameters import Parameter
from ray_sim.model.progress_rule import PlacementRows, RigidProgress
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray
from ray_sim.reports.tables import FigureRows, figure_rows

BOOSTED = "boosted"
BOOST_US = 5_000_000
BOOST_EVENT = len(EVENT_NAMES)


@dataclass(frozen=True, slots=True)
class BoostCommands:
    """Jobs whose boost begins at ``now_us``; each is kept by the site of one of its servers."""

    now_us: int
    job: IntArray
    server: IntArray

    @property
    def nbytes(self) -> int:
        return self.job.nbytes + self.server.nbytes

    @property
    def empty(self) -> bool:
        return len(self.job) == 0


@dataclass(frozen=True, slots=True)
class BoostPartFacts(PartFacts):
    """Sites time boosts and report their ends."""

    jobs: int
    reports: ClassVar[bool] = True

    def at_site(self, arrays: WorldArrays, first_server: int, last_server: int, free: IntArray) -> BoostPart:
        return BoostPart(self.jobs)

    def routing(self, sites: int, jobs: int) -> BoostRouting:
        return BoostRouting()


class BoostPart(SitePart):
    """Ends of the boosts of jobs at a site; a boost outlives its server."""

    def __init__(self, jobs: int) -> None:
        self._ends_us: IntArray = np.full(jobs, NEVER_US)

    @property
    def next_us(self) -> int:
        return int(self._ends_us.min(initial=NEVER_US))

    def withdraw(self, jobs: IntArray) -> None:
        self._ends_us[jobs] = NEVER_US

    def carry_out(self, commands: PartCommands) -> None:
        assert isinstance(commands, BoostCommands)
        self._ends_us[commands.job] = commands.now_us + BOOST_US

    def advance(self, now_us: int) -> IntArray:
        over = np.flatnonzero(self._ends_us <= now_us)
        self._ends_us[over] = NEVER_US
        events = np.zeros((len(over), NO_EVENTS.shape[1]), dtype=np.int64)
        events[:, EVENT_JOB] = over
        return events

    def state(self) -> State:
        return {"ends_us": self._ends_us.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._ends_us[:] = state["ends_us"]


class BoostRouting(PartRouting):
    """Boosts go to the site of the server named."""

    def share(
        self, site: int, commands: PartCommands, here: Callable[[IntArray], BoolArray]
    ) -> BoostCommands | None:
        assert isinstance(commands, BoostCommands)
        mine = here(commands.server)
        share = BoostCommands(commands.now_us, commands.job[mine], commands.server[mine])
        return None if share.empty else share


@dataclass(frozen=True, slots=True)
class BoostTruth:
    """Gangs at the speed of their slowest server, times a factor while boosted."""

    gangs: RigidProgress
    factor: float
    boosted: BoolArray
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        return self.gangs.rates(placements, jobs) * np.where(self.boosted[jobs], self.factor, 1.0)

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        return NO_JOBS


class BoostFacts(RigidFacts):
    """Facts of gangs that may be boosted."""

    @property
    def compiled(self) -> bool:
        return False

    @property
    def events_per_instant(self) -> int:
        return 2 * len(self.arrays.submit)

    @property
    def event_names(self) -> tuple[str, ...]:
        return ("boost",)

    @property
    def part(self) -> PartFacts:
        return BoostPartFacts(len(self.arrays.submit))


@dataclass(frozen=True, slots=True)
class BoostedDecision(Decision):
    """A decision that also boosts jobs."""

    boost: IntArray = field(default_factory=lambda: NO_JOBS)
    """Running jobs that are not boosted, sorted."""

    @property
    def idle(self) -> bool:
        return len(self.boost) == 0 and Decision.idle.__get__(self)

    def columns(self) -> Iterator[tuple[str, object, int]]:
        yield from Decision.columns(self)
        yield "boost", self.boost, 1


@dataclass(frozen=True, slots=True)
class BoostedView(View):
    """View that also tells who is boosted."""

    _observed: BoolArray

    @property
    def boosted(self) -> BoolArray:
        """(J,) jobs that are boosted now."""
        return read_only(self._observed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostFigures(GangFigures):
    """Figures of gangs, and how often jobs were boosted."""

    boosts: int


@figure_rows.register
def _of_boosted_jobs(figures: BoostFigures) -> FigureRows:
    return FigureRows(progress=[("boosts", figures.boosts)])


@dataclass(frozen=True, slots=True)
class BoostOutcome(KindOutcome):
    """Figures of gangs, and a column and a figure of boosts."""

    boosts: IntArray

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> BoostFigures:
        boosts = self.boosts if counted is None else self.boosts[counted]
        return BoostFigures(restart_share=self.restart_share(jobs, counted), boosts=int(boosts.sum()))

    def job_columns(self) -> Mapping[str, pl.Series]:
        return {"boosts": pl.Series(self.boosts)}


class BoostedRun(KindRun):
    """Gangs of one run that may be boosted."""

    view: ClassVar[type[View]] = BoostedView
    decision_type: ClassVar[type[Decision]] = BoostedDecision

    def __init__(self, core: RunCore, factor: float) -> None:
        jobs = len(core.world.table)
        self._boosted: BoolArray = np.zeros(jobs, dtype=np.bool_)
        self._boosts: IntArray = np.zeros(jobs, dtype=np.int64)
        super().__init__(core, BoostTruth(RigidProgress(core.world.arrays.speed), factor, self._boosted))

    @property
    def observed(self) -> BoolArray:
        return self._boosted

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        super().check(where, now_us, decision)
        if isinstance(decision, BoostedDecision):
            boost, ledger = decision.boost, self._core.ledger
            if len(boost) and (self._boosted[boost] | (ledger.status[boost] != RUNNING)).any():
                raise InfeasibleDecisionError(f"at {where} boosts a job that does not run or is boosted")

    def carry_out(self, now_us: int, decision: Decision) -> None:
        super().carry_out(now_us, decision)
        if isinstance(decision, BoostedDecision) and len(decision.boost):
            jobs = decision.boost
            self._boosts[jobs] += 1
            self._switch(now_us, jobs, on=True)
            server = self._core.placements.rows_of(jobs)
            first = server.server[server.ptr[:-1]]
            self._core.fleet.command(now_us, Commands(part=BoostCommands(now_us, jobs, first)))

    def book_reports(self, now_us: int) -> Wake:
        if self._core.fleet.next_us <= now_us:
            self._switch(now_us, np.sort(self._core.fleet.collect(now_us)[:, 1]), on=False)
        return Wake(0)

    def _switch(self, now_us: int, jobs: IntArray, *, on: bool) -> None:
        self._boosted[jobs] = on
        for job in jobs.tolist():
            add_event(self._core.recording.ensure_room(), now_us, BOOST_EVENT, job, -1, -1, int(on))
        running = jobs[self._core.ledger.status[jobs] == RUNNING]
        self._rate(now_us, running, np.zeros(len(running), dtype=np.int64))

    def outcome(self, now_us: int, end_us: int) -> BoostOutcome:
        return BoostOutcome(self._core.ledger, now_us, self._boosts.copy())

    def state(self) -> State:
        return {"boosted": self._boosted.copy(), "boosts": self._boosts.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._boosted[:] = state["boosted"]
        self._boosts[:] = state["boosts"]


class BoostedJobs(JobKind):
    """The kind itself."""

    truth = BOOSTED
    jobs = BOOSTED
    accepts = frozenset({BOOSTED})
    summary = "gangs that may be boosted"
    observations = frozenset({BOOSTED})
    parameters = (
        KindParameter(
            Parameter("boost_factor", "float", 2.0, "speed of a boosted job", minimum=1.0),
            "is about boosted jobs",
        ),
    )

    def facts(self, setting: WorldSetting) -> BoostFacts:
        gangs = RigidFacts.of(setting)
        return BoostFacts(**{each.name: getattr(gangs, each.name) for each in fields(RigidFacts)})

    def start(self, core: RunCore, policy: Policy, streams: Streams) -> BoostedRun:
        return BoostedRun(core, float(str(core.world.params.get("boost_factor", 2.0))))


class BoostOnce(Policy[PolicyContext, BoostedView]):
    """First come, first served; each job is boosted once, at the decision after its start."""

    name: ClassVar[str] = "boost_once"
    schedules: ClassVar[str] = BOOSTED
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.SERVER_CHANGE

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self._queue: JobQueue = world.service("first_fit")
        self._done = np.zeros(len(world.jobs.submit_us), dtype=np.bool_)

    def decide(self, view: BoostedView) -> BoostedDecision:
        self._queue.push(view.arrived, view.arrived)
        served = self._queue.serve(view)
        ready = view.running[~self._done[view.running] & ~view.boosted[view.running]]
        self._done[ready] = True
        values = {each.name: getattr(served, each.name) for each in fields(Decision)}
        return BoostedDecision(**values, boost=ready)
