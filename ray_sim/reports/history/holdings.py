"""Placements and free capacity over time, reconstructed from the events and facts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import (
    CHUNK,
    EVENT_NAMES,
    EVICT,
    FINISH,
    LOSE,
    MOVE,
    PARAMETER_SERVER,
    ROLE_NAMES,
    SERVER_DOWN,
    SERVER_UP,
    START,
    STOP,
    WORKER,
    WorldArrays,
    devices,
)
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.kernels.core.placement import LOAD_BALANCE, RULE_NAMES
from ray_sim.kernels.core.room_over_time import NO_RULE
from ray_sim.kernels.core.server_scores import SCORED_RULES
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.reports.submission_times import last_end_s


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Servers and demands of J jobs on S servers with R resources, in quanta."""

    servers: tuple[str, ...]
    resources: Mapping[str, int]
    """Quanta in a unit of each resource, in the order of the arrays' axis."""
    arrays: WorldArrays
    """Capacities, gangs, demands and partitions; the roles of a gang are worker and parameter server."""
    there: BoolArray
    """(S,) servers that are available before the first event."""
    cloud: BoolArray
    """(S,) servers of a cloud."""
    job_ids: pl.Series
    gpu_types: tuple[str | None, ...]
    """(S,) GPU type of each server."""
    partitions: tuple[str, ...] | None
    """Names of the partitions; None where all servers are one."""
    ps_levels: tuple[IntArray, IntArray] | None
    """Memory that each parameter server of a server has, (S,), and that a job needs, (J,); as ranks.

    A parameter server may serve a job if its rank is at least the job's. None where jobs are not chunked.
    """
    strict: bool
    """Whether the policy declares that no job passes one that does not fit (``backfill=False``)."""
    placement: str | None
    """Placement rule that the policy declares; None where it declares none."""
    quotas: Mapping[str, float]
    """GPUs by team of the cluster that has a quota of them."""
    epoch_utc: datetime | None = None
    """Instant of second 0 of the workload; None where submissions have no dates."""

    @property
    def chunked(self) -> bool:
        """Whether workers train chunks; a job then waits while none of its chunks makes progress."""
        return self.ps_levels is not None

    @property
    def rule(self) -> int:
        """Number of the placement rule; `NO_RULE` if the policy declares none of `QUEUE_RULES`.

        Rules that score servers find room where `load_balance` does: both go task by task.
        """
        if self.placement in SCORED_RULES:
            return LOAD_BALANCE
        return RULE_NAMES.index(self.placement) if self.placement in RULE_NAMES else NO_RULE

    def in_partition(self, job: int) -> BoolArray:
        """(S,) servers of the job's partition."""
        part = self.arrays.server_part
        mine: BoolArray = (part == self.arrays.job_part[job]) & (part >= 0)
        return mine

    def by_role(self, job: int) -> BoolArray:
        """(roles, S) servers that tasks of each role may be on: of the partition and accepted GPU types."""
        arrays = self.arrays
        may = np.zeros((arrays.class_pool.shape[1], len(self.servers)), dtype=np.bool_)
        for role, q in enumerate(arrays.class_pool[arrays.job_class[job]].tolist()):
            if q >= 0:
                may[role, arrays.pool_servers[arrays.pool_ptr[q] : arrays.pool_ptr[q + 1]]] = True
        return may

    def eligible(self, job: int) -> BoolArray:
        """(S,) servers that the job may use."""
        may: BoolArray = np.any(self.by_role(job), axis=0)
        return may

    def may_meet(self, job: int, others: IntArray) -> BoolArray:
        """(n,) whether each of the others may use a server that the job may use."""
        pools = self.arrays.class_pool[self.arrays.job_class]
        here: BoolArray = self.arrays.job_part[others] == self.arrays.job_part[job]
        if not here.any():
            return here
        meets: BoolArray = np.any(self.arrays.pool_meets[pools[job]], axis=0)  # (Q,)
        met: BoolArray = here & np.any(meets[pools[others]], axis=1)
        return met

    def serving(self, job: int) -> BoolArray:
        """(S,) servers of the partition of a chunked job whose parameter servers may serve it."""
        assert self.ps_levels is not None, "only in worlds of chunked jobs"
        offered, needed = self.ps_levels
        may: BoolArray = self.eligible(job) & (offered >= needed[job])
        return may & (self.arrays.capacity[:, PARAMETER_SERVER] > 0)

    def whole_demand(self, job: int) -> IntArray:
        """(R,) demand of the whole gang; of a chunked job one slot of each kind."""
        if self.chunked:
            return np.ones(len(self.resources), dtype=np.int64)
        whole: IntArray = self.arrays.gang[job] @ self.arrays.demand[job, : self.arrays.gang.shape[1]]
        return whole

    def amount(self, job: IntArray, role: IntArray, tasks: IntArray) -> IntArray:
        """(n, R) quanta that placements of these jobs, roles and numbers of tasks take."""
        demand = self.arrays.demand
        taken: IntArray = demand[job, np.minimum(role, demand.shape[1] - 1)] * tasks[:, None]
        return taken


