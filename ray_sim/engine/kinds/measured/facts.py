"""World facts of measured jobs: speeds by GPU type, and the types on which each can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ray_sim.engine.kinds.facts import NEVER_FITS, KindColumns, KindFacts, WorldSetting
from ray_sim.engine.kinds.measured.speeds import JobSpeeds
from ray_sim.engine.kinds.measured.type_pools import with_types
from ray_sim.engine.kinds.rigid.facts import gang_columns, quanta_of, row_bound
from ray_sim.engine.limits import check_clock
from ray_sim.engine.read_only import read_only, read_only_record
from ray_sim.engine.world_arrays import build_world_arrays
from ray_sim.kernels.core.arrays import WorldArrays
from ray_sim.kernels.core.measured_rates import MeasuredRates
from ray_sim.kernels.core.world_arrays import EXCEEDS_CAPACITY, FITS, judge_capacity
from ray_sim.model.job import JobTable, MeasuredProfile
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class MeasuredFacts(KindFacts):
    """Facts of measured jobs. Their work is the microseconds that all steps take where they are fastest."""

    arrays: WorldArrays
    beyond_capacity: IntArray
    """(C,) verdict per job class: whether the empty servers of a type hold its gang."""
    row_bound: int
    resources: Mapping[str, int]
    speeds: JobSpeeds
    profile: MeasuredProfile
    rates: MeasuredRates
    mixed: bool
    """Whether a gang over several GPU types runs, at the least of its rates."""
    work_us: IntArray
    bound_cells: int | None
    """See `WorldSetting`."""

    @classmethod
    def of(cls, setting: WorldSetting) -> MeasuredFacts:
        """Build the facts of a workload on a cluster with a table of speeds.

        Raises
        ------
        InvalidScenarioError : see `JobSpeeds.of` and `with_types`
        InvalidWorkloadError : jobs take longer than the clock runs
        """
        table, cluster = setting.table, setting.cluster
        speeds = JobSpeeds.of(setting)
        assert table.measured is not None, "JobSpeeds.of refuses such a workload"
        fastest = speeds.fastest
        arrays = build_world_arrays(
            table,
            cluster,
            setting.partition,
            table.tasks[:, None],
            table.demand[:, None, :],
            apart=speeds.order(),
        )
        arrays = with_types(arrays, speeds, table)
        assert arrays.class_types is not None
        beyond = np.where((arrays.class_types < 0).all(axis=1), EXCEEDS_CAPACITY, FITS)
        mixed = setting.values["mixed_types"] == "slowest"
        if mixed:
            judge_capacity(arrays._replace(class_types=None, class_fits=None), beyond)
        packing = bool(setting.values["packing"])
        facts = (PackedFacts if packing else cls)(
            arrays=arrays,
            beyond_capacity=beyond,
            row_bound=row_bound(arrays) * (1 + packing),  # a guest beside each job
            resources=quanta_of(cluster),
            speeds=speeds,
            profile=table.measured,
            rates=MeasuredRates(
                of_server=speeds.of_server,
                alone=_over(speeds.alone, fastest[:, None, None]),
                key=speeds.key,
                shared=speeds.shared,
                per_step=_over(np.ones(len(table)), fastest),
                partner=np.full(len(table), -1),
            ),
            mixed=mixed,
            work_us=np.rint(_over(table.measured.steps * US_PER_S, fastest)).astype(np.int64),
            bound_cells=setting.bound_cells,
        )
        positive = facts.rates.alone[facts.rates.alone > 0]
        check_clock(facts.jobs(table), np.array([positive.min(initial=1.0)]))
        return facts

    def jobs(self, table: JobTable) -> JobTable:
        """The jobs with the run time that each takes alone where it is fastest."""
        return replace(table, work_us=self.work_us)

    def work(self, table: JobTable) -> IntArray:
        """(J,) microseconds that all steps take where they are fastest."""
        return self.work_us

    def why_never(self, jobs: IntArray) -> list[str]:
        """``no_speed`` where a job runs on no type of the cluster."""
        runs: BoolArray = np.any(self.speeds.alone[jobs], axis=(1, 2))
        return [NEVER_FITS if each else "no_speed" for each in runs.tolist()]

    def columns(self) -> KindColumns:
        """The gang, and what a user declares of a job; by declaration, its steps, and all speeds."""
        always = gang_columns(self.arrays) | {
            "weight": read_only(self.profile.weight),
            "deadline_s": read_only(self.profile.deadline_s),
        }
        steps, speeds = read_only(self.profile.steps), read_only_record(self.speeds)
        return KindColumns(always, {"steps": {"steps": steps}, "measured_speeds": {"speeds": speeds}})


@dataclass(frozen=True, slots=True)
class PackedFacts(MeasuredFacts):
    """Facts of measured jobs of which two may share a GPU; a guest holds no task of its own."""

    partial: ClassVar[bool] = True
    least_tasks: ClassVar[int] = 0


def _over(values: FloatArray, fastest: FloatArray) -> FloatArray:
    """Values over the fastest speed, 0 where that is 0."""
    found: FloatArray = np.divide(values, fastest, out=np.zeros_like(values), where=fastest > 0)
    return found
