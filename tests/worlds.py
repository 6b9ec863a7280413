"""Small worlds from lists, and how tests read what comes out of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import Loop, run_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Changes
from ray_sim.model.cluster import Availability, Cluster, ServerKind
from ray_sim.model.job import JobTable
from ray_sim.model.result import RunResult
from ray_sim.model.units import capacity_quanta
from tests.required import new_policy
from workloads.job_table import frame_to_table
from workloads.schema import with_all_columns

HOUR = 3600.0

Times = dict[str, tuple[float | None, float | None]]


class Job(NamedTuple):
    """A rigid job; n whole GPUs are a gang of n tasks, a fraction is one task."""

    submit_s: float
    gpus: float
    duration_s: float
    vc: str | None = None


def job_table(
    jobs: Sequence[Job],
    resources: Sequence[str] = ("gpu",),
    columns: Mapping[str, Sequence[object]] | None = None,
) -> JobTable:
    """Jobs named J1, J2, ... in list order, which is the trace order, with further ``columns``."""
    frame = pl.DataFrame(
        {
            "job_id": [f"J{i + 1}" for i in range(len(jobs))],
            "trace_order": list(range(len(jobs))),
            "submit_s": [job.submit_s for job in jobs],
            "num_gpus": [job.gpus for job in jobs],
            "duration_s": [job.duration_s for job in jobs],
            "vc": [job.vc for job in jobs],
            **({} if columns is None else columns),
        },
        schema_overrides={
            "job_id": pl.String,
            "trace_order": pl.Int64,
            "submit_s": pl.Float64,
            "num_gpus": pl.Float64,
            "duration_s": pl.Float64,
            "vc": pl.String,
        },
        strict=False,
    )
    return frame_to_table(with_all_columns(frame), resources)


def confined(world: World, types: Sequence[str | None], lists: Sequence[str | None]) -> World:
    """The same world with these GPU types of its servers, and the lists that its jobs accept."""
    table = replace(world.table, gpu_types=pl.Series(lists, dtype=pl.String))
    cluster = replace(world.cluster, gpu_type=tuple(types))
    return build_world(table, cluster, partition=world.partition, params=world.params)


def cluster_of(
    gpus: Sequence[float],
    *,
    vc: Sequence[str | None] | None = None,
    speed: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    **other: Sequence[float],
) -> Cluster:
    """Servers s0, s1, ... with so many GPUs each; ``other`` gives further resources by name."""
    n = len(gpus)
    resources = ("gpu", *other)
    amounts = (gpus, *other.values())
    return Cluster(
        name="small",
        server_names=tuple(names or [f"s{i}" for i in range(n)]),
        resources=resources,
        capacity=np.stack(
            [capacity_quanta(amount, name) for name, amount in zip(resources, amounts, strict=True)], axis=1
        ),
        speed=np.array([1.0] * n if speed is None else speed, dtype=np.float64),
        vc=tuple(vc or [None] * n),
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=(None,) * n,
    )


Change = tuple[float, int, bool]
"""Seconds, server, whether it is there from then on."""

DOWN, UP = False, True


def availability(changes: Sequence[Change]) -> Availability:
    """When servers go and come back, in the workload's own time."""
    return Availability(
        time_us=np.array([round(time_s * 1e6) for time_s, _, _ in changes], dtype=np.int64),
        server=np.array([server for _, server, _ in changes], dtype=np.int64),
        up=np.array([up for _, _, up in changes], dtype=np.bool_),
    )


def world_of(
    jobs: Sequence[Job],
    gpus: Sequence[float],
    *,
    vc: Sequence[str] | None = None,
    speed: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    params: Mapping[str, object] | None = None,
) -> World:
    """Jobs and servers; with ``vc``, a label per server, each job keeps to the servers of its vc."""
    return build_world(
        job_table(jobs),
        cluster_of(gpus, vc=vc, speed=speed, names=names),
        partition="none" if vc is None else "vc",
        params=params,
    )


def replay(
    world: World, policy: str | Policy, *, loop: Loop = "auto", sites: int = 1, **params: object
) -> RunResult:
    """Run a policy, given by name and parameters or as an instance; several sites are simulated."""
    chosen = new_policy(policy, params) if isinstance(policy, str) else policy
    left_out = sites > 1 and not world.facts.part.reports
    return run_world(world, chosen, loop="general" if left_out else loop, sites=sites)


def times_of(result: RunResult) -> Times:
    """(start, finish) in seconds by job."""
    columns = result.jobs.select("job_id", "start_s", "finish_s")
    return {job: (start, finish) for job, start, finish in columns.iter_rows()}


def column_of(result: RunResult, name: str) -> dict[str, object]:
    """One column of the jobs by job."""
    return dict(result.jobs.select("job_id", name).iter_rows())


def events_of(result: RunResult, job: str) -> list[tuple[object, ...]]:
    """(time, event, server, count) of one job in the order in which they happened."""
    events = result.events.filter(pl.col("job_id") == job)
    return events.select("time_s", "event", "server", "count").rows()


def fingerprint(result: RunResult) -> dict[str, str]:
    """Everything a run leaves, as text that differs where any bit differs."""
    frames = {"jobs": result.jobs, "events": result.events, "timeline": result.timeline}
    return {
        **{name: f"{frame.schema}\n{frame.write_csv(null_value='null')}" for name, frame in frames.items()},
        "summary": json.dumps(result.summary.to_dict()),
    }


def changes_of(rows: Sequence[tuple[int, Sequence[tuple[int, int, int]]]]) -> Changes:
    """Changes exactly as listed: (job, [(server, role, count), ...]); nothing is sorted or checked."""
    flat = np.array([row for _, of_job in rows for row in of_job], dtype=np.int64).reshape(-1, 3)
    return Changes(
        job=np.array([job for job, _ in rows], dtype=np.int64),
        ptr=np.concatenate([[0], np.cumsum([len(of_job) for _, of_job in rows])]).astype(np.int64),
        server=np.ascontiguousarray(flat[:, 0]),
        role=np.ascontiguousarray(flat[:, 1]),
        tasks=np.ascontiguousarray(flat[:, 2]),
        order=np.arange(len(rows)),
        size=np.array([len(rows)], dtype=np.int64),
    )
