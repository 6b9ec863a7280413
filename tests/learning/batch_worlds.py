"""Random small worlds whose jobs slow each other, for batches of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.world import World
from ray_sim.model.interference import InterferenceProfile
from ray_sim.model.job import Exchange, TrainingProfile
from tests.interfering_worlds import interference, interfering_world
from tests.training import profile

SLOT_S = 100
MODELS = ("disk", "nic", "none")

SLOWING = interference(
    worker_load={"disk": [0.7, 0.1], "nic": [0.2, 0.6], "none": [0.0, 0.0]},
    ps_load={"disk": [0.0, 0.2], "nic": [0.1, 0.5], "none": [0.0, 0.0]},
    sensitivity={"disk": [1.3, 0.2], "nic": [0.1, 2.0], "none": [0.0, 0.0]},
)


def random_worlds(
    seed: int,
    count: int,
    gpus: Sequence[float] = (4, 3, 2),
    slowing: InterferenceProfile | None = SLOWING,
    jobs: int = 8,
    **params: object,
) -> list[World]:
    """Worlds on the same servers, of up to ``jobs`` jobs each.

    Jobs come at whole seconds, at slot boundaries and together; exchange gradients in every way; and some of
    them are larger than all servers.
    """
    draw = np.random.default_rng(seed)
    return [_random_world(draw, gpus, slowing, jobs, params) for _ in range(count)]


def _random_world(
    draw: np.random.Generator,
    gpus: Sequence[float],
    slowing: InterferenceProfile | None,
    jobs: int,
    params: Mapping[str, object],
) -> World:
    count = int(draw.integers(1, jobs + 1))
    at = draw.integers(0, 5 * SLOT_S, count)
    at = np.where(draw.random(count) < 0.3, at // SLOT_S * SLOT_S, at)
    trained = [_random_job(draw) for _ in range(count)]
    trained[0] = (trained[0][0], _job(draw, workers=1, gpus=1))  # one job at least fits
    submit = [float(second) for second in np.sort(at)]
    values = {"slot_s": SLOT_S, **params}
    return interfering_world(submit, trained, gpus, slowing, params=values)


def _random_job(draw: np.random.Generator) -> tuple[str, TrainingProfile]:
    larger_than_all = draw.random() < 0.05
    workers = 60 if larger_than_all else int(draw.integers(1, 4))
    return str(draw.choice(MODELS)), _job(draw, workers, gpus=float(draw.choice([0.5, 1.0])))


def _job(draw: np.random.Generator, workers: int, gpus: float) -> TrainingProfile:
    exchange = int(draw.choice([Exchange.SYNC, Exchange.ASYNC, Exchange.ALL_REDUCE]))
    job = profile(
        exchange=exchange,
        num_workers=workers,
        num_ps=0 if exchange == Exchange.ALL_REDUCE else int(draw.integers(1, 3)),
        samples=float(draw.integers(100, 4000)),
        sample_s=float(draw.uniform(0.01, 0.1)),
        gradient_mb=float(draw.uniform(1, 60)),
        bandwidth_mbps=float(draw.uniform(100, 1000)),
        step_s_per_worker=0.01,
    )
    demand = np.array([[round(1000 * gpus)]])
    return replace(job, worker_demand=demand, ps_demand=np.array([[500]]))
