"""Benchmark of posted prices: whole commands of 100,000 announced jobs, growth, and single plans."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import yaml

from benchmarks.children import python
from benchmarks.measurement import Findings, Measurement, Step
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.statement import NANO
from ray_sim.model.streams import Streams
from ray_sim.policies.posted_price.planner import Planner, rounds_touched
from ray_sim.policies.posted_price.planner_kernels import PlannedJob
from ray_sim.policies.registry import create_policy
from workloads.provenance import Counts, Provenance
from workloads.schema import with_all_columns
from workloads.store import frame_to_table, write_workload

ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers that the time of the mechanism depends on."""

    jobs: int = 100_000
    nodes: int = 10_000
    """C."""
    delay: int = 100
    """S_m, rounds after the birth in which a finish is worth something."""
    durations: int = 5
    """Durations in each support; there are three arrivals."""
    load: float = 1.2
    """GPU rounds wanted over those there are."""
    most_gpus: int = 8
    most_duration: int = 20

    @property
    def rounds(self) -> int:
        """Rounds in which jobs are born."""
        mean = (self.most_gpus + 1) / 2 * (self.most_duration + 1) / 2
        return max(1, round(self.jobs * mean / (self.load * self.nodes)))


_OUTLOOKS = 1000
_WORTHS = (1, 2, 4, 8)


def announced_jobs(size: Size, seed: int = 0) -> pl.DataFrame:
    """Jobs with births on whole rounds; each comes and runs as a point of its outlook says.

    Outlooks are drawn from a thousand; values are 1 to 8 units until a deadline.
    """
    draw = Streams(seed).generator("announced-benchmark")
    points = [_points(draw, size) for _ in range(_OUTLOOKS)]
    row = draw.integers(0, len(points), size.jobs)
    chosen = [int(draw.choice(len(points[k]), p=points[k][:, 2])) for k in row]
    came_s, ran_s = np.array([points[k][i, :2] for k, i in zip(row, chosen, strict=True)]).T
    birth_s = np.sort(draw.integers(0, size.rounds, size.jobs)) * ROUND_S
    texts = pl.Series([" ".join(f"{a:g}:{d:g}:{float(p)!r}" for a, d, p in each) for each in points])
    worth, rest = draw.choice(_WORTHS, size.jobs), draw.integers(size.delay // 3, size.delay, size.jobs)
    return pl.DataFrame(
        {
            "job_id": [f"job-{i}" for i in range(size.jobs)],
            "trace_order": np.arange(size.jobs),
            "submit_s": birth_s + came_s,
            "birth_s": birth_s,
            "num_gpus": draw.integers(1, size.most_gpus + 1, size.jobs).astype(np.float64),
            "duration_s": ran_s,
            "outlook": texts.gather(row),
            "value": [f"deadline {v} {d * ROUND_S:g}" for v, d in zip(worth, rest, strict=True)],
        }
    )


def _points(draw: np.random.Generator, size: Size) -> np.ndarray:
    """(n, 3) arrival after the birth and duration in seconds, and probability."""
    lasts = np.sort(draw.choice(np.arange(1, size.most_duration + 1), size.durations, replace=False))
    comes = np.sort(draw.choice(np.arange(10), 3, replace=False))
    weight = np.outer(draw.dirichlet(np.ones(3)), draw.dirichlet(np.ones(size.durations))).ravel()
    weight = np.maximum(weight, 1e-6)
    arrival, duration = np.repeat(comes, size.durations), np.tile(lasts, 3)
    return np.stack([arrival * ROUND_S, duration * ROUND_S, weight / weight.sum()], axis=1)


SIZE = Size()
ROUNDS = 10_000
"""T."""

COMMANDS: Mapping[str, tuple[Mapping[str, object], float | None]] = {
    "pointwise-0.02": ({"mu": 0.02}, 30.0),
    "uniform-0.05": ({"mu": 0.05, "oracle_error": "uniform"}, 60.0),
    "uniform-0.02": ({"mu": 0.02, "oracle_error": "uniform"}, None),
}
"""Parameters of whole commands, and the most wall seconds."""

PLANS = ((100, 3, 5), (1600, 3, 5), (1600, 6, 40))
"""S_m, arrivals and durations of single plans, of which each combination is a point."""

PLAN_REPETITIONS = 1_000

_FACTS = {"truth": "announced", "slot_s": ROUND_S, "horizon_s": ROUNDS * ROUND_S}


def run(
    step: Step = lambda what: None,
    size: Size = SIZE,
    commands: Sequence[str] = tuple(COMMANDS),
) -> Findings:
    """Measure whole commands at a size, the simulation alone at a tenth of it and around it, and plans.

    Parameters
    ----------
    commands : names of `COMMANDS`
    """
    rows: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="ray_sim-posted-price-") as folder:
        desk = Path(folder)
        counts = Counts(read=size.jobs, kept=size.jobs)
        drawn = Provenance(converter="announced_jobs", converter_version="1", seed=0, counts=counts)
        write_workload(with_all_columns(announced_jobs(size)), drawn, desk / "announced.parquet")
        (desk / "pool.yaml").write_text(yaml.safe_dump(_pool(size.nodes)))
        for name in commands:
            params, budget_s = COMMANDS[name]
            step(f"ray-sim run, {size.jobs:,} jobs, {name}")
            wall_s, _ = python(*_command(params), cwd=desk)
            rows.append(Measurement(name, "wall_s", wall_s, "s", "smaller", budget_s))
        for name, other in _around(size).items():
            step(f"{other.jobs:,} jobs, {name}")
            (desk / "pool.yaml").write_text(yaml.safe_dump(_pool(other.nodes)))
            rows.append(Measurement(name, "cpu_s", _cpu_s(other, desk / "pool.yaml"), "s", "smaller"))
    for delay, arrivals, durations in PLANS:
        case = f"plan-{delay}x{arrivals * durations}"
        step(case)
        rows.append(Measurement(case, "cpu_us", _plan_cpu_us(delay, arrivals, durations), "us", "smaller"))
    return Findings(f"{size.jobs:,} drawn jobs, C = {size.nodes:,}, load {size.load:g}", tuple(rows))


