"""The certificate of a finished run: what the world allows each job, handed to the bounds."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.world import World
from ray_sim.kernels.arrays import COMPLETED, Ledger
from ray_sim.model.result import JctCertificate
from ray_sim.model.units import US_PER_S, BoolArray
from ray_sim.solvers.jct_bound import jct_bounds


def certify(world: World, ledger: Ledger, counted: BoolArray | None = None) -> JctCertificate | None:
    """Bound the mean JCT of the completed jobs; None where none completed or jobs are not rigid.

    A gang runs at most at the speed of its partition's fastest server, and holds all its tasks
    meanwhile. The jobs left out can only take resources, so the bound holds without them.

    Parameters
    ----------
    counted : (J,) the jobs whose mean it is; all without it
    """
    completed = ledger.status == COMPLETED
    done = np.flatnonzero(completed if counted is None else completed & counted)
    if not world.rigid or len(done) == 0:
        return None
    shop, table = world.shop, world.table
    pools = np.split(shop.part_servers, shop.part_ptr[1:-1])
    fastest = np.array([shop.speed[servers].max() for servers in pools])
    capacity = np.array([shop.capacity[servers].sum(axis=0) for servers in pools], dtype=np.float64)
    partition, submit = shop.job_part[done], table.submit_us[done]
    shortest = table.work_us[done] / fastest[partition]
    area = table.demand[done] * (table.tasks[done] * shortest)[:, None]
    bounds = jct_bounds(submit, shortest, area, capacity, partition)
    assert bounds is not None, "some job completed"
    return JctCertificate(
        b1_s=bounds.b1 / US_PER_S,
        b2_s=bounds.b2 / US_PER_S,
        b3_s=bounds.b3 / US_PER_S,
        bound_s=bounds.bound / US_PER_S,
        gap=_gap(float((ledger.end[done] - submit).mean()), bounds.bound),
    )


def _gap(mean_jct: float, bound: float) -> float | None:
    """Excess over the bound; 0 where both are 0, as for jobs of no length that never wait."""
    if bound > 0.0:
        return mean_jct / bound - 1.0
    return 0.0 if mean_jct == 0.0 else None
