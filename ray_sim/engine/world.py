"""The world of a run: jobs, servers, partitions and the facts no policy chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ray_sim.engine.chunk_world import CHUNK_RESOURCES, ChunkWorld, chunk_world
from ray_sim.engine.deadlines import deadlines_us
from ray_sim.engine.training_world import (
    Form,
    Stragglers,
    TrainingWorld,
    beyond_capacity,
    row_bound,
    training_world,
)
from ray_sim.kernels.arrays import Outages, Shop
from ray_sim.kernels.shop import find_single_server_classes, judge_capacity
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.parameter_blocks import BlockRule
from ray_sim.model.parameters import Parameter, Value, resolve
from ray_sim.model.truth import RigidTruth, Truth
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

Partition = Literal["none", "vc"]

EVEN = "even"
"""No rule for blocks: equal slices."""

WORLD_PARAMETERS = (
    Parameter(
        "restart_cost_s",
        "float",
        0.0,
        "pause of a job, holding its servers without progress, each time it resumes or moves",
        unit="s",
        minimum=0.0,
    ),
    Parameter(
        "checkpoint_s",
        "float",
        0.0,
        "progress between two checkpoints, to the last of which a job falls back that loses a server; "
        "0 = nothing is lost",
        unit="s",
        minimum=0.0,
    ),
    Parameter(
        "overcommit",
        "float",
        1.0,
        "factor on what every server offers: above 1, more is promised than there is",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "horizon_s",
        "float",
        None,
        "the run ends this long after the first submission; none = when all jobs have ended",
        unit="s",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "slot_s",
        "float",
        None,
        "slot length, for policies that decide on a grid of slots",
        unit="s",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "truth",
        "choice",
        "rigid",
        "how jobs progress. rigid: a job runs for its duration while all its tasks are placed; placement: "
        "elastic jobs train as fast as their workers, parameter servers and their places allow; pd_ors: the "
        "same in the form of one paper; a_online: chunks are trained by workers, each for a time of its own, "
        "while the job has a parameter server",
        source="3.1, 1.1, 2.1",
        choices=("rigid", "placement", "pd_ors", "a_online"),
    ),
    Parameter(
        "nic",
        "choice",
        "per_task",
        "what has a job's bandwidth to itself under truth=placement. per_task: each worker and parameter "
        "server; per_server: all on a server together; per_link: each pair of them",
        source="3.2",
        choices=("per_task", "per_server", "per_link"),
    ),
    Parameter(
        "parameter_blocks",
        "choice",
        EVEN,
        "how the parameters of a model go to its parameter servers under truth=placement. even: in equal "
        "slices; the others deal out its blocks, and the fullest server counts. paa: Optimus's algorithm; "
        "mxnet: blocks below 10^6 parameters go whole to a random server, others evenly to all; tensorflow: "
        "whole blocks in turn",
        source="3.2",
        choices=(EVEN, *BlockRule),
    ),
    Parameter(
        "straggler_probability",
        "float",
        0.0,
        "probability with which a worker of a running elastic job becomes slow, every straggler_every_s; it "
        "stays slow until the job is placed anew",
        source="3.2",
        minimum=0.0,
        maximum=1.0,
    ),
    Parameter(
        "straggler_slowdown",
        "float",
        3.0,
        "how many times as long a slow worker takes",
        source="3.2: slower than half of the median",
        minimum=1.0,
    ),
    Parameter(
        "straggler_every_s",
        "float",
        600.0,
        "time between two occasions at which workers become slow",
        unit="s",
        source="3.1, the scheduling interval",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "data_move_s",
        "float",
        0.0,
        "time to move all data of an elastic job; when its number of workers changes, the share that goes to "
        "other workers delays it, beside restart_cost_s",
        unit="s",
        source="3",
        minimum=0.0,
    ),
    Parameter(
        "slot_fill",
        "choice",
        "whole",
        "what chunk lengths and upload ends are rounded up to. whole: slots; fractional: microseconds",
        source="2.5 C6",
        choices=("whole", "fractional"),
    ),
    Parameter(
        "preemption_cost_s",
        "float",
        0.0,
        "chunks: time that a chunk needs its worker longer each time it has lost it to another in the midst "
        "of progress; rounded up like its length",
        unit="s",
        source="0: 2.1, preemption costs nothing",
        minimum=0.0,
    ),
    Parameter(
        "deadline_factor",
        "float",
        None,
        "chunked jobs: a job is due so many times its shortest possible time after its submission; none = no "
        "deadlines, but utility_due_s where the workload has it",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "speed_up",
        "float",
        1.0,
        "factor on the mini-batches that every worker trains in a time; bounds stay those of 1",
        source="2.2, speed augmentation 1 + eps",
        minimum=0.0,
        exclusive=True,
    ),
    Parameter(
        "optimum_nodes",
        "int",
        None,
        "the utility certificate also has the exact optimum in whole slots, searched with at most so many "
        "nodes; for few jobs, slots and servers under truth=pd_ors. none = it has not",
        source="1.3",
        minimum=1,
    ),
)


_WHOLE_JOBS = ("rigid", "placement", "pd_ors")
_ELASTIC = (("placement", "pd_ors"), "is about elastic jobs")
_CHUNKS = (("a_online",), "is about chunks")
_ONLY_UNDER: dict[str, tuple[tuple[str, ...], str]] = {
    "slot_fill": _CHUNKS,
    "preemption_cost_s": _CHUNKS,
    "deadline_factor": (("a_online",), "is about jobs in chunks"),
    "speed_up": (("a_online",), "is about workers of chunks"),
    "optimum_nodes": (("pd_ors",), "the exact optimum knows how jobs train there only"),
    "overcommit": (_WHOLE_JOBS, "workers of chunks have slots of their own"),
    "restart_cost_s": (_WHOLE_JOBS, "chunks that are preempted pay preemption_cost_s"),
    "checkpoint_s": (_WHOLE_JOBS, "a chunk that loses its server begins anew"),
    "nic": (("placement",), "is about the places of elastic jobs"),
    "parameter_blocks": (("placement",), "is about the parameter servers of elastic jobs"),
    "straggler_probability": _ELASTIC,
    "straggler_slowdown": _ELASTIC,
    "straggler_every_s": _ELASTIC,
    "data_move_s": _ELASTIC,
}
"""Truths under which a parameter has an effect, and why only there."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is true in a run before a policy decides anything."""

    table: JobTable
    cluster: Cluster
    partition: Partition
    shop: Shop
    beyond_capacity: IntArray
    """(C,) verdict per job class, see `ray_sim.kernels.shop`."""
    truth: Truth
    """Of elastic jobs: without slow workers and dealt-out blocks; a run has its own, see `ElasticRun`."""
    row_bound: int
    """No more rows of holdings than this exist at a time."""
    outages: Outages
    there: BoolArray
    """(S,) servers that are there at time 0, before any outage."""
    checkpoint_us: int = 0
    restart_us: int = 0
    horizon_us: int = NEVER_US - 1
    slot_us: int | None = None
    optimum_nodes: int | None = None
    """Of the search tree for the exact optimum of utility; None where it is not asked for."""
    elastic: bool = False
    """Whether a job may hold anything that there is; else its whole gang or nothing."""
    chunks: ChunkWorld | None = None
    """Where jobs are chunked: the truth that counts for them, and slots, which are then the resources."""
    due_us: IntArray | None = None
    """(J,) deadlines of chunked jobs, from the first submission on, if they have any."""
    training: TrainingWorld | None = None
    """Where jobs are elastic: what they ask for, and what delays them."""

    @property
    def rigid(self) -> bool:
        """Whether every job is a gang that holds all its tasks or nothing."""
        return isinstance(self.truth, RigidTruth) and not self.elastic and self.chunks is None

    @property
    def work(self) -> IntArray | FloatArray:
        """(J,) work of each job: microseconds at speed 1, or samples of an elastic job."""
        return self.table.work_us if self.training is None else self.training.profile.work

    @property
    def first_capacity(self) -> IntArray:
        """(S, R) quanta that the servers offer at time 0; those that are not there offer none."""
        return self.shop.capacity * self.there[:, None]

    @property
    def event_bound(self) -> int:
        """No more events of servers, holdings and chunks than this are recorded at a time."""
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
        """Quanta in a unit of each resource, in the order of the shop's axis."""
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
    if table.utility is not None:
        check_utility(table.utility)
    values = resolve("the world", WORLD_PARAMETERS, params or {})
    slot_us, nodes = _us(values["slot_s"]), values["optimum_nodes"]
    assert nodes is None or isinstance(nodes, int)
    _check_truth(values)
    cluster = _overcommitted(cluster, values["overcommit"])
    chunks, due_us, training = None, None, _training_world(table, cluster, values)
    if training is None:
        shop = _shop(table, cluster, partition, table.tasks[:, None], table.demand[:, None, :])
    else:
        shop = _shop(table, cluster, partition, training.gang, training.demand)
    beyond, rows = _beyond_capacity(shop, training), _row_bound(shop, training)
    if values["truth"] == "a_online":
        speed_up, factor = values["speed_up"], values["deadline_factor"]
        assert isinstance(speed_up, float)
        assert factor is None or isinstance(factor, float)
        preemption_us = _us(values["preemption_cost_s"]) or 0
        chunks = chunk_world(table, cluster, slot_us, str(values["slot_fill"]), speed_up, preemption_us)
        shop = chunks.shop(shop)
        beyond, rows = chunks.beyond_capacity(shop), len(table) + 1
        due_us = deadlines_us(table, shop, chunks, factor)
    outages, there = _outages(cluster, table.origin_us, 1 if chunks is None else chunks.truth.grid_us)
    return World(
        table=table,
        cluster=cluster,
        partition=partition,
        shop=shop,
        beyond_capacity=beyond,
        truth=RigidTruth(shop.speed) if training is None else training.truth(np.ones(len(table)), None),
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
    )


