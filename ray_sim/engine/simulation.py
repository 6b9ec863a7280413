"""The loop: from instant to instant, one decision at a time.

    policy.start(sim.world, sim.streams)
    while (view := sim.advance()) is not None:
        sim.apply(policy.decide(view))
    result = sim.result()

Events of an instant are processed in the order of docs/engine.md#time-and-order. An instant repeats while
events remain at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.faults import FaultRun
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.kinds.registry import refuse_policy
from ray_sim.engine.kinds.run import KindOutcome
from ray_sim.engine.placements import VisiblePlacements
from ray_sim.engine.policy_calls import mapping_of, name_of, named_failures, order_of, report_of
from ray_sim.engine.read_only import read_only
from ray_sim.engine.result import Outcome, build_result
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.since_last_decision import NOTHING, SinceLastDecision
from ray_sim.engine.sites.fleet import Fleet, fleet_of
from ray_sim.engine.states import State, joined, same, section, within
from ray_sim.engine.validation import check_decision, refuse_world
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import FUTURE, LEVEL, NEVER, RUNNING, Outages
from ray_sim.kernels.core.job_transitions import next_job_event, reject, submit_due
from ray_sim.kernels.core.record import add_event, add_line
from ray_sim.model.array_file import misfit
from ray_sim.model.errors import RunFailedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S

_MOST_REPEATS = 10_000
"""Repetitions of one instant, beside one per job, after which the run is declared stuck."""

MOST_IDLE = 10_000
"""Reviews and slots in a row at which the policy changed nothing while nothing else could happen, ever."""


_ARRIVAL, _COMPLETION, _SERVER_CHANGE = Wake.ARRIVAL.value, Wake.COMPLETION.value, Wake.SERVER_CHANGE.value
_SLOT, _ACTIVATION = Wake.SLOT.value, Wake.ACTIVATION.value


class _Wakes:
    """Events at which a policy wants to decide, as bits: flags are slow to combine."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known: Wake | None = None
        self._bits = 0

    def on(self, events: int) -> bool:
        """Whether it wants to decide at any of these events, bits of `Wake`."""
        wanted = self._policy.wake_on
        if wanted is not self._known:
            self._known, self._bits = wanted, wanted.value
        return self._bits & events != 0

    def on_changes(self, since: SinceLastDecision) -> bool:
        """Whether it wants to decide on what has happened since its last decision."""
        return (
            (bool(since.arrived) and self.on(_ARRIVAL))
            or (bool(since.completed) and self.on(_COMPLETION))
            or (bool(since.changed_servers) and self.on(_SERVER_CHANGE))
        )


