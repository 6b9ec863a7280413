"""Facts of the world that a policy gets before the run."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ray_sim.engine.job_queue import FASTEST, JobQueue
from ray_sim.engine.migrations import kinds_of_servers
from ray_sim.engine.order import counts_cores, gang_gpus, order_rule, service_rate
from ray_sim.engine.placer import Placer
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.visible_columns import JobColumns
from ray_sim.engine.world import World
from ray_sim.kernels.core.replay_state import Order
from ray_sim.model.cluster import Cluster
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, IntArray


class PolicyContext:
    """Facts of the world for a policy. Arrays are read-only."""

    __slots__ = {  # texts for `help`
        "__dict__": "",
        "cluster": "Servers: names, capacities, speeds, kinds; see `ray_sim.model.cluster.Cluster`.",
        "horizon_us": "End of the run in microseconds; None in a world without a horizon.",
        "jobs": "Columns of all jobs that the policy's `sees` declares, see `JobColumns`.",
        "restart_us": "Pause of a job that starts again, in microseconds.",
        "server_partition": "(S,) partition of each server, as `jobs.partition`.",
        "slot_us": "Length of a slot in microseconds; None in a world without slots.",
    }

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        self._world = world
        self.cluster: Cluster = read_only_record(world.cluster)
        self.restart_us: int = world.restart_us
        self.slot_us: int | None = world.slot_us
        self.horizon_us: int | None = world.horizon_us if world.bounded else None
        self.jobs = JobColumns(world, sees, policy)
        self.server_partition: IntArray = read_only(world.arrays.server_part)
        self._policy = policy

    @property
    def server_kind(self) -> IntArray:
        """(S,) the same number for servers that are interchangeable, see `kinds_of_servers`."""
        return self._server_kind

    @cached_property
    def _server_kind(self) -> IntArray:
        return read_only(kinds_of_servers(self.cluster, self._world.arrays))

    def may_use(self, jobs: IntArray) -> BoolArray:
        """(n, roles, S) servers that tasks of these jobs may be on: of their partition and accepted types."""
        return self.pools[self.pool_of(jobs)]

    def pool_of(self, jobs: IntArray) -> IntArray:
        """(n, roles) row of `pools` of each role, that of the workers for a role without tasks."""
        arrays = self._world.arrays
        return arrays.class_pool[arrays.job_class[jobs]]

    @property
    def pools(self) -> BoolArray:
        """(Q + 1, S) servers of each partition, then of each other set that a role may use, then none."""
        return self._pools

    @cached_property
    def _pools(self) -> BoolArray:
        arrays = self._world.arrays
        member = np.zeros((len(arrays.pool_ptr), len(arrays.capacity)), dtype=np.bool_)
        number = np.repeat(np.arange(len(arrays.pool_ptr) - 1), np.diff(arrays.pool_ptr))
        member[number, arrays.pool_servers] = True
        return read_only(member)

    def service(
        self,
        placement: str,
        *,
        backfill: bool = False,
        preemptive: bool = False,
        reject: bool = False,
        streams: Streams | None = None,
        gpu_type: str = FASTEST,
    ) -> JobQueue:
        """A queue of waiting jobs that is served by key, see `ray_sim.engine.job_queue.JobQueue`."""
        return JobQueue(
            self._world,
            placement,
            backfill=backfill,
            preemptive=preemptive,
            reject=reject,
            streams=streams,
            gpu_type=gpu_type,
        )

    def placer(self, placement: str, streams: Streams | None = None) -> Placer:
        """A placement rule for kernels that plan ahead, see `ray_sim.engine.placer.Placer`."""
        return Placer(self._world, placement, streams)

    def gang_gpus(self) -> IntArray:
        """(J,) milli-GPU of each whole gang, at least 1."""
        return gang_gpus(self._world)

    @property
    def counts_cores(self) -> bool:
        """Whether attained service counts cores, as no job of the workload asks for a GPU."""
        return counts_cores(self._world)

    def service_rate(self) -> IntArray:
        """(J,) milli-GPU of each whole gang, or milli-cores where service `counts_cores`; at least 1."""
        return service_rate(self._world)

    def order(self, **rule: Any) -> Order:
        """An order rule for the compiled loop, see `ray_sim.engine.order.order_rule`."""
        return order_rule(self._world, **rule)
