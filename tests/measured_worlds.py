"""Worlds of jobs with measured speeds, from lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.measured_speeds import PairRow, SpeedRow, SpeedTable
from tests.worlds import Job, cluster_of, job_table


class Steps(NamedTuple):
    """A job of so many steps."""

    submit_s: float
    model: str
    steps: int
    gpus: int = 1


Speed = tuple[float | None, float | None]
"""Steps per second on one server and over several; None where it was not measured."""


def speed_table(
    speeds: Mapping[tuple[str, int], Mapping[str, Speed | float]], pairs: Sequence[PairRow] = ()
) -> SpeedTable:
    """A table of (model, GPUs) -> type -> speed; a number is the same on one server and over several."""
    rows = []
    for (model, gpus), by_type in speeds.items():
        for gpu_type, given in by_type.items():
            one, several = given if isinstance(given, tuple) else (given, given)
            if one is not None:
                rows.append(SpeedRow(model, None, gpus, gpu_type, True, one))
            if several is not None and gpus > 1:
                rows.append(SpeedRow(model, None, gpus, gpu_type, False, several))
    return SpeedTable("small", tuple(sorted(rows)), tuple(pairs))


def measured_world(
    jobs: Sequence[Steps],
    servers: Sequence[tuple[str, int]],
    table: SpeedTable,
    params: Mapping[str, object] | None = None,
    columns: Mapping[str, Sequence[object]] | None = None,
) -> World:
    """Jobs on servers of a GPU type with so many GPUs each."""
    listed = job_table(
        [Job(job.submit_s, job.gpus, 1.0) for job in jobs],
        columns={
            "model": [job.model for job in jobs],
            "steps": [job.steps for job in jobs],
            **(columns or {}),
        },
    )
    cluster = replace(
        cluster_of([gpus for _, gpus in servers]),
        gpu_type=tuple(gpu_type for gpu_type, _ in servers),
        speeds=table,
    )
    return build_world(listed, cluster, params={"truth": "measured", **(params or {})})
