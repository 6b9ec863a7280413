"""Waits of all jobs, and their reasons: demand against the free capacity of the servers at every instant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import CHUNK, I8, PARAMETER_SERVER, START, WORKER
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.core.room_over_time import (
    FOUND,
    MISSED,
    NO_ROOM,
    NO_RULE,
    ServerSteps,
    judge_room,
    new_room_state,
)
from ray_sim.model.units import BoolArray, IntArray
from ray_sim.reports.history.holdings import FreeCapacity, History, RunFacts, tasks_that_fit, whole_us


@dataclass(frozen=True, slots=True)
class Waits:
    """Intervals [begin, end) in which a job waits, (n,) each, in order of (job, begin).

    A job waits from its submission to its end while it holds nothing; a chunked job while none of its chunks
    makes progress. Every start ends a wait, also one after which the job holds nothing in the same instant.
    The intervals of a job add up to its ``queue_s``.
    """

    job: IntArray
    begin_us: IntArray
    end_us: IntArray
    order: IntArray
    """Index of the event that ends the wait by a start; the number of events if none does."""

    def of(self, job: int) -> slice:
        """The rows of a job."""
        return slice(*np.searchsorted(self.job, [job, job + 1]).tolist())


def find_waits(history: History, jobs: pl.DataFrame, *, chunked: bool) -> Waits:
    """Waiting intervals of all jobs of jobs.parquet, in their order."""
    stays = history.holdings
    busy = (stays.role == CHUNK) == chunked
    starts = np.flatnonzero((history.kind == START) & ((history.role == CHUNK) == chunked))
    submit = whole_us(jobs["submit_s"])
    end = submit + whole_us(jobs["queue_s"].fill_null(0.0)) + whole_us(jobs["run_s"].fill_null(0.0))
    everyone = np.arange(len(submit))
    never = np.full(len(submit), len(history.time_us))
    # A stay of no length at the submission, each start and the end closes the gap before it.
    job = np.concatenate([everyone, history.job[starts], stays.job[busy], everyone])
    begin = np.concatenate([submit, history.time_us[starts], stays.begin_us[busy], end])
    until = np.concatenate([submit, history.time_us[starts], stays.end_us[busy], end])
    first = np.concatenate([never, starts, stays.first[busy], never])
    order = np.lexsort((first, begin, job))
    job, begin, until, first = job[order], begin[order], until[order], first[order]
    reached = _running_most(until, job)
    gap = (np.diff(job) == 0) & (begin[1:] > reached[:-1])
    return Waits(job[1:][gap], reached[:-1][gap], begin[1:][gap], first[1:][gap])


def _running_most(values: IntArray, job: IntArray) -> IntArray:
    """Largest value of each job so far; rows are in order of the job."""
    span = int(values.max(initial=0)) + 1
    most: IntArray = np.maximum.accumulate(values + job * span) - job * span
    return most


def ahead_over_time(waits: Waits, row: int, rivals: BoolArray) -> tuple[IntArray, IntArray]:
    """Number of jobs that wait at the same time as a row of `waits` and start at an earlier instant.

    `rivals`, (n,), are the rows of `waits` that count, e.g. of the same partition. Returns times in the wait,
    the first its begin, and the number from each time on.
    """
    ahead = rows_ahead(waits, row, rivals)
    begin = int(waits.begin_us[row])
    times = np.concatenate([[begin], waits.begin_us[ahead], waits.end_us[ahead]])
    steps = np.repeat([0, 1, -1], [1, len(ahead), len(ahead)])
    order = np.argsort(times, kind="stable")
    times, counts = np.maximum(times[order], begin), np.cumsum(steps[order])
    last = np.append(np.diff(times) != 0, True)
    inside = last & (times < waits.end_us[row])
    return times[inside], counts[inside]


def rows_ahead(waits: Waits, row: int, rivals: BoolArray) -> IntArray:
    """Rows of `waits`, in order of their starts, that overlap a row and end by a start at an earlier instant.

    The order of events within an instant is that of the jobs, and says nothing about who was first.
    """
    overlaps = (waits.end_us > waits.begin_us[row]) & (waits.end_us < waits.end_us[row])
    ahead = np.flatnonzero(
        rivals & overlaps & (waits.order < waits.order[row]) & (waits.job != waits.job[row])
    )
    return ahead[np.argsort(waits.order[ahead], kind="stable")]


ONE_SERVER = frozenset({"consolidate", "first_fit"})
"""Placement rules that give a job one server if it fits on an empty one."""

_MOST_ROOMS = 8
"""Demands whose room over time is kept."""

_ANY_SERVERS = frozenset({"pooled", "spread", "load_balance"})
"""Placement rules that start a job of one role wherever its tasks fit."""


class Reason(IntEnum):
    """Why a job waits. The first that holds counts, in this order."""

    NOT_ARRIVED = 0
    """It is announced, and has not arrived."""
    OUTAGE = 1
    """Less is free in sum on the servers that it may use than it needs, or none is available; all of them
    would have been enough."""
    FULL = 2
    """Less is free in sum in its partition than it needs; of a chunked job: it holds no parameter server, and
    none is free."""
    GPU_TYPE = 3
    """Enough is free in its partition, and less than it needs on servers of GPU types that it accepts."""
    CHUNKS = 4
    """A chunked job: no chunk makes progress, and a parameter server is held or free."""
    FRAGMENTED = 5
    """Enough is free in sum, and no choice of servers holds all its tasks."""
    NO_SERVER = 6
    """All its tasks fit, and the policy's placement rule finds no servers for it."""
    BEHIND = 7
    """There is room; jobs that waited at the same time started first, or the queue is strict."""
    POLICY = 8
    """There is room, and no waiting job started before it."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Parts [begin, end) of a wait with one reason each, (n,); they cover the wait without overlap.

    The numbers are those at the begin of each part.
    """

    begin_us: IntArray
    end_us: IntArray
    reason: IntArray
    free: IntArray
    """(n, R) free quanta of the eligible servers in sum; of a chunked job (n, 1) free parameter servers."""
    unavailable: IntArray
    """(n,) eligible servers that are unavailable."""
    tasks: IntArray
    """(n, roles) tasks of each role that fit on the eligible servers together if there are no others."""
    ahead: IntArray
    """Jobs that waited at that time and started first."""


