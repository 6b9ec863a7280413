"""Jobs of a workload, as a struct of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import polars as pl

from ray_sim.kernels.core.arrays import ALL_REDUCE, ASYNC, SYNC
from ray_sim.model.outlook import Outlook
from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.model.value_function import ValueFunction


class Exchange(IntEnum):
    """Exchange of gradients and parameters between the workers of a job."""

    SYNC = SYNC
    """Through parameter servers, in step."""
    ASYNC = ASYNC
    """Through parameter servers, each worker on its own."""
    ALL_REDUCE = ALL_REDUCE
    """Among the workers in a ring, in step."""


@dataclass(frozen=True, slots=True)
class ChunkProfile:
    """Training of each job in chunks: (J,) each; NaN where the workload has no value, except for memory.

    The fields are columns of a workload, see docs/workloads.md.
    """

    chunks: FloatArray
    """D, whole, >= 1."""
    epochs: FloatArray
    """E, whole, >= 1."""
    minibatches_per_chunk: FloatArray
    """M, whole, >= 1."""
    minibatch_s: FloatArray
    """m, on a worker of speed 1."""
    gradient_mb: FloatArray
    """q."""
    bandwidth_mbps: FloatArray
    """b, > 0; of the column `chunk_bandwidth_mbps` where that has a value."""
    upload_edge_s: FloatArray
    upload_cloud_s: FloatArray
    worker_memory_gib: FloatArray
    """Memory that a worker needs to train a chunk, 0 where the workload has no value."""
    ps_memory_gib: FloatArray
    """Memory that a parameter server needs to serve the job, 0 as in `worker_memory_gib`."""


CHUNK_MEMORY = ("worker_memory_gib", "ps_memory_gib")
"""Fields of `ChunkProfile` that a workload may leave out."""


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
    """K, samples of one epoch, >= 0."""
    batch: FloatArray
    """F, samples of one step: of all workers together, or of each worker if they do not wait; >= 1."""
    sample_s: FloatArray
    """tau, on a worker of speed 1, > 0."""
    gradient_mb: FloatArray
    """g."""
    bandwidth_mbps: FloatArray
    """b between tasks on two servers, > 0."""
    internal_bandwidth_mbps: FloatArray
    """b between tasks on one server, > 0."""
    step_s: FloatArray
    """Overhead of a step; the next two are its increase per worker and per parameter server."""
    step_s_per_worker: FloatArray
    step_s_per_ps: FloatArray
    workers_per_ps: FloatArray
    """gamma, whole, >= 1."""
    num_workers: IntArray
    """Workers that the job asks for, >= 1."""
    num_ps: IntArray
    """Parameter servers that the job asks for; 0 for all-reduce."""
    worker_demand: IntArray
    """(J, R) quanta of each resource that one worker takes."""
    ps_demand: IntArray
    """(J, R) quanta of each resource that one parameter server takes."""
    model: IntArray
    """Index into `model_names`, -1 where the workload has no value."""
    model_names: tuple[str, ...]

    @property
    def work(self) -> FloatArray:
        """(J,) samples to train in total, V = E K."""
        return self.epochs * self.samples


@dataclass(frozen=True, slots=True)
class MeasuredProfile:
    """Work of jobs whose speed is looked up by `JobTable.model` and batch: (J,) each.

    The fields are columns of a workload, see docs/workloads.md; `ray_sim.model.measured_speeds` has speeds.
    """

    batch: FloatArray
    """Samples of a mini-batch of one GPU, whole, >= 1; NaN where the model has none."""
    steps: FloatArray
    """Mini-batches of the job, counted over all GPUs, whole, >= 1; NaN where the workload has no value."""
    weight: FloatArray
    """> 0, more is higher; 1 where the workload has no value."""
    deadline_s: FloatArray
    """Time after submission by which the job should end, column `utility_due_s`; infinite for none."""


@dataclass(frozen=True, slots=True)
class PairProfile:
    """Bandwidth of each pair of a worker and a parameter server, as the form of PD-ORS has it: (J,) each.

    Other forms have the bandwidth of a whole task or server; see docs/training.md.
    """

    pair_bandwidth_mbps: FloatArray
    """Between two servers, > 0."""
    internal_pair_bandwidth_mbps: FloatArray
    """Within a server, > 0."""

    def of_training(self, training: TrainingProfile) -> TrainingProfile:
        """The training of the same jobs with these bandwidths."""
        return replace(
            training,
            bandwidth_mbps=self.pair_bandwidth_mbps,
            internal_bandwidth_mbps=self.internal_pair_bandwidth_mbps,
        )


@dataclass(frozen=True, slots=True)
class UtilityProfile:
    """Utility of jobs at delay d after arrival, max / (1 + exp(decay (d - due))): (J,) each, without NaN."""

    utility_max: FloatArray
    """theta1."""
    utility_decay_per_s: FloatArray
    """theta2."""
    utility_due_s: FloatArray
    """theta3."""


@dataclass(frozen=True, slots=True)
class LossProfile:
    """Loss curve of each job, see `ray_sim.model.loss`: (J,) each, without NaN.

    The curve is hidden from policies: a policy sees noisy points up to the present.
    """

    loss_b0: FloatArray
    """Slope per epoch, > 0."""
    loss_b1: FloatArray
    """> 0."""
    loss_b2: FloatArray
    """Limit of the loss, >= 0."""
    loss_noise: FloatArray
    """Standard deviation of a point around the curve."""
    loss_threshold: FloatArray
    """Drop per epoch below which a job counts as converged, > 0."""
    loss_patience: FloatArray
    """Number of consecutive epochs below the threshold after which the job ends, whole, >= 1."""
    loss_drop: FloatArray
    """Share by which the part of the loss above ``loss_b2`` drops at once, in [0, 1)."""
    loss_drop_epoch: FloatArray
    """Epoch of this drop, whole."""


@dataclass(frozen=True, slots=True)
class BlockProfile:
    """Parameter blocks of the model of each job; see `ray_sim.model.parameter_blocks`."""

    lists: tuple[tuple[int, ...], ...]
    """Parameters in each block, in the order of layers."""
    of_job: IntArray
    """(J,) index into `lists`; -1 for all-reduce jobs, which have no parameter servers."""


@dataclass(frozen=True, slots=True)
class StatementProfile:
    """Statements of work of announced jobs, true and reported: (J,) each, without NaN.

    The arrival of a job is its `submit_us`, its realised duration its `work_us`. Equal texts of a workload
    share a row of `values` or `outlooks`.
    """

    birth_us: IntArray
    """Announcement, microseconds since `origin_us`; at most `submit_us`, may be negative."""
    arrival_us: IntArray
    """Arrival, microseconds since `origin_us`: the submission of kinds of jobs that are not announced."""
    values: tuple[ValueFunction, ...]
    value_row: IntArray
    """Row of `values` that is true."""
    outlooks: tuple[Outlook, ...]
    outlook_row: IntArray
    """Row of `outlooks` that is true."""
    reported_value_row: IntArray
    """Row of `values` that policies see; the true one where the workload reports no other."""
    reported_outlook_row: IntArray
    """Row of `outlooks` that policies see; the true one where the workload reports no other."""
    reported_gpus: FloatArray
    """GPUs that policies see; the true number where the workload reports no other."""


class AttemptLog(NamedTuple):
    """Attempts of jobs in the trace, N of all jobs together."""

    ptr: IntArray
    """(J + 1,) attempts of job j: ptr[j] .. ptr[j + 1]; none where the trace tells none."""
    length_us: IntArray
    """(N,)."""
    reasons: tuple[str, ...]
    """(N,) why each ended; empty where the trace tells nothing."""


@dataclass(frozen=True, slots=True)
class JobTable:
    """All jobs of a run in (submit, trace order); the row index is the tie-break everywhere.

    A rigid job is a gang of `tasks` identical tasks, each with the row's `demand`: it runs while all
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
    """(J,) GPUs of the whole job in the trace."""
    vc: IntArray
    """(J,) index into `vc_names`, -1 where the trace has none."""
    vc_names: tuple[str, ...] = ()
    user: pl.Series | None = None
    priority: IntArray | None = None
    model: pl.Series | None = None
    """Family of each job's model, null where unknown; None where no job has one."""
    gpu_types: pl.Series | None = None
    """GPU types that each job accepts, such as V100|T4, null for any; None where all are null."""
    time_limit_us: IntArray | None = None
    """(J,) `NEVER_US` for none; None where no job has one."""
    attempt_log: AttemptLog | None = None
    endings: IntArray | None = None
    """(J,) `FAILED` or `KILLED` of jobs that ended so in the trace, else 0; None where none did."""
    killed_us: IntArray | None = None
    """(J,) from submission to the end of killed jobs in the trace, else `NEVER_US`; None where unknown."""
    group: pl.Series | None = None
    """Job of the trace to which each row belongs, null where the row is a whole job; None without groups."""
    trace_order: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """(J,) position in the trace, unique within a vc."""
    origin_us: int = 0
    """The trace's own time of the first submission; printed times count from the trace's zero."""
    chunk_profile: ChunkProfile | None = None
    """None where the workload has no chunk columns."""
    training: TrainingProfile | None = None
    """None unless the workload has training data for every job; `gaps` lists what is missing."""
    pairs: PairProfile | None = None
    """None where the bandwidths of pairs are those of `training`."""
    measured: MeasuredProfile | None = None
    """None where no job has a model and steps."""
    utility: UtilityProfile | None = None
    loss: LossProfile | None = None
    blocks: BlockProfile | None = None
    statements: StatementProfile | None = None
    listed: JobTable | None = None
    """Jobs of the list that a stream draws from; None where all jobs of the list are replayed once."""
    gaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lines for each profile that is None, one per missing column, by the name of the profile."""

    def name(self, job: int) -> str:
        """Its ``job_id`` for messages, with control characters escaped."""
        return shown(self.job_id[job])

    def __len__(self) -> int:
        return len(self.submit_us)
