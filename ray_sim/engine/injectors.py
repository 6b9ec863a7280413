"""Causes of faults: attempts of the trace, random failures, time limits, ends that the trace tells.

`injectors_of` makes those of a world from its parameters; `build_world` calls it. Clocks read the ledger
only, so that a job's faults depend on its own progress, whatever the policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.engine.states import State, Stateless, all_within
from ray_sim.engine.stops import Faults, Injector, InjectorRun, Keep
from ray_sim.kernels.core.arrays import KILLED, RUNNING, WAITING
from ray_sim.kernels.core.progress import executed_of
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import AttemptLog, JobTable
from ray_sim.model.parameters import Value
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.units import NEVER_US, QUANTA_PER_UNIT, US_PER_S, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.base import JobKind
    from ray_sim.engine.kinds.run import KindRun
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World

FAULT_PARAMETERS = ("attempts", "endings", "failure_gpu_h", "limits")
"""World parameters that bring injectors."""


def injectors_of(values: Mapping[str, Value], table: JobTable, kind: JobKind) -> tuple[Injector, ...]:
    """The injectors of a world, in the order in which they act at an instant.

    Raises
    ------
    InvalidScenarioError : all that the workload lacks for them
    """
    wanted = [name for name in FAULT_PARAMETERS if values[name] not in (None, False, "merge", "ignore")]
    if wanted and not kind.stoppable:
        raise InvalidScenarioError(f"{', '.join(wanted)}: {kind.jobs} jobs cannot be stopped; leave it out")
    problems, found = [], list[Injector]()
    if values["endings"] == "wall":
        if table.killed_us is None:
            problems.append("endings=wall: no job was killed and has both wait_s and span_s")
        else:
            found.append(Ends("endings", table.killed_us, "killed", since_submission=True))
    if values["limits"]:
        if table.time_limit_us is None:
            problems.append("limits=true: no job has a time_limit_s")
        else:
            found.append(Ends("limits", table.time_limit_us, "limit", since_submission=False))
    if values["attempts"] == "replay":
        if table.attempt_log is None:
            problems.append("attempts=replay: no job has an attempt_log")
        else:
            problems += _log_problems(table, table.attempt_log)
            found.append(TraceAttempts(table.attempt_log))
    if problems:
        raise InvalidScenarioError("\n  ".join(["the workload lacks what faults need:", *problems]))
    gpu_h, shape = values["failure_gpu_h"], values["failure_shape"]
    if isinstance(gpu_h, float) and isinstance(shape, float):
        found.append(RandomFailures(gpu_h, shape))
    return tuple(found)


def _log_problems(table: JobTable, log: AttemptLog) -> Iterator[str]:
    """Attempts without a length, and logs that do not sum to the run time within a microsecond an attempt."""
    counts = np.diff(log.ptr)
    of = np.repeat(np.arange(len(counts)), counts)
    sums = np.bincount(of, log.length_us, minlength=len(counts)).astype(np.int64)
    empty = np.bincount(of[log.length_us == 0], minlength=len(counts)) > 0
    for wrong, text in (
        (empty, "has an attempt of length 0"),
        ((counts > 0) & (np.abs(sums - table.work_us) > counts), "does not sum to duration_s"),
    ):
        if wrong.any():
            first = int(wrong.argmax())
            found = f"{sums[first] / US_PER_S:g} of {table.work_us[first] / US_PER_S:g} s"
            yield f"attempt_log of job {table.name(first)} {text}: {found} ({wrong.sum():,} such jobs)"


def fault_warnings(world: World) -> Iterator[str]:
    """What the faults of a world hang on."""
    draws = any(isinstance(each, RandomFailures) for each in world.injectors)
    if draws and world.checkpoint_us == 0:
        yield "checkpoint_s is 0, so that random failures cost no progress; give the time between checkpoints"


class _ClockRun(Stateless):
    """An injector whose faults of a job are due at an instant that follows from the ledger."""

    def __init__(self, core: RunCore) -> None:
        self._core = core
        self._next = NEVER_US

    def _candidates(self) -> IntArray:
        """Jobs that may suffer a fault, sorted."""
        return np.flatnonzero(self._core.ledger.status == RUNNING)

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        """When the fault of each job is due if its rate stays."""
        raise NotImplementedError

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        """The faults of jobs, sorted."""
        raise NotImplementedError

    def next_us(self, now_us: int) -> int:
        """The next instant at which it acts, if nothing else happens until then."""
        jobs = self._candidates()
        self._next = max(int(self._due_us(now_us, jobs).min(initial=NEVER_US)), now_us)
        return self._next

    def act(self, now_us: int) -> Faults | None:
        """The faults of this instant, if there are any."""
        if now_us < self._next:
            return None
        jobs = self._candidates()
        jobs = jobs[self._due_us(now_us, jobs) <= now_us]
        return self._faults(now_us, jobs) if len(jobs) else None

    def begin(self, jobs: IntArray) -> None:
        """These jobs begin another attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Kills each job at a limit."""

    name: str
    limit_us: IntArray
    """(J,) `NEVER_US` for none."""
    reason: str
    since_submission: bool
    """Whether the limit is of the time since submission; else of the time with servers in an attempt."""

    def start(self, core: RunCore, kind: KindRun, streams: Streams) -> InjectorRun:
        """Start a run."""
        return _EndsRun(core, self)


class _EndsRun(_ClockRun):
    def __init__(self, core: RunCore, injector: Ends) -> None:
        super().__init__(core)
        self._injector = injector
        self._begin: IntArray = np.zeros(len(injector.limit_us), dtype=np.int64)
        """(J,) microseconds with servers before the attempt."""

    def _candidates(self) -> IntArray:
        status = self._core.ledger.status
        if self._injector.since_submission:
            return np.flatnonzero((status == RUNNING) | (status == WAITING))
        return super()._candidates()

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        ledger, limit = self._core.ledger, self._injector.limit_us[jobs]
        if self._injector.since_submission:
            since = self._core.world.arrays.submit[jobs]
        else:
            since = ledger.held_since[jobs] + self._begin[jobs] - ledger.held[jobs]
        return np.where(limit < NEVER_US, since + np.minimum(limit, NEVER_US // 2), NEVER_US)

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        return Faults(jobs, [self._injector.reason] * len(jobs), end=KILLED)

    def begin(self, jobs: IntArray) -> None:
        self._begin[jobs] = self._core.ledger.held[jobs]

    def state(self) -> State:
        return {"begin": self._begin.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        all_within(dict(state))
        self._begin[:] = state["begin"]


@dataclass(frozen=True, slots=True, eq=False)
class TraceAttempts:
    """A job fails where an attempt of the trace ended, and goes on with the next one in its old place."""

    log: AttemptLog
    name: str = "attempts"

    def start(self, core: RunCore, kind: KindRun, streams: Streams) -> InjectorRun:
        """Start a run."""
        return _TraceAttemptsRun(core, self.log)


class _TraceAttemptsRun(_ClockRun):
    def __init__(self, core: RunCore, log: AttemptLog) -> None:
        super().__init__(core)
        jobs = len(log.ptr) - 1
        self._log = log
        self._done: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) attempts of the trace that have ended."""
        self._begin: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) microseconds of progress before the attempt."""
        of_us, work = (np.repeat(each, np.diff(log.ptr)) for each in (core.world.table.work_us, core.work))
        until_us = np.cumsum(log.length_us)
        left_us = np.repeat(np.append(0, until_us)[log.ptr[1:]], np.diff(log.ptr)) - until_us
        self._left: FloatArray = np.where(work == of_us, left_us, work * (left_us / np.maximum(of_us, 1)))
        """Work left at the end of each attempt."""

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        ledger, log = self._core.ledger, self._log
        at = log.ptr[jobs] + self._done[jobs]
        another = at + 1 < log.ptr[jobs + 1]
        due = np.full(len(jobs), NEVER_US)
        rate = ledger.rate[jobs]
        moving = another & (rate > 0)
        to_do = ledger.work_left[jobs[moving]] - self._left[at[moving]]
        steps = np.ceil(np.maximum(to_do, 0.0) / rate[moving])
        due[moving] = ledger.anchor[jobs[moving]] + np.minimum(steps, NEVER_US // 2).astype(np.int64)
        return due

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        log, done = self._log, self._done[jobs]
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(self._core.ledger, jobs, now_us, ran)
        lost, self._begin[jobs] = ran - self._begin[jobs], ran
        self._done[jobs] += 1
        reason = [log.reasons[at] or "attempt" for at in (log.ptr[jobs] + done).tolist()]
        return Faults(jobs, reason, keep=Keep.ALL, lost_us=lost)

    def state(self) -> State:
        return {"done": self._done.copy(), "begin": self._begin.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        all_within(dict(state))
        self._done[:], self._begin[:] = state["done"], state["begin"]


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """A running job fails at random, with a Weibull hazard of its progress in the attempt, times its GPUs.

    An attempt survives progress t with g GPUs with probability exp(-g (t / L)^k), where L is the mean
    GPU-hours to a failure over Gamma(1 + 1 / k).
    """

    gpu_h: float
    shape: float
    name: str = "failures"

    def start(self, core: RunCore, kind: KindRun, streams: Streams) -> InjectorRun:
        """Start a run."""
        return _RandomFailuresRun(core, kind, streams, self)


class _RandomFailuresRun(_ClockRun):
    """The hazard is booked where the number of GPUs changes; in between, the instant is a closed form."""

    def __init__(self, core: RunCore, kind: KindRun, streams: Streams, injector: RandomFailures) -> None:
        super().__init__(core)
        self._kind, self._streams, self._shape = kind, streams, injector.shape
        self._scale_us = injector.gpu_h * 3600 * US_PER_S / math.gamma(1 + 1 / injector.shape)
        jobs = len(core.world.table)
        self._entity = text_entities(core.world.table.job_id)
        self._chance: FloatArray = np.zeros(jobs)
        """(J,) hazard at which the attempt fails."""
        self._begin: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) microseconds of progress before the attempt."""
        self._gpus: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) milli-GPU for which `_due` holds."""
        self._from: IntArray = np.zeros(jobs, dtype=np.int64)
        """(J,) progress of the attempt up to which the hazard is booked."""
        self._booked: FloatArray = np.zeros(jobs)
        """(J,) hazard booked."""
        self._due: IntArray = np.full(jobs, NEVER_US)
        """(J,) microseconds of progress at which the job fails."""
        self._arrays = {"chance": self._chance, "begin": self._begin, "gpus": self._gpus}
        self._arrays |= {"from": self._from, "booked": self._booked, "due": self._due}
        self.begin(np.arange(jobs))

    def begin(self, jobs: IntArray) -> None:
        core = self._core
        uniform = self._streams.uniforms("failure", self._entity[jobs], core.attempt[jobs])
        self._chance[jobs] = -np.log1p(-uniform)
        self._begin[jobs] = core.ledger.ran[jobs]
        self._gpus[jobs], self._from[jobs], self._booked[jobs], self._due[jobs] = 0, 0, 0.0, NEVER_US

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        gpus = self._kind.gpus(jobs)
        changed = gpus != self._gpus[jobs]
        if changed.any():
            self._rate(now_us, jobs[changed], gpus[changed])
        ledger, due = self._core.ledger, self._due[jobs]
        return np.where(due < NEVER_US, ledger.anchor[jobs] + due - ledger.ran[jobs], NEVER_US)

    def _rate(self, now_us: int, jobs: IntArray, gpus: IntArray) -> None:
        """Book the hazard at the old number of GPUs, and find when it reaches the chance at the new one."""
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(self._core.ledger, jobs, now_us, ran)
        progress, k = ran - self._begin[jobs], self._shape
        before, after = ((each / self._scale_us) ** k for each in (self._from[jobs], progress))
        self._booked[jobs] += self._gpus[jobs] / QUANTA_PER_UNIT["gpu"] * (after - before)
        self._gpus[jobs], self._from[jobs] = gpus, progress
        left = np.maximum(self._chance[jobs] - self._booked[jobs], 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            fails = self._scale_us * (after + left / (gpus / QUANTA_PER_UNIT["gpu"])) ** (1 / k)
        whole = np.ceil(np.minimum(fails, NEVER_US // 4)).astype(np.int64)
        found = self._begin[jobs] + np.maximum(whole, 1)
        self._due[jobs] = np.where(whole < NEVER_US // 4, found, NEVER_US)

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        return Faults(jobs, ["failure"] * len(jobs), tried=True)

    def state(self) -> State:
        return {name: array.copy() for name, array in self._arrays.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        all_within(dict(state))
        for name, array in self._arrays.items():
            array[:] = state[name]
