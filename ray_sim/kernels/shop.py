"""Facts about job classes: which gangs fit on one server, and which can never be placed."""

from __future__ import annotations

from ray_sim.kernels.arrays import I64, Scratch, Shop
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.placement import place, room

FITS, EXCEEDS_CAPACITY, BREAKS_PLACEMENT = range(3)


@kernel
def find_single_server_classes(shop: Shop) -> None:
    """Set `class_single`: whether the gang fits on one empty server of its partition."""
    single = shop.class_single
    for c in range(shop.part_class_ptr[0], len(single)):
        job = shop.class_job[c]
        p, tasks = shop.job_part[job], shop.tasks[job]
        for i in range(shop.part_ptr[p], shop.part_ptr[p + 1]):
            server = shop.part_servers[i]
            if room(shop.capacity, server, shop.demand[job, 0], tasks) == tasks:
                single[c] = True
                break


@kernel
def judge_capacity(shop: Shop, verdict: I64) -> None:
    """Set (C,) `FITS` where the whole empty partition can hold the gang, else `EXCEEDS_CAPACITY`."""
    verdict[:] = EXCEEDS_CAPACITY
    for c in range(shop.part_class_ptr[0], len(verdict)):
        job = shop.class_job[c]
        p, left = shop.job_part[job], shop.tasks[job]
        for i in range(shop.part_ptr[p], shop.part_ptr[p + 1]):
            left -= room(shop.capacity, shop.part_servers[i], shop.demand[job, 0], left)
            if left == 0:
                verdict[c] = FITS
                break


@kernel
def judge_placement(rule: int, shop: Shop, verdict: I64, scratch: Scratch) -> None:
    """Turn `FITS` into `BREAKS_PLACEMENT` where the rule cannot place the gang even when all is free."""
    for c in range(len(verdict)):
        if verdict[c] == FITS and place(rule, shop, shop.class_job[c], shop.capacity, scratch) == 0:
            verdict[c] = BREAKS_PLACEMENT
