"""Facts of the world that a policy gets before the run."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ray_sim.engine.equivalent_servers import kinds_of_servers
from ray_sim.engine.job_queue import JobQueue
from ray_sim.engine.kinds.chunked.eligibility import Eligibility
from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.kinds.chunked.world import ChunkWorld
from ray_sim.engine.order import gang_gpus, order_rule
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.visible_columns import JobColumns
from ray_sim.engine.world import World
from ray_sim.kernels.core.replay_state import Order
from ray_sim.kernels.elastic.step_time import Rows
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.training_progress import PdOrsProgress, PlacementProgress, trial_speeds
from ray_sim.model.units import BoolArray, FloatArray, IntArray


class PolicyContext:
    """Facts of the world for a policy. Arrays are read-only."""

    def __init__(
        self,
        world: World,
        sees: frozenset[str],
        policy: str,
        trial_truth: PlacementProgress | PdOrsProgress | None = None,
    ) -> None:
        self._world = world
        self._trial_truth = trial_truth
        self.cluster: Cluster = read_only_record(world.cluster)
        self.restart_us: int = world.restart_us
        self.preemption_us: int = 0 if world.chunks is None else world.chunks.preemption_us
        """Work that a chunk owes more each time it is preempted."""
        self.slot_us: int | None = world.slot_us
        self.horizon_us: int | None = world.horizon_us if world.bounded else None
        self.jobs = JobColumns(world, sees, policy)
        self.workers: WorkerSlots | None = (
            None if world.chunks is None else read_only_record(world.chunks.slots)
        )
        """Worker slots, in worlds of chunked jobs; else None."""
        self.server_partition: IntArray = read_only(world.arrays.server_part)
        """(S,) partition of each server, as `jobs.partition`."""
        self._sees_profile = "chunk_profile" in sees
        self._sees_speed = "training_speed" in sees
        self._policy = policy

    @cached_property
    def server_kind(self) -> IntArray:
        """(S,) the same number for servers that are interchangeable, see `kinds_of_servers`."""
        return read_only(kinds_of_servers(self.cluster, self.server_partition))

    def service(self, placement: str, *, backfill: bool = False, preemptive: bool = False) -> JobQueue:
        """A queue of waiting jobs that is served by key, see `ray_sim.engine.job_queue.JobQueue`."""
        return JobQueue(self._world, placement, backfill=backfill, preemptive=preemptive)

    def chunk_us(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray | bool = False) -> IntArray:
        """Microseconds of chunks of these jobs on these workers; see `ChunkWorld.chunk_us`."""
        return self._chunk_world().chunk_us(jobs, workers, in_cloud)

    def upload_us(self, jobs: IntArray, to_cloud: BoolArray) -> IntArray:
        """Microseconds until data that are sent off are at a worker of the edge or of the cloud."""
        return self._chunk_world().truth.upload_us(jobs, to_cloud)

    def ready_us(self, now_us: int, jobs: IntArray, to_cloud: BoolArray) -> IntArray:
        """When chunks that are sent off at ``now_us`` can be trained at the edge or in the cloud."""
        return self._chunk_world().truth.ready_us(now_us, jobs, to_cloud)

    @cached_property
    def eligible(self) -> Eligibility:
        """Eligibility of workers and parameter servers for chunked jobs."""
        assert self._world.chunks is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return read_only_record(self._world.chunks.eligible)

    def cloud_serves(self, jobs: IntArray) -> BoolArray:
        """Whether parameter servers in a cloud may serve chunked jobs, which zeta = 1 takes."""
        return read_only(self._chunk_world().cloud_serves)[jobs]

    def _chunk_world(self) -> ChunkWorld:
        assert self._world.chunks is not None, "only in worlds of chunked jobs, see Policy.chunked"
        if not self._sees_profile:
            raise BlindPolicyError(
                f"policy {self._policy} asks how long chunks take, but its `sees` lacks chunk_profile"
            )
        return self._world.chunks

    def trial_speed(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(n,) samples per second in trial runs of elastic jobs, without slow workers; see `trial_speeds`."""
        if not self._sees_speed:
            raise BlindPolicyError(
                f"policy {self._policy} makes trial runs, but its `sees` lacks training_speed"
            )
        assert self._trial_truth is not None, "only in runs of elastic jobs"
        return trial_speeds(self._trial_truth, jobs, rows)

    def gang_gpus(self) -> IntArray:
        """(J,) milli-GPU of each whole gang, at least 1."""
        return gang_gpus(self._world)

    def order(self, **rule: Any) -> Order:
        """An order rule for the compiled loop, see `ray_sim.engine.compiled.order_rule`."""
        return order_rule(self._world, **rule)
