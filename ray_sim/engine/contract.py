"""What a policy is, what it sees and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Flag, auto
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from ray_sim.engine.alike import kinds_of_servers
from ray_sim.engine.asking import BETAS, INCREMENTS, LEAST_LOADED, TIME_LEFT, Query
from ray_sim.engine.chunk_ledger import ChunkLedger
from ray_sim.engine.chunk_world import ChunkWorld
from ray_sim.engine.decision import NO_JOBS, Decision
from ray_sim.engine.elastic import ElasticRun, Losses
from ray_sim.engine.eligibility import Eligibility
from ray_sim.engine.fleet import Fleet
from ray_sim.engine.holdings import Holdings, State, Stateful, part
from ray_sim.engine.new_chunks import NewChunks, merged
from ray_sim.engine.order import gang_gpus, order_rule
from ray_sim.engine.service import Service
from ray_sim.engine.worker_slots import WorkerSlots
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import RUNNING as RUNNING_STATUS
from ray_sim.kernels.arrays import WAITING, Ledger
from ray_sim.kernels.progress import executed_of, work_left_of
from ray_sim.kernels.replay_state import Order
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import BlindPolicyError, InvalidScenarioError, RunFailedError, problems_text
from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.parameters import Parameter
from ray_sim.model.streams import Streams
from ray_sim.model.training_truth import PdOrsTruth, PlacementTruth, trial_speeds
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray

OBSERVATIONS = frozenset(
    {"work_left", "attained_service", "worker_load", "training_speed", "slow_workers", "losses"}
)
"""Observations a policy may declare in `sees`, beside columns."""

COLUMNS = frozenset(
    {
        "duration_s",
        "num_gpus",
        "vc",
        "user",
        "priority",
        "chunk_profile",
        "training_profile",
        "utility",
        "deadline",
    }
)
"""Columns of jobs a policy may declare in `sees`. Arrival, gang and demand are always seen, and the number
of chunks; `chunk_profile` is all else that says how long chunks take, `deadline` when a chunked job is due,
`training_profile` all that says how much elastic jobs train and how fast. With `losses` come the samples of
an epoch, and the threshold and the patience by which the owner of a job lets it end."""


class Wake(Flag):
    """The occasions at which a policy wants to decide."""

    ARRIVAL = auto()
    COMPLETION = auto()
    SLOT = auto()
    """Every slot boundary while a job waits or runs."""
    REVIEW = auto()
    """Times the policy asked for itself."""
    SERVER_CHANGE = auto()
    """Servers go or come back."""
    ACTIVATION = auto()
    """Chunked jobs begin or cease to have a worker, or lose their parameter server with its server; asked at
    once, also where decisions wait for slots."""


def _names_of(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


_OF_TRAINING = ("batch", "exchange", "workers_per_ps")
"""What a job's owner says of its training, beside its gang and demands."""
_TRAINING = tuple(name for name in _names_of(TrainingProfile) if name != "model_names")