class Explainer:
    """Finds the reasons of the waits of one run."""

    def __init__(self, facts: RunFacts, history: History, free: FreeCapacity, waits: Waits) -> None:
        self._facts, self._history, self._free, self._waits = facts, history, free, waits
        self._rooms: dict[int, tuple[IntArray, _Room]] = {}

    def stretches(self, row: int, arrival_us: int | None = None) -> Stretches:
        """Reasons of one row of the waits; `arrival_us` is that of an announced job."""
        job = int(self._waits.job[row])
        begin, end = int(self._waits.begin_us[row]), int(self._waits.end_us[row])
        times, room = self._room(job)
        rivals = self._facts.may_meet(job, self._waits.job)
        ahead_times, ahead = ahead_over_time(self._waits, row, rivals)
        fixed = [begin] if arrival_us is None or not begin < arrival_us < end else [begin, arrival_us]
        own = self._own_servers(job)
        cuts = np.concatenate([times, ahead_times, *own, fixed])
        cuts = np.sort(cuts[(cuts >= begin) & (cuts < end)])
        cuts = cuts[np.append(True, np.diff(cuts) != 0)]
        at = np.searchsorted(times, cuts, side="right") - 1
        n_ahead = ahead[np.searchsorted(ahead_times, cuts, side="right") - 1]
        reason = self._reasons(room, at, n_ahead)
        reason[_covered(cuts, *own)] = Reason.CHUNKS
        if arrival_us is not None:
            reason[cuts < arrival_us] = Reason.NOT_ARRIVED
        kept = np.append(True, np.diff(reason) != 0)
        begins = cuts[kept]
        return Stretches(
            begin_us=begins,
            end_us=np.append(begins[1:], end),
            reason=reason[kept],
            free=room.free[at][kept],
            unavailable=room.unavailable[at][kept],
            tasks=room.tasks[at][kept],
            ahead=n_ahead[kept],
        )

    def _own_servers(self, job: int) -> tuple[IntArray, IntArray]:
        """Begins and ends of the stays of a chunked job's parameter server."""
        stays = self._history.holdings
        mine: BoolArray = (stays.job == job) & (stays.role != CHUNK) & self._facts.chunked
        return stays.begin_us[mine], stays.end_us[mine]

    def _room(self, job: int) -> tuple[IntArray, _Room]:
        """Room for a job on its servers after each change: times and values; kept for jobs of its class."""
        job_class = int(self._facts.arrays.job_class[job])
        if job_class not in self._rooms:
            if len(self._rooms) == _MOST_ROOMS:
                self._rooms.pop(next(iter(self._rooms)))
            new = self._new_ps_room if self._facts.chunked else self._new_room
            self._rooms[job_class] = new(job)
        return self._rooms[job_class]

    def _new_room(self, job: int) -> tuple[IntArray, _Room]:
        facts = self._facts
        rows = self._free.of(facts.in_partition(job))
        whole, demand, gang = facts.whole_demand(job), facts.arrays.demand[job], facts.arrays.gang[job]
        may = facts.by_role(job)[:, rows.server]
        mine = _resources_of_roles(may, (demand > 0) & (gang[:, None] > 0))
        absent = facts.arrays.capacity[rows.server] * ~rows.there[:, None]
        fitting = [
            rows.there * on * tasks_that_fit(rows.free, rows.devices, of_role)
            for on, of_role in zip(may, demand, strict=True)
        ]
        holds = rows.there & (rows.free >= whole).all(axis=1) & may.all(axis=0)
        holds &= fitting[WORKER] >= gang[WORKER]
        servers = np.stack([rows.there & may.any(axis=0), holds, *fitting], axis=1).astype(np.int64)
        times, sums = rows.sums_by_time(np.hstack([rows.free, mine * rows.free, mine * absent, servers]))
        n = rows.free.shape[1]
        everywhere, free, absent, counts, tasks = np.split(sums, [n, 2 * n, 3 * n, 3 * n + 2], axis=1)
        short: BoolArray = np.any(free < whole, axis=1) | (counts[:, 0] == 0)
        outage = short & ~np.any(free + absent < whole, axis=1)
        full = short & np.any(everywhere < whole, axis=1)
        verdict = np.full(len(times), FOUND, dtype=np.int8)
        apart: BoolArray = np.any(tasks < gang, axis=1)
        verdict[apart] = NO_ROOM
        self._judge(job, rows, times, ~short & ~apart & (counts[:, 1] == 0), verdict)
        unavailable = facts.eligible(job).sum() - counts[:, 0]
        return times, _Room(free, unavailable, tasks, outage, full, short, verdict)

    def _new_ps_room(self, job: int) -> tuple[IntArray, _Room]:
        """Parameter servers that may serve a chunked job."""
        facts = self._facts
        rows = self._free.of(facts.eligible(job))
        serves = facts.serving(job)[rows.server]
        free = np.where(serves, rows.free[:, PARAMETER_SERVER], 0)
        absent = np.where(serves & ~rows.there, facts.arrays.capacity[rows.server, PARAMETER_SERVER], 0)
        times, sums = rows.sums_by_time(
            np.stack([free, absent, serves & ~rows.there], axis=1).astype(np.int64)
        )
        lacks = sums[:, 0] <= 0
        none = np.zeros((len(times), facts.arrays.gang.shape[1]), dtype=np.int64)
        verdict = np.full(len(times), FOUND, dtype=np.int8)
        return times, _Room(sums[:, :1], sums[:, 2], none, lacks & (sums[:, 1] > 0), lacks, lacks, verdict)

    def _judge(self, job: int, rows: FreeCapacity, times: IntArray, asked: BoolArray, verdict: I8) -> None:
        """Set the verdicts at the instants asked: each role fits apart, and no server holds the gang.

        A server that holds the whole gang is enough for every rule.
        """
        facts = self._facts
        one_role = int((facts.arrays.gang[job] > 0).sum()) == 1
        if one_role and (facts.rule == NO_RULE or facts.placement in _ANY_SERVERS):
            verdict[asked] = FOUND
        elif one_role and self.needs_one_server(job):
            verdict[asked] = MISSED
        elif asked.any():
            arrays = facts.arrays
            order = np.argsort(rows.time_us, kind="stable")
            free = np.hstack([rows.free, rows.devices])
            steps = ServerSteps(rows.time_us[order], rows.server[order], free[order], rows.there[order])
            state = new_room_state(arrays, job)
            judge_room(facts.rule, arrays, job, steps, times, asked, state, new_scratch(arrays), verdict)

    def _reasons(self, room: _Room, at: IntArray, ahead: IntArray) -> IntArray:
        verdict = room.verdict[at]
        # A job that the rule can place starts when it is the first of a strict queue.
        in_strict_queue = self._facts.strict and self._facts.rule != NO_RULE
        holds = {
            Reason.OUTAGE: room.outage[at],
            Reason.FULL: room.full[at],
            Reason.GPU_TYPE: room.short[at],
            Reason.CHUNKS: np.full(len(at), self._facts.chunked),
            Reason.FRAGMENTED: verdict == NO_ROOM,
            Reason.NO_SERVER: verdict == MISSED,
            Reason.BEHIND: (ahead > 0) | in_strict_queue,
        }
        return np.select(list(holds.values()), [int(reason) for reason in holds], int(Reason.POLICY))

    def needs_one_server(self, job: int) -> bool:
        """Whether the policy's placement rule gives the job one server, as an empty one holds it."""
        arrays = self._facts.arrays
        return self._facts.placement in ONE_SERVER and bool(arrays.class_single[arrays.job_class[job]])


