"""World facts of rigid jobs: arrays of gangs, capacity verdicts and the progress rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ray_sim.engine.gpu_shares import has_devices
from ray_sim.engine.kinds.facts import KindColumns, KindFacts, WorldSetting
from ray_sim.engine.limits import check_clock
from ray_sim.engine.read_only import read_only
from ray_sim.engine.world_arrays import build_world_arrays
from ray_sim.kernels.core.arrays import WorldArrays
from ray_sim.kernels.core.world_arrays import judge_capacity
from ray_sim.model.cluster import Cluster
from ray_sim.model.progress_rule import ProgressRule, RigidProgress
from ray_sim.model.units import QUANTA_PER_UNIT, IntArray


@dataclass(frozen=True, slots=True)
class RigidFacts(KindFacts):
    """Facts of rigid jobs."""

    arrays: WorldArrays
    beyond_capacity: IntArray
    """(C,) verdict per job class: whether the empty servers hold its gang."""
    row_bound: int
    resources: Mapping[str, int]
    progress: ProgressRule
    """Progress rule."""
    bound_cells: int | None = field(default=None, kw_only=True)
    """See `WorldSetting`."""

    @property
    def gangs(self) -> bool:
        """Whether jobs are whole gangs at the speed of their slowest server."""
        return isinstance(self.progress, RigidProgress) and not self.partial

    @property
    def compiled(self) -> bool:
        """The compiled loop knows gangs."""
        return self.gangs

    @classmethod
    def of(cls, setting: WorldSetting) -> RigidFacts:
        """Build the facts of a workload on a cluster."""
        table, cluster = setting.table, setting.cluster
        check_clock(table, cluster.speed)
        demand = table.demand[:, None, :]
        arrays = build_world_arrays(
            table,
            cluster,
            setting.partition,
            table.tasks[:, None],
            demand,
            devices=has_devices(setting, demand),
        )
        verdict = np.empty(len(arrays.class_job), dtype=np.int64)
        judge_capacity(arrays, verdict)
        rule = RigidProgress(arrays.speed)
        resources, cells = quanta_of(cluster), setting.bound_cells
        return cls(arrays, verdict, row_bound(arrays), resources, rule, bound_cells=cells)

    def columns(self) -> KindColumns:
        """The gang and its demand."""
        return KindColumns(gang_columns(self.arrays))


def quanta_of(cluster: Cluster) -> dict[str, int]:
    """Quanta in a unit of each resource of a cluster."""
    return {name: QUANTA_PER_UNIT[name] for name in cluster.resources}


def gang_columns(arrays: WorldArrays) -> dict[str, object]:
    """Tasks by role of every job, and what each task demands."""
    return {"gang": read_only(arrays.gang), "role_demand": read_only(arrays.demand)}


def row_bound(arrays: WorldArrays) -> int:
    """A gang has at most one row per task and server, and capacity bounds the tasks that demand any."""
    rows = np.minimum(arrays.gang[:, 0], len(arrays.capacity))
    demands = arrays.demand[:, 0, :]
    positive = demands > 0
    idle = ~positive.any(axis=1)
    bound = float(rows[~idle].sum())
    for r in range(demands.shape[1]):
        # If every job demands r, the smallest demand bounds how many tasks run at a time.
        if len(demands) and positive[~idle, r].all() and (~idle).any():
            smallest = demands[~idle, r].min()
            bound = min(bound, float(arrays.capacity[:, r].sum()) / float(smallest))
    return int(bound) + int(rows[idle].sum()) + 1
