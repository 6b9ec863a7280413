"""The jobs of a workload, as a struct of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import ALL_REDUCE, ASYNC, SYNC
from ray_sim.model.units import FloatArray, IntArray


class Exchange(IntEnum):
    """Exchange of gradients and parameters between the workers of a job."""

    SYNC = SYNC
    """Through parameter servers, all workers in step."""
    ASYNC = ASYNC
    """Through parameter servers, each worker by itself."""
    ALL_REDUCE = ALL_REDUCE
    """Among themselves in a ring, all in step."""


@dataclass(frozen=True, slots=True)
class ChunkProfile:
    """Training of each job in chunks: (J,) each, NaN where the workload does not say but for memory.

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
    worker_memory_gib: FloatArray
    """That a worker needs to train a chunk, 0 where the workload does not say."""
    ps_memory_gib: FloatArray
    """That a parameter server needs to serve the job; as `worker_memory_gib`."""


CHUNK_MEMORY = ("worker_memory_gib", "ps_memory_gib")
"""The fields of `ChunkProfile` that a workload need not have."""


@dataclass(frozen=True, slots=True)
class TrainingProfile:
    """Training of each job with workers and parameter servers: (J,) each, without NaN.

    The fields are columns of a workload, see docs/training.md.
    """

    exchange: IntArray
    """`Exchange`."""
    epochs: FloatArray
    """E, whole, >= 1."""
    samples: FloatArray
    """K, of one epoch, >= 0."""
    batch: FloatArray
    """F, samples of one step: of all workers together, of each worker where they do not wait; >= 1."""
    sample_s: FloatArray
    """tau, of a worker of speed 1, > 0."""
    gradient_mb: FloatArray
    """g."""
    bandwidth_mbps: FloatArray
    """b of tasks on two servers, > 0."""
    internal_bandwidth_mbps: FloatArray
    """b of tasks on one server, > 0."""
    step_s: FloatArray
    """Overhead of a step, and what each worker and each parameter server add to it."""
    step_s_per_worker: FloatArray
    step_s_per_ps: FloatArray
    workers_per_ps: FloatArray
    """gamma, whole, >= 1."""
    num_workers: IntArray
    """Asked for, >= 1."""
    num_ps: IntArray
    """Asked for; 0 where there are none."""
    worker_demand: IntArray
    """(J, R) quanta of each resource that one worker holds."""
    ps_demand: IntArray
    """(J, R) as `worker_demand`, of a parameter server."""
    model: IntArray
    """Index into `model_names`, -1 where the workload does not say."""
    model_names: tuple[str, ...]

    @property
    def work(self) -> FloatArray:
        """(J,) samples to train in all, V = E K."""
        return self.epochs * self.samples


@dataclass(frozen=True, slots=True)
class UtilityProfile:
    """Utility of jobs d after their arrival, max / (1 + exp(decay (d - due))): (J,) each, without NaN."""

    utility_max: FloatArray
    """theta1."""
    utility_decay_per_s: FloatArray
    """theta2."""
    utility_due_s: FloatArray
    """theta3."""


@dataclass(frozen=True, slots=True)
class LossProfile:
    """The curve that the loss of each job follows, see `ray_sim.model.loss`: (J,) each, without NaN.

    It is true and hidden: a policy sees the noisy points up to now.
    """

    loss_b0: FloatArray
    """Per epoch, > 0."""
    loss_b1: FloatArray
    """> 0."""
    loss_b2: FloatArray
    """Limit of the loss, >= 0."""
    loss_noise: FloatArray
    """Standard deviation of a point about the curve."""
    loss_threshold: FloatArray
    """Drop per epoch below which the job is as good as converged, > 0."""
    loss_patience: FloatArray
    """Epochs in a row below the threshold after which it ends, whole, >= 1."""
    loss_drop: FloatArray
    """Share by which what is above ``loss_b2`` falls at once, in [0, 1)."""
    loss_drop_epoch: FloatArray
    """The epoch in which it does, whole."""


@dataclass(frozen=True, slots=True)
class BlockProfile:
    """The parameter blocks of the model that each job trains; see `ray_sim.model.parameter_blocks`."""

    lists: tuple[tuple[int, ...], ...]
    """Parameters in each block, in the order of layers."""
    of_job: IntArray
    """(J,) index into `lists`; -1 where a job has no parameter servers by its nature."""


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
    training: TrainingProfile | None = None
    """None where the workload does not say it of every job; `gaps` then tells what is missing."""
    utility: UtilityProfile | None = None
    loss: LossProfile | None = None
    blocks: BlockProfile | None = None
    gaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name of a profile that is None, a line for each column that is missing."""

    def __len__(self) -> int:
        return len(self.submit_us)