class JobColumns:
    """The columns of all jobs that a policy's `sees` grants; reading another raises.

    Attributes are arrays over jobs, in the order of the job index. A policy is to look only at
    jobs that have arrived.
    """

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        table = world.table
        self._policy = policy
        self._granted: dict[str, object] = {
            "submit_us": read_only(table.submit_us),
            "tasks": read_only(table.tasks),
            "demand": read_only(table.demand),
            "partition": read_only(world.shop.job_part),
        }
        columns: dict[str, dict[str, object]] = {
            "duration_s": {"work_us": read_only(table.work_us)},
            "num_gpus": {"num_gpus": read_only(table.num_gpus)},
            "vc": {"vc": read_only(table.vc)},
            "user": {"user": table.user},
            "priority": {"priority": None if table.priority is None else read_only(table.priority)},
            "chunk_profile": {},
            "deadline": {"due_us": None if world.due_us is None else read_only(world.due_us)},
        }
        if world.chunks is not None:
            self._granted["chunks"] = read_only(world.chunks.chunks)
        if world.training is not None:
            profile = world.training.profile
            self._granted |= {
                "gang": read_only(world.training.gang),
                "role_demand": read_only(world.training.demand),
            } | {name: read_only(getattr(profile, name)) for name in _OF_TRAINING}
            if world.training.loss is not None:
                columns["losses"] = {
                    "samples": read_only(profile.samples),
                    "loss_threshold": read_only(world.training.loss.loss_threshold),
                    "loss_patience": read_only(world.training.loss.loss_patience),
                }
            columns["training_profile"] = {
                name: read_only(getattr(profile, name)) for name in _TRAINING if name not in self._granted
            } | {"work": read_only(profile.work)}
        if world.table.utility is not None:
            columns["utility"] = {
                name: read_only(getattr(world.table.utility, name)) for name in _names_of(UtilityProfile)
            }
        for name in sees & columns.keys():
            self._granted.update(columns[name])
        self._gaps = table.gaps.get("utility", ("it has no utility columns",)) if "utility" in sees else ()

    def __getattr__(self, name: str) -> IntArray:
        granted = self.__dict__["_granted"]
        if name not in granted and name in _names_of(UtilityProfile) and self.__dict__["_gaps"]:
            text = "the workload does not say what jobs are worth, which its `sees` declares"
            text = problems_text(f"policy {self.__dict__['_policy']}: {text}", self.__dict__["_gaps"])
            raise InvalidScenarioError(f"{text}\n  draw what is missing by `ray-sim enrich`")
        if name not in granted:
            raise BlindPolicyError(
                f"policy {self._policy} reads jobs.{name}, which it may not see; declare its column in "
                f"`sees` (one of {', '.join(sorted(COLUMNS))}). Seen now: {', '.join(sorted(granted))}"
            )
        column: IntArray = granted[name]
        return column


Array = TypeVar("Array", IntArray, FloatArray, BoolArray)