def _training_world(table: JobTable, cluster: Cluster, values: Mapping[str, Value]) -> TrainingWorld | None:
    truth = values["truth"]
    if truth not in ("placement", "pd_ors"):
        return None
    form: Form = "placement" if truth == "placement" else "pd_ors"
    probability, slowdown = values["straggler_probability"], values["straggler_slowdown"]
    assert isinstance(probability, float)
    assert isinstance(slowdown, float)
    every_us = _us(values["straggler_every_s"])
    assert every_us is not None
    return training_world(
        table,
        cluster.speed,
        form=form,
        nic=str(values["nic"]),
        stragglers=Stragglers(probability, slowdown, every_us) if probability > 0 else None,
        data_move_us=_us(values["data_move_s"]) or 0,
        block_rule=None if values["parameter_blocks"] == EVEN else BlockRule(str(values["parameter_blocks"])),
    )


def uses_seed(values: Mapping[str, Value]) -> bool:
    """Whether something is drawn in a world with these values of all `WORLD_PARAMETERS`."""
    probability = values["straggler_probability"]
    assert isinstance(probability, float)
    return probability > 0 or values["parameter_blocks"] == BlockRule.MXNET


def _overcommitted(cluster: Cluster, factor: Value) -> Cluster:
    """The cluster with its capacities times a factor, rounded down."""
    assert isinstance(factor, float)
    if factor == 1:
        return cluster
    return replace(cluster, capacity=scaled_down(cluster.capacity, factor))


