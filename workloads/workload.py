"""A workload file in memory, with what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from ray_sim.model.job import JobTable
from workloads.describe import WorkloadDescription, describe_frame
from workloads.provenance import Provenance
from workloads.sources import Source
from workloads.store import frame_to_table, read_frame, read_provenance


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a workload file, checked."""

    path: str
    jobs: pl.DataFrame = field(repr=False)
    """Columns of `SCHEMA`, one row per job."""
    provenance: Provenance | None = field(repr=False)

    @classmethod
    def read(cls, path: Source) -> Workload:
        """Read a workload file; raises as `read_frame`."""
        return cls(str(path), read_frame(path), read_provenance(path))

    def table(self, resources: Sequence[str]) -> JobTable:
        """The jobs with their demand of each resource of a cluster."""
        return frame_to_table(self.jobs, resources)

    def describe(self) -> WorkloadDescription:
        """The workload in numbers."""
        return describe_frame(self.jobs, self.path, self.provenance)

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()