def read_only(array: Array) -> Array:
    """The same array, not to be written through this view."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class View:
    """All a policy may know when it decides. Nothing in it can be changed."""

    now_us: int
    arrived: IntArray
    """Jobs that began to wait since the last decision, sorted: submitted, or returned."""
    returned: IntArray
    """Those of them that lost a server, sorted. Whole jobs ran, and wait from their last checkpoint on; of
    chunked jobs the chunks that were there are `undispatched` again, others may run."""
    completed: IntArray
    """Jobs that ended since the last decision, sorted."""
    changed_servers: IntArray
    """Servers that went or came back since the last decision, sorted."""
    available: BoolArray
    """(S,) servers that are there now; the others have nothing free."""
    reviewed: bool
    """Whether a review time the policy asked for has come."""
    at_slot: bool
    """Whether this is a slot boundary the policy asked for."""
    jobs: JobColumns
    holdings: Holdings
    arrivals: int
    """Jobs 0 .. arrivals - 1 have been submitted."""
    _ledger: Ledger
    _sees: frozenset[str]
    _policy: str
    _fleet: Fleet
    _chunked: ChunkLedger | None
    _elastic: ElasticRun | None

    @property
    def active(self) -> IntArray:
        """Chunked jobs that have a worker, sorted; without a parameter server they make no progress."""
        return NO_JOBS if self._chunked is None else np.flatnonzero(self._chunked.jobs.active)

    @property
    def stalled(self) -> IntArray:
        """Active jobs without a parameter server, sorted."""
        return NO_JOBS if self._chunked is None else self._chunked.stalled

    @property
    def idle_holders(self) -> IntArray:
        """Chunked jobs that hold a parameter server and are not active, sorted."""
        return NO_JOBS if self._chunked is None else self._chunked.idle_holders

    @property
    def only_in_cloud(self) -> BoolArray:
        """(J,) chunked jobs none of whose workers is in a slot; with `active`, all workers are in a cloud."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        none: BoolArray = self._chunked.jobs.in_slots == 0
        return none

    @property
    def in_cloud(self) -> BoolArray:
        """(J,) chunked jobs that are trained in the cloud without communication (zeta)."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return read_only(self._chunked.jobs.in_cloud)

    def undispatched(self, jobs: IntArray) -> IntArray:
        """(n, 2) rows job, unit of all chunks of chunked jobs that are on no worker and not done."""
        assert self._chunked is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return self._chunked.undispatched(jobs)

    def ask(self, kind: str, **arrays: np.ndarray) -> State:
        """Ask all sites, see `ray_sim.engine.asking`."""
        self._demand_sight("worker_load")
        return self._fleet.ask(Query(kind, self.now_us, arrays))

    def least_loaded(self, partitions: IntArray, units: IntArray, needs: IntArray | None = None) -> IntArray:
        """(n, 3) rows worker, microseconds of work left on it, chunks on it that are not done.

        The ``units`` least loaded worker slots of each partition are among them, of those that may train a
        job that ``needs`` such a level of memory, 0 unless given; a cloud has no slots. Where a partition is
        asked for twice with different needs, workers come twice.
        """
        needs = np.zeros_like(units) if needs is None else needs
        return self.ask(LEAST_LOADED, partitions=partitions, units=units, needs=needs)["rows"]

    def increments(self, new: NewChunks) -> IntArray:
        """(n, 2) rows worker, increment of where chunks would go, one after another; none if nowhere.

        An increment is D Q of Wang et al.: by how many microseconds the chunk adds to the sum over chunks of
        flow times, each over the chunks of its job, times D of its own job.
        """
        rows = self.ask(INCREMENTS, **new.arrays())["rows"]
        return merged(rows, new.count)[:, [0, 2]]

    def betas(self) -> FloatArray:
        """Of each worker slot that is there, in order: sum over its chunks of (work left) / key."""
        betas: FloatArray = self.ask(BETAS)["betas"]
        return betas

    def chunk_time_left_us(self, jobs: IntArray) -> IntArray:
        """(n,) what the chunks on workers of each job need at least, their uploads included; 0 without any.

        As if each worker served only this job from now on.
        """
        rows = self.ask(TIME_LEFT, jobs=jobs)["rows"]
        left_us = np.zeros(len(jobs), dtype=np.int64)
        np.maximum.at(left_us, np.searchsorted(jobs, rows[:, 0]), rows[:, 1])
        return left_us

    @property
    def waiting(self) -> IntArray:
        """Jobs that have arrived and hold nothing, or have no chunk that makes progress; sorted."""
        return np.flatnonzero(self._ledger.status[: self.arrivals] == WAITING)

    @property
    def running(self) -> IntArray:
        """Jobs that hold servers, or have a chunk that makes progress; sorted."""
        return np.flatnonzero(self._ledger.status[: self.arrivals] == RUNNING_STATUS)

    @property
    def free(self) -> IntArray:
        """(S, R) free quanta, read-only."""
        return self.holdings.free

    def work_left(self, jobs: IntArray) -> FloatArray:
        """Work each whole job has left now: microseconds at speed 1, or samples of an elastic job."""
        self._demand_sight("work_left")
        if self._chunked is not None:
            raise BlindPolicyError(f"policy {self._policy} observes work_left, which jobs in chunks have not")
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs, self.now_us, left)
        return left

    def time_left_us(self, jobs: IntArray) -> FloatArray:
        """Microseconds of run time that each whole job has left, of `duration_s` in all.

        Of an elastic job it is that share of its run time, with what it asks for, whose samples are left.
        """
        left = self.work_left(jobs)
        if self._elastic is None:
            return left
        if "duration_s" not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} asks for time left, but its `sees` lacks duration_s"
            )
        work = self._elastic.world.profile.work[jobs]
        return np.divide(left, work, out=np.zeros_like(left), where=work > 0) * self.jobs.work_us[jobs]

    def samples_per_s(self, jobs: IntArray) -> FloatArray:
        """Samples each running elastic job trains per second, restart pauses left out; else 0."""
        self._demand_sight("training_speed")
        running = self._ledger.status[jobs] == RUNNING_STATUS
        return np.where(running, self._ledger.rate[jobs] * US_PER_S, 0.0)

    def slowdown(self, jobs: IntArray) -> FloatArray:
        """How many times as long the slowest worker of each elastic job takes as the others, >= 1."""
        self._demand_sight("slow_workers")
        assert self._elastic is not None, "only in worlds of elastic jobs, see Policy.elastic"
        return self._elastic.straggling[jobs]

    def losses(self, jobs: IntArray, first: IntArray) -> Losses:
        """Losses of elastic jobs at the ends of their epochs so far, from epoch number ``first`` on."""
        self._demand_sight("losses")
        assert self._elastic is not None, "only in worlds of elastic jobs, see Policy.elastic"
        left = np.empty(len(jobs))
        work_left_of(self._ledger, jobs, self.now_us, left)
        return self._elastic.losses(jobs, first, left)

    def executed_us(self, jobs: IntArray) -> IntArray:
        """Microseconds in which each job has made progress."""
        self._demand_sight("attained_service")
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(self._ledger, jobs, self.now_us, ran)
        return ran

    def first_start_us(self, jobs: IntArray) -> IntArray:
        """First start of each job, `NEVER_US` before it."""
        return self._ledger.first_start[jobs]

    def last_stop_us(self, jobs: IntArray) -> IntArray:
        """When each job last lost its servers, `NEVER_US` before it has."""
        return self._ledger.last_stop[jobs]

    def pause_left_us(self, jobs: IntArray) -> IntArray:
        """What is left of each running job's restart pause."""
        return np.maximum(self._ledger.anchor[jobs] - self.now_us, 0)

    def _demand_sight(self, observation: str) -> None:
        if observation not in self._sees:
            raise BlindPolicyError(
                f"policy {self._policy} observes {observation}, which its `sees` does not declare"
            )