def _check_truth(values: Mapping[str, Value]) -> None:
    """Refuse facts that have no effect under the chosen truth."""
    defaults = {parameter.name: parameter.default for parameter in WORLD_PARAMETERS}
    for name, (truths, why) in _ONLY_UNDER.items():
        if values[name] != defaults[name] and values["truth"] not in truths:
            raise InvalidScenarioError(f"{name}: {why}; set truth={' or '.join(truths)}, or leave it out")


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
    if not isinstance(seconds, (int, float)):
        return None
    us = int(seconds_to_us(seconds))
    if us == 0 and seconds > 0:
        raise InvalidScenarioError(f"a time of {seconds:g} s is below the clock's microsecond")
    return us


def _shop(table: JobTable, cluster: Cluster, partition: Partition, gang: IntArray, demand: IntArray) -> Shop:
    """The shop of gangs (J, roles) whose tasks demand (J, roles, R)."""
    if table.resources != cluster.resources:
        raise InvalidScenarioError(
            f"the workload was loaded for resources {table.resources}, the cluster offers {cluster.resources}"
        )
    server_part, job_part = _partitions(table, cluster, partition)
    n_parts = int(server_part.max()) + 1
    part_servers = np.argsort(server_part, kind="stable").astype(np.int64)
    job_class = _classes(job_part, gang, demand)
    n_classes = int(job_class.max()) + 1 if len(table) else 0
    class_job = np.full(n_classes, -1, dtype=np.int64)
    class_job[job_class[::-1]] = np.arange(len(table) - 1, -1, -1)
    # Kernels are compiled for writable arrays; those of a table may be read-only (out of Ray's store).
    largest = cluster.capacity.max(axis=0).astype(np.float64)
    shop = Shop(
        capacity=np.array(cluster.capacity),
        speed=np.array(cluster.speed),
        weight=np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0),
        part_ptr=_pointers(server_part, n_parts),
        part_servers=part_servers,
        server_part=server_part,
        job_part=job_part,
        submit=np.array(table.submit_us),
        gang=np.array(gang),
        demand=np.array(demand),
        job_class=job_class,
        class_job=class_job,
        part_class_ptr=np.searchsorted(job_part[class_job], np.arange(n_parts + 1)).astype(np.int64),
        class_single=np.zeros(n_classes, dtype=np.bool_),
        class_size_ptr=_pointers(job_class, n_classes),
    )
    find_single_server_classes(shop, np.empty(shop.capacity.shape[1], dtype=np.int64))
    return shop


