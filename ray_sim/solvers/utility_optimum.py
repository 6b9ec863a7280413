"""Largest total utility of schedules in whole slots, by a mixed-integer programme.

For small instances: the programme has about jobs x slots x servers x 4 variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.milp import Programme, SearchEnd
from ray_sim.solvers.planning.slot_job import SlotJob

MOST_VARIABLES = 20_000
"""Largest number of variables: larger programmes take minutes to build and may never be solved."""

_FORGIVEN = 1e-9
"""Share of its samples that a job may lack, as in all planners."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits at which the search ends without a proof."""

    nodes: int = 1_000_000
    seconds: float | None = None
    """Wall-clock time; never inside a run, whose results would depend on the machine's load."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """Best schedules that were found."""

    utility: float
    """Total utility."""
    bound: float
    """Upper bound on the utility of any schedules."""
    proven: bool
    """Whether the search ended without a limit."""
    completed: dict[int, int]
    """Last slot of each completed job, by job number."""
    rows: IntArray
    """(n, 5) rows job number, slot, server, workers, parameter servers."""

    @property
    def gap(self) -> float | None:
        """Relative excess of the bound over ``utility``; None if it is 0."""
        return self.bound / self.utility - 1.0 if self.utility > 0 else None


@dataclass(frozen=True, slots=True)
class _Columns:
    """Variables of one job for its slots a .. T-1."""

    completes: IntArray
    """(slots,) x: whether the job completes in the slot."""
    inside: IntArray
    """(slots, S) y: whether all its tasks are on this server."""
    between: IntArray
    """(slots,) e: whether its tasks may be on any servers."""
    workers_inside: IntArray
    """(slots, S) workers at the internal rate."""
    workers_between: IntArray
    """(slots, S) workers at the external rate."""
    ps: IntArray
    """(slots, S) parameter servers."""


def check_size(jobs: Sequence[SlotJob], servers: int) -> None:
    """Reject programmes that are too large.

    Raises
    ------
    InvalidInputError : the programme would have more than `MOST_VARIABLES` variables
    """
    size = sum(len(job.utility) for job in jobs) * (4 * servers + 2)
    if size > MOST_VARIABLES:
        slots = max(job.arrival + len(job.utility) for job in jobs)
        raise InvalidInputError(
            f"exact optimum: {len(jobs)} jobs on {servers} servers in {slots} slots take {size:,} variables,"
            f" more than {MOST_VARIABLES:,}; take fewer jobs, servers or slots, or the certificate of a run"
        )


def utility_optimum(
    jobs: Sequence[SlotJob], capacity: IntArray, limits: SearchLimits, offered: IntArray | None = None
) -> Optimum:
    """Schedule all jobs offline for the largest sum of utilities.

    Parameters
    ----------
    jobs : jobs of one horizon T; those that cannot complete by then earn nothing
    capacity : (S, R) quanta, in every slot
    offered : (n, S, R) quanta of them that each job may take; all without it

    Raises
    ------
    InvalidInputError : too large, or invalid numbers
    RunFailedError : the solver failed

    Source: constraints (3) to (7) of Yu et al., Toward Efficient Online Scheduling for Distributed Machine
    Learning Systems, 2021, with a 0/1 variable for each completion slot;
    docs/certificates.md#exact-optimum.
    """
    _check(jobs, capacity)
    check_size(jobs, len(capacity))
    programme = Programme()
    to_job = [capacity] * len(jobs) if offered is None else offered
    rooms = [_room(*each) for each in zip(jobs, to_job, strict=True)]
    columns = [_columns(programme, job, room) for job, room in zip(jobs, rooms, strict=True)]
    for job, own, room in zip(jobs, columns, rooms, strict=True):
        _one_job(programme, job, own, room)
    _fit(programme, jobs, columns, capacity)
    if not jobs:
        return Optimum(0.0, 0.0, True, {}, np.empty((0, 5), dtype=np.int64))
    answer = programme.maximise(gap=0.0, nodes=limits.nodes, seconds=limits.seconds)
    rows = _rows(jobs, columns, answer.values, capacity)
    completed = {job.number: slot for job in jobs if (slot := _last_slot(job, rows)) is not None}
    earned = sum(
        float(job.utility[completed[job.number] - job.arrival]) for job in jobs if job.number in completed
    )
    anything = float(sum(job.utility[0] for job in jobs))
    bound = max(earned, min(anything, answer.bound))  # in this order not -0 where nothing can be earned
    return Optimum(earned, bound, answer.ending is SearchEnd.FOUND, completed, rows)


def _check(jobs: Sequence[SlotJob], capacity: IntArray) -> None:
    if (capacity < 0).any():
        server = int((capacity < 0).any(axis=1).argmax())
        raise InvalidInputError(f"capacity: server {server} has {capacity[server].tolist()} quanta, below 0")
    for job in jobs:
        if (np.diff(job.utility) > 0).any() or not np.isfinite(job.utility).all() or (job.utility < 0).any():
            raise InvalidInputError(
                f"job {job.number}: utility must be at least 0 and never rise with time, is {job.utility}"
            )
        if not (job.samples > 0 and job.fastest > 0 and job.workers_per_ps >= 1 and job.most_workers >= 1):
            raise InvalidInputError(
                f"job {job.number}: samples and slots per sample must be above 0, workers per parameter"
                f" server and most workers at least 1; they are {job.samples:g}, {job.fastest:g},"
                f" {job.workers_per_ps:g} and {job.most_workers}"
            )


@dataclass(frozen=True, slots=True)
class _Room:
    """Tasks of a job that each empty server holds, (S,) each."""

    workers: FloatArray
    """Workers alone, at most F."""
    ps: FloatArray
    """Parameter servers alone, at most those of F workers."""
    together: FloatArray
    """Workers together with their parameter servers."""


def _room(job: SlotJob, capacity: IntArray) -> _Room:
    most = np.arange(1, job.most_workers + 1)
    ps = np.ceil(most / job.workers_per_ps).astype(np.int64)
    held = np.multiply.outer(most, job.worker_demand) + np.multiply.outer(ps, job.ps_demand)
    fits = (held[:, None, :] <= capacity).all(axis=2)
    return _Room(
        workers=_tasks(job.worker_demand, capacity, job.most_workers),
        ps=_tasks(job.ps_demand, capacity, int(ps[-1])),
        together=fits.sum(axis=0).astype(np.float64),
    )


def _tasks(demand: IntArray, capacity: IntArray, most: int) -> FloatArray:
    """(S,) tasks that each empty server holds, at most ``most``."""
    some = demand > 0
    room: IntArray = (capacity[:, some] // demand[some]).min(axis=1, initial=most)
    return room.astype(np.float64)


def _columns(programme: Programme, job: SlotJob, room: _Room) -> _Columns:
    slots = len(job.utility)

    def several(upper: FloatArray, gain: FloatArray | None = None) -> IntArray:
        return programme.variables(upper, gain=np.zeros(1) if gain is None else gain, whole=True)

    grid = np.ones((slots, len(room.ps)))
    return _Columns(
        completes=several((np.arange(slots) >= job.shortest - 1).astype(np.float64), job.utility),
        inside=several(grid * (room.together > 0)),
        between=several(np.ones(slots)),
        workers_inside=several(grid * room.together),
        workers_between=several(grid * room.workers),
        ps=several(grid * room.ps),
    )


def _one_job(programme: Programme, job: SlotJob, own: _Columns, room: _Room) -> None:
    """Add the rows of a job: one completion, training before it, enough parameter servers, all the work."""
    slots, servers = own.inside.shape
    programme.row(-np.inf, own.completes, np.ones(slots), 1.0)
    for t in range(slots):
        _one_slot(programme, job, own, room, t)
    # Work is counted in shares of the job's samples, so that the solver's tolerance is a share too. The last
    # row alone is enough; the others make the programme easier to solve.
    inside, between = (1.0 / (job.samples * theta) for theta in (job.theta_internal, job.theta_external))
    for end in range(job.shortest, slots + 1):
        work = np.concatenate([own.workers_inside[:end].ravel(), own.workers_between[:end].ravel()])
        done = np.repeat([inside, between], end * servers)
        needed = np.full(end, -(1.0 - _FORGIVEN))
        programme.row(0.0, np.append(work, own.completes[:end]), np.append(done, needed), np.inf)


def _one_slot(programme: Programme, job: SlotJob, own: _Columns, room: _Room, t: int) -> None:
    """Add the rows of a slot: one server or several, none after completion, at most F workers, enough PSs."""
    servers = len(room.ps)
    way, yet = np.append(own.inside[t], own.between[t]), own.completes[t:]
    programme.row(-np.inf, np.append(way, yet), np.append(np.ones(len(way)), -np.ones(len(yet))), 0.0)
    workers = np.append(own.workers_inside[t], own.workers_between[t])
    programme.row(-np.inf, workers, np.ones(2 * servers), job.most_workers)
    served = np.append(np.ones(2 * servers), np.full(servers, -job.workers_per_ps))
    programme.row(-np.inf, np.append(workers, own.ps[t]), served, 0.0)
    for h in range(servers):
        own_ps = np.ceil(room.together[h] / job.workers_per_ps)
        for tasks, limits in (
            ((own.workers_inside[t, h], own.inside[t, h]), (room.together[h],)),
            ((own.workers_between[t, h], own.between[t]), (room.workers[h],)),
            ((own.ps[t, h], own.inside[t, h], own.between[t]), (own_ps, room.ps[h])),
        ):
            programme.row(-np.inf, np.array(tasks), np.array([1.0, *(-limit for limit in limits)]), 0.0)


def _fit(
    programme: Programme, jobs: Sequence[SlotJob], columns: Sequence[_Columns], capacity: IntArray
) -> None:
    """Add the capacities, divided by the greatest common divisor of demands, for small rounding errors."""
    slots = max((job.arrival + len(job.utility) for job in jobs), default=0)
    for r in range(capacity.shape[1]):
        demand = np.array([[job.worker_demand[r], job.ps_demand[r]] for job in jobs], dtype=np.int64)
        if not demand.any():
            continue
        unit = int(np.gcd.reduce(demand, axis=None))
        for t in range(slots):
            here = [i for i, job in enumerate(jobs) if job.arrival <= t and demand[i].any()]
            if not here:
                continue
            amounts = np.concatenate([np.array([*demand[i, [0, 0]], demand[i, 1]]) // unit for i in here])
            for h, offered in enumerate((capacity[:, r] // unit).tolist()):
                tasks = np.array(
                    [
                        column[t - jobs[i].arrival, h]
                        for i in here
                        for column in (columns[i].workers_inside, columns[i].workers_between, columns[i].ps)
                    ]
                )
                programme.row(-np.inf, tasks, amounts, offered)


def _rows(
    jobs: Sequence[SlotJob], columns: Sequence[_Columns], values: FloatArray | None, capacity: IntArray
) -> IntArray:
    """Tasks of jobs as whole numbers; none in a slot in which rounding exceeds the capacity of a server."""
    rows: list[tuple[int, int, int, int, int]] = []
    used = np.zeros((max(job.arrival + len(job.utility) for job in jobs), *capacity.shape), dtype=np.int64)
    for job, own in zip(jobs, columns, strict=True):
        if values is None:
            break
        workers = np.rint(values[own.workers_inside] + values[own.workers_between]).astype(np.int64)
        ps = np.rint(values[own.ps]).astype(np.int64)
        for t, h in zip(*np.nonzero(workers + ps), strict=True):
            rows.append((job.number, job.arrival + int(t), int(h), int(workers[t, h]), int(ps[t, h])))
            used[job.arrival + t, h] += workers[t, h] * job.worker_demand + ps[t, h] * job.ps_demand
    over = set(np.nonzero(used > capacity)[0].tolist())
    return np.array([row for row in rows if row[1] not in over], dtype=np.int64).reshape(-1, 5)


def _last_slot(job: SlotJob, rows: IntArray) -> int | None:
    """Slot in which the last of a job's samples is trained; None if there is none."""
    own = rows[rows[:, 0] == job.number]
    left = job.samples * (1.0 - _FORGIVEN)
    for slot in np.unique(own[:, 1]).tolist():
        held = own[own[:, 1] == slot]
        theta = job.theta_internal if len(held) == 1 else job.theta_external
        workers = min(float(held[:, 3].sum()), job.workers_per_ps * float(held[:, 4].sum()), job.most_workers)
        left -= workers / theta
        if left <= 0.0:
            return int(slot)
    return None