class GrantedWorld:
    """What a policy may know of the world before anything happens."""

    def __init__(
        self,
        world: World,
        sees: frozenset[str],
        policy: str,
        trial_truth: PlacementTruth | PdOrsTruth | None = None,
    ) -> None:
        self._world = world
        self._trial_truth = trial_truth
        self.cluster: Cluster = world.cluster
        self.restart_us: int = world.restart_us
        self.slot_us: int | None = world.slot_us
        self.horizon_us: int | None = world.horizon_us if world.bounded else None
        self.jobs = JobColumns(world, sees, policy)
        self.workers: WorkerSlots | None = None if world.chunks is None else world.chunks.slots
        """Where jobs are chunked: the numbers of workers."""
        self.server_partition: IntArray = read_only(world.shop.server_part)
        """(S,) partition of each server, as `jobs.partition`."""
        self._sees_profile = "chunk_profile" in sees
        self._sees_speed = "training_speed" in sees
        self._policy = policy

    @cached_property
    def server_kind(self) -> IntArray:
        """(S,) the same number for servers that are interchangeable, see `kinds_of_servers`."""
        return read_only(kinds_of_servers(self.cluster, self.server_partition))

    def service(self, placement: str, *, backfill: bool = False, preemptive: bool = False) -> Service:
        """A queue of waiting jobs that is served by key, see `ray_sim.engine.service.Service`."""
        return Service(self._world, placement, backfill=backfill, preemptive=preemptive)

    def chunk_us(self, jobs: IntArray, workers: IntArray, in_cloud: BoolArray | bool = False) -> IntArray:
        """Microseconds of chunks of these jobs on these workers; see `ChunkWorld.chunk_us`."""
        return self._chunk_world().chunk_us(jobs, workers, in_cloud)

    def upload_us(self, jobs: IntArray, to_cloud: BoolArray) -> IntArray:
        """Microseconds until data that are sent off are at a worker of the edge or of the cloud."""
        return self._chunk_world().truth.upload_us(jobs, to_cloud)

    def ready_us(self, now_us: int, jobs: IntArray, to_cloud: BoolArray) -> IntArray:
        """When chunks that are sent off at ``now_us`` can be trained at the edge or in the cloud."""
        return self._chunk_world().truth.ready_us(now_us, jobs, to_cloud)

    @property
    def eligible(self) -> Eligibility:
        """Who may train and serve which chunked jobs."""
        assert self._world.chunks is not None, "only in worlds of chunked jobs, see Policy.chunked"
        return self._world.chunks.eligible

    def cloud_serves(self, jobs: IntArray) -> BoolArray:
        """Whether parameter servers in a cloud may serve chunked jobs, which zeta = 1 takes."""
        return self._chunk_world().cloud_serves[jobs]

    def _chunk_world(self) -> ChunkWorld:
        assert self._world.chunks is not None, "only in worlds of chunked jobs, see Policy.chunked"
        if not self._sees_profile:
            raise BlindPolicyError(
                f"policy {self._policy} asks how long chunks take, but its `sees` lacks chunk_profile"
            )
        return self._world.chunks

    def trial_speed(self, jobs: IntArray, workers: IntArray, ps: IntArray) -> FloatArray:
        """(n,) samples per second in trial runs of elastic jobs, without slow workers; see `trial_speeds`."""
        if not self._sees_speed:
            raise BlindPolicyError(
                f"policy {self._policy} makes trial runs, but its `sees` lacks training_speed"
            )
        assert self._trial_truth is not None, "only in runs of elastic jobs"
        return trial_speeds(self._trial_truth, jobs, workers, ps)

    def gang_gpus(self) -> IntArray:
        """(J,) milli-GPU of each whole gang, at least 1."""
        return gang_gpus(self._world)

    def order(self, **rule: Any) -> Order:
        """An order rule for the compiled loop, see `ray_sim.engine.compiled.order_rule`."""
        return order_rule(self._world, **rule)


