"""Servers and jobs of a world as arrays for the kernels, by partition and by class of job."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ray_sim.engine.server_pools import server_pools
from ray_sim.kernels.core.arrays import WorldArrays
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.kernels.core.world_arrays import find_single_server_classes
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.units import IntArray

Partition = Literal["none", "vc"]


def build_world_arrays(
    table: JobTable,
    cluster: Cluster,
    partition: Partition,
    gang: IntArray,
    demand: IntArray,
    *,
    devices: bool = False,
    apart: IntArray | None = None,
) -> WorldArrays:
    """Return the arrays of jobs with these gangs.

    Parameters
    ----------
    gang : (J, roles) tasks of each job
    demand : (J, roles, R) quanta of one task
    devices : whether the GPUs of a server are devices that tasks share
    apart : (J, n) numbers by which jobs differ that are else of one class

    Raises
    ------
    InvalidScenarioError : the workload was loaded for other resources; a server has no vc where they count
    """
    if table.resources != cluster.resources:
        raise InvalidScenarioError(
            f"the workload was loaded for resources {table.resources}, the cluster offers {cluster.resources}"
        )
    server_part, job_part = _partitions(table, cluster, partition)
    n_parts = int(server_part.max()) + 1
    n, roles, resources = demand.shape
    servers = np.argsort(server_part, kind="stable").astype(np.int64)
    parts = np.split(servers, _pointers(server_part, n_parts)[1:-1])
    gpus = demand[:, :, cluster.resources.index("gpu")]
    pools = server_pools(table, cluster, parts, job_part, gang, gpus)
    # Kernels are compiled for writable arrays; those of a table may be read-only (out of Ray's store).
    capacity = np.array(cluster.capacity)
    largest = cluster.capacity.max(axis=0).astype(np.float64)
    needs = np.hstack([gang, demand.reshape(n, roles * resources), *([] if apart is None else [apart])])
    arrays = WorldArrays(
        capacity=capacity,
        empty=np.hstack([capacity, _devices(capacity)]) if devices else capacity,
        speed=np.array(cluster.speed),
        weight=np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0),
        server_part=server_part,
        job_part=job_part,
        submit=np.array(table.submit_us),
        gang=np.array(gang),
        demand=np.array(demand),
        pool_ptr=pools.ptr,
        pool_servers=pools.servers,
        pool_meets=pools.meets,
        **classes(job_part, pools.of_job, needs, n_parts),
    )
    find_single_server_classes(arrays, np.empty(arrays.capacity.shape[1], dtype=np.int64))
    return arrays


def _devices(capacity: IntArray) -> IntArray:
    """(S, D) milli-GPU of the devices of every server, whose GPUs are whole."""
    number = capacity[:, GPU] // DEVICE
    return DEVICE * (np.arange(number.max()) < number[:, None]).astype(np.int64)


def classes(job_part: IntArray, job_pool: IntArray, needs: IntArray, n_parts: int) -> dict[str, Any]:
    """Fields of `WorldArrays` about classes: jobs of the same pools with the same needs are a class.

    Parameters
    ----------
    job_part, job_pool : (J,) partition of each job, and (J, roles) pool of each of its roles
    needs : (J, n)
    """
    job_class = _classes(job_part, np.hstack([job_pool, needs]))
    n_classes = int(job_class.max()) + 1 if len(job_class) else 0
    class_job = np.full(n_classes, -1, dtype=np.int64)
    class_job[job_class[::-1]] = np.arange(len(job_class) - 1, -1, -1)
    return {
        "job_class": job_class,
        "class_job": class_job,
        "class_pool": job_pool[class_job],
        "part_class_ptr": np.searchsorted(job_part[class_job], np.arange(n_parts + 1)).astype(np.int64),
        "class_single": np.zeros(n_classes, dtype=np.bool_),
        "class_size_ptr": _pointers(job_class, n_classes),
    }


def _classes(job_part: IntArray, needs: IntArray) -> IntArray:
    """Number the distinct (partition, pools and needs), partition by partition."""
    code = np.unique(job_part, return_inverse=True)[1]
    for column in needs.T:
        values, inverse = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + inverse, return_inverse=True)[1]
    return code.astype(np.int64)


def _pointers(codes: IntArray, n: int) -> IntArray:
    counts = np.bincount(codes[codes >= 0], minlength=n)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _partitions(table: JobTable, cluster: Cluster, partition: Partition) -> tuple[IntArray, IntArray]:
    """Partition of every server and of every job; -1 for a job whose vc has no server."""
    if partition == "none":
        return np.zeros(len(cluster), np.int64), np.zeros(len(table), np.int64)
    names: dict[str, int] = {}
    for server, vc in zip(cluster.server_names, cluster.vc, strict=True):
        if vc is None:
            raise InvalidScenarioError(
                f"partition vc: server {server} of cluster {cluster.name} has no vc; label every server"
            )
        names.setdefault(vc, len(names))
    server_part = np.array([names[vc] for vc in cluster.vc if vc is not None], dtype=np.int64)
    of_vc = np.array([*(names.get(vc, -1) for vc in table.vc_names), -1], dtype=np.int64)
    return server_part, of_vc[table.vc]
