"""Chunked jobs of a run: reports of sites are booked, and decisions become commands to sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from ray_sim.engine.decision import NO_WAKE, Causes, Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.ledger import ChunkLedger
from ray_sim.engine.kinds.chunked.site_part import ChunkCommands, JobValues
from ray_sim.engine.kinds.chunked.slot_rounding import SlotRounding
from ray_sim.engine.kinds.chunked.validation import check_chunks
from ray_sim.engine.kinds.chunked.view import ChunkedContext, ChunkedSources, ChunkedView
from ray_sim.engine.kinds.deadline_misses import count_misses
from ray_sim.engine.kinds.run import KindOutcome, KindRun
from ray_sim.engine.placements import nothing_for
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import State, same, within
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.chunked.chunk_ledger import rest
from ray_sim.kernels.core.arrays import (
    CHUNK,
    COMPLETED,
    EVENT_JOB,
    FINISH,
    KEEP_ALL,
    KEEP_NOTHING,
    LOSE,
    PARAMETER_SERVER,
    RUNNING,
    START,
    STOP,
    Changes,
    Outages,
    Recorder,
)
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.record import add_event
from ray_sim.model.figures import ChunkedFigures, DeadlineMisses
from ray_sim.model.progress_rule import RigidProgress
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, FloatArray, IntArray, us_to_seconds


@dataclass(frozen=True, slots=True)
class ChunkedOutcome(KindOutcome):
    """Figures of a run of chunked jobs."""

    facts: ChunkFacts
    horizon_us: int
    stalled_us: IntArray
    """(J,) time as an active job without a parameter server."""
    rounding: SlotRounding
    lost_by_worker: ClassVar[bool] = True

    def gpu_us(self, world: World, record: Recorder, held_us: IntArray) -> FloatArray | None:
        """(J,) time in which workers trained its chunks, one GPU each; None where no job is stopped."""
        if not world.faulty and world.preemption == KEEP_ALL:
            return None
        role, kind = (each[: int(record.size[0])] for each in (record.role, record.kind))
        at = np.flatnonzero((role == CHUNK) & np.isin(kind, (START, STOP, FINISH)))
        until_end_us = world.end_us(self.now_us) - record.time[at]
        sign = np.where(record.kind[at] == START, 1, -1)
        gpu_us = np.zeros(len(held_us), dtype=np.int64)
        np.add.at(gpu_us, record.job[at], sign * until_end_us)
        return gpu_us.astype(np.float64)

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> ChunkedFigures:
        """Time without a parameter server, rounding up to whole slots, cost of preemptions."""
        preemptions = jobs["preemptions"].to_numpy()
        if counted is not None:
            preemptions = preemptions[counted]
        stalled_us = self.stalled_us if counted is None else self.stalled_us[counted]
        ceil_share, upload_ceil_share = self.rounding.shares(counted)
        return ChunkedFigures(
            stalled_s=float(us_to_seconds(stalled_us.sum())),
            ceil_share=ceil_share,
            upload_ceil_share=upload_ceil_share,
            preemption_cost_s=int(preemptions.sum()) * self.facts.preemption_us / US_PER_S,
            deadlines=self._deadline_misses(counted),
        )

    def _deadline_misses(self, counted: BoolArray | None) -> DeadlineMisses | None:
        """None where jobs have no deadlines."""
        if self.facts.due_us is None:
            return None
        completed = self.ledger.status == COMPLETED
        return count_misses(self.facts.due_us, self.ledger.end, completed, self.horizon_us, counted)


class ChunkedRun(KindRun):
    """Chunked jobs of one run. What they hold by placement are parameter servers."""

    view: ClassVar[type[View]] = ChunkedView
    decision_type: ClassVar[type[Decision]] = ChunkedDecision

    def __init__(self, core: RunCore, facts: ChunkFacts) -> None:
        super().__init__(core, RigidProgress(core.world.arrays.speed))
        self._facts = facts
        self._ledger = ChunkLedger(facts)
        self._activated_us = NEVER_US
        """When stops have changed which jobs are active, until the policy is told."""

    @property
    def observed(self) -> ChunkedSources:
        """Sources of observations."""
        return ChunkedSources(self._ledger, self._core.fleet)

    def context(self, sees: frozenset[str], policy: str) -> ChunkedContext:
        """Facts of the world that a policy of this name may know."""
        return ChunkedContext(self._core.world, sees, policy)

    @property
    def used(self) -> IntArray:
        """(2,) worker slots and parameter-server slots in use."""
        return self._ledger.used

    def change_servers(self, now_us: int, outages: Outages) -> Wake:
        """Take servers away and give them back, in the order listed; chunks there are dispatched again."""
        jobs = np.concatenate(self._losers(now_us, outages))
        without_ps = JobValues(jobs, np.zeros_like(jobs))
        changes = nothing_for(jobs)
        commands = Commands(changes=changes, outages=outages, part=ChunkCommands(ps=without_ps), first=True)
        events = self._core.fleet.collect(now_us, commands)
        changed = self._book(now_us, events)
        returned = self._ledger.take_back(events, self._core.ledger)
        self._core.ledger.interruptions[np.union1d(returned, jobs)] += 1  # once, whatever was lost
        self._core.take_back(returned)
        return Wake.ACTIVATION if changed or len(jobs) else NO_WAKE

    def _lose_server(self, now_us: int, server: int) -> IntArray:
        core = self._core
        without_ps = self._ledger.lose_ps(now_us, server, core.placements)
        super()._lose_server(now_us, server)
        for job in without_ps.tolist():
            add_event(core.recording.current, now_us, LOSE, job, server, PARAMETER_SERVER, 1)
        return without_ps

    @property
    def stop_grid_us(self) -> int:
        """In whole slots a failure acts at the end of its slot."""
        return self._facts.grid_us

    def gpus(self, jobs: IntArray) -> IntArray:
        """(n,) milli-GPU of jobs: a GPU for each chunk that makes progress now."""
        return self._ledger.jobs.running[jobs] * DEVICE

    def stop(self, now_us: int, jobs: IntArray, keep: int) -> IntArray:
        """Take the parameter server and all chunks of jobs, sorted; other jobs get their workers at once.

        Completed chunks stay, except under `KEEP_NOTHING`; progress within a chunk is lost.
        """
        core, before = self._core, self._core.ledger.lost[jobs]
        changes = nothing_for(jobs)
        self._ledger.hold(now_us, changes, core.placements, core.recording.current)
        stopped = ChunkCommands(ps=JobValues(jobs, np.zeros_like(jobs)), stopped=jobs)
        events = core.fleet.collect(now_us, Commands(changes=changes, part=stopped, first=True))
        self._note_activity(now_us, self._book(now_us, events))
        self._ledger.take_back(events, core.ledger)
        if keep == KEEP_NOTHING:
            self._ledger.undo(jobs, core.ledger)
        core.take_back(jobs)
        return core.ledger.lost[jobs] - before

    def _note_activity(self, now_us: int, changed: bool) -> None:
        if changed:
            self._activated_us = now_us

    def book_reports(self, now_us: int) -> Wake:
        """Book what sites report at an instant at which no server changes."""
        if self._core.fleet.next_us > now_us:
            return NO_WAKE
        events = self._core.fleet.collect(now_us)
        changed = len(events) > 0 and self._book(now_us, events)
        return Wake.ACTIVATION if changed else NO_WAKE

    def _book(self, now_us: int, events: IntArray) -> bool:
        """Book events of chunks; jobs end with their last one. Returns whether others are active now."""
        core = self._core
        done, changed = self._ledger.book(now_us, events, core.ledger, core.counts, core.recording.current)
        core.placed_anew[events[:, EVENT_JOB]] = True
        if len(done):
            core.note_endings(done)
            changes = nothing_for(done)
            self._ledger.hold(now_us, changes, core.placements)
            core.fleet.command(now_us, Commands(changes=changes))
            core.since_last_decision.completed.add(done)
        return changed

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse a decision that breaks a rule of chunked jobs.

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """
        super().check(where, now_us, decision)
        core = self._core
        check_chunks(
            where, now_us, core.world, core.ledger, self._ledger, decision, core.placements.available
        )

    def evict(self, now_us: int, job: int) -> None:
        """End a waiting or running job for ever."""
        rest(self._core.ledger, self._core.counts, job, now_us)
        super().evict(now_us, job)

    def end(self, now_us: int, jobs: IntArray) -> None:
        """End jobs, sorted, for ever, against the policy's will; other jobs get their workers at once."""
        super().end(now_us, jobs)
        known = self._ledger.end(now_us, jobs, self._core.placements)
        if known is not None:
            events = self._core.fleet.collect(now_us, Commands(ended=known, first=True))
            self._note_activity(now_us, self._book(now_us, events))

    @property
    def next_us(self) -> int:
        """When the policy is told of changed activity: at once."""
        return self._activated_us

    def happen(self, now_us: int) -> Wake:
        """Tell whether stops have changed which jobs are active."""
        activated, self._activated_us = self._activated_us <= now_us, NEVER_US
        return Wake.ACTIVATION if activated else NO_WAKE

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Give and take parameter servers, dispatch chunks, and tell the sites."""
        core = self._core
        if decision.changes is not None and core.world.preemption != KEEP_ALL:
            self._suspend(now_us, decision.changes, decision.causes)
        commands = self._ledger.carry_out(now_us, decision, core.placements, core.recording.current)
        if not commands.empty:
            core.fleet.command(now_us, commands)

    def _suspend(self, now_us: int, changes: Changes, causes: Causes | None) -> None:
        """Stop the jobs that train and whose parameter server the policy takes."""
        n, core = int(changes.size[0]), self._core
        jobs = np.sort(changes.job[:n][changes.ptr[1 : n + 1] == changes.ptr[:n]])
        jobs = jobs[core.ledger.status[jobs] == RUNNING]
        if len(jobs):
            lost_us = self.stop(now_us, jobs, core.world.preemption)
            core.note_preempted(now_us, jobs, causes, lost_us)

    def outcome(self, now_us: int, end_us: int) -> ChunkedOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
        core = self._core
        return ChunkedOutcome(
            core.ledger,
            now_us,
            self._facts,
            core.world.horizon_us,
            self._ledger.stalled_us(end_us),
            self._ledger.rounding,
        )

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {**self._ledger.state(), "activated": np.array([self._activated_us])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        same("calendar.size", [0], self._core.calendar.size)  # sites have the calendars
        self._ledger.restore(state)
        self._activated_us = int(within(state, "activated", 0, NEVER_US)[0])
