"""World facts of elastic jobs: requested tasks, step-time rule, stragglers and data moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ray_sim.engine.gpu_shares import refuse_shares
from ray_sim.engine.kinds.elastic.colocation import ColocationFacts
from ray_sim.engine.kinds.facts import KindColumns, KindFacts, WorldSetting
from ray_sim.engine.kinds.rigid.facts import gang_columns, quanta_of
from ray_sim.engine.read_only import read_only
from ray_sim.engine.world_arrays import build_world_arrays
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WorldArrays
from ray_sim.kernels.core.world_arrays import judge_smallest
from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError, problems_text
from ray_sim.model.job import BlockProfile, Exchange, JobTable, LossProfile, TrainingProfile
from ray_sim.model.parameter_blocks import AS_WORLD, EVEN, BlockRule
from ray_sim.model.parameters import Value, microseconds
from ray_sim.model.streams import Streams
from ray_sim.model.training_progress import SpeedProgress
from ray_sim.model.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.elastic.rules import StepTimeRule
    from ray_sim.engine.world import World

STATED = ("batch", "exchange", "workers_per_ps")
"""Training columns that the owner of a job states; every policy sees them."""

_TRAINING = tuple(field.name for field in fields(TrainingProfile) if field.name != "model_names")


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

    def mask(self, streams: Streams, instant: int, jobs: int) -> BoolArray:
        """(J,) mask of the jobs that get a straggler at this instant, by number, if they run."""
        return streams.generator("straggler", instant).random(jobs) < self.probability


@dataclass(frozen=True, slots=True)
class ElasticFacts(KindFacts):
    """Facts of elastic jobs."""

    arrays: WorldArrays
    beyond_capacity: IntArray
    """(C,) verdict per job class: whether one task of each role finds a place."""
    row_bound: int
    resources: Mapping[str, int]
    rule: StepTimeRule
    values: Mapping[str, Value]
    """Values of all world parameters."""
    profile: TrainingProfile
    loss: LossProfile | None
    """Curves that are hidden from policies but for their noisy points so far."""
    speed: FloatArray
    """(S,) of each server."""
    stragglers: Stragglers | None
    data_move_us: int
    """Moving all data of a job from some workers to others."""
    blocks: BlockProfile | None
    """Parameter blocks of the jobs' models; None where the workload does not say."""
    block_gaps: tuple[str, ...]
    """Reasons why they are missing."""
    optimum_nodes: int | None
    """Most nodes of the search for the exact optimum of utility; None where it is not asked for."""
    colocation: ColocationFacts | None
    """How jobs on one server slow each other; None where none heeds what others hold."""
    bound_cells: int | None
    """See `WorldSetting`."""
    partial: ClassVar[bool] = True

    @classmethod
    def of(cls, setting: WorldSetting, rule: StepTimeRule) -> ElasticFacts:
        """Build the facts of a workload whose jobs train with workers and parameter servers.

        Raises
        ------
        InvalidScenarioError : the workload does not say how its jobs train, or of which blocks models are
        InvalidInputError : it says so with numbers that cannot be
        """
        table, cluster, values = setting.table, setting.cluster, setting.values
        profile = _profile_of(table, rule)
        nodes = values.get("optimum_nodes")
        demand = np.stack([profile.worker_demand, profile.ps_demand], axis=1)
        refuse_shares(setting, demand, "elastic")
        arrays = build_world_arrays(
            table,
            cluster,
            setting.partition,
            gang=np.stack([profile.num_workers, profile.num_ps], axis=1),
            demand=demand,
        )
        facts = cls(
            arrays=arrays,
            beyond_capacity=_beyond_capacity(arrays),
            row_bound=_row_bound(arrays),
            resources=quanta_of(cluster),
            rule=rule,
            values=values,
            profile=profile,
            loss=table.loss,
            speed=cluster.speed,
            stragglers=_stragglers(values),
            data_move_us=microseconds(values["data_move_s"]) or 0,
            blocks=_of_servers(table.blocks, profile),
            block_gaps=tuple(table.gaps.get("blocks", ("it has no column blocks",))),
            optimum_nodes=nodes if isinstance(nodes, int) else None,
            colocation=ColocationFacts.of(setting, profile, rule.shares_interfaces(values)),
            bound_cells=setting.bound_cells,
        )
        facts.loads(AS_WORLD, Streams(0))
        facts.progress(np.ones(len(table)), None)  # complains now, not when the first job starts
        return facts

    @classmethod
    def in_world(cls, world: World) -> ElasticFacts:
        """The facts of a world of elastic jobs."""
        assert isinstance(world.facts, cls), "only in worlds of elastic jobs"
        return world.facts

    @property
    def slowing_options(self) -> tuple[str, ...]:
        """World options by which jobs train slower than alone, on nominal links, without slow workers."""
        shared = self.colocation
        profile = None if shared is None else shared.profile
        there = {
            "nic=per_server": shared is not None and shared.shares_interfaces,
            f"interference={'' if profile is None else profile.name}": profile is not None,
            "links": shared is not None and shared.changes is not None,
            "straggler_probability": self.stragglers is not None,
        }
        return tuple(name for name, is_there in there.items() if is_there)

    def work(self, table: JobTable) -> FloatArray:
        """(J,) samples that each job trains."""
        return self.profile.work

    def columns(self) -> KindColumns:
        """Tasks asked for and what their owner states; what jobs train by declaration."""
        profile = self.profile
        always = gang_columns(self.arrays) | {name: read_only(getattr(profile, name)) for name in STATED}
        declared: dict[str, dict[str, object]] = {
            "training_profile": {
                **{name: read_only(getattr(profile, name)) for name in _TRAINING if name not in always},
                "work": read_only(profile.work),
                "model_names": tuple(profile.model_names),
            }
        }
        if self.loss is not None:
            declared["losses"] = {
                "samples": read_only(profile.samples),
                "loss_threshold": read_only(self.loss.loss_threshold),
                "loss_patience": read_only(self.loss.loss_patience),
            }
        return KindColumns(always, declared)

    def loads(self, parameter_blocks: str, streams: Streams) -> DealtLoads | None:
        """Loads of parameter servers in the run of these streams; None where they hold equal slices.

        Parameters
        ----------
        parameter_blocks : the policy's, see `ElasticPolicy.parameter_blocks`

        Raises
        ------
        InvalidScenarioError : blocks are dealt out, and the workload has none or the step-time rule has no
            place for them
        """
        rule = str(self.values["parameter_blocks"]) if parameter_blocks == AS_WORLD else parameter_blocks
        if rule not in (EVEN, *BlockRule):
            raise UnknownNameError("value of parameter_blocks", rule, [AS_WORLD, EVEN, *BlockRule])
        if rule == EVEN:
            return None
        if not self.rule.deals_blocks:
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
                f"{text}\n  draw them by `ray-sim enrich` or `enrich` of the workload with a profile that "
                "has them, or use parameter_blocks=even"
            )
        return DealtLoads(self.blocks, BlockRule(rule), streams)

    def progress(
        self, straggling: FloatArray, loads: DealtLoads | None, links: FloatArray | None = None
    ) -> SpeedProgress:
        """The progress rule of a run without interference, see `StepTimeRule.progress`."""
        from ray_sim.engine.kinds.elastic.rules import StepTimeInputs

        inputs = StepTimeInputs(self.profile, self.speed, straggling, loads, self.values, links)
        return self.rule.progress(inputs)


