"""The jobs of one run, and what they add to its result: gangs, unless a kind overrides it.

Gangs hold all their tasks or nothing, and progress at a rate that follows from where they are. The loop calls
`KindRun` for everything that jobs do; elastic, announced and chunked jobs are subclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from ray_sim.engine.decision import NO_JOBS, NO_WAKE, Causes, Decision, Wake
from ray_sim.engine.placements import nothing_for
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import State, same
from ray_sim.engine.stops import SERVER
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import KEEP_ALL, RUNNING, Changes, Ledger, Outages, Recorder
from ray_sim.kernels.core.devices import GPU
from ray_sim.kernels.core.hazards import held_gpus
from ray_sim.kernels.core.job_transitions import commit_placements, evict, finish_due, rate_jobs, stop_jobs
from ray_sim.kernels.core.outages import lose_server, regain_server
from ray_sim.kernels.core.progress import set_back
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.figures import GangFigures, KindFigures
from ray_sim.model.progress_rule import ProgressRule
from ray_sim.model.units import NEVER_US, QUANTA_PER_UNIT, BoolArray, FloatArray, IntArray, seconds_to_us


@dataclass(frozen=True, slots=True)
class KindOutcome:
    """Figures and columns that a kind adds to a result: of gangs, which pause when they are placed anew."""

    ledger: Ledger
    now_us: int
    """The last instant."""
    lost_by_worker: ClassVar[bool] = False
    """Whether lost progress is summed over workers, of one GPU each; else it is time of the whole job."""

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> KindFigures:
        """Figures of the summary, over the counted jobs: (J,), all where None."""
        return GangFigures(restart_share=self.restart_share(jobs, counted))

    def restart_share(self, jobs: pl.DataFrame, counted: BoolArray | None) -> float | None:
        """Share of held time that went into pauses."""
        ran_us = self.ran_us()
        held_us = seconds_to_us(jobs["run_s"].to_numpy())
        if counted is not None:
            ran_us, held_us = ran_us[counted], held_us[counted]
        held = int(held_us.sum())
        return 1.0 - int(ran_us.sum()) / held if held else None

    def gpu_us(self, world: World, record: Recorder, held_us: IntArray) -> FloatArray | None:
        """(J,) GPU-microseconds that each job has held; None where servers do not tell GPUs."""
        gang, demand = world.arrays.gang, world.arrays.demand[:, :, GPU]
        gpus: FloatArray = (gang * demand).sum(axis=1) / QUANTA_PER_UNIT["gpu"]
        return gpus * held_us

    def ran_us(self) -> IntArray:
        """(J,) microseconds of progress; a job that runs now may be in a pause."""
        ledger = self.ledger
        running = ledger.status == RUNNING
        ran: IntArray = ledger.ran + np.where(running, np.maximum(self.now_us - ledger.anchor, 0), 0)
        return ran

    def timeline(self, time_us: IntArray) -> Mapping[str, pl.Series]:
        """Columns of the timeline by name, (n,) each, at these instants, increasing."""
        return {}

    def job_columns(self) -> Mapping[str, pl.Series]:
        """Columns of jobs by name, (J,) each, that follow those of `JOB_SCHEMA`."""
        return {}


class KindRun:
    """The jobs of one run. Instants are microseconds; each call says which instant it is."""

    view: ClassVar[type[View]] = View
    """Class of the views of its policies."""
    decision_type: ClassVar[type[Decision]] = Decision
    """Class of the decisions about its jobs."""

    def __init__(self, core: RunCore, progress: ProgressRule) -> None:
        self._core = core
        self._progress = progress
        self._undisturbed = not progress.disturbing

    @property
    def observed(self) -> object:
        """Object behind the observations that only `view` has."""
        return None

    def context(self, sees: frozenset[str], policy: str) -> PolicyContext:
        """Facts of the world that a policy of this name may know."""
        return PolicyContext(self._core.world, sees, policy)

    @property
    def used(self) -> IntArray:
        """(R,) quanta that jobs hold, for the timeline."""
        return self._core.placements.used

    @property
    def next_us(self) -> int:
        """When its jobs next do something that is neither a completion nor a report of a site."""
        return NEVER_US

    def happen(self, now_us: int) -> Wake:
        """Carry out what `next_us` announced, if it is due."""
        return NO_WAKE

    def change_servers(self, now_us: int, outages: Outages) -> Wake:
        """Take servers away and give them back, in the order listed; jobs there wait again."""
        losers = self._losers(now_us, outages)
        if self._core.fleet.listens:
            changes = nothing_for(np.concatenate(losers))
            self._core.fleet.command(now_us, Commands(changes=changes, outages=outages))
        for jobs in losers:
            self._core.take_back(jobs)
        return NO_WAKE

    def _losers(self, now_us: int, outages: Outages) -> list[IntArray]:
        """Change the servers; returns for each change the jobs, sorted, that lose what they hold there."""
        changes = zip(outages.server.tolist(), outages.up.tolist(), strict=True)
        return [self._change_server(now_us, server, up) for server, up in changes]

    def _change_server(self, now_us: int, server: int, up: bool) -> IntArray:
        core = self._core
        if up:
            regain_server(now_us, server, core.world.arrays, core.placements.pool, core.recording.current)
            return NO_JOBS
        return self._lose_server(now_us, server)

    def _lose_server(self, now_us: int, server: int) -> IntArray:
        core = self._core
        before = core.ledger.lost.copy()
        n = lose_server(now_us, server, core.books, core.recording.writer)
        lost = core.affected[:n].copy()
        cost_us = core.ledger.lost[lost] - before[lost]
        core.stops.add(now_us, lost, core.attempt[lost], [SERVER] * n, cost_us)
        self._rate_others(now_us, self._disturbed_by(lost))
        return lost

    def stop(self, now_us: int, jobs: IntArray, keep: int) -> IntArray:
        """Stop running jobs, sorted, against the policy's will; they wait again.

        Parameters
        ----------
        keep : what they keep, `KEEP_ALL`, `KEEP_CHECKPOINT` or `KEEP_NOTHING`

        Returns
        -------
        (n,) microseconds of progress lost
        """
        core, lost = self._core, np.empty(len(jobs), dtype=np.int64)
        self._before_placement(now_us, jobs)
        kept = np.full(len(jobs), keep)
        stop_jobs(now_us, core.books, core.recording.writer, jobs, kept, core.work, lost)
        core.tell_ended(now_us, jobs)
        self._rate_others(now_us, self._disturbed_by(jobs))
        core.take_back(jobs)
        return lost

    @property
    def stop_grid_us(self) -> int:
        """Random failures act at multiples of this."""
        return 1

    def gpus(self, jobs: IntArray) -> IntArray:
        """(n,) milli-GPU on which running jobs make progress now."""
        gpus = np.empty(len(jobs), dtype=np.int64)
        held_gpus(self._core.books, jobs, gpus)
        return gpus

    def tell_faults(self, jobs: IntArray) -> None:
        """Tell the policy of jobs, sorted, that faults have ended."""
        self._core.since_last_decision.drop_ended(jobs)
        self._core.since_last_decision.completed.add(jobs)

    def book_reports(self, now_us: int) -> Wake:
        """Book what sites report at an instant at which no server changes; jobs here end by the calendar."""
        return NO_WAKE

    def complete(self, now_us: int) -> IntArray:
        """End the jobs whose work is done; returns them, sorted."""
        core = self._core
        n = finish_due(now_us, core.books, core.recording.writer)
        if n == 0:
            return NO_JOBS
        done = core.affected[:n].copy()
        core.note_endings(done)
        core.tell_ended(now_us, done)
        self._rate_others(now_us, self._disturbed_by(done))
        return done

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse a decision that breaks a rule of this kind; capacity is checked before.

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """
        if type(decision) in (self.decision_type, Decision):
            return
        known = self.decision_type.__dataclass_fields__
        unknown = [name for name in decision.__dataclass_fields__ if name not in known]
        if unknown:
            raise InfeasibleDecisionError(
                f"at {where} answers {type(decision).__name__} with {', '.join(unknown)}, which is about "
                f"jobs of another kind; jobs of this world take a {self.decision_type.__name__}"
            )

    def evict(self, now_us: int, job: int) -> None:
        """End a waiting or running job for ever."""
        core, alone = self._core, np.array([job], dtype=np.int64)
        held = core.ledger.status[job] == RUNNING
        evict(now_us, core.books, core.recording.writer, job)
        if held:
            core.tell_ended(now_us, alone)
            self._rate_others(now_us, self._disturbed_by(alone))

    def end(self, now_us: int, jobs: IntArray) -> None:
        """End waiting or running jobs, sorted, for ever, against the policy's will."""
        for job in jobs.tolist():
            self.evict(now_us, job)

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Place jobs as decided; rejected and evicted jobs have ended before."""
        if decision.changes is not None:
            self._place(now_us, decision.changes, decision.causes)

    def close_instant(self, now_us: int) -> None:
        """Record what is known only once nothing more happens at an instant."""

    def _place(self, now_us: int, changes: Changes, causes: Causes | None) -> None:
        """Place jobs; then rate them, and those whose rate they change."""
        core, n = self._core, int(changes.size[0])
        changed = changes.job[:n]
        pauses_us = np.empty(n, dtype=np.int64)
        self._before_placement(now_us, changed)
        lost_us = NO_JOBS
        if core.world.preemption != KEEP_ALL:
            lost_us = np.zeros(n, dtype=np.int64)
            set_back(now_us, core.ledger, changed, core.world.preemption, core.work, lost_us)
            moved = (lost_us > 0) & (changes.ptr[1 : n + 1] > changes.ptr[:n])
            core.note_moved(now_us, changed[moved], lost_us[moved])
        restart_us, record = core.world.restart_us, core.recording.writer
        all_hold = commit_placements(now_us, core.books, record, changes, pauses_us, restart_us)
        self._placed(changed, pauses_us)
        if core.world.injectors:
            core.placed_anew[changed] = True
        others = self._disturbed_by(changed)
        if not all_hold:
            holding = changes.ptr[1 : n + 1] > changes.ptr[:n]
            cost_us = lost_us[~holding] if len(lost_us) else 0
            core.note_preempted(now_us, changed[~holding], causes, cost_us)
            changed, pauses_us = changed[holding], pauses_us[holding]
        if len(others):
            changed = np.concatenate([changed, others])
            pauses_us = np.concatenate([pauses_us, np.zeros(len(others), dtype=np.int64)])
        self._rate(now_us, changed, pauses_us)
        core.tell_placed(now_us, changes)

    def _before_placement(self, now_us: int, jobs: IntArray) -> None:
        """Book what jobs have done so far, before what they hold changes."""

    def _placed(self, jobs: IntArray, pauses_us: IntArray) -> None:
        """Jobs hold something else now; add the microseconds that each pauses beside its restart."""

    def _rate(self, now_us: int, jobs: IntArray, pauses_us: IntArray) -> None:
        if len(jobs):
            rates = self._progress.rates(self._core.placements, jobs)
            rate_jobs(now_us, self._core.books, jobs, rates, pauses_us)

    def _disturbed_by(self, jobs: IntArray) -> IntArray:
        """Other jobs, sorted, whose rate may have changed with what ``jobs`` hold."""
        return NO_JOBS if self._undisturbed else self._progress.note_changes(self._core.placements, jobs)

    def _rate_others(self, now_us: int, jobs: IntArray) -> None:
        """Rate jobs whose placements stay."""
        if len(jobs):
            self._rate(now_us, jobs, np.zeros(len(jobs), dtype=np.int64))

    def outcome(self, now_us: int, end_us: int) -> KindOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
        return KindOutcome(self._core.ledger, now_us)

    def state(self) -> State:
        """The core has all there is."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The core has all there is; it is restored before."""
        running = np.flatnonzero(self._core.ledger.status == RUNNING)
        same("calendar.heap", running, np.sort(self._core.scheduled))
        same("placements.pool.head", running, np.flatnonzero(self._core.placements.pool.head >= 0))
        self._disturbed_by(np.arange(len(self._core.world.table)))
