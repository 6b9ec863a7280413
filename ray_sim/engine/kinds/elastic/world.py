"""World facts of elastic jobs: requested tasks, training model, stragglers and data moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WorldArrays
from ray_sim.kernels.core.world_arrays import judge_smallest
from ray_sim.model.errors import InvalidScenarioError, problems_text
from ray_sim.model.job import BlockProfile, Exchange, JobTable, LossProfile, TrainingProfile
from ray_sim.model.parameter_blocks import AS_WORLD, EVEN, BlockRule, DealtLoads
from ray_sim.model.streams import Streams
from ray_sim.model.training_progress import (
    Form,
    Nic,
    PdOrsProgress,
    PlacementProgress,
    pd_ors_progress,
    placement_progress,
)
from ray_sim.model.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Stragglers:
    """At every multiple of `every_us` a worker of each running job becomes slow with some probability.

    It stays so until the job's placements change: whoever places the job anew replaces it.
    """

    probability: float
    """In [0, 1]."""
    slowdown: float
    """Factor on the step time of a straggler, >= 1."""
    every_us: int

    def struck(self, streams: Streams, instant: int, jobs: int) -> BoolArray:
        """(J,) the jobs that are hit at the instant of this number, those that run among them."""
        return streams.generator("straggler", instant).random(jobs) < self.probability


@dataclass(frozen=True, slots=True)
class TrainingWorld:
    """Facts about elastic jobs."""

    profile: TrainingProfile
    loss: LossProfile | None
    """Curves that are hidden from policies but for their noisy points so far."""
    form: Form
    nic: Nic
    speed: FloatArray
    """(S,) of each server."""
    stragglers: Stragglers | None
    data_move_us: int
    """Moving all data of a job from some workers to others."""
    blocks: BlockProfile | None
    """Parameter blocks of the jobs' models; None where the workload does not say."""
    block_gaps: tuple[str, ...]
    """Reasons why they are missing."""
    parameter_blocks: str
    """`EVEN` or a `BlockRule`, for policies without a rule of their own."""
    request_s: float
    """Seconds of each request for parameters, one way."""

    def loads(self, parameter_blocks: str, streams: Streams) -> DealtLoads | None:
        """What parameter servers bear in the run of these streams; None where they hold equal slices.

        Parameters
        ----------
        parameter_blocks : the policy's, see `Policy.parameter_blocks`

        Raises
        ------
        InvalidScenarioError : blocks are dealt out, and the workload has none or the form of the truth has
            no place for them
        """
        rule = self.parameter_blocks if parameter_blocks == AS_WORLD else parameter_blocks
        if rule == EVEN:
            return None
        if self.form != "placement":
            raise InvalidScenarioError(
                f"parameter_blocks={rule}: is about parameter servers under truth=placement; set that, or "
                f"leave it out"
            )
        if self.blocks is None:
            text = problems_text(
                f"parameter_blocks={rule}: the workload does not say of which blocks its models are",
                list(self.block_gaps),
            )
            raise InvalidScenarioError(
                f"{text}\n  draw them by `ray-sim enrich` with a profile that has them, or use "
                "parameter_blocks=even"
            )
        return DealtLoads(self.blocks, BlockRule(rule), streams)

    def truth(self, straggling: FloatArray, loads: DealtLoads | None) -> PlacementProgress | PdOrsProgress:
        """The progress rule of a run.

        Parameters
        ----------
        straggling : (J,) >= 1, read whenever rates are asked for
        loads : what parameter servers bear, from `loads`; equal slices without it

        Raises
        ------
        InvalidInputError : a number with which a step takes no time, or no number at all
        """
        if self.form == "pd_ors":
            return pd_ors_progress(self.profile, self.speed, straggling)
        return placement_progress(self.profile, self.speed, self.nic, straggling, loads, self.request_s)

    @property
    def gang(self) -> IntArray:
        """(J, 2) workers and parameter servers asked for."""
        return np.stack([self.profile.num_workers, self.profile.num_ps], axis=1)

    @property
    def demand(self) -> IntArray:
        """(J, 2, R) quanta per worker and per parameter server."""
        return np.stack([self.profile.worker_demand, self.profile.ps_demand], axis=1)

    def move_us(self, workers_before: IntArray, workers: IntArray) -> IntArray:
        """Microseconds until each worker has its equal share of the data, where their number changes.

        Of n workers that become m, the share 1 - min(n, m) / max(n, m) goes to another one.
        """
        most = np.maximum(np.maximum(workers_before, workers), 1)
        share = np.where(workers_before > 0, 1.0 - np.minimum(workers_before, workers) / most, 0.0)
        whole: IntArray = np.ceil(share * self.data_move_us).astype(np.int64)
        return whole


def training_world(
    table: JobTable,
    speed: FloatArray,
    *,
    form: Form,
    nic: str,
    stragglers: Stragglers | None,
    data_move_us: int,
    parameter_blocks: str,
    request_s: float,
) -> TrainingWorld:
    """The world of a workload whose jobs train with workers and parameter servers.

    Raises
    ------
    InvalidScenarioError : the workload does not say how its jobs train, or of which blocks their models are
    InvalidInputError : it says so with numbers that cannot be
    """
    if table.training is None:
        gaps = table.gaps.get("training", ("it has no training columns",))
        text = problems_text(f"truth={form}: the workload does not say how its jobs train", list(gaps))
        raise InvalidScenarioError(f"{text}\n  draw what is missing by `ray-sim enrich`, or use truth=rigid")
    world = TrainingWorld(
        profile=table.training,
        loss=table.loss,
        form=form,
        nic=Nic[nic.upper()],
        speed=speed,
        stragglers=stragglers,
        data_move_us=data_move_us,
        blocks=_of_servers(table.blocks, table.training),
        block_gaps=tuple(table.gaps.get("blocks", ("it has no column blocks",))),
        parameter_blocks=parameter_blocks,
        request_s=request_s,
    )
    world.loads(AS_WORLD, Streams(0))
    world.truth(np.ones(len(table)), None)  # complains now, not when the first job starts
    return world


def _of_servers(blocks: BlockProfile | None, training: TrainingProfile) -> BlockProfile | None:
    """The blocks of jobs with parameter servers."""
    if blocks is None:
        return None
    ring = training.exchange == Exchange.ALL_REDUCE
    return replace(blocks, of_job=np.where(ring, -1, blocks.of_job))


def beyond_capacity(arrays: WorldArrays) -> IntArray:
    """(C,) verdict per job class: whether one task of each role finds a place."""
    verdict = np.empty(len(arrays.class_job), dtype=np.int64)
    judge_smallest(arrays, verdict)
    return verdict


def row_bound(arrays: WorldArrays) -> int:
    """No more rows of placements than this exist at a time.

    Each row is at least one task. A task takes a share of all there is, summed over resources; all
    shares together are at most one for each resource.
    """
    everything = arrays.capacity.sum(axis=0).astype(np.float64)
    offered = everything > 0
    rows = 2 * len(arrays.submit) * len(arrays.capacity)
    if len(arrays.submit) == 0 or not offered.any():
        return rows + 1
    share = (arrays.demand[:, :, offered] / everything[offered]).sum(axis=2)
    asked = arrays.gang > 0
    asked[:, PARAMETER_SERVER] |= (arrays.demand[:, PARAMETER_SERVER] > 0).any(axis=1)
    smallest = float(share[asked].min())
    return rows + 1 if smallest <= 0.0 else min(rows, int(offered.sum() / smallest)) + 1