def _profile_of(table: JobTable, rule: StepTimeRule) -> TrainingProfile:
    training = rule.training(table)
    if training is None:
        gaps = table.gaps.get("training", ("it has no training columns",))
        text = problems_text(f"truth={rule.truth}: the workload does not say how its jobs train", list(gaps))
        raise InvalidScenarioError(
            f"{text}\n  draw what is missing by `ray-sim enrich` or `enrich` of the workload, "
            "e.g. profile common, or use truth=rigid"
        )
    return training


def _stragglers(values: Mapping[str, Value]) -> Stragglers | None:
    """Stragglers of a world, None if no worker becomes slow."""
    probability, slowdown = values["straggler_probability"], values["straggler_slowdown"]
    every_us = microseconds(values["straggler_every_s"])
    assert isinstance(probability, float)
    assert isinstance(slowdown, float)
    assert every_us is not None
    return Stragglers(probability, slowdown, every_us) if probability > 0 else None


def _of_servers(blocks: BlockProfile | None, training: TrainingProfile) -> BlockProfile | None:
    """The blocks of jobs with parameter servers."""
    if blocks is None:
        return None
    ring = training.exchange == Exchange.ALL_REDUCE
    return replace(blocks, of_job=np.where(ring, -1, blocks.of_job))


def _beyond_capacity(arrays: WorldArrays) -> IntArray:
    """(C,) verdict per job class: whether one task of each role finds a place."""
    verdict = np.empty(len(arrays.class_job), dtype=np.int64)
    judge_smallest(arrays, verdict)
    return verdict


def _row_bound(arrays: WorldArrays) -> int:
    """Most rows of placements that exist at a time.

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
