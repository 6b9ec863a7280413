"""Pools of a world: the servers that a role of a job may use, its partition's of the GPU types it accepts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.units import BoolArray, IntArray


class ServerPools(NamedTuple):
    """Q pools: the P partitions, then each other set of servers that some role of a job may use."""

    ptr: IntArray
    servers: IntArray
    """Servers of pool q in index order: servers[ptr[q]:ptr[q + 1]]."""
    meets: BoolArray
    """(Q, Q) whether two pools share a server."""
    of_job: IntArray
    """(J, roles) pool of each role; -1 for a job without a partition."""


def server_pools(
    table: JobTable,
    cluster: Cluster,
    parts: list[IntArray],
    job_part: IntArray,
    gang: IntArray,
    gpus: IntArray,
) -> ServerPools:
    """Return the pools of a world's jobs. Types confine tasks with GPUs only.

    Parameters
    ----------
    parts : servers of each partition, in index order
    gang, gpus : (J, roles) tasks of each job, and milli-GPU of one task

    Raises
    ------
    InvalidScenarioError : jobs name types, and no server has one
    """
    of_job = np.repeat(job_part[:, None], gang.shape[1], axis=1)
    pools = list(parts)
    if table.gpu_types is not None and (gpus > 0).any():
        typed = _typed_pools(table, cluster, pools, job_part)
        of_job = np.where((gpus > 0) & (typed >= 0)[:, None], typed[:, None], of_job)
    of_job = np.where(gang > 0, of_job, of_job[:, :1])  # a role without tasks confines nothing
    sizes = [len(pool) for pool in pools]
    return ServerPools(
        ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        servers=np.concatenate(pools).astype(np.int64),
        meets=_meets(pools, len(cluster)),
        of_job=np.ascontiguousarray(of_job),
    )


def accepted_types(text: str) -> frozenset[str]:
    """Types that a text such as ``V100|T4`` names."""
    return frozenset(part for part in text.split("|") if part)


def _typed_pools(table: JobTable, cluster: Cluster, pools: list[IntArray], job_part: IntArray) -> IntArray:
    """(J,) pool of each job's tasks with GPUs, appended to ``pools`` where new; -1 without a partition."""
    assert table.gpu_types is not None
    texts = table.gpu_types.drop_nulls().unique(maintain_order=True).to_list()
    code = table.gpu_types.replace_strict(texts, range(len(texts)), default=-1).to_numpy().astype(np.int64)
    named = np.flatnonzero(code >= 0)
    if len(named) and not any(cluster.gpu_type):
        first = int(named[0])
        raise InvalidScenarioError(
            f"gpu_types: {len(named):,} jobs accept certain GPU types only, the first is job "
            f"{table.name(first)} with {texts[code[first]]}, and no server of cluster {cluster.name} has a "
            f"gpu_type; give its servers one, or set gpu_types=ignore"
        )
    numbers = {pool.tobytes(): q for q, pool in enumerate(pools)}
    of_job = job_part.copy()
    for text, types in enumerate(map(accepted_types, texts)):
        jobs = np.flatnonzero((code == text) & (job_part >= 0))
        accepted = np.array([each in types for each in cluster.gpu_type], dtype=np.bool_)
        for p in np.unique(job_part[jobs]).tolist():
            pool = pools[p][accepted[pools[p]]]
            q = numbers.setdefault(pool.tobytes(), len(pools))
            if q == len(pools):
                pools.append(pool)
            of_job[jobs[job_part[jobs] == p]] = q
    return of_job


def _meets(pools: list[IntArray], n_servers: int) -> BoolArray:
    """(Q, Q) whether two pools share a server."""
    member = np.zeros((len(pools), n_servers), dtype=np.float32)
    for q, pool in enumerate(pools):
        member[q, pool] = 1
    meets: BoolArray = member @ member.T > 0
    return meets
