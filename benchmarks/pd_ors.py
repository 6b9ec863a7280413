"""Planning of jobs by PD-ORS, against one cold linear programme per slot and quantum."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from benchmarks.figures import Figures
from ray_sim.kernels.planning.slot_tasks import Rooms
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.solvers.planning.market import Market, MarketCapacity, traced_constants
from ray_sim.solvers.planning.schedule import Outcome, Planning, Schedule, best_schedule
from ray_sim.solvers.planning.slot_costs import WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import solve_slots


@dataclass(frozen=True, slots=True)
class SlotLp:
    """Linear programme with 2 S variables: the workers, then the parameter servers, of each server.

    Rows: every resource of every server; workers at least, and at most; gamma times the parameter servers at
    least the workers.
    """

    rooms: Rooms
    slot: int
    matrix: csr_array
    unit: float
    """Least cost of a worker with its parameter servers; scales the costs for HiGHS's absolute tolerances."""

    @classmethod
    def of(cls, rooms: Rooms, slot: int) -> SlotLp:
        """Programme of one slot, for every number of workers."""
        servers = rooms.free.shape[1]
        ones = np.ones((1, servers))
        worker, ps = (np.kron(np.eye(servers), demand[:, None]) for demand in rooms.demand)
        matrix = np.vstack(
            [
                np.hstack([worker, ps]),
                np.hstack([-ones, 0 * ones]),
                np.hstack([ones, 0 * ones]),
                np.hstack([ones, -rooms.workers_per_ps * ones]),
            ]
        )
        bundle = rooms.offers.price[slot] @ np.array([1.0, 1.0 / rooms.workers_per_ps])
        unit = float(bundle[bundle > 0].min()) if bundle.any() else 1.0
        return cls(rooms, slot, csr_array(matrix), unit)

    def cost(self, workers: float) -> float:
        """Least cost of a number of workers by a cold start of HiGHS; inf if they do not fit."""
        limit = np.concatenate([self.rooms.free[self.slot].ravel(), [-workers, self.rooms.most_workers, 0.0]])
        prices = self.rooms.offers.price[self.slot].T.ravel() / self.unit
        result = linprog(
            prices,
            A_ub=self.matrix,  # type: ignore[call-overload]  # its types cover dense matrices only
            b_ub=limit,
            method="highs",
        )
        return np.inf if result.fun is None else float(result.fun) * self.unit


SPEED_UP = 50.0
"""Least ratio of the time of cold linear programmes to that of the planner, for whole jobs."""

AGREEMENT = 1e-9
"""Largest relative difference between their values and the planner's."""

LARGE_S = 1.0
"""Largest mean CPU seconds per job on the largest cluster."""

_QUANTA_PER_UNIT = np.array([1000, 1000, 1024, 1024])
_SERVER = np.array([8_000, 72_000, 192 * 1024, 500 * 1024])
"""Capacity of a server: milli-GPU, milli-CPU, MiB of memory and of disk."""

_INPUT = "drawn jobs that can end by the horizon, on servers of 8 GPUs"


@dataclass(frozen=True, slots=True)
class Size:
    """Size of an instance."""

    servers: int = 100
    slots: int = 100
    quanta: int = 40
    jobs: int = 200
    programmes: int = 100
    """Linear programmes that are solved, of all that the jobs have."""


SMALL = Size(servers=5, slots=10, quanta=10, jobs=5, programmes=5)


@dataclass(frozen=True, slots=True)
class _Done:
    """Results of a run, job by job."""

    jobs: Sequence[SlotJob]
    outcomes: Sequence[Outcome]
    seconds: Sequence[float]
    market: Market


def test_jobs_beside_linear_programmes(figures: Figures) -> None:
    size = SMALL if figures.small else Size()
    figures.input(_INPUT)
    _planned(size)  # compiles
    runs: list[_Done] = []
    figures.once_s(lambda: runs.append(_planned(size)))
    mean_s = statistics.fmean(runs[0].seconds)
    plain_s, apart = _programmes(size, runs[0])
    admitted = sum(isinstance(each, Schedule) for each in runs[0].outcomes)
    figures.add("jobs.admitted", admitted, "jobs", "neither")
    figures.add("jobs.mean_cpu_s", mean_s, "s", "smaller")
    figures.add("jobs.speed_up", plain_s / mean_s, "x", "larger", SPEED_UP)
    figures.add("jobs.value_difference", apart, "", "smaller", AGREEMENT, tolerance=1e6)


def test_jobs_on_ten_times_the_servers(figures: Figures) -> None:
    size = SMALL if figures.small else replace(Size(), servers=1000)
    figures.input(_INPUT)
    runs: list[_Done] = []
    figures.once_s(lambda: runs.append(_planned(size)))
    seconds = runs[0].seconds
    figures.add("large.mean_cpu_s", statistics.fmean(seconds), "s", "smaller", LARGE_S)
    figures.add("large.largest_cpu_s", max(seconds), "s", "smaller", LARGE_S)


