"""Facts about job classes: which gangs fit on one server, and which can never be placed."""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.arrays import I64, Bool, Scratch, Shop
from ray_sim.kernels.compile import kernel
from ray_sim.kernels.placement import place, room

FITS, EXCEEDS_CAPACITY, BREAKS_PLACEMENT = range(3)


@kernel
def single_server_classes(shop: Shop) -> Bool:
    """(C,) whether the class's gang fits on one empty server of its partition."""
    single = np.zeros(len(shop.class_job), np.bool_)
    for c in range(shop.part_class_ptr[0], len(single)):
        job = shop.class_job[c]
        p, tasks = shop.job_part[job], shop.tasks[job]
        for i in range(shop.part_ptr[p], shop.part_ptr[p + 1]):
            server = shop.part_servers[i]
            if room(shop.capacity, server, shop.demand[job, 0], tasks) == tasks:
                single[c] = True
                break
    return single


@kernel
def classes_beyond_capacity(shop: Shop) -> I64:
    """(C,) `EXCEEDS_CAPACITY` where the whole empty partition cannot hold the gang, else `FITS`."""
    verdict = np.full(len(shop.class_job), EXCEEDS_CAPACITY)
    for c in range(shop.part_class_ptr[0], len(verdict)):
        job = shop.class_job[c]
        p, left = shop.job_part[job], shop.tasks[job]
        for i in range(shop.part_ptr[p], shop.part_ptr[p + 1]):
            left -= room(shop.capacity, shop.part_servers[i], shop.demand[job, 0], left)
            if left == 0:
                verdict[c] = FITS
                break
    return verdict


@kernel
def classes_beyond_placement(rule: int, shop: Shop, verdict: I64, scratch: Scratch) -> I64:
    """``verdict`` with `BREAKS_PLACEMENT` where the rule cannot place the gang even when all is free."""
    result = verdict.copy()
    for c in range(len(verdict)):
        if verdict[c] == FITS and place(rule, shop, shop.class_job[c], shop.capacity, scratch) == 0:
            result[c] = BREAKS_PLACEMENT
    return result