_OPENING = (START, MOVE)
_CLOSING = (STOP, FINISH, EVICT, LOSE)


@dataclass(frozen=True)
class History:
    """Events of a run as arrays (n,), in their order, with jobs and servers by index; -1 for none."""

    time_us: IntArray
    kind: IntArray
    """Code of the event; kinds of jobs add codes after those of `EVENT_NAMES`."""
    job: IntArray
    server: IntArray
    role: IntArray
    count: IntArray
    device: IntArray
    """(n, D) tasks of a placement on each device; D is 0 where tasks share no GPU."""
    end_us: int
    """End of the run."""

    @cached_property
    def holdings(self) -> Holdings:
        """Every stay of tasks on a server."""
        return _holdings(self)

    @cached_property
    def outages(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Time, server and whether it is available from then on, of each change of a server."""
        rows = np.isin(self.kind, (SERVER_DOWN, SERVER_UP))
        return self.time_us[rows], self.server[rows], self.kind[rows] == SERVER_UP


@dataclass(frozen=True, slots=True)
class Holdings:
    """Stays of tasks on servers, (n,) each: ``tasks`` of one job and role hold ``server`` in [begin, end).

    A chunk in progress is a stay of one task with the role CHUNK.
    """

    job: IntArray
    server: IntArray
    role: IntArray
    tasks: IntArray
    begin_us: IntArray
    end_us: IntArray
    first: IntArray
    """Index of the event that begins the stay."""
    last: IntArray
    """Index of the event that ends the stay; the number of events if the run ends it."""

    def __len__(self) -> int:
        return len(self.job)

    def over_time(self, amount: FloatArray | IntArray) -> tuple[IntArray, FloatArray]:
        """Sum of an amount, (n,), of the stays at each instant at which it may change: times (us), sums."""
        mine = amount != 0
        times = np.concatenate([self.begin_us[mine], self.end_us[mine]])
        at, place = np.unique(times, return_inverse=True)
        steps = np.concatenate([amount[mine], -amount[mine]])
        return at, np.cumsum(np.bincount(place, steps, minlength=len(at)))

    def amounts(self, facts: RunFacts) -> IntArray:
        """(n, R) quanta that each stay takes from its server."""
        role = np.where(self.role == CHUNK, WORKER, np.maximum(self.role, WORKER))
        return facts.amount(self.job, role, self.tasks)

    def device_amounts(self, facts: RunFacts, history: History) -> IntArray:
        """(n, D) milli-GPU that each stay takes of each device of its server."""
        taken = np.zeros((len(self), devices(facts.arrays)), dtype=np.int64)
        ask = np.minimum(facts.arrays.demand[self.job, WORKER, GPU], DEVICE)
        seen = history.device[self.first, : taken.shape[1]]
        taken[:, : seen.shape[1]] = seen * ask[:, None]
        return taken


def read_history(events: pl.DataFrame, jobs: pl.DataFrame, servers: tuple[str, ...]) -> History:
    """Turn the frames of a `RunResult` into arrays; servers are names by index."""
    job_ids = jobs["job_id"]
    time_us = whole_us(events["time_s"])
    ends = [int(time_us.max()) if len(time_us) else 0, round((last_end_s(jobs) or 0.0) * US_PER_S)]
    known = [*EVENT_NAMES, *(set(events["event"].cast(pl.String).unique()) - set(EVENT_NAMES))]
    return History(
        time_us=time_us,
        kind=_codes(events["event"], known),
        job=_codes(events["job_id"], job_ids.to_list()),
        server=_codes(events["server"], servers),
        role=_codes(events["role"], ROLE_NAMES),
        count=events["count"].fill_null(0).to_numpy().astype(np.int64),
        device=_devices(events),
        end_us=max(ends),
    )


def _devices(events: pl.DataFrame) -> IntArray:
    """(n, D) how often each device stands in column ``devices``, as ``0-0-1``; D is 0 without the column."""
    if "devices" not in events.columns:
        return np.zeros((len(events), 0), dtype=np.int64)
    numbers = events["devices"].str.split("-").explode().drop_nulls().cast(pl.Int64).to_numpy()
    rows = np.repeat(
        np.arange(len(events)), events["devices"].str.split("-").list.len().fill_null(0).to_numpy()
    )
    found = np.zeros((len(events), int(numbers.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(found, (rows, numbers), 1)
    return found


def whole_us(seconds: pl.Series) -> IntArray:
    """Seconds as the microseconds that a run counts; null is no value here."""
    us: IntArray = np.rint(seconds.to_numpy() * US_PER_S).astype(np.int64)
    return us


def _codes(values: pl.Series, names: list[str] | tuple[str, ...]) -> IntArray:
    """Index of each value among the names; -1 for null."""
    table = pl.DataFrame({"name": pl.Series(names, dtype=pl.String), "code": np.arange(len(names))})
    found = pl.DataFrame({"name": values.cast(pl.String)}).join(
        table, on="name", how="left", maintain_order="left"
    )
    return found["code"].fill_null(-1).to_numpy().astype(np.int64)


def _holdings(history: History) -> Holdings:
    """Stays of all jobs: a row of an opening event lasts until the next event of its job or chunk.

    The rows of one change stand together: same instant, event and job.
    """
    unit = np.where(history.role == CHUNK, history.count + 1, 0)
    lost_chunk = (history.kind == LOSE) & (history.role == CHUNK)  # its stop stands before
    used = np.isin(history.kind, (*_OPENING, *_CLOSING)) & (history.job >= 0) & ~lost_chunk
    rows = np.flatnonzero(used)
    key = np.stack([history.job[rows], unit[rows]])
    same = (np.diff(rows) == 1) & (np.diff(history.time_us[rows]) == 0) & (np.diff(history.kind[rows]) == 0)
    same &= (np.diff(key, axis=1) == 0).all(axis=0)
    change = np.cumsum(np.append(0, ~same)) if len(rows) else np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.append(True, ~same)) if len(rows) else rows
    order = np.lexsort((first, key[1, first], key[0, first]))
    sorted_key = key[:, first[order]]
    follows = (np.diff(sorted_key, axis=1) == 0).all(axis=0) if len(order) else np.zeros(0, dtype=np.bool_)
    begins = history.time_us[rows[first]]
    ends = np.full(len(first), history.end_us)
    ends[order[:-1][follows]] = begins[order[1:][follows]]
    last = np.full(len(first), len(history.time_us))
    last[order[:-1][follows]] = rows[first[order[1:][follows]]]
    opening = np.isin(history.kind[rows], _OPENING) & (ends[change] > history.time_us[rows])
    kept = rows[opening]
    chunk = history.role[kept] == CHUNK
    return Holdings(
        job=history.job[kept],
        server=history.server[kept],
        role=history.role[kept],
        tasks=np.where(chunk, 1, history.count[kept]),
        begin_us=history.time_us[kept],
        end_us=ends[change[opening]],
        first=kept,
        last=last[change[opening]],
    )


START_US = np.iinfo(np.int64).min
"""Time of the first row of each server, before all events."""

_ANY = np.iinfo(np.int32).max
"""Number of tasks without demand that fit on a server."""


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Free quanta of each server, and whether it is available, after every change; by server, then time."""

    time_us: IntArray
    """(n,); each server has a first row at `START_US`."""
    server: IntArray
    free: IntArray
    """(n, R); below 0 for workers of chunks in a cloud, which has no slots for them."""
    devices: IntArray
    """(n, D) free milli-GPU of each device; D is 0 where tasks share no GPU."""
    there: BoolArray
    """(n,) whether the server is available."""

    def of(self, servers: BoolArray) -> FreeCapacity:
        """The rows of these servers, (S,)."""
        kept = servers[self.server]
        return FreeCapacity(
            self.time_us[kept], self.server[kept], self.free[kept], self.devices[kept], self.there[kept]
        )

    def at(self, time_us: int) -> IntArray:
        """(S, R) free quanta after all events of this instant; only servers that have rows."""
        known = np.flatnonzero(self.time_us <= time_us)
        last = known[np.append(np.diff(self.server[known]) != 0, True)]
        free: IntArray = self.free[last]
        return free

    def sums_by_time(self, values: IntArray) -> tuple[IntArray, IntArray]:
        """Sum over servers of a value per row, (n, k), at each instant: times (m,) and sums (m, k)."""
        first = np.append(True, np.diff(self.server) != 0) if len(self.server) else np.zeros(0, np.bool_)
        steps = values.copy()
        steps[~first] -= values[:-1][~first[1:]]
        order = np.argsort(self.time_us, kind="stable")
        times = self.time_us[order]
        last = np.append(np.diff(times) != 0, True) if len(times) else np.zeros(0, np.bool_)
        return times[last], np.cumsum(steps[order], axis=0)[last]


def free_capacity(facts: RunFacts, history: History) -> FreeCapacity:
    """Reconstruct the free capacity of every server from placements and changes of servers."""
    stays = history.holdings
    amounts = np.hstack([stays.amounts(facts), stays.device_amounts(facts, history)])
    n_servers = len(facts.servers)
    changed_us, changed, up = history.outages
    first = facts.arrays.empty * facts.there[:, None]
    time_us = np.concatenate([np.full(n_servers, START_US), stays.begin_us, stays.end_us, changed_us])
    server = np.concatenate([np.arange(n_servers), stays.server, stays.server, changed])
    turn = np.where(up, 1, -1)
    offered = turn[:, None] * facts.arrays.empty[changed]
    free = np.concatenate([first, -amounts, amounts, offered])
    turns = np.concatenate([facts.there[:, None], np.zeros((2 * len(stays), 1), np.int64), turn[:, None]])
    order = np.lexsort((time_us, server))
    server, time_us = server[order], time_us[order]
    last = np.append((np.diff(server) != 0) | (np.diff(time_us) != 0), True) if len(server) else order
    free, on_devices = np.split(_sums_by_time(free[order], server)[last], [len(facts.resources)], axis=1)
    return FreeCapacity(
        time_us=time_us[last],
        server=server[last],
        free=free,
        devices=on_devices,
        there=_sums_by_time(turns[order], server)[last, 0] > 0,
    )


def _sums_by_time(steps: IntArray, server: IntArray) -> IntArray:
    """Sums of the steps of each server so far; rows are in order of the server."""
    sums = np.cumsum(steps, axis=0)
    begins = np.flatnonzero(np.append(True, np.diff(server) != 0)) if len(server) else server
    before = np.where(begins[:, None] > 0, sums[np.maximum(begins - 1, 0)], 0)
    lengths = np.diff(np.append(begins, len(server)))
    so_far: IntArray = sums - np.repeat(before, lengths, axis=0)
    return so_far


def tasks_that_fit(free: IntArray, on_devices: IntArray, demand: IntArray) -> IntArray:
    """(n,) tasks of a demand, (R,), that fit on each row of free quanta, (n, R) and (n, D); many if 0."""
    needs = demand > 0
    if not needs.any():
        return np.full(len(free), _ANY, dtype=np.int64)
    fitting: IntArray = (np.maximum(free[:, needs], 0) // demand[needs]).min(axis=1)
    if not on_devices.shape[1] or demand[GPU] == 0:
        return fitting
    whole = (on_devices == DEVICE).sum(axis=1) * DEVICE // demand[GPU]
    of_devices: IntArray = (on_devices // demand[GPU]).sum(axis=1) if demand[GPU] < DEVICE else whole
    return np.minimum(fitting, of_devices)
