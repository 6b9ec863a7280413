"""The pool of each GPU type on which jobs of a class run, in the order in which placement tries them."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.kinds.measured.speeds import JobSpeeds
from ray_sim.kernels.core.arrays import WORKER, WorldArrays
from ray_sim.kernels.core.measured_rates import ON_ONE, SPREAD
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.units import IntArray

APART, ON_A_SERVER, ONE_SERVER_ONLY = range(3)
"""Values of `WorldArrays.class_fits`."""


def with_types(arrays: WorldArrays, speeds: JobSpeeds, table: JobTable) -> WorldArrays:
    """The arrays with `class_types`, `class_fits` and their pools; the fastest type is tried first.

    A type counts with the speed on one server if one can hold the gang, else with that over several.

    Parameters
    ----------
    arrays : jobs of one class have the same `JobSpeeds.order`

    Raises
    ------
    InvalidScenarioError : a gang that a server can hold was measured over several only
    """
    order, classes, types = speeds.order(), len(arrays.class_job), len(speeds.types)
    pools = np.split(arrays.pool_servers, arrays.pool_ptr[1:-1])
    first = len(pools)
    number: dict[bytes, int] = {}
    class_types = np.full((classes, types), -1, dtype=np.int64)
    class_fits = np.zeros((classes, types), dtype=np.int64)
    for c, job in enumerate(arrays.class_job.tolist()):
        q, place = int(arrays.class_pool[c, WORKER]), 0
        for speed in order[job][order[job] >= 0].tolist() if q >= 0 else ():
            t, spread = divmod(speed, 2)
            servers = pools[q][speeds.of_server[pools[q]] == t]
            room = _room(arrays, job, servers)
            whole = bool((room >= arrays.gang[job, WORKER]).any())
            if whole and not speeds.alone[job, t, ON_ONE]:
                raise InvalidScenarioError(
                    f"speeds: job {table.job_id[job]} was measured over several servers of "
                    f"{speeds.types[t]}, not on one, which can hold it; add its line with consolidated = 1"
                )
            if whole == (spread == SPREAD) or room.sum() < arrays.gang[job, WORKER]:
                continue
            pool = number.setdefault(servers.tobytes(), first + len(number))
            if pool == len(pools):
                pools.append(servers)
            apart = speeds.alone[job, t, SPREAD] > 0
            class_types[c, place] = pool
            class_fits[c, place] = ONE_SERVER_ONLY if not apart else ON_A_SERVER if whole else APART
            place += 1
    member = np.zeros((len(pools), len(arrays.capacity)), dtype=np.float32)
    for q, pool_servers in enumerate(pools):
        member[q, pool_servers] = 1
    return arrays._replace(
        pool_ptr=np.concatenate([[0], np.cumsum([len(pool) for pool in pools])]).astype(np.int64),
        pool_servers=np.concatenate(pools).astype(np.int64),
        pool_meets=member @ member.T > 0,
        class_single=np.all((class_fits > APART) | (class_types < 0), axis=1),
        class_types=class_types,
        class_fits=class_fits,
    )


def _room(arrays: WorldArrays, job: int, servers: IntArray) -> IntArray:
    """(n,) tasks of a job for which each of these servers has room when it is empty."""
    demand = arrays.demand[job, WORKER]
    asked = demand > 0
    fit: IntArray = (arrays.capacity[servers][:, asked] // demand[asked]).min(
        axis=1, initial=int(arrays.gang[job, WORKER])
    )
    return fit
