"""World facts of chunked jobs: worker slots, parameter-server slots, chunk times, deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ray_sim.engine.kinds.chunked.eligibility import Eligibility, best_offer
from ray_sim.engine.kinds.chunked.pair_times import PairTimes
from ray_sim.engine.kinds.chunked.site_part import ChunkPartFacts
from ray_sim.engine.kinds.chunked.worker_slots import WorkerSlots
from ray_sim.engine.kinds.facts import KindColumns, KindFacts, WorldSetting
from ray_sim.engine.read_only import read_only
from ray_sim.engine.world_arrays import build_world_arrays, classes
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER, WorldArrays
from ray_sim.kernels.core.world_arrays import EXCEEDS_CAPACITY, FITS
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError, problems_text
from ray_sim.model.job import CHUNK_MEMORY, ChunkProfile, JobTable
from ray_sim.model.parameters import microseconds
from ray_sim.model.step_time import ChunkTimes
from ray_sim.model.units import MAX_RUN_US, US_PER_S, BoolArray, FloatArray, IntArray, seconds_to_us

if TYPE_CHECKING:
    from ray_sim.engine.world import World

CHUNK_RESOURCES = ("worker", "ps")
"""Resources of a chunked world, by role: slots on edge and plain servers."""

MAX_CHUNKS = 2**27
"""The most chunks of a workload, all jobs together; also the most worker slots of a cluster."""

_MAX_WORK_S = MAX_RUN_US / US_PER_S
"""More work than this, on the slowest worker, does not fit in the clock."""


@dataclass(frozen=True, slots=True)
class ChunkFacts(KindFacts):
    """Facts of chunked jobs."""

    arrays: WorldArrays
    """Capacity and demand are slots: a parameter server takes one, a worker is given by dispatch."""
    beyond_capacity: IntArray
    """(C,) verdict per job class, see `_beyond_capacity`."""
    row_bound: int
    times: ChunkTimes
    slots: WorkerSlots
    eligible: Eligibility
    speed: FloatArray
    """(W,) of each worker's server."""
    pairs: PairTimes
    ps: IntArray
    """(S,) slots for parameter servers; of a cloud, one for every job."""
    in_cloud: BoolArray
    """(S,)."""
    preemption_us: int
    """Work added to a chunk by each preemption, on the grid."""
    first_chunk: IntArray
    """(J + 1,) prefix sums of the numbers of chunks."""
    cloud_serves: BoolArray
    """(J,) whether parameter servers in a cloud may serve it, without which zeta is 0."""
    due_us: IntArray | None = None
    """(J,) deadlines from the first submission on, None where jobs have none."""
    resources: Mapping[str, int] = field(
        default_factory=lambda: dict.fromkeys(CHUNK_RESOURCES, 1), init=False
    )
    """Slots, one quantum each."""
    partial: ClassVar[bool] = True

    @classmethod
    def of(cls, setting: WorldSetting) -> ChunkFacts:
        """Build the facts of a workload and a cluster.

        ``slot_fill=whole`` rounds upload ends, lengths and costs up to slots, ``fractional`` to microseconds.

        Raises
        ------
        InvalidScenarioError : the workload does not say how its jobs train, or no slot length is given
        """
        table, cluster, values = setting.table, setting.cluster, setting.values
        whole, slot_us, speed_up = values["slot_fill"] == "whole", setting.slot_us, values["speed_up"]
        assert isinstance(speed_up, float)
        if whole and slot_us is None:
            raise InvalidScenarioError(
                "slot_fill=whole rounds to slots: give their length, e.g. -w slot_s=3600, or take "
                "-w slot_fill=fractional"
            )
        gangs = build_world_arrays(
            table, cluster, setting.partition, table.tasks[:, None], table.demand[:, None, :]
        )
        profile = _complete_profile(table)
        grid_us = slot_us if whole and slot_us is not None else 1
        times = ChunkTimes(profile, grid_us, speed_up)
        preemption_us = -(-(microseconds(values["preemption_cost_s"]) or 0) // grid_us) * grid_us
        slowest = replace(times, speed_up=min(speed_up, 1.0))  # bounds are for speed 1
        pairs = PairTimes.of(table, cluster)
        _check_amount(table, slowest, cluster, pairs, preemption_us)
        slots = WorkerSlots.of_cluster(cluster, pairs.server_class)
        eligible = Eligibility.by_memory(cluster, profile)
        ps = np.where(cluster.in_cloud, len(table), cluster.ps_slots)
        arrays = _arrays_of_slots(gangs, slots, ps, eligible)
        return cls(
            arrays=arrays,
            beyond_capacity=_beyond_capacity(arrays, slots, ps, eligible),
            row_bound=len(table) + 1,
            times=times,
            slots=slots,
            eligible=eligible,
            speed=cluster.speed[slots.server],
            pairs=pairs,
            ps=ps,
            in_cloud=cluster.in_cloud,
            preemption_us=preemption_us,
            first_chunk=np.concatenate([[0], np.cumsum(profile.chunks)]).astype(np.int64),
            cloud_serves=best_offer(gangs, cluster.in_cloud, eligible.ps_offer)[gangs.job_part]
            >= eligible.ps_need,
        )

    @classmethod
    def in_world(cls, world: World) -> ChunkFacts:
        """The facts of a world of chunked jobs."""
        assert isinstance(world.facts, cls), "only in worlds of chunked jobs"
        return world.facts

    @property
    def grid_us(self) -> int:
        """Length of a slot where all is rounded to slots, else 1."""
        return self.times.grid_us

    @property
    def events_per_instant(self) -> int:
        """A chunk may start, stop and start again at one instant, then finish, or stop and be lost."""
        return 5 * int(self.first_chunk[-1])

    @property
    def counted_servers(self) -> BoolArray:
        """(S,) servers whose slots exist before anybody wants one: all but clouds."""
        counted: BoolArray = ~self.in_cloud
        return counted

    @property
    def part(self) -> ChunkPartFacts:
        """Workers of all sites."""
        return ChunkPartFacts(self.slots, self.eligible.workers_offer, self.preemption_us)

    def columns(self) -> KindColumns:
        """The number of chunks; deadlines by declaration."""
        due_us = None if self.due_us is None else read_only(self.due_us)
        text = "which jobs in chunks have not; worlds of rigid and of elastic jobs have it"
        return KindColumns(
            always={"chunks": read_only(self.chunks)},
            declared={"chunk_profile": {}, "deadline": {"due_us": due_us}},
            absent={"gang": text, "role_demand": text},
        )

    @property
    def chunks(self) -> IntArray:
        """(J,) chunks of each job."""
        return np.diff(self.first_chunk)

    @property
    def whole_slots(self) -> bool:
        """Whether everything happens at slot boundaries."""
        return self.times.grid_us > 1

    @property
    def at_speed_one(self) -> ChunkFacts:
        """The same without speed augmentation."""
        return replace(self, times=replace(self.times, speed_up=1.0))

    def chunk_us(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray | bool) -> IntArray:
        """Microseconds that chunks of these jobs take on these workers.

        Parameters
        ----------
        jobs, workers : shapes that broadcast
        in_cloud : whether all workers and the parameter server of the job are in the cloud (zeta)
        """
        speed = self.speed[workers] / self.pairs.factor[self._pair(jobs, workers)]
        return self.times.chunk_us(jobs, speed, np.asarray(in_cloud))

    def upload_us(self, jobs: IntArray, workers: IntArray) -> IntArray:
        """Microseconds from the dispatch of chunks to the end of their upload."""
        of, given_s = self.times.profile, self.pairs.upload_s[self._pair(jobs, workers)]
        own_s = np.where(self.slots.on_demand[workers], of.upload_cloud_s[jobs], of.upload_edge_s[jobs])
        return seconds_to_us(np.where(np.isnan(given_s), own_s, given_s))

    def ready_us(self, now_us: int | IntArray, jobs: IntArray, workers: IntArray) -> IntArray:
        """Earliest training time of chunks sent at ``now_us``, on the grid."""
        return self.times.on_grid(now_us + self.upload_us(jobs, workers))

    def _pair(self, jobs: IntArray, workers: IntArray) -> tuple[IntArray, IntArray]:
        """Classes of these jobs and of the workers' servers."""
        return self.pairs.job_class[jobs], self.pairs.server_class[self.slots.server[workers]]


def _arrays_of_slots(
    arrays: WorldArrays, slots: WorkerSlots, ps: IntArray, eligible: Eligibility
) -> WorldArrays:
    """The arrays with slots for capacity; jobs for which the same servers are eligible are a class."""
    capacity = np.stack([np.diff(slots.ptr), ps], axis=1)
    demand = np.zeros((len(arrays.submit), 2, 2), dtype=np.int64)
    for role in (WORKER, PARAMETER_SERVER):
        demand[:, role, role] = 1
    needs = np.stack([eligible.workers_need, eligible.ps_need], axis=1)
    pools = np.stack([arrays.job_part, arrays.job_part], axis=1)
    of_class = classes(arrays.job_part, pools, needs, len(arrays.part_class_ptr) - 1)
    return arrays._replace(
        capacity=capacity,
        empty=capacity,
        demand=demand,
        weight=np.zeros(2),
        **of_class,
    )


def _beyond_capacity(
    arrays: WorldArrays, slots: WorkerSlots, ps: IntArray, eligible: Eligibility
) -> IntArray:
    """(C,) verdict per job class: whether some worker may train it, and a parameter server serve it.

    Where a partition has no parameter server at all jobs are taken, and stall.
    """
    jobs, has_worker = arrays.class_job, np.diff(slots.ptr) > 0
    trained = best_offer(arrays, has_worker, eligible.workers_offer)[arrays.job_part[jobs]]
    served = best_offer(arrays, ps > 0, eligible.ps_offer)[arrays.job_part[jobs]]
    fits = (trained >= eligible.workers_need[jobs]) & ((served < 0) | (served >= eligible.ps_need[jobs]))
    return np.where(fits & (arrays.job_part[jobs] >= 0), FITS, EXCEEDS_CAPACITY)


def _complete_profile(table: JobTable) -> ChunkProfile:
    """The profile of a workload, if it has one for every job."""
    names = [each.name for each in fields(ChunkProfile)]
    needed = [name for name in names if name not in CHUNK_MEMORY]
    profile = table.chunk_profile
    if len(table) == 0:
        return ChunkProfile(**{name: np.empty(0) for name in names})
    problems = []
    for name in needed:
        column = np.full(len(table), np.nan) if profile is None else getattr(profile, name)
        unknown = np.flatnonzero(np.isnan(column))
        if len(unknown) == len(table):
            problems.append(f"{name}: is missing")
        elif len(unknown):
            first = table.name(int(unknown[0]))
            problems.append(f"{name}: is null for {len(unknown)} of {len(table)} jobs, first for {first}")
    if problems or profile is None:
        text = problems_text("truth=a_online: the workload does not say how its jobs train", problems)
        advice = (
            "  draw what is missing by `ray-sim enrich`, e.g. --profile jsac_edge_cloud, give these columns "
            "in the table that you convert (docs/workloads.md), or use truth=rigid"
        )
        raise InvalidScenarioError(f"{text}\n{advice}")
    return profile


def _check_amount(
    table: JobTable, times: ChunkTimes, cluster: Cluster, pairs: PairTimes, preemption_us: int
) -> None:
    """Refuse what neither memory nor the clock could hold."""
    profile, workers = times.profile, int(cluster.worker_slots.sum())
    if workers > MAX_CHUNKS:
        raise InvalidScenarioError(
            f"truth=a_online: the cluster has {workers:,} worker slots, at most {MAX_CHUNKS:,} can be "
            f"simulated; give `workers` fewer"
        )
    if profile.chunks.sum() > MAX_CHUNKS:
        raise InvalidScenarioError(
            f"truth=a_online: the workload has {profile.chunks.sum():.3g} chunks in all, at most "
            f"{MAX_CHUNKS:,} can be simulated; give jobs fewer, or replay a part of the workload"
        )
    n = len(table)
    lowest = cluster.speed.min() / pairs.factor.max(axis=1)[pairs.job_class]
    slowest_s = times.minibatch_s(np.arange(n), lowest, np.zeros(n, np.bool_))
    training_s = profile.epochs * profile.minibatches_per_chunk * slowest_s
    of_table_s = np.nan_to_num(pairs.upload_s).max(axis=1)[pairs.job_class]
    upload_s = profile.upload_edge_s + profile.upload_cloud_s + of_table_s
    # A chunk that comes preempts one at most.
    besides_s = (2 * times.grid_us + preemption_us) / US_PER_S
    work_s = profile.chunks * (training_s + upload_s + besides_s)
    if work_s.sum() > _MAX_WORK_S:
        longest = int(np.argmax(work_s))
        raise InvalidScenarioError(
            f"truth=a_online: all jobs take {work_s.sum():.3g} s of workers, more than can be simulated, job "
            f"{table.name(longest)} alone {work_s[longest]:.3g} s; check its epochs, "
            f"minibatches_per_chunk, minibatch_s, gradient_mb and bandwidth_mbps, and preemption_cost_s"
        )
