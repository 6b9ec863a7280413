"""Limits of measured jobs for certificates: run times where they are fastest, and GPUs priced by type."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.jct import JctLimits
from ray_sim.engine.kinds.measured.facts import MeasuredFacts
from ray_sim.engine.kinds.pools import LeastUse, TypeSpeeds, family_limits
from ray_sim.engine.world import World
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.units import BoolArray, FloatArray, IntArray


def measured_jct_limits(world: World, jobs: IntArray) -> JctLimits | None:
    """Limits of the mean JCT of these jobs; None without limits."""
    facts = world.facts
    assert isinstance(facts, MeasuredFacts), "only in worlds of measured jobs"
    table, speeds, work_us = world.table, facts.speeds, facts.work_us
    rate = speeds.best * facts.rates.per_step[:, None]  # (J, T)
    # By so much less of a GPU a job may take as it shares it: (J, T).
    together = np.where(speeds.key[:, None] >= 0, speeds.most_together(), 1.0)

    def least_use(some: IntArray, may: BoolArray) -> LeastUse:
        there = np.unique(speeds.of_server[may.any(axis=0)])
        fastest = rate[some][:, there[there >= 0]].max(axis=1, initial=0.0)
        shortest = np.full(len(some), np.inf)
        np.divide(work_us[some], fastest, out=shortest, where=fastest > 0)
        held: FloatArray = np.where(np.isfinite(shortest), shortest, 0.0)
        use: FloatArray = table.demand[some].astype(np.float64) * (table.tasks[some] * held)[:, None]
        return LeastUse(shortest, use / together[some].max(axis=1, initial=1.0, keepdims=True))

    work = work_us[jobs][:, None]
    share = np.divide(rate[jobs], work, out=np.zeros_like(rate[jobs]), where=work > 0)
    gpus = (table.demand[jobs, GPU] * table.tasks[jobs]).astype(np.float64)
    priced = TypeSpeeds(speeds.of_server, share * together[jobs], gpus)
    return family_limits(world, jobs, least_use, facts.bound_cells, priced)
