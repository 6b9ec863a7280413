"""Warnings of runs in which the order rule of the policy ranked no job before another."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.order import counts_cores
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import LEVEL, Ledger, Recorder
from ray_sim.kernels.core.replay_state import REMAINING, SERVICE, Order
from ray_sim.model.units import US_PER_S


def order_warnings(order: Order | None, world: World, ledger: Ledger, record: Recorder) -> list[str]:
    """Warn if the order rule of a finished run, if it has one, ranked none of two or more jobs."""
    if order is None or len(world.table) < 2 or _ranked(order, world, ledger, record):
        return []
    ranked = "the policy's order put no job before another"
    if order.kind == SERVICE:
        unit = "core-s" if counts_cores(world) else "GPU-s"
        limit = int(order.limits[0]) / (1000 * US_PER_S)
        return [f"no job reached the first limit of attained service, {limit:,.10g} {unit}: {ranked}"]
    return [f"all {len(world.table):,} jobs rank equal: {ranked}"]


def _ranked(order: Order, world: World, ledger: Ledger, record: Recorder) -> bool:
    """Whether the rule put a job before another; an order by arrival itself always does."""
    if order.kind == SERVICE:
        return bool((record.kind[: record.size[0]] == LEVEL).any())
    if order.kind == REMAINING:
        stopped = bool(ledger.preemptions.any() or ledger.interruptions.any())
        return stopped or bool(np.ptp(world.table.work_us))
    return bool(np.ptp(order.static_key)) or np.array_equal(order.static_key, world.table.submit_us)
