"""Elastic worlds small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.job import LossProfile, TrainingProfile
from tests.training import together
from tests.worlds import Change, Job, availability, cluster_of, job_table


def elastic_world(
    submit_s: Sequence[float],
    jobs: Sequence[TrainingProfile],
    gpus: Sequence[float],
    params: Mapping[str, object] | None = None,
    duration_s: float | Sequence[float] = 100.0,
    loss: Mapping[str, float] | None = None,
    changes: Sequence[Change] = (),
) -> World:
    """Jobs of `tests.training.profile`, whose workers and parameter servers take one GPU each."""
    lengths = [duration_s] * len(submit_s) if isinstance(duration_s, float) else duration_s
    table = job_table([Job(*times) for times in zip(submit_s, [1] * len(lengths), lengths, strict=True)])
    table = replace(table, training=together(*jobs), loss=None if loss is None else _losses(len(jobs), loss))
    cluster = cluster_of(gpus)
    if changes:
        cluster = replace(cluster, availability=availability(changes))
    return build_world(table, cluster, params={"truth": "placement", **(params or {})})


def _losses(n: int, given: Mapping[str, float]) -> LossProfile:
    smooth = {"loss_drop": 0.0, "loss_drop_epoch": 0.0}
    values = {"loss_noise": 0.0, "loss_threshold": 0.01, "loss_patience": 1.0, **smooth, **given}
    return LossProfile(**{name: np.full(n, value) for name, value in values.items()})
