"""The world of a run: jobs, servers, partitions and the facts no policy chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ray_sim.engine.kinds.chunked.deadlines import deadlines_us
from ray_sim.engine.kinds.chunked.world import CHUNK_RESOURCES, ChunkWorld, chunk_world
from ray_sim.engine.kinds.elastic.world import (
    Stragglers,
    TrainingWorld,
    beyond_capacity,
    row_bound,
    training_world,
)
from ray_sim.engine.limits import check_clock, check_jobs, check_servers
from ray_sim.engine.world_arrays import Partition, build_world_arrays
from ray_sim.engine.world_parameters import WORLD_PARAMETERS, check_truth
from ray_sim.kernels.core.arrays import Outages, WorldArrays
from ray_sim.kernels.core.world_arrays import judge_capacity
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import Value, resolve
from ray_sim.model.progress_rule import ProgressRule, RigidProgress
from ray_sim.model.training_progress import Form
from ray_sim.model.units import (
    NEVER_US,
    QUANTA_PER_UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    scaled_down,
    seconds_to_us,
)
from ray_sim.model.utility import check_utility


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is true in a run before a policy decides anything."""

    table: JobTable
    cluster: Cluster
    partition: Partition
    arrays: WorldArrays
    beyond_capacity: IntArray
    """(C,) verdict per job class, see `ray_sim.kernels.core.world_arrays`."""
    truth: ProgressRule
    """Progress rule; of elastic jobs without stragglers and block rules, see `ElasticRun`."""
    row_bound: int
    """No more rows of placements than this exist at a time."""
    outages: Outages
    there: BoolArray
    """(S,) servers that are there at time 0, before any outage."""
    checkpoint_us: int = 0
    restart_us: int = 0
    horizon_us: int = NEVER_US - 1
    slot_us: int | None = None
    optimum_nodes: int | None = None
    """Most nodes of the search for the exact optimum of utility; None where it is not asked for."""
    elastic: bool = False
    """Whether a job may hold anything that there is; else its whole gang or nothing."""
    chunks: ChunkWorld | None = None
    """Facts of chunked jobs: progress rule and slots, which are then the resources."""
    due_us: IntArray | None = None
    """(J,) deadlines of chunked jobs, from the first submission on, if they have any."""
    training: TrainingWorld | None = None
    """Facts of elastic jobs: requested tasks, and what delays them."""
    params: Mapping[str, object] = field(default_factory=dict)
    """The values of world parameters that it was built with, as they were given."""

    @property
    def rigid(self) -> bool:
        """Whether every job is a gang that holds all its tasks or nothing."""
        return isinstance(self.truth, RigidProgress) and not self.elastic and self.chunks is None

    @property
    def work(self) -> IntArray | FloatArray:
        """(J,) work of each job: microseconds at speed 1, or samples of an elastic job."""
        return self.table.work_us if self.training is None else self.training.profile.work

    @property
    def first_capacity(self) -> IntArray:
        """(S, R) quanta that the servers offer at time 0; those that are not there offer none."""
        return self.arrays.capacity * self.there[:, None]

    @property
    def event_bound(self) -> int:
        """No more events of servers, placements and chunks than this are recorded at a time."""
        bound = self.row_bound + len(self.outages.time)
        if self.chunks is None:
            return bound
        # A chunk may start, stop, start again and finish at one instant.
        return bound + 4 * int(self.chunks.first_chunk[-1])

    @property
    def bounded(self) -> bool:
        """Whether there is a horizon."""
        return self.horizon_us < NEVER_US - 1

    def end_us(self, now_us: int) -> int:
        """When a run ends whose last instant is ``now_us``: at its horizon, if it has one."""
        return self.horizon_us if self.bounded else now_us

    @property
    def resources(self) -> dict[str, int]:
        """Quanta in a unit of each resource, in the order of the arrays's axis."""
        if self.chunks is not None:
            return dict.fromkeys(CHUNK_RESOURCES, 1)
        return {name: QUANTA_PER_UNIT[name] for name in self.cluster.resources}