@dataclass(frozen=True, slots=True)
class _Room:
    """Room on the eligible servers, (m,) rows."""

    free: IntArray
    """(m, R), or (m, 1) of a chunked job."""
    unavailable: IntArray
    tasks: IntArray
    """(m, roles) tasks of each role that fit if there are no others."""
    outage: BoolArray
    """Whether unavailable servers would be enough with what is free."""
    full: BoolArray
    """Whether less is free in sum in the whole partition than the gang needs, or no server is available."""
    short: BoolArray
    """The same of the servers that the job may use."""
    verdict: I8
    """Whether there is room, see `ray_sim.kernels.core.room_over_time`; of instants that lack nothing."""


def _resources_of_roles(may: BoolArray, demanded: BoolArray) -> BoolArray:
    """(n, R) servers on which a role may be, (roles, n) ``may``, that demands the resource, (roles, R).

    Of a resource that no role demands, the servers of any role.
    """
    mine: BoolArray = np.einsum("kn,kr->nr", may, demanded | ~demanded.any(axis=0)) > 0
    return mine


def _covered(times: IntArray, begins: IntArray, ends: IntArray) -> BoolArray:
    """Whether each time lies in one of the disjoint intervals [begin, end)."""
    open_now = np.searchsorted(np.sort(begins), times, side="right") - np.searchsorted(
        np.sort(ends), times, side="right"
    )
    return open_now > 0
