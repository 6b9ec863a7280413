"""Small worlds of jobs with measured speeds, on which every policy for them must hold its contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from ray_sim.contract.rigid_worlds import EdgeCase, Job, cluster, failing, job_table, longer
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable, MeasuredProfile
from ray_sim.model.measured_speeds import PairRow, SpeedRow, SpeedTable
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray

_TYPES = ("K80", "P100", "V100")
_SPEED = {"even": (4.0, 4.0, 4.0), "steep": (1.0, 3.0, 8.0), "old": (5.0, 4.0, 2.0), "new": (0.0, 2.0, 6.0)}
"""Steps per second on one GPU of each type."""

PARAMS = {"truth": "measured", "packing": True}


def _table() -> SpeedTable:
    """Two GPUs are 1.8 times as fast as one on one server, 1.2 times on several; of pairs each has 0.6."""
    rows, pairs = [], []
    for model, speeds in _SPEED.items():
        for gpu_type, speed in zip(_TYPES, speeds, strict=True):
            rows.append(SpeedRow(model, None, 1, gpu_type, True, speed))
            for gpus in (2, 4, 8):
                doubled = gpus.bit_length() - 1
                rows.append(SpeedRow(model, None, gpus, gpu_type, True, speed * 1.8**doubled))
                if model != "steep":  # on one server only
                    rows.append(SpeedRow(model, None, gpus, gpu_type, False, speed * 1.2**doubled))
            pairs += [
                PairRow(gpu_type, model, None, other, None, 0.6 * speed, 0.6 * beside[_TYPES.index(gpu_type)])
                for other, beside in _SPEED.items()
                if other >= model
            ]
    return SpeedTable("contract", tuple(sorted(rows)), tuple(sorted(pairs)))


def _servers() -> Cluster:
    types = ("K80", "K80", "P100", "P100", "V100", "V100", "V100")
    return replace(
        cluster([2, 1, 2, 4, 2, 1, 8], ["a"] * 7),
        gpu_type=types,
        speeds=_table(),
        price=(1.0, 0.5, 2.0, 4.0, 4.0, 2.0, 16.0),
    )


def _measured(table: JobTable, seed: int) -> JobTable:
    """The jobs with models, and with steps that take their run time at 4 steps per second."""
    draw, n = Streams(seed).generator("contract-models"), len(table)
    profile = MeasuredProfile(
        batch=np.full(n, np.nan),
        steps=np.maximum(np.rint(4e-6 * table.work_us), 1.0),
        weight=draw.choice([1.0, 1.0, 3.0], n),
        deadline_s=draw.choice([900.0, 7200.0, np.inf], n),
    )
    models = draw.choice(sorted(_SPEED), n).tolist()
    return replace(table, measured=profile, model=pl.Series(models, dtype=pl.String))


def busy_measured(n: int = 40, seed: int = 0, *, partition: Partition = "none") -> World:
    """Seven servers of three GPU types, heavy queueing, restarts that cost; shares are of one pool."""
    draw = Streams(seed).generator("contract-measured")
    jobs: list[Job] = list(
        zip(
            np.cumsum(draw.integers(0, 200, n)).astype(float).tolist(),
            draw.choice([1, 1, 1, 2, 4, 8], n).tolist(),
            np.ceil(draw.exponential(2000.0, n)).tolist(),
            draw.choice(["a", "b"], n).tolist(),
            strict=True,
        )
    )
    table = _measured(job_table(jobs), seed)
    return build_world(table, _servers(), params=PARAMS | {"restart_cost_s": 7.0})


def failing_measured(n: int = 40, seed: int = 0) -> World:
    """The busy world, whose servers go every few minutes, come back, and leave jobs at a checkpoint."""
    world = busy_measured(n, seed)
    params = PARAMS | {"restart_cost_s": 7.0, "checkpoint_s": 60.0}
    return build_world(world.table, failing(world.cluster, seed), params=params)


def measured_edge_cases() -> dict[str, EdgeCase]:
    """Worlds that trip careless policies, by what is special about them."""
    cases: dict[str, list[Job]] = {
        "no job": [],
        "one job": [(5.0, 2, 1000.0, "a")],
        "a job larger than every GPU type": [(0.0, 16, 10.0, "a"), (1.0, 8, 900.0, "a")],
        "all at once": [(3.0, 1 + i % 2, 100.0 + i, "a") for i in range(20)],
        "jobs of a step": [(0.0, 4, 0.0, "a"), (0.0, 8, 5.0, "a"), (2.0, 8, 0.0, "a"), (2.0, 1, 1.0, "a")],
    }
    return {
        name: (build_world(_measured(job_table(jobs), 0), _servers(), params=PARAMS), True)
        for name, jobs in cases.items()
    }


def with_more_steps(world: World, jobs: BoolArray) -> World:
    """The same world with more steps of these jobs."""
    profile = world.table.measured
    assert profile is not None, "a world of measured jobs"
    table = replace(world.table, measured=replace(profile, steps=longer(profile.steps, jobs, 3)))
    return build_world(table, world.cluster, params=world.params)
