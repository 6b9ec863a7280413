"""Jobs of the slow mechanism as worlds of the engine, random instances, and what a run there came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ray_sim.contract.rigid_worlds import cluster, job_table
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.outlook import Outlook
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.model.value_function import ValueFunction, parse_value
from ray_sim.policies.posted_price.policy import PostedPrice
from tests.policies.posted_price.naive_mechanism import NANO, Job, Outcome, Point, Setting, Signal

SLOT_S = 60
SIGNALS: tuple[Signal, ...] = ("none", "full", "partial")
SIXTEENTHS = 16
"""Probabilities are multiples of 1 / 16, so that loads are whole 1e-9."""


FateRow = tuple[str, int | None, int | None, int]
"""Fate, start and end in rounds, and payment in 1e-9; the end of jobs that completed or were evicted."""


@dataclass(frozen=True)
class Instance:
    """Jobs in order of (birth, trace), with reports and truths that may differ."""

    jobs: tuple[Job, ...]
    """Reports, and the arrival and duration that come."""
    truths: tuple[Job, ...]
    """The same jobs with their true values and concurrencies."""
    setting: Setting

    def first(self, count: int) -> Instance:
        """The first jobs only."""
        return replace(self, jobs=self.jobs[:count], truths=self.truths[:count])

    def honest(self) -> Instance:
        """The same jobs, whose reports are true."""
        return replace(self, truths=self.jobs)


@dataclass(frozen=True)
class EngineRun:
    """A run of the real mechanism; jobs in the order of the instance."""

    result: RunResult
    policy: PostedPrice

    @property
    def booked(self) -> IntArray:
        """(T,) load in 1e-9 nodes."""
        booked: IntArray = self.policy.state()["_menu.booked"]
        return booked

    def fates(self) -> list[FateRow]:
        """What became of each job."""
        columns = self.result.jobs.select("fate", "start_s", "finish_s", "payment").rows()
        return [
            (fate, _round(start), _round(end), round(payment * NANO)) for fate, start, end, payment in columns
        ]


def fates_of(outcome: Outcome) -> list[FateRow]:
    """The fates of the slow mechanism as the engine tells them.

    The engine rejects a job that no start is worth its price at its birth; there it may be cancelled first,
    or never come.
    """
    rows: list[FateRow] = []
    for fate in outcome.fates:
        what: str = "never_came" if fate.what == "never_arrived" else fate.what
        if all(start is None for start in fate.plan.values()):
            what = "not_launched"
        end = None if what in ("never_came", "not_launched") else fate.end
        rows.append((what, fate.start, end, fate.payment))
    return rows


def _round(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds / SLOT_S)


def value_function(job: Job, form: str = "step") -> ValueFunction:
    """The worth of finishes as a function of seconds, by steps or by lines between whole rounds."""
    points = [(k * SLOT_S, worth / NANO) for k, worth in enumerate(job.value)]
    texts = [f"{worth!r}@{at}" if form == "step" else f"{at}:{worth!r}" for at, worth in points]
    return parse_value(" ".join([form, *texts]))


def outlook(job: Job) -> Outlook:
    """The reported points."""
    points = np.array(sorted(job.points))
    return Outlook((points[:, 0] - job.birth) * SLOT_S, points[:, 1] * SLOT_S, points[:, 2])


def table_of(jobs: Sequence[Job], truths: Sequence[Job]) -> JobTable:
    """A workload whose rows are in order of arrival."""
    order = sorted(range(len(jobs)), key=lambda k: jobs[k].arrival)
    told, true = [jobs[k] for k in order], [truths[k] for k in order]
    table = job_table([(one.arrival * SLOT_S, one.concurrency, one.duration * SLOT_S, "a") for one in true])
    n, each = len(jobs), np.arange(len(jobs))
    birth_us = np.array([one.birth for one in told], dtype=np.int64) * SLOT_S * US_PER_S
    statements = StatementProfile(
        birth_us=birth_us - table.origin_us,
        arrival_us=table.submit_us.copy(),
        values=tuple(value_function(one, ("step", "table")[k % 2]) for k, one in enumerate([*true, *told])),
        value_row=each,
        outlooks=tuple(outlook(one) for one in [*true, *told]),
        outlook_row=each.copy(),
        reported_value_row=each + n,
        reported_outlook_row=each + n,
        reported_gpus=np.array([one.concurrency for one in told], dtype=np.float64),
    )
    return replace(table, statements=statements, trace_order=np.array(order, dtype=np.int64))


def world_of(instance: Instance, params: Mapping[str, object] | None = None) -> World:
    """A world of one server with the nodes, and the bounds of the setting."""
    setting = instance.setting
    given = {
        "truth": "announced",
        "slot_s": SLOT_S,
        "horizon_s": setting.rounds * SLOT_S,
        "signal": setting.signal,
        "most_gpus": setting.max_concurrency,
        "most_duration_s": setting.max_rounds * SLOT_S,
        "most_value": setting.max_value,
    }
    table = table_of(instance.jobs, instance.truths)
    return build_world(table, cluster([setting.nodes], ["a"]), params=given | dict(params or {}))


def policy_of(setting: Setting, **params: Any) -> PostedPrice:
    """The real mechanism with the parameters of the setting."""
    given: dict[str, Any] = {
        "failure_oracle": "exact",
        "eps": setting.eps,
        "threshold": setting.threshold,
    }
    return PostedPrice(**(given | params))


def run_engine(instance: Instance, seed: int = 0, **params: Any) -> EngineRun:
    """Run the real mechanism; other parameters than those of the setting by name."""
    policy = policy_of(instance.setting, **params)
    result = run_world(world_of(instance), policy, seed=seed)
    return EngineRun(result, policy)


def random_points(draw: np.random.Generator, birth: int, setting: Setting, count: int) -> tuple[Point, ...]:
    """Different points with probabilities in sixteenths; some come long after the birth, some never."""
    late = int(draw.integers(0, 4))
    arrivals = [*range(birth + late, birth + late + 3), setting.rounds + 3]
    pairs = [(a, d) for a in arrivals for d in range(1, setting.max_rounds + 1)]
    chosen = sorted(draw.choice(len(pairs), count, replace=False).tolist())
    weights = 1 + draw.multinomial(SIXTEENTHS - count, [1 / count] * count)
    return tuple((*pairs[k], int(w) / SIXTEENTHS) for k, w in zip(chosen, weights, strict=True))


def random_value(
    draw: np.random.Generator, setting: Setting, points: Sequence[Point], birth: int
) -> tuple[int, ...]:
    """Worths in quarters of a unit from 1 to H up to a finish that some points reach; 0 later."""
    last = min(a + d for a, d, _ in points) - birth + int(draw.integers(0, 5))
    last = min(last, setting.rounds - birth + 1)
    levels = draw.integers(4, round(4 * setting.max_value) + 1, int(draw.integers(1, 4)))
    worths = sorted(draw.choice(levels, last + 1).tolist(), reverse=True)
    return tuple(worth * NANO // 4 for worth in worths)


def random_job(draw: np.random.Generator, birth: int, setting: Setting, most_points: int) -> Job:
    """A report, and what comes: a point of it four times in five."""
    points = random_points(draw, birth, setting, int(draw.integers(1, most_points + 1)))
    arrival, duration, _ = points[int(draw.choice(len(points), p=[p for _, _, p in points]))]
    if draw.random() < 0.1:
        arrival = int(draw.integers(birth, birth + 6))
    if draw.random() < 0.1:
        duration = int(draw.integers(1, setting.max_rounds + 1))
    size = int(draw.integers(1, setting.max_concurrency + 1))
    return Job(birth, size, random_value(draw, setting, points, birth), points, arrival, duration)


def random_truth(draw: np.random.Generator, job: Job, setting: Setting) -> Job:
    """The report, or another value or concurrency behind it."""
    kind = draw.random()
    if kind < 0.2:
        return replace(job, concurrency=int(draw.integers(1, setting.max_concurrency + 1)))
    if kind < 0.4:
        return replace(job, value=random_value(draw, setting, job.points, job.birth))
    return job


def crowded_job(draw: np.random.Generator, setting: Setting) -> Job:
    """A job of high worth in one of a few rounds, which may well never come."""
    birth = int(draw.integers(0, 3))
    need = int(draw.integers(3, 5))
    pairs = [(need, 1), (need, setting.max_rounds), (need + 1, 1)]
    count = int(draw.integers(1, 4))
    weights = 1 + draw.multinomial(int(draw.integers(2, 10)), [1 / count] * count)
    points = [(*pair, int(w) / SIXTEENTHS) for pair, w in zip(pairs, weights, strict=False)]
    points.append((setting.rounds + 3, 1, 1 - sum(p for _, _, p in points)))
    comes = points[int(draw.integers(len(points)))]
    size = int(draw.integers(1, setting.max_concurrency + 1))
    worth = (round(setting.max_value) * NANO,) * (need - birth + setting.max_rounds)
    return Job(birth, size, (*worth, NANO), tuple(points), *comes[:2])


def random_instance(seed: int, jobs: int = 7, most_points: int = 3) -> Instance:
    """Up to ``jobs`` jobs on so few nodes that failures are uncertain in most instances of odd seeds."""
    draw = Streams(seed).generator("posted-price-instances")
    size = int(draw.integers(1, 3))
    setting = Setting(
        nodes=size + int(draw.integers(1, 3)),
        rounds=int(draw.integers(8, 13)),
        eps=float(draw.choice([0.0, 0.5, 1.0, 2.0])),
        max_value=8.0,
        max_concurrency=size,
        max_rounds=int(draw.integers(2, 5)),
        signal=SIGNALS[seed // 2 % 3],
        threshold=bool(draw.integers(2)),
    )
    if (1 - setting.eps / 10) * setting.nodes <= size:
        setting = replace(setting, eps=0.0)
    if seed % 2:
        made = [crowded_job(draw, setting) for _ in range(jobs)]
        made.append(random_job(draw, int(draw.integers(0, 5)), setting, most_points))
    else:
        births = draw.integers(0, 5, int(draw.integers(jobs))).tolist()
        made = [random_job(draw, birth, setting, most_points) for birth in [0, *births]]
    made[0] = shifted(made[0], -made[0].birth)
    made.sort(key=lambda one: one.birth)
    truths = [random_truth(draw, one, setting) for one in made]
    return Instance(tuple(made), tuple(truths), setting)


def shifted(job: Job, rounds: int) -> Job:
    """The same job, all of whose times are later."""
    points = tuple((arrival + rounds, duration, share) for arrival, duration, share in job.points)
    return replace(job, birth=job.birth + rounds, arrival=job.arrival + rounds, points=points)