def _planned(size: Size) -> _Done:
    """Plan and book jobs, as an online run does."""
    jobs = _jobs(size)
    cluster = MarketCapacity(np.tile(_SERVER, (size.servers, 1)), _QUANTA_PER_UNIT)
    market = Market.empty(cluster, traced_constants(jobs, cluster), size.slots)
    planning, streams = Planning(quanta=size.quanta), Streams(1)
    outcomes: list[Outcome] = []
    seconds = []
    for job in jobs:
        began = time.process_time()
        outcome = best_schedule(job, market, planning, streams)
        if isinstance(outcome, Schedule):
            market.sell(job, outcome.plan)
        seconds.append(time.process_time() - began)
        outcomes.append(outcome)
    return _Done(jobs, outcomes, seconds, market)


def _programmes(size: Size, done: _Done) -> tuple[float, float]:
    """CPU seconds of a job by linear programmes, from a sample, and the largest relative difference."""
    draw = Streams(0).generator("programmes")
    market = Market.empty(done.market.cluster, done.market.constants, size.slots)
    asked = [len(job.utility) * len(_external(job, size.quanta)) for job in done.jobs]
    of_job = draw.multinomial(size.programmes, np.array(asked) / sum(asked))
    seconds: list[float] = []
    apart = 0.0
    for job, outcome, n in zip(done.jobs, done.outcomes, of_job.tolist(), strict=True):
        external = _external(job, size.quanta)
        for _ in range(n):
            slot = draw.integers(job.arrival, size.slots, 1)
            free = market.cluster.capacity - market.load[slot]
            slots = solve_slots(job, free, market.price[slot], _QUANTA_PER_UNIT)
            workers = draw.choice(external, 1)
            plain = SlotLp.of(slots.rooms, 0)
            began = time.process_time()
            value = plain.cost(float(workers[0]))
            seconds.append(time.process_time() - began)
            ours = float(slots.least_cost(workers)[0, 0])
            apart = max(apart, 0.0 if value == ours else abs(value - ours) / value)
        if isinstance(outcome, Schedule):
            market.sell(job, outcome.plan)
    return statistics.fmean(seconds) * statistics.fmean(asked), apart


def _external(job: SlotJob, quanta: int) -> FloatArray:
    """Number of workers for each number of quanta that the job may train in a slot on several servers."""
    external = WorkParts.of(job, quanta).external
    return external[external <= job.most_workers]


def _jobs(size: Size) -> list[SlotJob]:
    """Jobs drawn from the paper's ranges until they can end by the horizon; a third arrives before odd slots.

    Source: Yu et al., section V.
    """
    draw = Streams(0).generator("pd-ors-jobs")
    weights = np.where(np.arange(size.slots) % 2 == 1, 1.0, 2.0)
    arrivals = np.sort(draw.choice(size.slots, size.jobs, p=weights / weights.sum()))
    jobs: list[SlotJob] = []
    for arrival in arrivals.tolist():
        job = _job(draw, len(jobs), arrival, size.slots)
        for _ in range(1000):
            if job.can_end:
                break
            job = _job(draw, len(jobs), arrival, size.slots)
        jobs.append(job)
    return jobs


def _job(draw: np.random.Generator, number: int, arrival: int, slots: int) -> SlotJob:
    epochs, samples = draw.integers(50, 201), draw.integers(20_000, 500_001)
    gradient_mb, sample_slots = draw.uniform(30, 575), draw.uniform(1e-5, 1e-4)
    workers_per_ps, batch = int(draw.integers(1, 11)), int(draw.integers(1, 201))
    mbps = draw.uniform(100, 5000)
    exchange_slots = workers_per_ps / batch * 2 * 8 * gradient_mb / 3600
    kind = draw.choice(3, p=[0.1, 0.55, 0.35])
    decay = (0.0, draw.uniform(0.01, 1), draw.uniform(4, 6))[kind]
    elapsed = np.arange(slots - arrival)
    worth = draw.uniform(1, 100) / (1 + np.exp(np.minimum(decay * (elapsed - draw.uniform(1, 15)), 700)))
    cpu, memory, disk = draw.integers(1, 11, 2), draw.integers(2, 33, 2), draw.integers(5, 11, 2)
    gpu = np.array([draw.integers(0, 5), 0])
    demand = np.stack([gpu, cpu, memory, disk], axis=1) * _QUANTA_PER_UNIT
    return SlotJob(
        number=number,
        arrival=arrival,
        samples=float(epochs * samples),
        theta_internal=sample_slots + exchange_slots / (10 * mbps),
        theta_external=sample_slots + exchange_slots / mbps,
        most_workers=batch,
        workers_per_ps=float(workers_per_ps),
        worker_demand=demand[0],
        ps_demand=demand[1],
        utility=worth,
    )