def _beyond_capacity(shop: Shop, training: TrainingWorld | None) -> IntArray:
    if training is not None:
        return beyond_capacity(shop)
    verdict = np.empty(len(shop.class_job), dtype=np.int64)
    judge_capacity(shop, verdict)
    return verdict


def _row_bound(shop: Shop, training: TrainingWorld | None) -> int:
    """A gang has at most one row per task and server, and capacity bounds the tasks that demand any."""
    if training is not None:
        return row_bound(shop)
    rows = np.minimum(shop.gang[:, 0], len(shop.capacity))
    demands = shop.demand[:, 0, :]
    positive = demands > 0
    idle = ~positive.any(axis=1)
    bound = float(rows[~idle].sum())
    for r in range(demands.shape[1]):
        # If every job demands r, the smallest demand bounds how many tasks run at a time.
        if len(demands) and positive[~idle, r].all() and (~idle).any():
            smallest = demands[~idle, r].min()
            bound = min(bound, float(shop.capacity[:, r].sum()) / float(smallest))
    return int(bound) + int(rows[idle].sum()) + 1


def _pointers(codes: IntArray, n: int) -> IntArray:
    counts = np.bincount(codes[codes >= 0], minlength=n)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _partitions(table: JobTable, cluster: Cluster, partition: Partition) -> tuple[IntArray, IntArray]:
    """Partition of every server and of every job; -1 for a job whose vc has no server."""
    if partition == "none":
        return np.zeros(len(cluster), np.int64), np.zeros(len(table), np.int64)
    names: dict[str, int] = {}
    for server, vc in zip(cluster.server_names, cluster.vc, strict=True):
        if vc is None:
            raise InvalidScenarioError(
                f"partition vc: server {server} of cluster {cluster.name} has no vc; label every server"
            )
        names.setdefault(vc, len(names))
    server_part = np.array([names[vc] for vc in cluster.vc if vc is not None], dtype=np.int64)
    of_vc = np.array([*(names.get(vc, -1) for vc in table.vc_names), -1], dtype=np.int64)
    return server_part, of_vc[table.vc]


def _classes(job_part: IntArray, gang: IntArray, demand: IntArray) -> IntArray:
    """Number the distinct (partition, gang, demand), partition by partition."""
    code = np.unique(job_part, return_inverse=True)[1]
    n, roles, resources = demand.shape
    for column in np.hstack([gang, demand.reshape(n, roles * resources)]).T:
        values, inverse = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + inverse, return_inverse=True)[1]
    return code.astype(np.int64)
