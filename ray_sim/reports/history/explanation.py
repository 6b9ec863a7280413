"""Explanation of one job of a run: its times, its waits with their reasons, and who held what it needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import CHUNK, MOVE, PARAMETER_SERVER, ROLE_NAMES, START, STOP, WORKER
from ray_sim.model.result import JobStatus
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.reports.history.explanation_text import cause_text, rejection_text, room_text
from ray_sim.reports.history.holdings import History, RunFacts, free_capacity, read_history
from ray_sim.reports.history.reasons import Explainer, Reason, Stretches, find_waits, rows_ahead
from ray_sim.reports.submission_times import first_submission_s, utc_text

MOST_JOBS = 5
"""Number of holders, and of jobs ahead, listed for each wait."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A change of a job at an instant."""

    time_s: float
    event: str
    role: str | None
    servers: dict[str, int]
    """Tasks by server, of events that name servers; of a chunk its number."""
    successors: tuple[str, ...] = ()
    """Jobs that got some of its servers at the instant of a suspension."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a wait with one reason."""

    begin_s: float
    end_s: float
    reason: str
    text: str
    """Sentence with the numbers at `begin_s`: `cause`, `needs` and `free`."""
    cause: str
    """Sentence without demand and free capacity."""
    needs: str
    """Demand of the job, e.g. ``8 gpu, 32 cpu``; empty where the reason is not capacity."""
    free: str
    """Free capacity at `begin_s`, e.g. ``0 gpu, 4 cpu on 2 servers``; empty as `needs`."""
    free_by_resource: dict[str, float]
    """Free at `begin_s` on the job's servers in sum, in the unit of each resource; empty as `needs`."""
    unavailable: int
    """Unavailable servers of its partition at `begin_s`; of a chunked job, those that may serve it."""
    ahead: int
    """Jobs that waited at `begin_s` and started before this one."""


@dataclass(frozen=True, slots=True)
class HolderOrRival:
    """A job that held the resource that the explained job needed, or that was ahead of it."""

    job_id: str
    amount: float
    """Of a holder, unit-seconds of the resource within the wait; of a job ahead, its whole demand."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A time without servers."""

    begin_s: float
    end_s: float
    parts: tuple[Part, ...]
    resource: str
    """Resource whose holders are listed."""
    holders: tuple[HolderOrRival, ...]
    """Jobs with the most unit-seconds on the job's servers within the wait."""
    ahead: tuple[HolderOrRival, ...]
    """First jobs that started while it waited."""
    ahead_total: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waited, and what happened to it. Times are seconds in the workload's own time."""

    job_id: str
    vc: str | None
    user: str | None
    status: str
    reason: str | None
    demand: dict[str, float]
    """Whole demand by resource, in its unit."""
    submit_s: float
    after_first_s: float
    """Time from the first submission of the run to that of this job."""
    submit_utc: str | None
    """Date of the submission, e.g. ``2023-10-26 06:05``; None where the workload has none."""
    start_s: float | None
    finish_s: float | None
    queue_s: float
    run_s: float
    rejection: str | None
    """Sentence on a rejection; None for other jobs."""
    events: tuple[JobEvent, ...]
    waits: tuple[Wait, ...]
    waits_total: int
    """Number of all its waits; `waits` has the longest of them."""
    seconds_by_reason: dict[str, float]

    def to_dict(self) -> dict[str, object]:
        """Plain dict for JSON."""
        return asdict(self)


