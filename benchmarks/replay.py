"""Rigid replay: jobs per CPU second in the engine, beside a bare compiled loop of the same rule."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bare import pooled_starts
from benchmarks.own_policy import ShortestFirst
from ray_sim.engine.compiled import run_compiled
from ray_sim.engine.contract import GrantedWorld, Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World, build_world
from ray_sim.experiments.cluster_file import load_cluster
from ray_sim.model.errors import RunFailedError
from ray_sim.model.job import JobTable
from ray_sim.model.units import us_to_seconds
from ray_sim.policies.registry import create_policy
from workloads.convert import convert
from workloads.store import frame_to_table, load_workload
from workloads.synth import synth

JOBS = 10_650
"""Jobs of the Philly week; the synthetic stand-in has as many."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case; CPU seconds are the median of the repetitions."""

    case: str
    jobs: int
    cpu_s: float
    jobs_per_cpu_s: float
    budget_jobs_per_cpu_s: float | None
    bare_cpu_s: float | None
    times_bare: float | None
    """CPU seconds over those of the bare loop, measured in turn with it."""

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of one benchmark and the input they share."""

    workload: str
    rows: list[Row]

    def headings(self) -> list[str]:
        """Columns of the table."""
        return ["case", "jobs", "CPU s", "jobs per CPU s", "budget", "bare loop CPU s", "times bare"]

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        return [
            (
                row.case,
                row.jobs,
                round(row.cpu_s, 4),
                round(row.jobs_per_cpu_s),
                row.budget_jobs_per_cpu_s,
                "" if row.bare_cpu_s is None else round(row.bare_cpu_s, 5),
                "" if row.times_bare is None else round(row.times_bare, 2),
            )
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"workload": self.workload, "rows": [row.to_dict() for row in self.rows]}


def run(repetitions: int = 7) -> Report:
    """Measure every case; each repetition times the engine and the bare loop in turn."""
    table, source = philly_week()
    world = build_world(table, load_cluster("pool-368"))
    rows = [
        _compiled_case(world, "fifo", 200_000, world.table.submit_us, repetitions),
        _compiled_case(world, "sjf", 200_000, world.table.work_us, repetitions),
        _compiled_case(world, "srtf", 50_000, None, repetitions),
        _compiled_case(world, "las", 50_000, None, repetitions),
    ]
    own = [_cpu_seconds(lambda: run_world(world, ShortestFirst(), loop="general")) for _ in range(3)]
    rows.append(_row("own 20-line policy, general loop", len(table), own, 5_000, None))
    return Report(source, rows)


def philly_week() -> tuple[JobTable, str]:
    """The reference week where the shared data is, else a synthetic week of as many jobs."""
    shared = Path(os.environ.get("RAY_SIM_SHARED", "../shared"))
    trace = shared / "reference" / "replay" / "philly_week_pool.csv"
    if not trace.exists():
        return frame_to_table(synth("philly", JOBS, seed=0, load_scale=2.0)[0]), "synthetic week"
    out = Path(os.environ.get("TMPDIR", "/tmp")) / f"ray_sim-bench-{os.getpid()}.parquet"
    try:
        convert("csv", [trace], out)
        return load_workload(out), trace.name
    finally:
        out.unlink(missing_ok=True)


def _compiled_case(world: World, name: str, budget: float, key: np.ndarray | None, repetitions: int) -> Row:
    policy: Policy = create_policy(name, {"placement": "pooled"})
    order = policy.order(GrantedWorld(world, policy.sees, name))
    if order is None:
        raise RunFailedError(f"{name} is not an order rule")
    shop = world.shop
    gpus = shop.tasks * shop.demand[:, 0, 0]
    total = int(shop.capacity[:, 0].sum())
    ours, bare = [], []
    for repetition in range(repetitions + 1):
        outcome = None

        def replay() -> None:
            nonlocal outcome
            outcome = run_compiled(world, order, None)

        seconds = _cpu_seconds(replay)
        bare_seconds = 0.0
        if key is not None:
            starts = np.empty(0)

            def loop() -> None:
                nonlocal starts
                starts = pooled_starts(shop.submit, world.table.work_us, gpus, total, key)

            bare_seconds = _cpu_seconds(loop)
            if outcome is None or not np.array_equal(starts, outcome.ledger.first_start):
                raise RunFailedError(f"{name}: the bare loop starts jobs at {us_to_seconds(starts[:3])} ...")
        if repetition > 0:  # the first one compiles
            ours.append(seconds)
            bare.append(bare_seconds)
    return _row(name, len(world.table), ours, budget, bare if key is not None else None)


def _cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _row(case: str, jobs: int, ours: list[float], budget: float, bare: list[float] | None) -> Row:
    seconds = statistics.median(ours)
    return Row(
        case=case,
        jobs=jobs,
        cpu_s=seconds,
        jobs_per_cpu_s=jobs / seconds,
        budget_jobs_per_cpu_s=budget,
        bare_cpu_s=None if bare is None else statistics.median(bare),
        times_bare=None
        if bare is None
        else statistics.median(a / b for a, b in zip(ours, bare, strict=True)),
    )
