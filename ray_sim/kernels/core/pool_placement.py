"""Place jobs of single-GPU tasks on a pool of servers."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64


@kernel
def fill_servers(free: I64, gpus: I64, ptr: I64, server: I64, tasks: I64) -> int:
    """Give each job, in order, the first free GPUs; O(S + n), as no server is visited again once it is full.

    Parameters
    ----------
    free : (S,) free GPUs; reduced
    gpus : (n,) GPUs of the jobs, which fit together
    ptr : (n + 1,) rows of job i are ``ptr[i]`` to ``ptr[i + 1] - 1``; written
    server, tasks : (n + S,) server and GPUs of each row; written

    Returns
    -------
    number of rows; rows of a job are in the order of servers
    """
    rows = 0
    at = 0
    ptr[0] = 0
    for i in range(len(gpus)):
        needed = gpus[i]
        while needed > 0 and at < len(free):
            given = min(needed, free[at])
            if given > 0:
                server[rows] = at
                tasks[rows] = given
                rows += 1
                free[at] -= given
                needed -= given
            if needed > 0:
                at += 1
        ptr[i + 1] = rows
    return rows
