"""Rows of placements from bundles, one by one on servers."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Rows


@kernel
def write_rows(placed: I64, servers: int, workers: I64, ps: I64, rows: Rows) -> int:
    """Write the rows of n jobs in (server, role) order, and return their number; O(bundles + n).

    Parameters
    ----------
    placed : number of the job x ``servers`` + server of each bundle, sorted
    servers : S
    workers, ps : (n,) tasks of each job's bundle
    rows : set; it has room for two rows of each bundle
    """
    n, first, job = 0, 0, 0
    rows.ptr[0] = 0
    while first < len(placed):
        end = first
        while end < len(placed) and placed[end] == placed[first]:
            end += 1
        owner, server = placed[first] // servers, placed[first] % servers
        while job < owner:
            job += 1
            rows.ptr[job] = n
        for role in (WORKER, PARAMETER_SERVER):
            tasks = (workers[owner] if role == WORKER else ps[owner]) * (end - first)
            if tasks > 0:
                rows.server[n], rows.role[n], rows.tasks[n] = server, role, tasks
                n += 1
        first = end
    while job < len(workers):
        job += 1
        rows.ptr[job] = n
    return n
