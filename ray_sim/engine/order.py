"""Order rules: policies that are nothing but an order, a placement rule and two switches; their warnings."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.scoring import scoring_of
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import FUTURE, LEVEL, REJECTED, Ledger, Recorder
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.core.replay_state import REMAINING, SERVICE, STATIC, Order
from ray_sim.kernels.core.world_arrays import judge_placement
from ray_sim.model.units import QUANTA_PER_UNIT, US_PER_S, IntArray

ORDERS = {"static": STATIC, "remaining": REMAINING, "service": SERVICE}


def never_fits(world: World, placement: str) -> IntArray:
    """(C,) verdict per job class under a placement rule, see `ray_sim.kernels.core.world_arrays`."""
    rule = QUEUE_RULES.index(placement)
    verdict = world.beyond_capacity.copy()
    all_there = np.ones(len(world.cluster), dtype=np.bool_)
    scratch = new_scratch(world.arrays, scoring_of(world, placement))
    judge_placement(rule, world.arrays, all_there, verdict, scratch)
    return verdict


def gang_gpus(world: World) -> IntArray:
    """(J,) milli-GPU of the whole gang; 1 where a job has none, so that its service still grows."""
    gpu = world.cluster.resources.index("gpu")
    gang: IntArray = world.arrays.gang[:, 0] * world.arrays.demand[:, 0, gpu]
    return np.maximum(gang, 1)


def counts_cores(world: World) -> bool:
    """Whether attained service counts cores: no job of the workload asks for a GPU."""
    return not world.arrays.demand[:, :, world.cluster.resources.index("gpu")].any()


def service_rate(world: World) -> IntArray:
    """(J,) milli-GPU of each whole gang, or milli-cores where service `counts_cores`; at least 1.

    CPU as a share of the largest server counts as a core per whole server, and where no job asks for CPU a
    task counts as a core.
    """
    if not counts_cores(world):
        return gang_gpus(world)
    gang, demand = world.arrays.gang, world.arrays.demand
    cores: IntArray = 1000 * gang.sum(axis=1)
    for r, name in enumerate(world.cluster.resources):
        if name in ("cpu", "cpu_norm") and demand[:, :, r].any():
            cores = (gang * demand[:, :, r]).sum(axis=1) * 1000 // QUANTA_PER_UNIT[name]
    return np.maximum(cores, 1)


def order_rule(
    world: World,
    *,
    by: str,
    placement: str,
    backfill: bool,
    preemptive: bool,
    static_key: IntArray | None = None,
    limits: IntArray | None = None,
    running_first: bool = False,
    knob: float = 0.0,
    reject: bool = False,
) -> Order:
    """Resolve an order for a world.

    Parameters
    ----------
    by : ``static`` (by ``static_key``, (J,), smaller first), ``remaining`` (work left) or ``service``
        (queues of attained service with ``limits`` in units of `service_rate` times microseconds, each by
        first start or, with ``running_first``, by place; promotion ``knob``)
    placement : one of `ray_sim.kernels.core.placement.QUEUE_RULES`
    backfill : whether waiting jobs may pass one that does not fit
    preemptive : whether running jobs give way to those before them in the order
    reject : whether a job that finds no room when it comes is rejected, without preemption
    """
    n_jobs = len(world.table)
    empty = np.zeros(0, dtype=np.int64)
    return Order(
        kind=ORDERS[by],
        placement=QUEUE_RULES.index(placement),
        backfill=backfill,
        preemptive=preemptive,
        static_key=np.zeros(n_jobs, np.int64) if static_key is None else static_key.copy(),
        limits=empty if limits is None else limits,
        running_first=running_first,
        knob=knob,
        rate=service_rate(world),
        uniform=bool((world.arrays.speed == 1.0).all()) and world.restart_us == 0,
        reject=reject,
        never_fits=never_fits(world, placement),
    )


def order_warnings(order: Order | None, world: World, ledger: Ledger, record: Recorder) -> list[str]:
    """Warn if the order rule of a finished run, if it has one, ranked none of two or more jobs."""
    came = np.flatnonzero((ledger.status != FUTURE) & (ledger.status != REJECTED))
    if order is None or len(world.table) < 2 or _ranked(order, world, ledger, record, came):
        return []
    ranked = "the policy's order put no job before another"
    if order.kind == SERVICE:
        unit = "core-s" if counts_cores(world) else "GPU-s"
        limit = int(order.limits[0]) / (1000 * US_PER_S)
        return [f"no job reached the first limit of attained service, {limit:,.10g} {unit}: {ranked}"]
    return [f"all {len(came):,} jobs rank equal: {ranked}"] if len(came) > 1 else []


def _ranked(order: Order, world: World, ledger: Ledger, record: Recorder, came: IntArray) -> bool:
    """Whether the rule put a job that came before another; an order by arrival itself always does."""
    if order.kind == SERVICE:
        return bool((record.kind[: record.size[0]] == LEVEL).any())
    if order.kind == REMAINING:
        stopped = bool(ledger.preemptions.any() or ledger.interruptions.any())
        return stopped or len(set(world.table.work_us[came].tolist())) > 1
    by_arrival = np.array_equal(order.static_key, world.table.submit_us)
    return by_arrival or len(set(order.static_key[came].tolist())) > 1