class RunExplainer:
    """Explains the jobs of one run, from the frames of its `RunResult`."""

    def __init__(self, facts: RunFacts, jobs: pl.DataFrame, events: pl.DataFrame) -> None:
        self.facts, self._jobs = facts, jobs
        self.history: History = read_history(events, jobs, facts.servers)
        self.waits = find_waits(self.history, jobs, chunked=facts.chunked)
        self.free = free_capacity(facts, self.history)
        self._explainer = Explainer(facts, self.history, self.free, self.waits)
        self._amounts = self.history.holdings.amounts(facts)
        self._by_job = np.argsort(self.history.job, kind="stable")
        kind = events["event"].dtype
        assert isinstance(kind, pl.Enum)
        self._names: Sequence[str] = kind.categories.to_list()
        self._first_s = first_submission_s(jobs)

    def explain(self, job: int, most_waits: int | None = None) -> Explanation:
        """Explain the job of an index; of its waits the `most_waits` longest, or all."""
        row = self._jobs.row(job, named=True)
        demand = self._in_units(self.facts.whole_demand(job))
        arrival_s = row.get("arrival_s")
        arrival_us = None if arrival_s is None else round(arrival_s * US_PER_S)
        waits = tuple(self._wait(job, each, arrival_us) for each in self._longest(job, most_waits))
        totals: dict[str, float] = {}
        for part in (part for wait in waits for part in wait.parts):
            totals[part.reason] = totals.get(part.reason, 0.0) + part.end_s - part.begin_s
        rejected = row["status"] == JobStatus.REJECTED
        return Explanation(
            job_id=row["job_id"],
            vc=row["vc"],
            user=row["user"],
            status=row["status"],
            reason=row["reason"],
            demand={name: amount for name, amount in demand.items() if amount},
            submit_s=row["submit_s"],
            after_first_s=row["submit_s"] - self._first_s,
            submit_utc=utc_text(self.facts.epoch_utc, row["submit_s"]),
            start_s=row["start_s"],
            finish_s=row["finish_s"],
            queue_s=row["queue_s"] or 0.0,
            run_s=row["run_s"] or 0.0,
            rejection=rejection_text(self.facts, job, row) if rejected else None,
            events=self._events(job),
            waits=waits,
            waits_total=len(self.waits.job[self.waits.of(job)]),
            seconds_by_reason=dict(sorted(totals.items(), key=lambda item: -item[1])),
        )

    def _longest(self, job: int, most: int | None) -> list[int]:
        """Rows of the longest waits of a job, in order of time."""
        rows = self.waits.of(job)
        lengths = (self.waits.end_us - self.waits.begin_us)[rows]
        return sorted((rows.start + np.argsort(-lengths, kind="stable")[:most]).tolist())

    def _wait(self, job: int, row: int, arrival_us: int | None) -> Wait:
        stretches = self._explainer.stretches(row, arrival_us)
        resource = self._resource(job, stretches)
        ahead = rows_ahead(
            self.waits, row, self.facts.arrays.job_part[self.waits.job] == self.facts.arrays.job_part[job]
        )
        _, first = np.unique(self.waits.job[ahead], return_index=True)
        rivals = self.waits.job[ahead[np.sort(first)]]
        unit = list(self.facts.resources.values())[resource]
        return Wait(
            begin_s=_seconds(self.waits.begin_us[row]),
            end_s=_seconds(self.waits.end_us[row]),
            parts=tuple(self._part(job, stretches, n) for n in range(len(stretches.reason))),
            resource=list(self.facts.resources)[resource],
            holders=self._holders(job, row, resource, unit),
            ahead=tuple(
                HolderOrRival(self.facts.job_ids[each], self.facts.whole_demand(each)[resource] / unit)
                for each in rivals[:MOST_JOBS].tolist()
            ),
            ahead_total=len(rivals),
        )

    def _part(self, job: int, stretches: Stretches, n: int) -> Part:
        one_server = self._explainer.needs_one_server(job)
        cause = cause_text(self.facts, job, stretches, n, one_server=one_server)
        needs, free = room_text(self.facts, job, stretches, n)
        return Part(
            begin_s=_seconds(stretches.begin_us[n]),
            end_s=_seconds(stretches.end_us[n]),
            reason=Reason(int(stretches.reason[n])).name.lower(),
            text=f"{cause}: needs {needs}; free: {free}" if needs else cause,
            cause=cause,
            needs=needs,
            free=free,
            free_by_resource=self._in_units(stretches.free[n]) if needs else {},
            unavailable=int(stretches.unavailable[n]),
            ahead=int(stretches.ahead[n]),
        )

    def _resource(self, job: int, stretches: Stretches) -> int:
        """Resource that lacked first in the wait; the first that the job needs if none did."""
        if self.facts.chunked:
            none_free = np.isin(stretches.reason, (Reason.FULL, Reason.OUTAGE))
            return PARAMETER_SERVER if none_free.any() else WORKER
        whole = self.facts.whole_demand(job)
        lacked = np.flatnonzero((stretches.free < whole).any(axis=0))
        needed = np.flatnonzero(whole > 0)
        found = lacked if len(lacked) else needed
        return int(found[0]) if len(found) else 0

    def _holders(self, job: int, row: int, resource: int, unit: int) -> tuple[HolderOrRival, ...]:
        """Jobs that held most of a resource within a wait; none if the job needs nothing."""
        if not self.facts.whole_demand(job)[resource]:
            return ()
        stays = self.history.holdings
        overlap = np.minimum(stays.end_us, self.waits.end_us[row]) - np.maximum(
            stays.begin_us, self.waits.begin_us[row]
        )
        counts = (overlap > 0) & self.facts.eligible(job)[stays.server] & (stays.job != job)
        held = np.bincount(
            stays.job[counts],
            self._amounts[counts, resource] * (overlap[counts] / US_PER_S) / unit,
            minlength=len(self.facts.job_ids),
        )
        most = np.argsort(-held, kind="stable")[:MOST_JOBS]
        return tuple(
            HolderOrRival(self.facts.job_ids[int(each)], float(held[each])) for each in most if held[each] > 0
        )

    def _events(self, job: int) -> tuple[JobEvent, ...]:
        """Events of a job; the rows of one change of placements are one."""
        history = self.history
        begin, end = np.searchsorted(history.job[self._by_job], [job, job + 1])
        rows = self._by_job[begin:end]
        found: list[JobEvent] = []
        stays = self.history.holdings
        ends_us, held = stays.end_us[stays.job == job], stays.server[stays.job == job]
        for position, each in enumerate(rows.tolist()):
            if not (position > 0 and rows[position - 1] == each - 1 and self._same_change(each)):
                found.append(self._event(each, held[ends_us == history.time_us[each]]))
            if history.server[each] >= 0:
                name, servers = self.facts.servers[int(history.server[each])], found[-1].servers
                servers[name] = servers.get(name, 0) + int(history.count[each])
        return tuple(found)

    def _same_change(self, row: int) -> bool:
        """Whether an event belongs to the change of the event before it."""
        history = self.history
        same = all(values[row] == values[row - 1] for values in (history.time_us, history.kind, history.role))
        return same and history.role[row] != CHUNK

    def _event(self, row: int, left: IntArray) -> JobEvent:
        """The event of a row without its servers; `left` are those that the job gives up at its instant."""
        history, role = self.history, int(self.history.role[row])
        now = slice(*np.searchsorted(history.time_us, history.time_us[row] + np.arange(2)))
        placed = np.isin(history.kind[now], (START, MOVE)) & np.isin(history.server[now], left)
        jobs = history.job[now][placed & (history.kind[row] == STOP) & (role < 0)]
        successors = tuple(self.facts.job_ids[each] for each in dict.fromkeys(jobs.tolist()))
        name = ROLE_NAMES[role] if role >= 0 else None
        kind = self._names[int(history.kind[row])]
        return JobEvent(_seconds(history.time_us[row]), kind, name, {}, successors)

    def _in_units(self, quanta: IntArray) -> dict[str, float]:
        amounts = zip(self.facts.resources.items(), quanta.tolist(), strict=True)
        return {name: amount / unit for (name, unit), amount in amounts}


def _seconds(us: np.integer) -> float:
    return float(us) / US_PER_S
