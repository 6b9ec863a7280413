"""Facts of one world that its kind of job owns, and what most kinds answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from ray_sim.engine.sites.part import PartFacts
from ray_sim.engine.world_arrays import Partition
from ray_sim.kernels.core.arrays import WorldArrays
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import Value
from ray_sim.model.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.certificates.jct import JctLimits, NoJctLimits
    from ray_sim.engine.world import World
    from ray_sim.model.result import UtilityCertificate


NEVER_FITS = "never_fits"
"""Reason of jobs that are rejected because not even the empty servers hold them."""


class KindLabel(Protocol):
    """Names of a kind of job, for messages, and the limits of its jobs; see `JobKind`."""

    @property
    def truth(self) -> str:
        """Value of ``-w truth=`` that chooses it."""

    @property
    def jobs(self) -> str:
        """Jobs of this kind, e.g. ``rigid``."""

    @property
    def faults(self) -> frozenset[str]:
        """Faults that its jobs can suffer, see `JobKind.faults`."""

    @property
    def unheeded(self) -> Mapping[str, str]:
        """World parameters without effect on them, and why."""

    def alone_us(self, world: World) -> IntArray | None:
        """Run time of each job alone, for its fairness."""

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits | None:
        """Limits of these jobs for a bound on their mean JCT."""

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """Bound what the counted jobs could earn."""


@dataclass(frozen=True, slots=True)
class WorldSetting:
    """Inputs from which a kind makes its facts."""

    table: JobTable
    cluster: Cluster
    """Capacities are overcommitted already."""
    partition: Partition
    values: Mapping[str, Value]
    """Values of all world parameters."""
    slot_us: int | None

    @property
    def bound_cells(self) -> int | None:
        """Most variables of the programme for bound B4, >= 100; None if the world does not ask for it."""
        cells = self.values.get("bound_cells")
        return cells if isinstance(cells, int) else None


@dataclass(frozen=True, slots=True)
class KindColumns:
    """Columns of jobs that a kind shows to policies; arrays are read-only."""

    always: Mapping[str, object]
    """Attributes of `JobColumns` that every policy sees."""
    declared: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Attributes by the name that a policy declares in `sees`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why jobs of this kind lack an attribute that others have, e.g. ``which chunked jobs have not``."""


class KindFacts:
    """Facts of one world that its kind of job owns; frozen. The answers given here hold for most kinds."""

    __slots__ = ()

    arrays: WorldArrays
    """Servers and jobs for the kernels."""
    beyond_capacity: IntArray
    """(C,) verdict per job class, see `ray_sim.kernels.core.world_arrays`."""
    row_bound: int
    """Most rows of placements that exist at a time."""
    resources: Mapping[str, int]
    """Quanta in a unit of each resource, in the order of the arrays' axis."""
    partial: ClassVar[bool] = False
    """Whether a job may hold any tasks; else its whole gang or nothing."""
    least_tasks: ClassVar[int] = 1
    """Fewest tasks in a row of a placement."""

    @property
    def compiled(self) -> bool:
        """Whether the compiled loop runs such a world."""
        return False

    @property
    def grid_us(self) -> int:
        """Servers change, and limits end jobs, at multiples of this; 1 where there is no grid."""
        return 1

    @property
    def events_per_instant(self) -> int:
        """Most events of jobs at an instant, beside placements and servers."""
        return 0

    @property
    def counted_servers(self) -> BoolArray | slice:
        """(S,) servers whose capacity counts as offered."""
        return slice(None)

    @property
    def event_names(self) -> tuple[str, ...]:
        """Names of events that only this kind has; their codes follow those of `EVENT_NAMES`."""
        return ()

    @property
    def part(self) -> PartFacts:
        """State of jobs that sites keep beside placements."""
        return PartFacts()

    def jobs(self, table: JobTable) -> JobTable:
        """The jobs of a workload in the order and at the times at which they are submitted."""
        return table

    def arrival_us(self, table: JobTable) -> IntArray:
        """(J,) submissions in the trace, from which the ends of killed jobs there count."""
        return table.submit_us

    def work(self, table: JobTable) -> IntArray | FloatArray:
        """(J,) work of each job: microseconds at speed 1, or samples."""
        return table.work_us

    def why_never(self, jobs: IntArray) -> list[str]:
        """Why each of these jobs, (n,), can never run: a reason of rejections."""
        return [NEVER_FITS] * len(jobs)

    @abstractmethod
    def columns(self) -> KindColumns:
        """Columns of jobs that policies may read."""
