"""The world of a run: jobs, servers, partitions and the facts no policy chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ray_sim.kernels.core.arrays import KEEP_ALL, Outages, WorldArrays
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import Value
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.injectors import Injector
    from ray_sim.engine.kinds.facts import KindFacts, KindLabel
    from ray_sim.engine.world_arrays import Partition


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is true in a run before a policy decides anything. Make it by `build_world`."""

    table: JobTable
    cluster: Cluster
    partition: Partition
    kind: KindLabel
    """Kind of all its jobs."""
    facts: KindFacts
    """Facts that only this kind of job has."""
    outages: Outages
    there: BoolArray
    """(S,) servers that are there at time 0, before any outage."""
    checkpoint_us: int = 0
    restart_us: int = 0
    preemption: int = KEEP_ALL
    """Progress kept by a job that is suspended or moved: `KEEP_ALL`, `KEEP_CHECKPOINT` or `KEEP_NOTHING`."""
    injectors: tuple[Injector, ...] = ()
    """Causes of faults, in the order in which they act at an instant."""
    retries: int = 0
    """Times that a job that failed at random is tried again; `NEVER_US` for no limit."""
    endings: IntArray | None = None
    """(J,) `FAILED` or `KILLED` of jobs that end so after their work, else 0; None where none does."""
    horizon_us: int = NEVER_US - 1
    slot_us: int | None = None
    fragmentation_target: Value = "trace"
    """``trace`` or ``arrived``: typical tasks are those of all jobs, or of the jobs that have come."""
    params: Mapping[str, object] = field(default_factory=dict)
    """The values of world parameters that it was built with, as they were given."""

    @property
    def arrays(self) -> WorldArrays:
        """Servers and jobs for the kernels."""
        return self.facts.arrays

    @property
    def work(self) -> IntArray | FloatArray:
        """(J,) work of each job, in the unit of its kind; of rigid jobs microseconds at speed 1."""
        return self.facts.work(self.table)

    @property
    def beyond_capacity(self) -> IntArray:
        """(C,) verdict per job class, see `ray_sim.kernels.core.world_arrays`."""
        return self.facts.beyond_capacity

    @property
    def row_bound(self) -> int:
        """Most rows of placements that exist at a time."""
        return self.facts.row_bound

    @property
    def first_capacity(self) -> IntArray:
        """(S, R) quanta that the servers offer at time 0; those that are not there offer none."""
        return self.arrays.capacity * self.there[:, None]

    @property
    def event_bound(self) -> int:
        """Most events of servers, placements and jobs that are recorded at an instant."""
        return self.row_bound + len(self.outages.time) + self.facts.events_per_instant

    @property
    def losses(self) -> bool:
        """Whether a stop may cost progress."""
        return len(self.outages.time) > 0 or self.preemption != KEEP_ALL or len(self.injectors) > 0

    @property
    def faulty(self) -> bool:
        """Whether jobs may fail or be killed."""
        return len(self.injectors) > 0 or self.endings is not None

    @property
    def bounded(self) -> bool:
        """Whether there is a horizon."""
        return self.horizon_us < NEVER_US - 1

    def end_us(self, now_us: int) -> int:
        """When a run ends whose last instant is ``now_us``: at its horizon, if it has one."""
        return self.horizon_us if self.bounded else now_us
