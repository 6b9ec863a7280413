"""Policies of Gavel: shares of time on each GPU type, turned into GPUs round by round.

A subclass says how shares are computed; `ray_sim.policies.registry` lists them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar, TypedDict, Unpack, cast

import numpy as np

from ray_sim.kernels.core.measured_rates import ON_ONE, SPREAD
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import NEVER_US, QUANTA_PER_UNIT, US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow, Shares
from ray_sim.policies.gavel.ledger import LiveJobs
from ray_sim.policies.gavel.rounds import Leases, RoundRules, Rounds
from ray_sim.policy_api import (
    NO_JOBS,
    WHOLE_TRACE,
    WORKER,
    Decision,
    Guests,
    JobSpeeds,
    MeasuredDecision,
    Parameter,
    Policy,
    PolicyContext,
    Streams,
    View,
    Wake,
)

Rows = list[tuple[int, int, int]]
"""(server, role, tasks) of a job."""

_PAGE = "docs/models/gavel.md"

ROUNDS = (
    Parameter(
        "round_s",
        "float",
        360.0,
        "longest run of a job in a round, after which GPUs are given anew",
        unit="s",
        minimum=0.0,
        exclusive=True,
        source=f"{_PAGE}#rounds; 360 s in the simulator of Narayanan et al.",
    ),
    Parameter(
        "reset_s",
        "float",
        1920.0,
        "least time between two computations of shares, in which jobs that come wait; 0 = at every change",
        unit="s",
        minimum=0.0,
        source=f"{_PAGE}#rounds; 1,920 s in the simulator of Narayanan et al.",
    ),
    Parameter(
        "one_server",
        "bool",
        False,
        "whether all GPUs of a job are on one server",
        source=f"{_PAGE}#rounds; ours",
    ),
    Parameter(
        "published",
        "bool",
        False,
        "whether rounds have the oddities of the simulator of Narayanan et al.",
        source=f"{_PAGE}#oddities",
    ),
)
"""Parameters of all policies with rounds."""

AWARE = Parameter(
    "aware",
    "bool",
    True,
    "whether shares are computed from the speeds on each GPU type",
    source=f"{_PAGE}#shares",
)


class RoundOptions(TypedDict, total=False):
    """Values of `ROUNDS`."""

    round_s: float
    reset_s: float
    one_server: bool
    published: bool


class RoundPolicy(Policy):
    """Gives GPUs in rounds by shares of time, which are computed when jobs come or end.

    It keeps a clock in double seconds of its own, as near-ties of priority decide; what it asks of the
    simulator is rounded up to a microsecond.

    Source: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads,
    OSDI 2020.
    """

    schedules: ClassVar[str] = "measured"
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.REVIEW | Wake.SERVER_CHANGE
    sees: frozenset[str] = frozenset({"steps", "measured_speeds", "work_left", WHOLE_TRACE})
    unchanging: ClassVar[frozenset[str]] = frozenset(
        {
            *("_aware", "_packing", "_rules"),
            *("_speeds", "_fastest", "_server_of", "_restart_s", "_jobs", "_wanted"),
        }
    )
    most_gpus: ClassVar[int] = 2**20
    """Jobs with more GPUs are rejected, with the reason ``several_gpus``."""
    in_line: ClassVar[bool] = False
    """Whether a job that no type can hold now keeps its place in a queue."""
    fills_idle: ClassVar[bool] = True
    """Whether jobs without a share get GPUs that are left."""

    def __init__(self, aware: bool = True, packing: bool = False, **rounds: Unpack[RoundOptions]) -> None:
        self._aware, self._packing = aware, packing
        self._rules = RoundRules(shuffle_types=not aware and not packing, fill_idle=self.fills_idle, **rounds)

    @property
    def draws(self) -> bool:
        """Whether the order of types is drawn."""
        return self._rules.shuffle_types

    @abstractmethod
    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """The computation of shares of a run; speeds and servers of each type are known."""

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Number the GPUs of each type, server by server.

        Raises
        ------
        InvalidScenarioError : virtual clusters are apart, or a round is too short for a restart
        """
        if len(np.unique(world.server_partition)) > 1:
            raise InvalidScenarioError(
                f"{self.name}: shares are of one pool of servers; leave out partition=vc"
            )
        self._restart_s = world.restart_us / US_PER_S
        if self._restart_s >= self._rules.round_s:
            raise InvalidScenarioError(
                f"{self.name}: round_s={self._rules.round_s:g} leaves no time beside restart_cost_s="
                f"{self._restart_s:g}; give longer rounds"
            )
        self._speeds = speeds = cast("JobSpeeds", world.jobs.speeds)
        gpus = world.cluster.capacity[:, world.cluster.resources.index("gpu")] // QUANTA_PER_UNIT["gpu"]
        of_type = [np.flatnonzero(speeds.of_server == t) for t in range(len(speeds.types))]
        self._server_of = [np.repeat(servers, gpus[servers]) for servers in of_type]
        self._fastest = speeds.fastest
        job_gpus = world.gang_gpus() // QUANTA_PER_UNIT["gpu"]
        self._jobs = LiveJobs(
            row=np.arange(len(job_gpus)),
            arrival_s=world.jobs.submit_us / US_PER_S,
            gpus=job_gpus,
            weight=world.jobs.weight.astype(float),
            steps_left=world.jobs.steps.astype(float),
            speed=self._planned_speed(world, job_gpus, of_type, gpus),
        )
        if self._packing and not speeds.packing:
            raise InvalidScenarioError(
                f"{self.name}: packing=true needs -w packing=true, so that jobs may share GPUs"
            )
        self._rounds = Rounds(
            [gpus[servers].tolist() for servers in of_type],
            self._rules,
            streams.seed,
            self._pair_speeds if self._packing and len(self._speeds.shared) else None,
        )
        self._shares = self.new_shares(world, streams.seed)
        self._ends_us = np.full(len(job_gpus), NEVER_US)
        self._admitted = 0
        self._wanted = self._jobs.speed.any(axis=1) & (job_gpus <= self.most_gpus)

    def _pair_speeds(self, pairs: IntArray) -> FloatArray:
        """(P, 2, T) steps per second of both jobs of pairs, (P, 2); 0 where they cannot share a GPU."""
        keys = self._speeds.key[pairs]
        both = self._speeds.shared[keys[:, [0, 1]], keys[:, [1, 0]]]
        return np.where(keys.min(axis=1)[:, None, None] >= 0, both, 0.0)

    def _planned_speed(
        self, world: PolicyContext, job_gpus: IntArray, of_type: list[IntArray], gpus: IntArray
    ) -> FloatArray:
        """(J, T) speed by which shares are planned: on one server where a gang fits; 0 without room."""
        whole = job_gpus[:, None] <= [gpus[servers].max(initial=0) for servers in of_type]
        room = job_gpus[:, None] <= [gpus[servers].sum() for servers in of_type]
        on_one, spread = self._speeds.alone[:, :, ON_ONE], self._speeds.alone[:, :, SPREAD]
        if self._rules.one_server:
            planned = np.where(whole, on_one, 0.0)
        else:  # what runs on one server only would be placed on several
            planned = np.where(room & (spread > 0), np.where(whole, on_one, spread), 0.0)
        pools = np.stack([world.pools[:, servers].any(axis=1) for servers in of_type], axis=1)
        return planned * pools[world.pool_of(np.arange(len(planned)))[:, WORKER]]

    def decide(self, view: View) -> Decision:
        """Suspend the jobs whose time in the round is over; at its end, begin the next."""
        self._note_changes(view)
        reject = view.arrived[~self._wanted[view.arrived]]
        large, fast = self._jobs.gpus[reject] > self.most_gpus, self._fastest[reject] > 0
        reasons = np.where(large, "several_gpus", np.where(fast, "never_fits", "no_speed"))
        over = view.running[self._ends_us[view.running] <= view.now_us]
        ending = np.intersect1d(over, self._finishing())
        if (self._rounds.running and view.now_us < _us(self._rounds.end_s)) or len(ending):
            # By rounding, jobs may end some microseconds after their round.
            changes: dict[int, Rows] = {job: [] for job in np.setdiff1d(over, ending).tolist()}
            evict, guests = NO_JOBS, None
        else:
            evict, changes, guests = self._next_round(view)
        ends = self._ends_us[self._ends_us > view.now_us]
        return MeasuredDecision.of(
            changes,
            reject=reject,
            reject_reason=tuple(reasons.tolist()),
            evict=evict,
            guests=guests,
            review_us=int(ends.min(initial=NEVER_US)),
        )

    def _note_changes(self, view: View) -> None:
        """Tell the rounds of jobs that failed or ended otherwise."""
        rounds, now_s = self._rounds, view.now_us / US_PER_S
        returned = np.intersect1d(view.returned, rounds.ledger.jobs.row)
        for job, left in zip(returned.tolist(), self._steps_left(view, returned).tolist(), strict=True):
            rounds.fail(job, now_s, left)
        self._ends_us[returned] = NEVER_US
        ended = np.setdiff1d(view.completed, self._finishing())
        for job in np.intersect1d(ended, rounds.ledger.jobs.row).tolist():
            rounds.remove(job, now_s)

    def _finishing(self) -> IntArray:
        """Jobs, sorted, that do all their steps in the round that runs."""
        leases, jobs = self._rounds.leases, self._rounds.ledger.jobs
        if not self._rounds.running:
            return NO_JOBS
        member, steps = leases.member.ravel(), leases.steps.ravel()
        live = np.flatnonzero(np.isin(member, jobs.row))
        at = np.searchsorted(jobs.row, member[live])
        return np.sort(member[live[steps[live] >= jobs.steps_left[at]]])

    def _steps_left(self, view: View, jobs: IntArray) -> FloatArray:
        """(n,) whole steps that jobs have left in the simulator, at least 1."""
        left = view.work_left(jobs) / US_PER_S * self._fastest[jobs]
        return np.maximum(np.ceil(left - 0.5), 1.0)

    def _next_round(self, view: View) -> tuple[IntArray, dict[int, Rows], Guests | None]:
        """Book the round that is over and begin the next; jobs that are dropped, placements and guests."""
        rounds = self._rounds
        if not rounds.running:
            rounds.clock_s = max(rounds.clock_s, view.now_us / US_PER_S)
        ended = rounds.book()
        dropped = np.intersect1d(ended.job[~ended.finished], np.union1d(view.running, view.waiting))
        self._admit(view)
        self._take_back(view)
        for t, servers in enumerate(self._server_of):
            rounds.set_there(t, view.available[servers])
        coming = self._admitted < len(self._wanted)
        leases = self._begin(coming)
        if not rounds.running and rounds.due(coming):  # else those that came meanwhile would wait for ever
            leases = self._begin(coming)
        held = self._held(view)
        rows = [
            self._rows(t, gpus[gpus >= 0]) for t, gpus in zip(leases.type.tolist(), leases.gpus, strict=True)
        ]
        rounds.run(self._speeds_of(leases, rows), self._pauses_s(view, leases, rows, held))
        self._ends_us[:] = NEVER_US
        member = leases.member
        self._ends_us[member[member >= 0]] = [_us(end_s) for end_s in leases.ends_s[member >= 0].tolist()]
        changes: dict[int, Rows] = {job: [] for job in held}
        changes.update(zip(member[:, 0].tolist(), rows, strict=True))
        changes = {job: placed for job, placed in changes.items() if held.get(job) != placed}
        guests = self._guests(leases, rows, changes)
        for job in dropped.tolist():
            changes.pop(job, None)
        return dropped, changes, guests

    def _guests(self, leases: Leases, rows: list[Rows], changes: dict[int, Rows]) -> Guests | None:
        """The second job of each pair as the guest of the first; its rows are added to the changes."""
        pairs = np.flatnonzero(leases.member[:, 1] >= 0)
        host, guest = leases.member[pairs].T
        for job, pair in zip(guest.tolist(), pairs.tolist(), strict=True):
            changes[job] = [(server, role, 0) for server, role, _ in rows[pair]]
        order = np.argsort(guest)
        return Guests(guest[order], host[order]) if len(pairs) else None

    def _begin(self, coming: bool) -> Leases:
        """Compute shares if it is time, and choose who runs."""
        if self._rounds.due(coming):
            self._rounds.take(self._computed(self._rounds.now()))
        return self._rounds.begin()

    def _computed(self, now: JobsNow) -> FloatArray:
        """(J + P, T) shares; 0 of jobs that no type can hold while servers are away."""
        able: BoolArray = np.any((now.speed > 0) & (now.gpus[:, None] <= now.capacity), axis=1)
        if self.in_line or able.all():
            return self._shares.shares(now)
        pairs: BoolArray = np.all(able[now.pairs], axis=1)
        shares = np.zeros((len(able) + len(pairs), len(now.capacity)))
        shares[np.append(able, pairs)] = self._shares.shares(now.only(able, pairs))
        return shares

    def _admit(self, view: View) -> None:
        """Add the jobs that have arrived by the rounds' clock."""
        jobs = np.arange(self._admitted, view.arrivals)
        jobs = jobs[self._jobs.arrival_s[jobs] <= self._rounds.clock_s]
        self._admitted += len(jobs)
        jobs = np.intersect1d(jobs[self._wanted[jobs]], np.union1d(view.running, view.waiting))
        self._rounds.add(LiveJobs._make(column[jobs] for column in self._jobs))

    def _take_back(self, view: View) -> None:
        """Set the steps left of jobs that lost progress, or did more than planned beside another."""
        live = self._rounds.ledger.jobs
        found = self._steps_left(view, live.row)
        wrong = np.abs(found - live.steps_left) > 1
        live.steps_left[wrong] = found[wrong]

    def _held(self, view: View) -> dict[int, Rows]:
        """What the jobs that run hold."""
        ptr, *columns = (column.tolist() for column in view.placements.rows_of(view.running))
        rows = list(zip(*columns, strict=True))
        spans = zip(view.running.tolist(), pairwise(ptr), strict=True)
        return {job: rows[first:end] for job, (first, end) in spans}

    def _rows(self, gpu_type: int, gpus: IntArray) -> Rows:
        """The servers of GPUs of a type."""
        tasks = Counter(self._server_of[gpu_type][gpus].tolist())
        return [(server, WORKER, tasks[server]) for server in sorted(tasks)]

    def _speeds_of(self, leases: Leases, rows: list[Rows]) -> FloatArray:
        """(L, 2) steps per second of the jobs of each lease on the servers that it has."""
        speed = self._rounds.ledger.entries.speed[leases.entry, :, leases.type]
        form = np.array([ON_ONE if len(placed) == 1 else SPREAD for placed in rows], dtype=np.int64)
        alone = leases.member[:, 1] < 0
        speed[alone, 0] = self._speeds.alone[leases.member[alone, 0], leases.type[alone], form[alone]]
        return speed

    def _pauses_s(self, view: View, leases: Leases, rows: list[Rows], held: dict[int, Rows]) -> FloatArray:
        """(L,) pause of each lease: of jobs that resume or move."""
        first = leases.member[:, 0]
        same = [held.get(job) == placed for job, placed in zip(first.tolist(), rows, strict=True)]
        stays = np.array(same, dtype=np.bool_) | (view.first_start_us(first) == NEVER_US)
        return np.where(stays, 0.0, self._restart_s)

    def counts(self) -> Mapping[str, int]:
        """Rounds, computations of shares, and entries that kept their GPUs from one round to the next."""
        return {
            "rounds": self._rounds.rounds,
            "computations": self._rounds.computations,
            "lease_extensions": self._rounds.extensions,
            "extendable_leases": self._rounds.extendable,
        }


def _us(seconds: float) -> int:
    """Microseconds, rounded up."""
    return math.ceil(seconds * US_PER_S)
