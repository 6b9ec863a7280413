"""The jobs of a workload, as a struct of arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ray_sim.model.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ChunkProfile:
    """How each job trains in chunks: (J,) each, NaN where the workload does not say.

    The fields are columns of a workload, see docs/workloads.md.
    """

    chunks: FloatArray
    """D, whole, >= 1."""
    epochs: FloatArray
    """E, whole, >= 1."""
    minibatches_per_chunk: FloatArray
    """M, whole, >= 1."""
    minibatch_s: FloatArray
    """m, of a worker of speed 1."""
    gradient_mb: FloatArray
    """q."""
    bandwidth_mbps: FloatArray
    """b, > 0."""
    upload_edge_s: FloatArray
    upload_cloud_s: FloatArray


@dataclass(frozen=True, slots=True)
class JobTable:
    """All jobs of a run in (submit, trace order); the row index is the tie-break everywhere.

    A rigid job is a gang of `tasks` alike tasks, each with the row's `demand`: it runs while all
    of them are placed. A job of n whole GPUs is n tasks of one GPU unless the trace says
    otherwise, so it may span servers.
    """

    job_id: pl.Series
    """Names from the trace, unique, as strings."""
    submit_us: IntArray
    """(J,) microseconds since `origin_us`, non-decreasing, first 0."""
    work_us: IntArray
    """(J,) run time at speed 1 with the whole gang placed, >= 0."""
    tasks: IntArray
    """(J,) tasks in the gang, >= 1."""
    demand: IntArray
    """(J, R) quanta of each resource that one task holds, >= 0."""
    resources: tuple[str, ...]
    """Names of the R resources."""
    num_gpus: FloatArray
    """(J,) GPUs of the whole job as the trace has them."""
    vc: IntArray
    """(J,) index into `vc_names`, -1 where the trace has none."""
    vc_names: tuple[str, ...] = ()
    user: pl.Series | None = None
    priority: IntArray | None = None
    group: pl.Series | None = None
    """The trace's job that each row is a part of, null where the row is a whole job; None without any."""
    trace_order: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """(J,) position in the trace, unique within a vc."""
    origin_us: int = 0
    """The trace's own time of the first submission; printed times count from the trace's zero."""
    chunk_profile: ChunkProfile | None = None
    """None where the workload says nothing of chunks."""

    def __len__(self) -> int:
        return len(self.submit_us)
