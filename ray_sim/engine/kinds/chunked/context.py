"""World facts that policies for chunked jobs get beside those of every policy."""

from __future__ import annotations

from functools import cached_property

from ray_sim.engine.kinds.chunked.eligibility import Eligibility
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.world import World
from ray_sim.model.errors import BlindPolicyError
from ray_sim.model.units import BoolArray, IntArray


class ChunkedContext(PolicyContext):
    """Facts of a world of chunked jobs. Arrays are read-only."""

    __slots__ = {
        "preemption_us": "Work that a chunk owes more each time it is preempted, in microseconds.",
        "workers": "Worker slots of all servers, see `WorkerSlots`.",
    }

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        super().__init__(world, sees, policy)
        self._facts = ChunkFacts.in_world(world)
        self._sees_profile = "chunk_profile" in sees
        self.preemption_us: int = self._facts.preemption_us
        self.workers: WorkerSlots = read_only_record(self._facts.slots)

    @property
    def eligible(self) -> Eligibility:
        """Eligibility of workers and parameter servers for jobs."""
        return self._eligible

    @cached_property
    def _eligible(self) -> Eligibility:
        return read_only_record(self._facts.eligible)

    def chunk_us(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray | bool = False) -> IntArray:
        """Microseconds of chunks of these jobs on these workers; see `ChunkFacts.chunk_us`."""
        return self._profiled().chunk_us(jobs, workers, in_cloud)

    def upload_us(self, jobs: IntArray, workers: IntArray) -> IntArray:
        """Microseconds until data of these jobs that are sent off are at these workers."""
        return self._profiled().upload_us(jobs, workers)

    def ready_us(self, now_us: int, jobs: IntArray, workers: IntArray) -> IntArray:
        """When chunks that are sent off at ``now_us`` can be trained by these workers."""
        return self._profiled().ready_us(now_us, jobs, workers)

    def cloud_serves(self, jobs: IntArray) -> BoolArray:
        """Whether parameter servers in a cloud may serve jobs, which zeta = 1 takes."""
        return read_only(self._profiled().cloud_serves)[jobs]

    def _profiled(self) -> ChunkFacts:
        if not self._sees_profile:
            raise BlindPolicyError(
                f"policy {self._policy} asks how long chunks take, but its `sees` lacks chunk_profile"
            )
        return self._facts
