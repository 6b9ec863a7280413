"""Jobs at each computation of recorded runs of Gavel's simulator, and the shares that it computed."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow

TYPES = ("K80", "P100", "V100")

Model = tuple[str, str]
"""Model and batch size."""


class TraceJob(NamedTuple):
    """A row of a trace."""

    model: Model
    steps: int
    gpus: int
    weight: float
    arrival_s: float


@dataclass(frozen=True)
class RecordedState:
    """One computation."""

    now: JobsNow
    shares: FloatArray
    """(J + P, T) of the record."""
    value: float
    """Optimum of the record; NaN where it has none."""


def recorded_states(
    folder: Path, run: str, *, reference: str = "gavel", pairs: bool = False
) -> Iterator[RecordedState]:
    """Computations of a run, such as ``single60_4-4-4_fifo_perf``, in a folder of data and references.

    The steps left follow from the recorded rounds; where a record has none, they are those at the start.
    """
    name, *sizes = re.fullmatch(r"(.*?)_(\d+)-(\d+)-(\d+)_.*", run).groups()  # type: ignore[union-attr]
    capacity = np.array([int(size) for size in sizes[::-1]])
    jobs = trace_jobs(folder, name)
    record = json.loads(
        gzip.decompress(
            (folder / "reference" / reference / "allocations" / f"{run}.alloc.json.gz").read_bytes()
        )
    )
    left = [job.steps for job in jobs]
    rounds = record.get("rounds", [])[::-1]
    for computation in record["log"]:
        while rounds and rounds[-1][0] < computation["time"]:
            for entry, gpus in rounds.pop()[1].items():
                gpu_type = int(np.searchsorted(np.cumsum(capacity), gpus[0], side="right"))
                members = _rows(entry)
                together = _speeds_together(folder, [jobs[row] for row in members])
                for row, speed in zip(members, together, strict=True):
                    left[row] -= min(int(360 * speed[gpu_type]), left[row])
        shares = {_rows(entry): row[::-1] for entry, row in computation["allocation"].items()}
        rows = sorted(row[0] for row in shares if len(row) == 1)
        now = jobs_now(folder, jobs, rows, capacity, computation["time"], pairs=pairs)
        now.steps_left[:] = [left[row] for row in rows]
        entries = [(row,) for row in rows] + [(rows[a], rows[b]) for a, b in now.pairs]
        recorded = np.reshape([shares.get(entry, [0.0] * 3) for entry in entries], (-1, 3))
        yield RecordedState(now, recorded, computation.get("value", np.nan))


def jobs_now(
    folder: Path, jobs: list[TraceJob], rows: list[int], capacity: np.ndarray, now_s: float, *, pairs: bool
) -> JobsNow:
    """Jobs of a trace with all their steps; ``pairs``: those of one GPU may share it."""
    here = [jobs[row] for row in rows]
    together = [(a, b) for a, b in combinations(range(len(rows)), 2) if here[a].gpus == here[b].gpus == 1]
    if not pairs:
        together = []
    pair_speed = [_speeds_together(folder, [here[a], here[b]]) for a, b in together]
    return JobsNow(
        job=np.array(rows, dtype=np.int64),
        speed=np.reshape([_speeds_together(folder, [job])[0] for job in here], (-1, 3)),
        gpus=np.array([job.gpus for job in here], dtype=np.int64),
        weight=np.array([job.weight for job in here]),
        steps_left=np.array([float(job.steps) for job in here]),
        age_s=np.array([now_s - job.arrival_s for job in here]),
        capacity=capacity,
        pairs=np.reshape(np.array(together, dtype=np.int64), (-1, 2)),
        pair_speed=np.reshape(pair_speed, (-1, 2, 3)),
    )


def _rows(entry: str) -> tuple[int, ...]:
    return tuple(int(row) for row in re.findall(r"\d+", entry))


def _speeds_together(folder: Path, jobs: list[TraceJob]) -> list[FloatArray]:
    if len(jobs) == 1:
        return [_speeds(folder)[jobs[0].model, jobs[0].gpus]]
    return list(_pair_speeds(folder)[jobs[0].model, jobs[1].model])


@cache
def trace_jobs(folder: Path, name: str) -> list[TraceJob]:
    """Jobs of a trace of the folder, in its order."""
    text = gzip.decompress((folder / "data" / "gavel" / f"{name}.trace.gz").read_bytes()).decode()
    jobs = []
    for row in text.splitlines():
        model, *_, steps, gpus, weight, _slo, arrival_s = row.split("\t")
        name, _, batch = model.partition(" (batch size ")
        jobs.append(TraceJob((name, batch[:-1]), int(steps), int(gpus), float(weight), float(arrival_s)))
    return jobs


def _table(folder: Path, name: str) -> list[dict[str, str]]:
    text = gzip.decompress((folder / "data" / "gavel" / name).read_bytes()).decode()
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == "simulation"]


@cache
def _speeds(folder: Path) -> dict[tuple[Model, int], FloatArray]:
    speeds: dict[tuple[Model, int], FloatArray] = {}
    for row in _table(folder, "speeds.csv.gz"):
        if row["consolidated"] == "1":
            of_types = speeds.setdefault(((row["model"], row["batch"]), int(row["gpus"])), np.zeros(3))
            of_types[TYPES.index(row["gpu_type"])] = float(row["steps_per_s"])
    return speeds


@cache
def _pair_speeds(folder: Path) -> dict[tuple[Model, Model], FloatArray]:
    speeds: dict[tuple[Model, Model], FloatArray] = {}
    for row in _table(folder, "pairs.csv.gz"):
        a, b = (row["model_a"], row["batch_a"]), (row["model_b"], row["batch_b"])
        both = [float(row["steps_per_s_a"]), float(row["steps_per_s_b"])]
        for models, pair in (((b, a), both[::-1]), ((a, b), both)):
            speeds.setdefault(models, np.zeros((2, 3)))[:, TYPES.index(row["gpu_type"])] = pair
    return speeds


def example(**changes: object) -> JobsNow:
    """Three new jobs of one GPU and weight 1 on two types, a and b, of one GPU each, with changes."""
    jobs = JobsNow(
        job=np.arange(3),
        speed=np.array([[4.0, 1.0], [2.0, 1.0], [3.0, 3.0]]),
        gpus=np.ones(3, dtype=np.int64),
        weight=np.ones(3),
        steps_left=np.array([4000.0, 2000.0, 6000.0]),
        age_s=np.zeros(3),
        capacity=np.array([1, 1]),
        pairs=np.zeros((0, 2), dtype=np.int64),
        pair_speed=np.zeros((0, 2, 2)),
    )
    arrays = {name: np.array(value) for name, value in changes.items()}
    return replace(jobs, **arrays)


def rows_of(now: JobsNow, rows: npt.ArrayLike) -> JobsNow:
    """Some of the jobs, in any order, which keep their rows of the workload; without pairs."""
    of_jobs = ("job", "speed", "gpus", "weight", "steps_left", "age_s")
    return replace(now, **{name: getattr(now, name)[rows] for name in of_jobs})


def random_jobs(rng: np.random.Generator, jobs: int, *, pairs: bool = False) -> JobsNow:
    """Jobs of three types, some of which do not run on the first; ``pairs``: one GPU each, some share it."""
    speed = rng.uniform(0.5, 10, (jobs, 1)) * rng.uniform(0.5, 4, (jobs, 3))
    speed[rng.random(jobs) < 0.2, 0] = 0
    together = np.array(list(combinations(range(jobs), 2)), dtype=np.int64).reshape(-1, 2)
    together = together[rng.random(len(together)) < 0.7] if pairs else together[:0]
    share = rng.uniform(0.2, 1, (len(together), 2, 3))
    return JobsNow(
        job=np.arange(jobs),
        speed=speed,
        gpus=np.ones(jobs, dtype=np.int64) if pairs else rng.choice([1, 1, 2, 4], jobs),
        weight=rng.choice([1.0, 1.0, 5.0], jobs),
        steps_left=rng.uniform(1e3, 1e6, jobs),
        age_s=rng.uniform(0, 1e4, jobs),
        capacity=rng.integers(4, 9, 3),
        pairs=together,
        pair_speed=speed[together] * share * (speed[together] > 0).all(axis=1, keepdims=True),
    )


def speeds(now: JobsNow, shares: FloatArray) -> FloatArray:
    """(J,) steps per second of each job with these shares."""
    jobs = len(now.job)
    total: FloatArray = (now.speed * shares[:jobs]).sum(axis=1)
    np.add.at(total, now.pairs, (now.pair_speed * shares[jobs:, None]).sum(axis=2))
    return total


def assert_shareable(now: JobsNow, shares: FloatArray) -> None:
    """Each job's time and each type's GPUs are enough, but for what rounding to six digits adds."""
    jobs = len(now.job)
    time = shares[:jobs].sum(axis=1)
    np.add.at(time, now.pairs, shares[jobs:].sum(axis=1)[:, None])
    gpus = np.concatenate([now.gpus, now.gpus[now.pairs[:, 0]]])
    assert (shares >= 0).all()
    assert (time <= 1 + 2e-6).all()
    assert (gpus @ shares <= now.capacity + 1e-6 * gpus.sum()).all()
