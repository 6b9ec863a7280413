"""Jobs and servers of the benchmark of learned placement."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.environment import testbed
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from workloads.store import frame_to_table
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.drawn_jobs import draw_jobs
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.training.draws import Uniform

JOBS = 36
"""Jobs of a set: 3 in each interval, on average."""

_HORIZON_S, _SLOT_S = 14_400, 1200


def harmony_worlds(sets: int, seed: int) -> list[World]:
    """Sets of jobs of the types of Harmony that run for minutes to hours, on its servers."""
    draws = load_training_draws("harmony_types")
    shorter = {
        "epochs": Uniform(2, 6, whole=True),
        "samples": Uniform(2_000, 50_000, whole=True),
        "num_workers": Uniform(1, 3, whole=True),
    }
    families = tuple(replace(each, columns={**each.columns, **shorter}) for each in draws.families)
    jobs = replace(draws, families=families)
    request = HorizonRequest(JOBS, horizon_s=_HORIZON_S, arrivals=ArrivalKind.POISSON)
    servers = replace(testbed(), interference=load_interference("harmony_types"))
    params = {"truth": "placement", "slot_s": _SLOT_S, "overcommit": 2.0}
    return [
        build_world(
            frame_to_table(draw_jobs(jobs, request, seed * sets + i)[0], servers.resources),
            servers,
            params=params,
        )
        for i in range(sets)
    ]
