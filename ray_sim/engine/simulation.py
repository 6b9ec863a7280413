"""The loop: from instant to instant, one decision at a time.

    policy.start(sim.world, sim.streams)
    while (view := sim.advance()) is not None:
        sim.apply(policy.decide(view))
    result = sim.result()

Inside an instant: servers, completions (of chunks, then of jobs), arrivals, slot, review; then job order.
An instant repeats while events remain at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.chunk_ledger import chunk_ledger_for
from ray_sim.engine.contract import Policy, Wake
from ray_sim.engine.decision import NO_JOBS, Decision
from ray_sim.engine.elastic import elastic_run_for
from ray_sim.engine.fleet import Fleet, LocalFleet
from ray_sim.engine.granted_world import GrantedWorld
from ray_sim.engine.holdings import Holdings, State, nothing_for, part
from ray_sim.engine.occasions import Occasions
from ray_sim.engine.recording import Recording
from ray_sim.engine.result import Outcome, build_result
from ray_sim.engine.sight import read_only
from ray_sim.engine.site import Commands
from ray_sim.engine.utility_optimum import check_optimum
from ray_sim.engine.validation import check_decision
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import (
    LEVEL,
    LOSE,
    NEVER,
    PARAMETER_SERVER,
    RUNNING,
    WAITING,
    Calendar,
    Changes,
    Ledger,
    Outages,
    new_calendar,
    new_ledger,
)
from ray_sim.kernels.chunk_ledger import rest
from ray_sim.kernels.outages import lose_server, regain_server
from ray_sim.kernels.progress import commit_holdings, evict, finish_due, reject, set_rates, submit_due
from ray_sim.kernels.record import add_event, add_line
from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.model.truth import Truth
from ray_sim.model.units import US_PER_S, IntArray

_MOST_REPEATS = 10_000
"""Repetitions of one instant, beside one per job, after which the run is declared stuck."""


class Simulation:
    """One run of one policy, step by step."""

    def __init__(self, world: World, policy: Policy, *, seed: int = 0, fleet: Fleet | None = None) -> None:
        n_jobs = len(world.table)
        self._full_world = world
        self._policy = policy
        self._name = policy.name or type(policy).__name__
        self.streams = Streams(seed)
        self._chunked = chunk_ledger_for(world, self._name, chunked=policy.chunked)
        self._elastic = elastic_run_for(world, self.streams, self._name, elastic=policy.elastic)
        self._truth: Truth = world.truth if self._elastic is None else self._elastic.truth
        trial_truth = None if self._elastic is None else self._elastic.trial_truth
        self.world = GrantedWorld(world, policy.sees, self._name, trial_truth)
        if (policy.slotted or Wake.SLOT in policy.wake_on) and world.slot_us is None:
            raise InvalidScenarioError(
                f"policy {self._name} decides on slots: give their length, e.g. -w slot_s=3600"
            )
        if policy.bounded and not world.bounded:
            raise InvalidScenarioError(
                f"policy {self._name} plans up to a horizon: give it, e.g. -w horizon_s=72000"
            )
        check_optimum(world)
        self._undisturbed = not world.truth.disturbing
        self._fleet: Fleet = LocalFleet(world) if fleet is None else fleet
        self._holdings = Holdings(world.shop, world.first_capacity, world.row_bound)
        self._ledger = new_ledger(world.work, len(world.outages.time) > 0, world.checkpoint_us)
        self._calendar = new_calendar(n_jobs)
        self._recording = Recording(world)
        self._counts = np.zeros(2, dtype=np.int64)
        self._now = -1
        self._next_job = 0
        self._next_outage = 0
        self._available = world.there.copy()
        self._review = NEVER
        self._last_slot = -1
        self._repeats = 0
        self._news = Occasions()
        self._reasons: dict[int, str] = {}
        self._finished = np.empty(n_jobs, dtype=np.int64)
        self._after = np.empty_like(world.shop.capacity)

    @property
    def ended_jobs(self) -> int:
        """Jobs that have come and are neither waiting nor running."""
        return self._next_job - int(self._counts.sum())

    def advance(self) -> View | None:
        """Go on to the next instant at which the policy wants to be asked; None at the end."""
        while True:
            now = self._next_instant()
            if now > self._now:
                self._close_instant()
                if now > self._full_world.horizon_us:
                    return None
                self._now, self._repeats = now, 0
            self._guard()
            view = self._happen(now)
            if view is not None:
                return view

    def _next_instant(self) -> int:
        times = [self._fleet.next_us, self._review]
        submit = self._full_world.shop.submit
        if self._next_job < len(submit):
            times.append(int(submit[self._next_job]))
        if self._calendar.size[0] > 0:
            times.append(int(self._ledger.finish[self._calendar.heap[0]]))
        if self._wants_slot():
            times.append(self._next_slot_us())
        outages = self._full_world.outages.time
        if self._next_outage < len(outages) and (self._next_job < len(submit) or self._counts.any()):
            times.append(int(outages[self._next_outage]))
        if self._elastic is not None and self._counts[1] > 0:
            times.append(self._elastic.next_us)
        return min(times)

    def _wants_slot(self) -> bool:
        if Wake.SLOT in self._policy.wake_on:
            return bool(self._counts[0] + self._counts[1] > 0)
        news = self._news
        return self._policy.slotted and bool(news.arrived or news.completed or news.changed_servers)

    def _next_slot_us(self) -> int:
        """The first slot boundary, now or later, at which the policy has not been asked."""
        slot = self._full_world.slot_us or 1
        index = max(-(-max(self._now, 0) // slot), self._last_slot + 1)
        return index * slot

    def _close_instant(self) -> None:
        if self._now >= 0:
            add_line(
                self._recording.ensure_room(),
                self._now,
                self._counts[0],
                self._counts[1],
                self._holdings.used if self._chunked is None else self._chunked.used,
            )

    def _guard(self) -> None:
        self._repeats += 1
        if self._repeats > _MOST_REPEATS + len(self._full_world.table):
            ids = self._full_world.table.job_id
            jobs = [ids[int(job)] for job in np.flatnonzero(self._ledger.status == RUNNING)[:5]]
            raise RunFailedError(
                f"time stands still at {self._now / US_PER_S:g} s: policy {self._name} was asked "
                f"{self._repeats} times at one instant; running jobs: {', '.join(jobs) or 'none'}"
            )

    def _happen(self, now: int) -> View | None:
        """Let everything happen that happens now; the view if the policy wants to be asked."""
        self._recording.ensure_room()
        first = self._change_servers(now)
        wake = Wake.SERVER_CHANGE if self._news.changed_servers else Wake(0)
        wake |= self._book_chunks(now, first)
        if self._complete(now):
            wake |= Wake.COMPLETION
        self._straggle(now)
        if self._arrive(now):
            wake |= Wake.ARRIVAL
        at_slot = self._wants_slot() and self._next_slot_us() == now
        reviewed = self._review <= now
        if reviewed:
            wake |= Wake.REVIEW
            self._review = NEVER
        waits = self._policy.slotted and not (at_slot or reviewed)
        prompt = Wake.ACTIVATION if waits else ~Wake(0)
        if not (at_slot or wake & prompt & (self._policy.wake_on | Wake.REVIEW)):
            return None
        if at_slot and self._full_world.slot_us is not None:
            self._last_slot = now // self._full_world.slot_us
        told = Occasions() if waits else self._news
        view = View(
            now_us=now,
            arrived=told.arrived.told(),
            returned=told.returned.told(),
            completed=told.completed.told(),
            changed_servers=told.changed_servers.told(),
            available=read_only(self._available),
            reviewed=reviewed,
            at_slot=at_slot,
            jobs=self.world.jobs,
            holdings=self._holdings,
            arrivals=self._next_job,
            _ledger=self._ledger,
            _sees=self._policy.sees,
            _policy=self._name,
            _fleet=self._fleet,
            _chunked=self._chunked,
            _elastic=self._elastic,
        )
        if not waits:
            self._news = Occasions()
        return view

    def _change_servers(self, now: int) -> Commands | None:
        """Servers go and come back, in the order listed; those who lose theirs wait again.

        Returns what the sites of chunked jobs are to be told before anything else happens now.
        """
        outages = self._full_world.outages
        first = self._next_outage
        self._next_outage = last = int(np.searchsorted(outages.time, now, side="right"))
        if first == last:
            return None
        happening = Outages(outages.time[first:last], outages.server[first:last], outages.up[first:last])
        changes = zip(happening.server.tolist(), happening.up.tolist(), strict=True)
        losers = [self._change_server(now, *change) for change in changes]
        self._news.changed_servers.add(np.unique(happening.server))
        jobs = np.concatenate(losers)
        commands = Commands(changes=nothing_for(jobs), outages=happening)
        if self._chunked is not None:
            return replace(commands, ps=np.stack([jobs, np.zeros_like(jobs)], axis=1), first=True)
        self._fleet.command(now, commands)
        for returned in losers:
            self._return(returned)
        return None

    def _return(self, jobs: IntArray) -> None:
        """Jobs have lost what they had on a server, and are to be placed again."""
        self._news.arrived.add(jobs)
        self._news.returned.add(jobs)

    def _change_server(self, now: int, server: int, up: bool) -> IntArray:
        """One server comes back, or goes; returns the jobs that lose what they hold there."""
        self._available[server] = up
        if up:
            regain_server(now, server, self._full_world.shop, self._holdings.pool, self._recording.current)
            return NO_JOBS
        if self._elastic is not None:
            self._elastic.book(now, self._ledger, self._calendar.heap[: self._calendar.size[0]])
        without_ps = None if self._chunked is None else self._chunked.lose_ps(now, server, self._holdings)
        freed = self._servers_of(self._holders(server))
        n = lose_server(
            now,
            server,
            self._full_world.shop,
            self._ledger,
            self._holdings.pool,
            self._calendar,
            self._holdings.used,
            self._counts,
            self._recording.current,
            self._finished,
        )
        if without_ps is not None:
            for job in without_ps.tolist():
                add_event(self._recording.current, now, LOSE, job, server, PARAMETER_SERVER, 1)
            return without_ps
        self._rate_touched(now, freed, NO_JOBS)
        return self._finished[:n].copy()

    def _book_chunks(self, now: int, first: Commands | None) -> Wake:
        """What has happened to chunks after these commands, and jobs that end with their last one."""
        if first is None and self._fleet.next_us > now:
            return Wake(0)
        events = self._fleet.collect(now, first)
        if self._chunked is None or (first is None and len(events) == 0):
            return Wake(0)
        record = self._recording.current
        done, changed = self._chunked.book(now, events, self._ledger, self._counts, record)
        if len(done):
            changes = nothing_for(done)
            self._chunked.hold(now, changes, self._holdings)
            self._fleet.command(now, Commands(changes=changes))
            self._news.completed.add(done)
        if first is not None and first.ps is not None:
            without_ps = first.ps[:, 0]
            self._return(self._chunked.take_back(events, without_ps, self._ledger))
            changed = changed or len(without_ps) > 0
        return Wake.ACTIVATION if changed else Wake(0)

    def _straggle(self, now: int) -> None:
        """Workers of running jobs that become slow now."""
        if self._elastic is None:
            return
        running = self._calendar.heap[: self._calendar.size[0]]
        struck = self._elastic.strike(now, running)
        self._rate(now, struck, np.zeros(len(struck), dtype=np.int64))

    def _complete(self, now: int) -> bool:
        """Jobs whose work is done now."""
        freed = self._servers_of_due(now)
        n = finish_due(
            now,
            self._full_world.shop,
            self._ledger,
            self._holdings.pool,
            self._calendar,
            self._holdings.used,
            self._recording.current,
            self._counts,
            self._finished,
        )
        if n:
            done = self._finished[:n].copy()
            self._fleet.command(now, Commands(changes=nothing_for(done)))
            self._rate_touched(now, freed, NO_JOBS)
            self._news.completed.add(done)
        return bool(self._news.completed)

    def _arrive(self, now: int) -> bool:
        first = self._next_job
        submit = self._full_world.shop.submit
        if first < len(submit) and submit[first] == now:
            self._next_job = submit_due(
                now,
                first,
                self._full_world.shop,
                self._full_world.beyond_capacity,
                self._ledger,
                self._counts,
                self._recording.current,
            )
            accepted = first + np.flatnonzero(self._ledger.status[first : self._next_job] == WAITING)
            self._news.arrived.add(accepted)
        return bool(self._news.arrived)

    def apply(self, decision: Decision) -> None:
        """Validate a decision exactly, then carry it out.

        Raises
        ------
        InfeasibleDecisionError : it breaks a rule of the world; nothing has been changed
        """
        now = self._now
        check_decision(
            f"{now / US_PER_S:g} s: policy {self._name}",
            now,
            self._full_world,
            self._ledger,
            self._holdings.pool,
            self._chunked,
            decision,
            self._available,
            self._after,
        )
        self._recording.ensure_room()
        for job, reason in zip(decision.reject.tolist(), decision.reject_reasons, strict=True):
            reject(now, self._ledger, self._counts, self._recording.current, job)
            self._reasons[job] = reason
        for job in decision.evict.tolist():
            self._evict(now, job)
        if len(decision.reject) or len(decision.evict):
            # Who came within a slot may end there, before the policy is told at the next one.
            ended = np.union1d(decision.reject, decision.evict)
            self._news.arrived.drop(ended)
            self._news.returned.drop(ended)
        for job, level in decision.levels.tolist():
            add_event(self._recording.current, now, LEVEL, job, -1, -1, level)
        if self._chunked is not None:
            commands = self._chunked.carry_out(now, decision, self._holdings, self._recording.current)
            if not commands.empty:
                self._fleet.command(now, commands)
        elif decision.changes is not None:
            self._change(now, decision.changes)
        if self._elastic is not None and decision.estimates is not None:
            self._elastic.compare(now, self._ledger, decision.estimates)
        self._review = decision.review_us

    def _evict(self, now: int, job: int) -> None:
        if self._chunked is not None:
            rest(self._ledger, self._counts, job, now)
        held = self._ledger.status[job] == RUNNING
        freed = self._servers_of(np.array([job], dtype=np.int64))
        evict(
            now,
            self._full_world.shop,
            self._ledger,
            self._holdings.pool,
            self._calendar,
            self._holdings.used,
            self._counts,
            self._recording.current,
            job,
        )
        if held:
            self._fleet.command(now, Commands(changes=nothing_for(np.array([job], dtype=np.int64))))
            self._rate_touched(now, freed, NO_JOBS)

    def _change(self, now: int, changes: Changes) -> None:
        """New holdings, then new rates of the changed jobs and of those the truth says they touch."""
        world, n = self._full_world, int(changes.size[0])
        pauses = np.empty(n, dtype=np.int64)
        if self._elastic is not None:
            self._elastic.book(now, self._ledger, changes.job[:n])
        servers = self._servers_of(changes.job[:n], changes.server[: changes.ptr[n]])
        commit_holdings(
            now,
            world.shop,
            self._ledger,
            self._holdings.pool,
            self._calendar,
            self._holdings.used,
            self._recording.current,
            changes,
            pauses,
            world.restart_us,
            self._counts,
        )
        holding = np.diff(changes.ptr[: n + 1]) > 0
        if self._elastic is not None:
            pauses += self._elastic.replace(self._holdings, changes.job[:n])
        jobs, pauses = changes.job[:n][holding], pauses[holding]
        self._rate(now, jobs, pauses)
        self._rate_touched(now, servers, jobs)
        self._fleet.command(now, Commands(changes=changes))

    def _rate(self, now: int, jobs: IntArray, pauses: IntArray) -> None:
        if len(jobs):
            rates = self._truth.rates(self._holdings, jobs)
            set_rates(self._ledger, self._calendar, jobs, now, rates, pauses)

    def _rate_touched(self, now: int, servers: IntArray, changed: IntArray) -> None:
        """Rate anew all others whom the truth says a change on these servers touches."""
        if self._undisturbed:
            return
        others = np.setdiff1d(self._truth.touched(servers), changed)
        others = others[self._holdings.pool.head[others] >= 0]
        self._rate(now, others, np.zeros(len(others), dtype=np.int64))

    def _servers_of(self, jobs: IntArray, others: IntArray = NO_JOBS) -> IntArray:
        """Servers on which the jobs hold anything, and others; none where jobs do not disturb each other."""
        if self._undisturbed:
            return NO_JOBS
        return np.union1d(self._holdings.rows(jobs)[:, 1], others)

    def _holders(self, server: int) -> IntArray:
        """Running jobs with a holding on a server; none where jobs do not disturb each other."""
        if self._undisturbed:
            return NO_JOBS
        rows = self._holdings.rows(self._calendar.heap[: self._calendar.size[0]])
        return np.unique(rows[rows[:, 1] == server, 0])

    def _servers_of_due(self, now: int) -> IntArray:
        """Servers of the jobs whose work is done now; none where jobs do not disturb each other."""
        if self._undisturbed:
            return NO_JOBS
        running = self._calendar.heap[: self._calendar.size[0]]
        return self._servers_of(running[self._ledger.finish[running] == now])

    def result(
        self,
        trim: Trim | None = None,
        *,
        loop_reason: str = "step by step",
        decision_seconds: Sequence[float] = (),
    ) -> RunResult:
        """The result; call it when `advance` has returned None. `trim` says which jobs it counts."""
        end = self._full_world.end_us(max(self._now, 0))
        outcome = Outcome(
            self._ledger,
            self._recording.joined(),
            max(self._now, 0),
            self._reasons,
            "general",
            loop_reason,
            None if self._chunked is None else self._chunked.outcome(end),
            None if self._elastic is None else self._elastic.done(end, self._ledger),
            decision_seconds,
            dict(self._policy.counts()),
            dict(self._policy.course()),
        )
        return build_result(self._full_world, outcome, trim)

    def state(self) -> State:
        """Everything that `restore` needs to go on alike, as arrays; valid between two instants."""
        groups = {"ledger": self._ledger._asdict(), "calendar": self._calendar._asdict()}
        chunked = {} if self._chunked is None else self._chunked.state()
        elastic = {} if self._elastic is None else self._elastic.state()
        scalars = [self._now, self._next_job, self._review, self._last_slot, self._repeats, self._next_outage]
        reasons = [[job, len(text)] for job, text in self._reasons.items()]
        return {
            **{
                f"{group}.{name}": array.copy()
                for group, arrays in groups.items()
                for name, array in arrays.items()
            },
            **{f"recording.{name}": array for name, array in self._recording.state().items()},
            **{f"holdings.{name}": array for name, array in self._holdings.state().items()},
            **{f"fleet.{name}": array for name, array in self._fleet.state().items()},
            **{f"policy.{name}": array for name, array in self._policy.state().items()},
            **{f"chunked.{name}": array for name, array in chunked.items()},
            **{f"elastic.{name}": array for name, array in elastic.items()},
            **{f"news.{name}": array for name, array in self._news.state().items()},
            "scalars": np.array(scalars),
            "counts": self._counts.copy(),
            "available": self._available.copy(),
            "reasons": np.array(reasons, dtype=np.int64).reshape(-1, 2),
            "reason_texts": np.frombuffer("".join(self._reasons.values()).encode(), dtype=np.uint8),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state of the same world and policy, after `policy.start`."""
        self._ledger = Ledger(**{k: v.copy() for k, v in part(state, "ledger").items()})
        self._calendar = Calendar(**{k: v.copy() for k, v in part(state, "calendar").items()})
        self._recording.restore(part(state, "recording"))
        self._holdings.restore(part(state, "holdings"))
        self._fleet.restore(part(state, "fleet"))
        self._policy.restore(part(state, "policy"))
        scalars = [int(value) for value in state["scalars"]]
        self._now, self._next_job, self._review, self._last_slot, self._repeats, self._next_outage = scalars
        self._counts = state["counts"].copy()
        self._available = state["available"].copy()
        self._news.restore(part(state, "news"))
        if self._chunked is not None:
            self._chunked.restore(part(state, "chunked"))
        if self._elastic is not None:
            self._elastic.restore(part(state, "elastic"))
        text = state["reason_texts"].tobytes().decode()
        self._reasons = {}
        for job, length in state["reasons"].tolist():
            self._reasons[job], text = text[:length], text[length:]
