"""Faults of jobs in a run: when injectors let them fail or end them, and what becomes of the jobs.

`Simulation` calls `FaultRun` after the arrivals of an instant. Clocks read the ledger only, so that a job's
faults depend on its own progress, whatever the policy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ray_sim.engine.decision import NO_JOBS
from ray_sim.engine.injectors import Ends, Injector, RandomFailures, TraceAttempts
from ray_sim.engine.states import State, all_within, joined, section
from ray_sim.kernels.core.arrays import FAILED, FUTURE, KEEP_ALL, KEEP_CHECKPOINT, KILLED, RUNNING, WAITING
from ray_sim.kernels.core.hazards import Hazard, look_at, next_failure
from ray_sim.kernels.core.progress import executed_of
from ray_sim.kernels.handle import handle
from ray_sim.model.job import AttemptLog
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.units import NEVER_US, US_PER_S, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.run import KindRun
    from ray_sim.engine.run_core import RunCore


class Faults(NamedTuple):
    """Faults of some jobs at one instant: (n,) each."""

    job: IntArray
    """Sorted."""
    reason: Sequence[str]
    end: int | None = None
    """`FAILED` or `KILLED` for jobs that end; None for those that are stopped and wait again."""
    keep: int = KEEP_CHECKPOINT
    lost_us: IntArray | int = 0
    """Progress lost beside what follows from `keep`."""
    tried: bool = False
    """Whether `World.retries` limits how often these jobs are tried again."""

    def of(self, chosen: np.ndarray) -> Faults:
        """The faults that a mask, (n,), chooses."""
        reason = [text for text, mine in zip(self.reason, chosen.tolist(), strict=True) if mine]
        lost_us = np.broadcast_to(self.lost_us, len(chosen))[chosen]
        return self._replace(job=self.job[chosen], reason=reason, lost_us=lost_us)


class InjectorRun(ABC):
    """An injector in one run: faults of a job are due at an instant that follows from the ledger."""

    def __init__(self, core: RunCore, kept: Mapping[str, np.ndarray]) -> None:
        """``kept`` are the arrays that a snapshot has, by name."""
        self._core = core
        self._kept = kept
        self._next = 0

    def _candidates(self) -> IntArray:
        """Jobs that may suffer a fault, in no order."""
        return self._core.running

    @abstractmethod
    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        """When the fault of each job is due if its rate stays."""

    @abstractmethod
    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        """The faults of jobs, sorted."""

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
        jobs = np.sort(jobs[self._due_us(now_us, jobs) <= now_us])
        return self._faults(now_us, jobs) if len(jobs) else None

    @abstractmethod
    def begin(self, jobs: IntArray) -> None:
        """Prepare the next attempt of jobs, sorted, that have just failed and wait again."""

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {name: array.copy() for name, array in self._kept.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within(dict(state))
        for name, array in self._kept.items():
            array[:] = state[name]


class EndsRun(InjectorRun):
    """Kills each job at its limit."""

    def __init__(self, core: RunCore, injector: Ends) -> None:
        self._injector = injector
        self._begin: IntArray = np.zeros(len(injector.limit_us), dtype=np.int64)
        """(J,) microseconds with servers before the attempt."""
        super().__init__(core, {"begin": self._begin})

    def _candidates(self) -> IntArray:
        status = self._core.ledger.status
        if self._injector.since_us is not None:  # with jobs to come, which may be killed when they arrive
            return np.flatnonzero((status == FUTURE) | (status == RUNNING) | (status == WAITING))
        return super()._candidates()

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        ledger, limit = self._core.ledger, self._injector.limit_us[jobs]
        if self._injector.since_us is not None:
            since = self._injector.since_us[jobs]
        else:
            since = ledger.held_since[jobs] + self._begin[jobs] - ledger.held[jobs]
        due, grid_us = since + np.minimum(limit, NEVER_US // 2), self._core.world.facts.grid_us
        return np.where(limit < NEVER_US, -(-due // grid_us) * grid_us, NEVER_US)

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        return Faults(jobs, [self._injector.reason] * len(jobs), end=KILLED)

    def begin(self, jobs: IntArray) -> None:
        """Prepare the next attempt of jobs, sorted, that have just failed."""
        self._begin[jobs] = self._core.ledger.held[jobs]


class TraceAttemptsRun(InjectorRun):
    """Lets jobs fail where attempts of the trace ended."""

    def __init__(self, core: RunCore, log: AttemptLog) -> None:
        self._log = log
        self._done: IntArray = np.zeros(len(log.ptr) - 1, dtype=np.int64)
        """(J,) attempts of the trace that have ended."""
        super().__init__(core, {"done": self._done})
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
        log, done, ledger = self._log, self._done[jobs], self._core.ledger
        ran = np.empty(len(jobs), dtype=np.int64)
        executed_of(ledger, jobs, now_us, ran)
        lost = ran - ledger.lost[jobs]  # earlier stops have lost the rest, earlier attempts all they ran
        self._done[jobs] += 1
        reason = [log.reasons[at] or "attempt" for at in (log.ptr[jobs] + done).tolist()]
        return Faults(jobs, reason, keep=KEEP_ALL, lost_us=lost)

    def begin(self, jobs: IntArray) -> None:
        """`_faults` has counted the attempt that ended."""


class RandomFailuresRun(InjectorRun):
    """Lets jobs fail at random.

    The hazard is booked where the number of GPUs changes; in between, the instant is a closed form.
    """

    def __init__(self, core: RunCore, kind: KindRun, streams: Streams, injector: RandomFailures) -> None:
        self._kind, self._streams, self._shape = kind, streams, injector.shape
        self._scale_us = injector.gpu_h * 3600 * US_PER_S / math.gamma(1 + 1 / injector.shape)
        self._entity = text_entities(core.world.table.job_id)
        jobs = len(self._entity)
        begin, gpus, until = np.zeros((3, jobs), dtype=np.int64)
        chance, booked = np.zeros((2, jobs))
        self._hazard = Hazard(chance, begin, gpus, until, booked, np.full(jobs, NEVER_US))
        self._handle = handle(self._hazard)
        super().__init__(core, self._hazard._asdict())
        self.begin(np.arange(jobs))

    def begin(self, jobs: IntArray) -> None:
        """Prepare the next attempt of jobs, sorted, that have just failed."""
        core, hazard = self._core, self._hazard
        uniform = self._streams.uniforms("failure", self._entity[jobs], core.attempt[jobs])
        hazard.chance[jobs] = -np.log1p(-uniform)
        hazard.begin[jobs] = core.ledger.ran[jobs]
        hazard.gpus[jobs], hazard.until[jobs], hazard.booked[jobs], hazard.due[jobs] = 0, 0, 0.0, NEVER_US

    def next_us(self, now_us: int) -> int:
        """The next instant at which it acts, if nothing else happens until then."""
        core, running = self._core, self._core.running
        first = next_failure(core.books, self._handle, running, core.placed_anew)
        if first < 0:
            changed = running[core.placed_anew[running]]
            core.placed_anew[changed] = False
            gpus = self._kind.gpus(changed)
            look_at(now_us, core.books, self._handle, changed, gpus, self._scale_us, self._shape)
            first = next_failure(core.books, self._handle, running, core.placed_anew)
        self._next = max(-(-first // self._kind.stop_grid_us) * self._kind.stop_grid_us, now_us)
        return self._next

    def _candidates(self) -> IntArray:
        """Running jobs, and those that were due within the slot that ends now, and have just come to rest."""
        running, ledger = super()._candidates(), self._core.ledger
        if self._kind.stop_grid_us == 1:
            return running
        late = (ledger.status == WAITING) & (self._hazard.due <= ledger.ran)
        return np.append(running, np.flatnonzero(late))

    def _due_us(self, now_us: int, jobs: IntArray) -> IntArray:
        ledger, due = self._core.ledger, self._hazard.due[jobs]
        at = np.where(due < NEVER_US, ledger.anchor[jobs] + due - ledger.ran[jobs], NEVER_US)
        return -(-at // self._kind.stop_grid_us) * self._kind.stop_grid_us

    def _faults(self, now_us: int, jobs: IntArray) -> Faults:
        return Faults(jobs, ["failure"] * len(jobs), tried=True)


class FaultRun:
    """The injectors of one run, and what their faults do to jobs."""

    def __init__(self, core: RunCore, kind: KindRun, streams: Streams) -> None:
        self._core, self._kind = core, kind
        self._runs = {each.name: _run_of(each, core, kind, streams) for each in core.world.injectors}

    def next_us(self, now_us: int) -> int:
        """The next instant at which an injector acts."""
        return min((run.next_us(now_us) for run in self._runs.values()), default=NEVER_US)

    def act(self, now_us: int) -> None:
        """Carry out the faults of this instant: one of each job at most, by the order of the injectors."""
        hit = NO_JOBS
        for run in self._runs.values():
            faults = run.act(now_us)
            if faults is None:
                continue
            faults = faults.of(~np.isin(faults.job, hit))
            hit = np.union1d(hit, faults.job)
            if faults.end is not None:
                self._end(now_us, faults)
                continue
            last = self._core.attempt[faults.job] >= self._core.world.retries if faults.tried else False
            beyond = np.broadcast_to(last, len(faults.job))
            self._end(now_us, faults.of(beyond)._replace(end=FAILED))
            self._stop(now_us, faults.of(~beyond))

    def _end(self, now_us: int, faults: Faults) -> None:
        core, jobs = self._core, faults.job
        if not len(jobs):
            return
        assert faults.end is not None
        stopped = faults if faults.tried else faults.of(core.ledger.status[jobs] == RUNNING)
        self._kind.end(now_us, jobs)
        core.reasons |= dict(zip(jobs.tolist(), faults.reason, strict=True))
        core.ledger.status[jobs] = faults.end
        core.stops.add(now_us, stopped.job, core.attempt[stopped.job], stopped.reason)
        self._kind.tell_faults(jobs)

    def _stop(self, now_us: int, faults: Faults) -> None:
        core, jobs = self._core, faults.job
        if not len(jobs):
            return
        lost_us = self._kind.stop(now_us, jobs, faults.keep) + faults.lost_us
        core.ledger.lost[jobs] += faults.lost_us
        core.stops.add(now_us, jobs, core.attempt[jobs], faults.reason, lost_us)
        core.attempt[jobs] += 1
        for run in self._runs.values():
            run.begin(jobs)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return joined({name: run.state() for name, run in self._runs.items()})

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; the core is restored before."""
        for name, run in self._runs.items():
            run.restore(section(state, name))


def _run_of(injector: Injector, core: RunCore, kind: KindRun, streams: Streams) -> InjectorRun:
    match injector:
        case Ends():
            return EndsRun(core, injector)
        case TraceAttempts():
            return TraceAttemptsRun(core, injector.log)
        case RandomFailures():
            return RandomFailuresRun(core, kind, streams, injector)