class Simulation:
    """One run of one policy, step by step."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        *,
        seed: int = 0,
        fleet: Fleet | None = None,
        core: RunCore | None = None,
    ) -> None:
        """``core`` is that of an earlier run in the same world; it is cleared, and that run is over."""
        self._full_world = world
        self._policy = policy
        self._name = name_of(policy)
        self.streams = Streams(seed)
        fleet = fleet_of(world, 1, always=False) if fleet is None else fleet
        if core is None:
            core = RunCore(world, fleet)
        else:
            core.clear(fleet)
        self._core = core
        kind = world.kind
        assert isinstance(kind, JobKind), "worlds are made by build_world"
        refuse_policy(kind, policy, self._name)
        self._kind = kind.start(core, policy, self.streams)
        self._faults = FaultRun(core, self._kind, self.streams)
        self.world = self._kind.context(policy.sees, self._name)
        refuse_world(policy, world, self._name)
        self._visible_placements = VisiblePlacements(core.placements)
        self._available = read_only(core.placements.available)
        self._submit_us: list[int] = world.arrays.submit.tolist()
        self._outage_us: list[int] = world.outages.time.tolist()
        self._wakes = _Wakes(policy)
        self._now = -1
        self._next_job = 0
        self._next_outage = 0
        self._review = NEVER
        self._last_slot = -1
        self._repeats = 0
        self._idle = 0

    def again(self, seed: int) -> Simulation:
        """Another run of the same policy in the same world, in the arrays of this one, which ends.

        It takes a fraction of the time of the first; a result of this run stays as it is.
        """
        return Simulation(self._full_world, self._policy, seed=seed, core=self._core)

    @property
    def core(self) -> RunCore:
        """State of the run, for those who measure it; not to be written to."""
        return self._core

    @property
    def end_us(self) -> int:
        """End of the run when `advance` has returned None: its horizon, else its last instant."""
        return self._full_world.end_us(max(self._now, 0))

    @property
    def arrivals(self) -> int:
        """Jobs 0 .. arrivals - 1 have been submitted."""
        return self._next_job

    @property
    def done(self) -> bool:
        """Whether all jobs have come and gone."""
        return self._next_job == len(self._submit_us) and not self._core.occupied

    @property
    def now_us(self) -> int:
        """Instant to which the run has come; -1 before its first."""
        return self._now

    @property
    def ended_jobs(self) -> int:
        """Jobs that have come and are neither waiting nor running."""
        return self._next_job - int(self._core.counts.sum())

    def advance(self) -> View | None:
        """Go on to the next instant at which the policy wants to be asked; None at the end."""
        while True:
            now = self._next_instant()
            if now > self._now:
                self._close_instant()
                if now > self._full_world.horizon_us or self._idle > MOST_IDLE:
                    return None
                self._now, self._repeats = now, 0
            self._guard()
            view = self._happen(now)
            if view is not None:
                return view

    def _next_instant(self) -> int:
        core = self._core
        happening = min(core.fleet.next_us, next_job_event(core.books, self._next_job))
        if self._next_outage < len(self._outage_us) and not self.done:
            happening = min(happening, self._outage_us[self._next_outage])
        if core.occupied:
            happening = min(happening, self._kind.next_us)
            happening = min(happening, self._faults.next_us(max(self._now, 0)))
        self._idle = self._idle + 1 if happening >= NEVER else 0
        happening = min(happening, self._review)
        return min(happening, self._next_slot_us()) if self._wants_slot() else happening

    def _wants_slot(self) -> bool:
        if self._wakes.on(_SLOT):
            return self._core.occupied
        since = self._core.since_last_decision
        return self._policy.slotted and bool(since.arrived or since.completed or since.changed_servers)

    def _next_slot_us(self) -> int:
        """The first slot boundary, now or later, at which the policy has not been asked."""
        slot = self._full_world.slot_us or 1
        index = max(-(-max(self._now, 0) // slot), self._last_slot + 1)
        return index * slot

    def _close_instant(self) -> None:
        if self._now >= 0:
            self._kind.close_instant(self._now)
            waiting, running = self._core.counts.tolist()
            add_line(self._core.recording.writer, self._now, waiting, running, self._kind.used)

    def _guard(self) -> None:
        self._repeats += 1
        if self._repeats > _MOST_REPEATS + len(self._full_world.table):
            ids = self._full_world.table.job_id
            jobs = [ids[int(job)] for job in np.flatnonzero(self._core.ledger.status == RUNNING)[:5]]
            raise RunFailedError(
                f"time stands still at {self._now / US_PER_S:g} s: policy {self._name} was asked "
                f"{self._repeats} times at one instant; running jobs: {', '.join(jobs) or 'none'}"
            )

    def _happen(self, now: int) -> View | None:
        """Let everything happen that happens now; the view if the policy wants to be asked."""
        core, since = self._core, self._core.since_last_decision
        core.recording.ensure_room()
        outages = self._due_outages(now)
        if outages is None:
            reported = self._kind.book_reports(now)
        else:
            since.changed_servers.add(np.unique(outages.server))
            reported = self._kind.change_servers(now, outages)
        since.completed.add(self._kind.complete(now))
        self._arrive(now)
        self._faults.act(now)
        events = reported.value | self._kind.happen(now).value
        at_slot = self._wants_slot() and self._next_slot_us() == now
        reviewed = self._review <= now
        if reviewed:
            self._review = NEVER
        waits = self._policy.slotted and not (at_slot or reviewed)
        decides = at_slot or reviewed
        if not decides and self._wakes.on(events):
            decides = not waits or events & _ACTIVATION != 0
        if not (decides or (not waits and self._wakes.on_changes(since))):
            return None
        slot_us = self._full_world.slot_us
        if slot_us is not None and (at_slot or (reviewed and self._policy.slotted and now % slot_us == 0)):
            self._last_slot = now // slot_us  # also where a review alone asked it at the boundary
        shown = NOTHING if waits else since
        view = self._kind.view(
            now_us=now,
            arrived=shown.arrived.merged(),
            returned=shown.returned.merged(),
            completed=shown.completed.merged(),
            changed_servers=shown.changed_servers.merged(),
            available=self._available,
            reviewed=reviewed,
            at_slot=at_slot,
            jobs=self.world.jobs,
            placements=self._visible_placements,
            arrivals=self._next_job,
            _attempt=core.attempt,
            _ledger=core.ledger,
            _sees=self._policy.sees,
            _policy=self._name,
            _observed=self._kind.observed,
        )
        if not waits:
            since.clear()
        return view

    def _due_outages(self, now: int) -> Outages | None:
        """Servers that go and come back now, in the order listed; None if there are none."""
        first = self._next_outage
        if first == len(self._outage_us) or self._outage_us[first] > now:
            return None
        outages = self._full_world.outages
        self._next_outage = last = int(np.searchsorted(outages.time, now, side="right"))
        return Outages(outages.time[first:last], outages.server[first:last], outages.up[first:last])

    def _arrive(self, now: int) -> None:
        core, first = self._core, self._next_job
        if first < len(self._submit_us) and self._submit_us[first] == now:
            self._next_job, n = submit_due(now, first, core.books, core.recording.writer)
            core.since_last_decision.arrived.add(core.affected[:n].copy())

    def apply(self, decision: Decision) -> None:
        """Validate a decision exactly, then carry it out.

        Raises
        ------
        InfeasibleDecisionError : it breaks a rule of the world; nothing has been changed
        """
        now, core = self._now, self._core
        where = f"{now / US_PER_S:g} s: policy {self._name}"
        check_decision(where, now, core, decision, type(self._policy))
        self._kind.check(where, now, decision)
        if not decision.idle:
            self._idle = 0
        core.recording.ensure_room()
        if len(decision.reject) or len(decision.evict):
            for job, reason in zip(decision.reject.tolist(), decision.reject_reasons, strict=True):
                reject(now, core.books, core.recording.writer, job)
                core.reasons[job] = reason
            for job in decision.evict.tolist():
                self._kind.evict(now, job)
                core.reasons[job] = "policy"
            core.since_last_decision.drop_ended(np.union1d(decision.reject, decision.evict))
        if (levels := decision.levels) is not None:
            for job, level in zip(levels.job.tolist(), levels.level.tolist(), strict=True):
                add_event(core.recording.writer, now, LEVEL, job, -1, -1, level)
        self._kind.carry_out(now, decision)
        self._review = decision.review_us

    @property
    def outcome(self) -> KindOutcome:
        """Outcome of the jobs so far."""
        now = max(self._now, 0)
        return self._kind.outcome(now, self._full_world.end_us(now))

    def result(
        self,
        trim: Trim | None = None,
        *,
        loop_reason: str = "step by step",
        decision_seconds: Sequence[float] = (),
    ) -> RunResult:
        """The result; call it when `advance` has returned None. `trim` says which jobs it counts."""
        now, of_kind = max(self._now, 0), self.outcome
        report = report_of(self._policy, of_kind.timeline(np.empty(0, dtype=np.int64)).keys())
        outcome = Outcome(
            self._core.ledger,
            self._core.recording.joined(),
            now,
            self._core.reasons,
            "general",
            of_kind,
            loop_reason,
            decision_seconds,
            report.counts,
            report.timeline_columns,
            report.figures,
            report.warnings,
            stops=self._core.stops,
            attempt=self._core.attempt,
            order=order_of(self._policy, self.world),
        )
        return build_result(self._full_world, outcome, trim)

    def state(self) -> State:
        """Everything that `restore` needs to go on alike, as arrays; valid between two instants."""
        with named_failures(self._policy):
            of_policy = mapping_of(self._policy, "state")
        return self.state_of_world() | joined({"policy": of_policy})

    def state_of_world(self) -> State:
        """All of `state` that is not the policy's."""
        scalars = [self._now, self._next_job, self._review, self._last_slot, self._repeats, self._next_outage]
        scalars.append(self._idle)
        return {
            **self._core.state(),
            **joined({"kind": self._kind.state()}),
            **joined({"injector": self._faults.state()}),
            "scalars": np.array(scalars),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state of the same world and policy, after `policy.start`.

        Raises
        ------
        ValueError : the state is not of this world
        """
        if (difference := misfit(state, self.state_of_world())) is not None:
            raise ValueError(difference)
        self._core.restore(state)
        self._kind.restore(section(state, "kind"))
        self._faults.restore(section(state, "injector"))
        with named_failures(self._policy):
            self._policy.restore(section(state, "policy"))
        *scalars, self._idle = (int(value) for value in state["scalars"])
        self._now, self._next_job, self._review, self._last_slot, self._repeats, self._next_outage = scalars
        self._check_times()

    def _check_times(self) -> None:
        """Refuse a restored state in which something is due that was before, or not due that has happened."""
        world, core, now = self._full_world, self._core, self._now
        figures = {
            "now": (now, -1, NEVER),
            "review": (self._review, now + 1, NEVER),
            "last slot": (self._last_slot, -1, max(now, 0) // (world.slot_us or 1)),
            "repeats": (self._repeats, 0, _MOST_REPEATS + len(world.table)),
            "idle": (self._idle, 0, MOST_IDLE),
            "next event of sites": (core.fleet.next_us, now, NEVER),
            "next event of jobs": (min(self._kind.next_us, NEVER), now, NEVER),
        }
        for name, (found, low, high) in figures.items():
            within({name: np.array(found)}, name, low, high)
        within({"finish": core.ledger.finish[core.scheduled]}, "finish", now, NEVER)
        passed = [int(np.searchsorted(times, now, "right")) for times in (self._submit_us, self._outage_us)]
        same("next job and next outage", passed, [self._next_job, self._next_outage])
        same("ledger.status", core.ledger.status != FUTURE, np.arange(len(world.table)) < self._next_job)