_CONSTANT = (str, tuple, frozenset, type(None), GrantedWorld, JobColumns, Streams)
"""Types of attributes that cannot change, so need no saving."""


class Policy(ABC):
    """A scheduler. One instance serves one run.

    A subclass implements `decide`. What it remembers between decisions must come out of `state` and go
    back in by `restore`, so that a run can be continued elsewhere; attributes that are numbers, arrays
    or services, or have a `state` and `restore` of their own, do so by themselves.
    """

    name: ClassVar[str] = ""
    """How results call it; the class's name where empty."""
    summary: ClassVar[str] = ""
    """One line for listings; the docstring's first where empty."""
    section: ClassVar[str] = ""
    """Where the published system is described."""
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    """What the constructor takes, by keyword."""
    wake_on: ClassVar[Wake] = Wake.ARRIVAL | Wake.COMPLETION | Wake.SERVER_CHANGE
    sees: ClassVar[frozenset[str]] = frozenset()
    """Columns and observations it may read, out of `COLUMNS` and `OBSERVATIONS`."""
    slotted: ClassVar[bool] = False
    """Decide only at slot boundaries; occasions in between wait for the next one."""
    chunked: ClassVar[bool] = False
    """Whether it dispatches chunks: it runs in worlds of chunked jobs (truth=a_online) and no others."""
    elastic: ClassVar[bool] = False
    """Whether it decides how many workers and parameter servers jobs get: it runs in worlds of elastic jobs
    (truth=placement or pd_ors) and no others. Others give every elastic job what it asks for."""
    bounded: ClassVar[bool] = False
    """Whether it plans up to a horizon, which its worlds then must have."""
    uses_seed: ClassVar[bool] = False
    """Whether it draws from its streams."""

    def start(self, world: GrantedWorld, streams: Streams) -> None:  # noqa: B027  # optional hook
        """Prepare for a run."""

    @abstractmethod
    def decide(self, view: View) -> Decision:
        """Answer one occasion."""

    def state(self) -> State:
        """Arrays from which `restore` goes on alike: every attribute that can change.

        Raises
        ------
        RunFailedError : an attribute is no number, array or constant, and has no state of its own
        """
        saved: State = {}
        for name, value in vars(self).items():
            if isinstance(value, Stateful):
                saved |= {f"{name}.{key}": array for key, array in value.state().items()}
            elif isinstance(value, (np.ndarray, np.generic, int, float)):
                saved[name] = np.array(value)
            elif not isinstance(value, _CONSTANT):
                raise RunFailedError(
                    f"policy {self.name or type(self).__name__} keeps a {type(value).__name__} in "
                    f"{name}; give it a state() and restore() of its own, or use arrays"
                )
        return saved

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state, after `start`."""
        for name, value in vars(self).items():
            if isinstance(value, Stateful):
                value.restore(part(state, name))
            elif isinstance(value, np.ndarray):
                setattr(self, name, state[name].copy())
            elif isinstance(value, (np.generic, int, float)):
                setattr(self, name, type(value)(state[name].item()))

    def counts(self) -> Mapping[str, int]:
        """What the policy has counted, for the summary; nothing unless it says otherwise."""
        return {}

    def course(self) -> Mapping[str, tuple[IntArray, FloatArray]]:
        """Numbers over time for the timeline, by column: instants that rise, and values; none by default."""
        return {}

    def order(self, world: GrantedWorld) -> Order | None:
        """The order rule of the compiled loop, if the policy is nothing but one."""
        return None