def build_world(
    table: JobTable,
    cluster: Cluster,
    *,
    partition: Partition = "none",
    params: Mapping[str, object] | None = None,
) -> World:
    """A world of rigid jobs or, by ``truth``, of elastic or chunked ones.

    Parameters
    ----------
    table : demands in the cluster's resources, in the same order
    cluster : with ``partition="vc"`` every server must bear a vc label
    partition : ``vc`` confines each job to the servers labelled with its vc
    params : values for `WORLD_PARAMETERS`, as text or typed

    Raises
    ------
    InvalidScenarioError, UnknownNameError : a parameter or the partition is not possible
    InvalidInputError : numbers of jobs that cannot be
    """
    check_jobs(table)
    check_servers(cluster)
    if table.utility is not None:
        check_utility(table.utility)
    values = resolve("the world", WORLD_PARAMETERS, params or {})
    slot_us, nodes = _us(values["slot_s"]), values["optimum_nodes"]
    assert nodes is None or isinstance(nodes, int)
    check_truth(values)
    if values["truth"] == "rigid":
        check_clock(table, cluster.speed)
    cluster = _overcommitted(cluster, values["overcommit"])
    chunks, due_us, training = None, None, _training_world(table, cluster, values)
    if training is None:
        arrays = build_world_arrays(table, cluster, partition, table.tasks[:, None], table.demand[:, None, :])
    else:
        arrays = build_world_arrays(table, cluster, partition, training.gang, training.demand)
    beyond, rows = _beyond_capacity(arrays, training), _row_bound(arrays, training)
    if values["truth"] == "a_online":
        speed_up = values["speed_up"]
        assert isinstance(speed_up, float)
        chunks = chunk_world(
            table,
            cluster,
            arrays,
            slot_us,
            str(values["slot_fill"]),
            speed_up=speed_up,
            preemption_us=_us(values["preemption_cost_s"]) or 0,
        )
        arrays = chunks.arrays(arrays)
        beyond, rows = chunks.beyond_capacity(arrays), len(table) + 1
        factor = values["deadline_factor"]
        assert factor is None or isinstance(factor, float)
        due_us = deadlines_us(table, arrays, chunks.at_speed_one, factor)
    outages, there = _outages(cluster, table.origin_us, 1 if chunks is None else chunks.truth.grid_us)
    return World(
        table=table,
        cluster=cluster,
        partition=partition,
        arrays=arrays,
        beyond_capacity=beyond,
        truth=RigidProgress(arrays.speed) if training is None else training.truth(np.ones(len(table)), None),
        row_bound=rows,
        outages=outages,
        there=there,
        checkpoint_us=_us(values["checkpoint_s"]) or 0,
        restart_us=_us(values["restart_cost_s"]) or 0,
        horizon_us=_us(values["horizon_s"]) or NEVER_US - 1,
        slot_us=slot_us,
        optimum_nodes=nodes,
        elastic=chunks is not None or training is not None,
        chunks=chunks,
        due_us=due_us,
        training=training,
        params=dict(params or {}),
    )


def _training_world(table: JobTable, cluster: Cluster, values: Mapping[str, Value]) -> TrainingWorld | None:
    truth = values["truth"]
    if truth not in ("placement", "pd_ors"):
        return None
    form: Form = "placement" if truth == "placement" else "pd_ors"
    probability, slowdown = values["straggler_probability"], values["straggler_slowdown"]
    assert isinstance(probability, float)
    assert isinstance(slowdown, float)
    request_s = values["request_s"]
    assert isinstance(request_s, float)
    every_us = _us(values["straggler_every_s"])
    assert every_us is not None
    return training_world(
        table,
        cluster.speed,
        form=form,
        nic=str(values["nic"]),
        stragglers=Stragglers(probability, slowdown, every_us) if probability > 0 else None,
        data_move_us=_us(values["data_move_s"]) or 0,
        parameter_blocks=str(values["parameter_blocks"]),
        request_s=request_s,
    )


def _overcommitted(cluster: Cluster, factor: Value) -> Cluster:
    """The cluster with its capacities times a factor, rounded down."""
    assert isinstance(factor, float)
    if factor == 1:
        return cluster
    promised = replace(cluster, capacity=scaled_down(cluster.capacity, factor))
    check_servers(promised)
    return promised


def _outages(cluster: Cluster, origin_us: int, grid_us: int) -> tuple[Outages, BoolArray]:
    """Changes from the first submission on, at the next instant on the grid, and who is there then."""
    availability = cluster.availability
    there = np.ones(len(cluster), dtype=np.bool_)
    if availability is None:
        nothing = np.empty(0, dtype=np.int64)
        return Outages(nothing, nothing, np.empty(0, dtype=np.bool_)), there
    there = availability.at_first(len(cluster))
    past = int(np.searchsorted(availability.time_us, origin_us))
    for server, up in zip(availability.server[:past], availability.up[:past], strict=True):
        there[server] = up
    return Outages(
        time=-(-(availability.time_us[past:] - origin_us) // grid_us) * grid_us,
        server=availability.server[past:].copy(),
        up=availability.up[past:].copy(),
    ), there


def _us(seconds: Value) -> int | None:
    return int(seconds_to_us(seconds)) if isinstance(seconds, (int, float)) else None


def _beyond_capacity(arrays: WorldArrays, training: TrainingWorld | None) -> IntArray:
    if training is not None:
        return beyond_capacity(arrays)
    verdict = np.empty(len(arrays.class_job), dtype=np.int64)
    judge_capacity(arrays, verdict)
    return verdict


def _row_bound(arrays: WorldArrays, training: TrainingWorld | None) -> int:
    """A gang has at most one row per task and server, and capacity bounds the tasks that demand any."""
    if training is not None:
        return row_bound(arrays)
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
