"""Benchmark of PD-ORS: planning of jobs against one cold linear programme per slot and quantum."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.slot_lp import SlotLp
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.solvers.planning.market import Market
from ray_sim.solvers.planning.prices import MarketCapacity, traced_constants
from ray_sim.solvers.planning.schedule import Outcome, Planning, Schedule, best_schedule
from ray_sim.solvers.planning.slot_costs import WorkParts
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.planning.slots import solve_slots

SPEED_UP = 50.0
"""Least ratio of the time of cold linear programmes to that of the planner, for whole jobs."""

AGREEMENT = 1e-9
"""Largest relative difference between their values and the planner's."""

LARGE_S = 1.0
"""Largest mean CPU seconds per job on the largest cluster."""

_QUANTA_PER_UNIT = np.array([1000, 1000, 1024, 1024])
_SERVER = np.array([8_000, 72_000, 192 * 1024, 500 * 1024])
"""Capacity of a server: milli-GPU, milli-CPU, MiB of memory and of disk."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of an instance."""

    servers: int = 100
    slots: int = 100
    quanta: int = 40
    jobs: int = 200


SIZE = Size()
LARGE = replace(SIZE, servers=1000)
GROWTH: Mapping[str, Sequence[int]] = {
    "servers": (10, 100, 1000),
    "slots": (10, 20, 50, 100, 200),
    "jobs": (50, 100, 200, 400),
    "quanta": (10, 20, 40, 80, 160, 400),
}


def run(
    step: Step = lambda what: None,
    size: Size = SIZE,
    large: Size = LARGE,
    programmes: int = 100,
    growth: Mapping[str, Sequence[int]] = GROWTH,
) -> Findings:
    """Measure CPU seconds of one core for every job of a run, without compilation."""
    _planned(size)  # compiles
    step(f"{size.jobs} jobs on {size.servers} servers in {size.slots} slots")
    done = _planned(size)
    rows = list(done.measurements("jobs"))
    step(f"{programmes} of the linear programmes of these jobs, from nothing")
    rows += _beside_programmes("jobs", done, programmes)
    step(f"the same on {large.servers} servers")
    rows += _planned(large).measurements("large", budget=LARGE_S)
    for name, values in growth.items():
        for value in values:
            step(f"{value} {name}")
            grown = _planned(replace(size, **{name: value}))
            rows.append(Measurement(f"{name}-{value}", "mean_cpu_s", grown.mean_s, "s", "smaller"))
    return Findings("drawn jobs that can end by the horizon, on servers of 8 GPUs", tuple(rows))


@dataclass(frozen=True, slots=True)
class _Done:
    """Results of a run, job by job."""

    size: Size
    jobs: Sequence[SlotJob]
    outcomes: Sequence[Outcome]
    seconds: Sequence[float]
    market: Market

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.seconds)

    def measurements(self, case: str, budget: float | None = None) -> Iterable[Measurement]:
        """Figures: time per job, and number of admitted jobs."""
        admitted = sum(isinstance(each, Schedule) for each in self.outcomes)
        yield Measurement(case, "admitted", admitted, "jobs", "neither")
        yield Measurement(case, "mean_cpu_s", self.mean_s, "s", "smaller", budget)
        yield Measurement(case, "median_cpu_s", statistics.median(self.seconds), "s", "smaller")
        yield Measurement(case, "largest_cpu_s", max(self.seconds), "s", "smaller", budget)


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
    return _Done(size, jobs, outcomes, seconds, market)


def _beside_programmes(case: str, done: _Done, programmes: int) -> Iterable[Measurement]:
    """Solve a sample of the jobs' slot programmes; their mean time estimates the time of all."""
    draw = Streams(0).generator("programmes")
    market = Market.empty(done.market.cluster, done.market.constants, done.size.slots)
    asked = [_programmes_of(job, done.size.quanta) for job in done.jobs]
    of_job = draw.multinomial(programmes, np.array(asked) / sum(asked))
    seconds: list[float] = []
    apart = 0.0
    for job, outcome, n in zip(done.jobs, done.outcomes, of_job.tolist(), strict=True):
        external = _external(job, done.size.quanta)
        for _ in range(n):
            slot = draw.integers(job.arrival, done.size.slots, 1)
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
    plain_s = statistics.fmean(seconds) * statistics.fmean(asked)
    yield Measurement(case, "programmes", statistics.fmean(asked), "per job", "neither")
    yield Measurement(case, "programme_cpu_s", statistics.fmean(seconds), "s", "neither")
    yield Measurement(case, "speed_up", plain_s / done.mean_s, "x", "larger", SPEED_UP)
    yield Measurement(case, "value_difference", apart, "", "smaller", AGREEMENT, tolerance=1e6)


def _external(job: SlotJob, quanta: int) -> FloatArray:
    """Number of workers for each number of quanta that the job may train in a slot on several servers."""
    external = WorkParts.of(job, quanta).external
    return external[external <= job.most_workers]


def _programmes_of(job: SlotJob, quanta: int) -> int:
    """Number of programmes of a job: one for each slot and number of quanta."""
    return len(job.utility) * len(_external(job, quanta))


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
