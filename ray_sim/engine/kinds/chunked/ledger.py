"""The coordinator's record of chunked jobs: what is dispatched, active, running, and who holds a server.

Sites let chunks progress; here their reports become the ledger, and decisions become commands.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.decision import NO_JOBS, Decision
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.site_part import ChunkCommands, JobValues
from ray_sim.engine.kinds.chunked.slot_rounding import SlotRounding
from ray_sim.engine.placements import Placements, nothing_for
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import State, all_within, copies, joined, same, section, within
from ray_sim.kernels.chunked.chunk_ledger import Chunked, book_events, new_chunked, note_stall
from ray_sim.kernels.chunked.queue_state import COMPLETE, EVENT_LEFT, EVENT_WORKER, LOST, ChunkRows
from ray_sim.kernels.core.arrays import (
    EVENT_CODE,
    EVENT_JOB,
    EVENT_UNIT,
    MOVE,
    NEVER,
    PARAMETER_SERVER,
    START,
    STOP,
    Changes,
    Ledger,
    Recorder,
)
from ray_sim.kernels.core.record import add_event
from ray_sim.model.units import BoolArray, IntArray


class ChunkLedger:
    """Chunked jobs of one run."""

    def __init__(self, facts: ChunkFacts) -> None:
        self.facts = facts
        self.jobs: Chunked = new_chunked(facts.chunks)
        self.dispatched: BoolArray = np.zeros(int(facts.first_chunk[-1]), dtype=np.bool_)
        """Chunks that are on a worker or done: all of the first job, then those of the second, and so on."""
        self.used: IntArray = np.zeros(2, dtype=np.int64)
        """Worker slots and parameter-server slots in use."""
        self.rounding = SlotRounding(facts)
        self._finished = np.empty(len(facts.chunks), dtype=np.int64)

    @property
    def stalled(self) -> IntArray:
        """Active jobs without a parameter server, sorted."""
        return np.flatnonzero(self.jobs.active & ~self.jobs.holds_ps)

    @property
    def idle_holders(self) -> IntArray:
        """Jobs that hold a parameter server and are not active, sorted."""
        return np.flatnonzero(self.jobs.holds_ps & ~self.jobs.active)

    def on_workers(self, jobs: IntArray) -> IntArray:
        """Number of chunks of each of these jobs that are on a worker and not done."""
        found: IntArray = self.jobs.left[jobs] - self.jobs.undispatched[jobs]
        return found

    def undispatched(self, jobs: IntArray) -> tuple[IntArray, IntArray]:
        """Jobs and units of the chunks of these jobs that are neither on a worker nor done, (n,) each."""
        chunks = self.facts.chunks[jobs]
        job = np.repeat(jobs, chunks)
        unit = np.arange(len(job)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
        to_send = ~self.dispatched[self.number(job, unit)]
        return job[to_send], unit[to_send]

    def number(self, jobs: IntArray, units: IntArray) -> IntArray:
        """Places of chunks in `dispatched`."""
        return self.facts.first_chunk[jobs] + units

    def book(
        self, now_us: int, events: IntArray, ledger: Ledger, counts: IntArray, record: Recorder
    ) -> tuple[IntArray, bool]:
        """Book what sites report; returns the jobs completed, and whether other jobs are active now."""
        slots = self.facts.slots
        self._note_completed(events[events[:, EVENT_CODE] == COMPLETE])
        n, changed = book_events(
            now_us,
            events,
            slots.server,
            slots.on_demand,
            self.jobs,
            ledger,
            counts,
            self.used,
            record,
            self._finished,
        )
        return self._finished[:n].copy(), changed

    def _note_completed(self, events: IntArray) -> None:
        if len(events):
            jobs = events[:, EVENT_JOB]
            self.rounding.note_completed(jobs, events[:, EVENT_WORKER], self.jobs.in_cloud[jobs])

    def lose_ps(self, now_us: int, server: int, placements: Placements) -> IntArray:
        """Whoever holds a parameter server on this server loses it; returns these jobs, sorted."""
        held = placements.of(np.flatnonzero(self.jobs.holds_ps))
        jobs: IntArray = held.job[held.server == server]
        self.hold(now_us, nothing_for(jobs), placements)
        return jobs

    def take_back(self, events: IntArray, ledger: Ledger) -> IntArray:
        """Chunks that sites report as lost wait for dispatch again; returns their jobs, sorted."""
        lost = events[events[:, EVENT_CODE] == LOST]
        jobs, workers = lost[:, EVENT_JOB], lost[:, EVENT_WORKER]
        units, left_us = lost[:, EVENT_UNIT], lost[:, EVENT_LEFT]
        self.dispatched[self.number(jobs, units)] = False
        work_us = self.facts.chunk_us(jobs, workers, self.jobs.in_cloud[jobs])
        np.add.at(ledger.lost, jobs, work_us - left_us)
        return np.unique(jobs)

    def undo(self, jobs: IntArray, ledger: Ledger) -> None:
        """Let jobs, sorted, none of whose chunks is on a worker, do their completed chunks again."""
        chunks = self.facts.chunks[jobs]
        self.jobs.left[jobs], self.jobs.undispatched[jobs] = chunks, chunks
        for job in jobs.tolist():
            self.dispatched[slice(*self.facts.first_chunk[job : job + 2])] = False
        ledger.lost[jobs] += self.rounding.undo(jobs)

    def carry_out(
        self, now_us: int, decision: Decision, placements: Placements, record: Recorder
    ) -> Commands:
        """Book a decision, which has been checked; return the commands to the sites."""
        changes, dispatch, new_keys = decision.changes, None, None
        if isinstance(decision, ChunkedDecision):
            dispatch, new_keys = decision.dispatch, decision.keys
        changes = None if changes is None or changes.size[0] == 0 else changes
        jobs, chunks, ended, keys = NO_JOBS, None, None, None
        if len(decision.evict):
            ended = self.end(now_us, decision.evict, placements)
        if changes is not None:
            jobs = changes.job[: changes.size[0]]
            self.hold(now_us, changes, placements, record)
        if dispatch is not None:
            chunks = self._dispatch(now_us, dispatch, placements)
            jobs = np.union1d(jobs, dispatch.job)
        if new_keys is not None and len(new_keys.job):
            keys = JobValues(new_keys.job, new_keys.key)
        ps = JobValues(jobs, self.jobs.holds_ps[jobs].astype(np.int64)) if len(jobs) else None
        commands = ChunkCommands(keys=keys, ps=ps, chunks=chunks)
        return Commands(ended=ended, changes=changes, part=None if commands.empty else commands)

    def end(self, now_us: int, evicted: IntArray, placements: Placements) -> IntArray | None:
        """Free what ended jobs hold; returns those of which sites know, if there are any."""
        holders = evicted[self.jobs.holds_ps[evicted]]
        self.hold(now_us, nothing_for(holders), placements)
        known = np.union1d(holders, evicted[self.on_workers(evicted) > 0])
        return known if len(known) else None

    def hold(
        self, now_us: int, changes: Changes, placements: Placements, record: Recorder | None = None
    ) -> None:
        """Give and take parameter servers; without ``record`` the event that ends the job tells it."""
        n = int(changes.size[0])
        before = placements.of(changes.job[:n])
        placements.change(changes)
        old: dict[int, int] = dict(zip(before.job.tolist(), before.server.tolist(), strict=True))
        new = _server_of(changes)
        for job in changes.job[:n].tolist():
            self.jobs.holds_ps[job] = job in new
            note_stall(self.jobs, job, now_us)
            self.used[1] += self._on_slot(new.get(job)) - self._on_slot(old.get(job))
            if record is None or old.get(job) == new.get(job):
                continue
            kind = STOP if job not in new else MOVE if job in old else START
            server = new[job] if job in new else old[job]
            add_event(record, now_us, kind, job, server, PARAMETER_SERVER, 1)

    def _on_slot(self, server: int | None) -> int:
        return int(server is not None and not self.facts.in_cloud[server])

    def _dispatch(self, now_us: int, dispatch: Dispatch, placements: Placements) -> ChunkRows:
        facts, jobs, workers = self.facts, dispatch.job, dispatch.worker
        to_cloud = facts.slots.on_demand[workers]
        self._decide_zeta(jobs, to_cloud, placements)
        self.dispatched[self.number(jobs, dispatch.unit)] = True
        np.subtract.at(self.jobs.undispatched, jobs, 1)
        self.rounding.note_dispatched(now_us, jobs, workers)
        length_us = facts.chunk_us(jobs, workers, self.jobs.in_cloud[jobs])
        return ChunkRows(
            worker=workers,
            key=dispatch.key,
            job=jobs,
            unit=dispatch.unit,
            ready=facts.ready_us(now_us, jobs, workers),
            left=length_us,
            overtakes=np.full(len(jobs), dispatch.overtake, dtype=np.int64),
            inverse_rate=facts.chunks[jobs] * length_us,
        )

    def _decide_zeta(self, jobs: IntArray, to_cloud: BoolArray, placements: Placements) -> None:
        """A job that goes to the cloud whole and at once, and has no server elsewhere, is in the cloud.

        Unless no parameter server there may serve it. It may lose its chunks with the cloud's server. When
        none is left on a worker, those that are not done count as the whole job.
        """
        in_cloud, left = self.jobs.in_cloud, self.jobs.left
        cloud_jobs, n = np.unique(jobs[to_cloud], return_counts=True)
        new = (left[cloud_jobs] == self.facts.chunks[cloud_jobs]) | in_cloud[cloud_jobs]
        whole = cloud_jobs[new & (n == left[cloud_jobs]) & self.facts.cloud_serves[cloud_jobs]]
        held = placements.of(whole)
        elsewhere = held.job[~self.facts.in_cloud[held.server]]
        back = jobs[in_cloud[jobs]]
        in_cloud[back[self.on_workers(back) == 0]] = False
        in_cloud[np.setdiff1d(whole, elsewhere)] = True

    def stalled_us(self, until_us: int) -> IntArray:
        """(J,) time up to an instant as an active job without a parameter server."""
        since = self.jobs.stalled_since
        stalled: IntArray = self.jobs.stalled + np.where(since < NEVER, until_us - since, 0)
        return stalled

    def state(self) -> State:
        """Arrays that `restore` takes."""
        parts = joined({"jobs": copies(self.jobs), "rounding": self.rounding.state()})
        return {**parts, "dispatched": self.dispatched.copy(), "used": self.used.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        jobs, chunks = section(state, "jobs"), self.facts.chunks
        all_within(jobs)
        within(jobs, "left", 0, chunks)
        for name in ("undispatched", "served", "in_slots", "running"):
            within(jobs, name, 0, jobs["left"])
        unsent = np.bincount(np.repeat(np.arange(len(chunks)), chunks), ~state["dispatched"], len(chunks))
        same("jobs.undispatched", unsent, jobs["undispatched"])
        within(state, "used", 0, NEVER)
        self.jobs = Chunked(**{name: array.copy() for name, array in jobs.items()})
        self.rounding.restore(section(state, "rounding"))
        self.dispatched[:] = state["dispatched"]
        self.used[:] = state["used"]


def _server_of(changes: Changes) -> dict[int, int]:
    """Server of the one row of each changed job that has one."""
    n = int(changes.size[0])
    ptr, jobs = changes.ptr[: n + 1].tolist(), changes.job[:n].tolist()
    return {jobs[i]: int(changes.server[ptr[i]]) for i in range(n) if ptr[i + 1] > ptr[i]}