def _command(params: Mapping[str, object]) -> list[str]:
    given = [("-w", name, value) for name, value in _FACTS.items()]
    given += [("-p", name, value) for name, value in params.items()]
    options = [text for flag, name, value in given for text in (flag, f"{name}={value}")]
    base = ["-m", "ray_sim.cli", "run", "--workload", "announced.parquet", "--cluster", "pool.yaml"]
    return [*base, "--policy", "posted_price", *options]


def _pool(nodes: int) -> dict[str, object]:
    return {"name": "pool", "servers": [{"name": "pool", "count": 1, "gpus": nodes}]}


def _around(size: Size) -> dict[str, Size]:
    """A tenth of the jobs, and with each number that matters doubled, or ten times as large."""
    base = replace(size, jobs=max(10, size.jobs // 10))
    return {
        "base": base,
        "jobs-x10": size,
        "nodes-x10": replace(base, nodes=10 * base.nodes),
        "delay-x2": replace(base, delay=2 * base.delay),
        "support-x2": replace(base, durations=2 * base.durations),
    }


def _cpu_s(size: Size, pool: Path) -> float:
    """CPU seconds of a simulation, kernels compiled."""
    table = frame_to_table(with_all_columns(announced_jobs(size)))
    world = build_world(table, load_cluster(str(pool)), params=_FACTS)
    began = time.process_time()
    run_world(world, create_policy("posted_price"))
    return time.process_time() - began


def _plan_cpu_us(delay: int, arrivals: int, durations: int) -> float:
    """CPU microseconds of a plan, each duration told at the arrival; after one that compiles."""
    points = arrivals * durations
    duration = np.tile(np.arange(1, durations + 1), arrivals)
    job = PlannedJob(
        birth=0,
        concurrency=1,
        values=np.append(np.full(delay, 4 * NANO), 0),
        arrival=np.repeat(np.arange(arrivals), durations),
        duration=duration,
        probability=np.full(points, 1 / points),
        signal=duration,
    )
    rounds = rounds_touched(job, durations)
    prices = np.arange(rounds) % 100 * (NANO // 1000), np.zeros(rounds, dtype=np.bool_)
    planner = Planner("full", durations)
    planner.plan(job, prices)
    began = time.process_time()
    for _ in range(PLAN_REPETITIONS):
        planner.plan(job, prices)
    return (time.process_time() - began) / PLAN_REPETITIONS * 1e6
