"""Stops: ends of a job's holding before its completion, and the faults by which injectors cause them.

The policy, lost servers and injectors (`ray_sim.engine.injectors`) stop jobs; `StopLog` of a run lists all
stops but those of chunked jobs. `FaultRun` carries out what injectors want; `Simulation` calls it after the
arrivals of an instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import polars as pl

from ray_sim.engine.decision import NO_JOBS
from ray_sim.engine.states import State, Stateful, joined, section, within
from ray_sim.kernels.core.arrays import FAILED, KEEP_ALL, KEEP_CHECKPOINT, KEEP_NOTHING
from ray_sim.model.result import STOP_SCHEMA
from ray_sim.model.units import NEVER_US, IntArray, us_to_seconds

if TYPE_CHECKING:
    from ray_sim.engine.kinds.run import KindRun
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.streams import Streams


class Keep(IntEnum):
    """What a stopped job keeps of its progress."""

    ALL = KEEP_ALL
    CHECKPOINT = KEEP_CHECKPOINT
    """Progress up to the last multiple of `checkpoint_s`."""
    NOTHING = KEEP_NOTHING


class Faults(NamedTuple):
    """Faults of some jobs at one instant: (n,) each."""

    job: IntArray
    """Sorted."""
    reason: Sequence[str]
    end: int | None = None
    """`FAILED` or `KILLED` for jobs that end; None for those that are stopped and wait again."""
    keep: Keep = Keep.CHECKPOINT
    lost_us: IntArray | None = None
    """Progress lost beside what follows from `keep`."""
    tried: bool = False
    """Whether `World.retries` limits how often these jobs are tried again."""

    def of(self, chosen: np.ndarray) -> Faults:
        """Those of a mask (n,)."""
        reason = [text for text, mine in zip(self.reason, chosen.tolist(), strict=True) if mine]
        lost = None if self.lost_us is None else self.lost_us[chosen]
        return self._replace(job=self.job[chosen], reason=reason, lost_us=lost)


class InjectorRun(Stateful, Protocol):
    """An injector in one run."""

    def next_us(self, now_us: int) -> int:
        """The next instant at which it acts, if nothing else happens until then."""

    def act(self, now_us: int) -> Faults | None:
        """The faults of this instant, if there are any."""

    def begin(self, jobs: IntArray) -> None:
        """These jobs, sorted, begin another attempt: they have failed now and wait again."""


class Injector(Protocol):
    """A cause of faults in a world, which knows no policy; frozen."""

    @property
    def name(self) -> str:
        """Its name in snapshots and in the reason why a run takes the general loop."""

    def start(self, core: RunCore, kind: KindRun, streams: Streams) -> InjectorRun:
        """Start a run."""


_LOG = ("time_us", "job", "attempt", "by", "lost_us", "reason")


class StopLog:
    """Stops of one run, in the order in which they happened."""

    def __init__(self) -> None:
        self._rows: list[IntArray] = []
        self._words: dict[str, int] = {}

    def add(
        self,
        now_us: int,
        jobs: IntArray,
        attempt: IntArray,
        reason: Sequence[str],
        lost_us: IntArray | int = 0,
        by: IntArray | int = -1,
    ) -> None:
        """Append stops of ``jobs``, (n,); `attempt` counts from 0, `by` is -1 for none."""
        rows = np.empty((len(jobs), len(_LOG)), dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4] = now_us, jobs, attempt, by, lost_us
        rows[:, 5] = [self._words.setdefault(word, len(self._words)) for word in reason]
        self._rows.append(rows)

    @property
    def rows(self) -> dict[str, IntArray]:
        """Columns of all stops, (n,) each; `reason` is an index into `words`."""
        rows = np.concatenate(self._rows) if self._rows else np.empty((0, len(_LOG)), dtype=np.int64)
        return dict(zip(_LOG, rows.T, strict=True))

    @property
    def words(self) -> list[str]:
        """Reasons by index."""
        return list(self._words)

    def table(self, world: World) -> pl.DataFrame:
        """The stops with the columns of `STOP_SCHEMA`."""
        rows, ids = self.rows, pl.concat([world.table.job_id, pl.Series([None], dtype=pl.String())])
        columns: dict[str, pl.Series | np.ndarray] = {
            "time_s": us_to_seconds(rows["time_us"] + world.table.origin_us),
            "job_id": ids[rows["job"]],
            "attempt": rows["attempt"] + 1,
            "reason": pl.Series(self.words, dtype=pl.String())[rows["reason"]],
            "by": ids[rows["by"]],
            "lost_s": us_to_seconds(rows["lost_us"]),
        }
        return pl.DataFrame(
            [pl.Series(name, columns[name], dtype=kind) for name, kind in STOP_SCHEMA.items()]
        )

    def clear(self) -> None:
        """Forget all."""
        self._rows, self._words = [], {}

    def state(self) -> State:
        """Arrays that `restore` takes."""
        text = "\n".join(self._words).encode()
        return {
            "rows": np.stack(list(self.rows.values()), axis=1),
            "words": np.frombuffer(text, dtype=np.uint8),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        words = state["words"].tobytes().decode().split("\n")
        within({"rows": state["rows"][:, -1]}, "rows", 0, len(words) - 1)
        self._rows = [state["rows"].copy()]
        self._words = {word: number for number, word in enumerate(words) if word}


class FaultRun:
    """The injectors of one run, and what their faults do to jobs."""

    def __init__(self, core: RunCore, kind: KindRun, streams: Streams) -> None:
        self._core, self._kind = core, kind
        self._runs = {each.name: each.start(core, kind, streams) for each in core.world.injectors}

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
        for job, reason in zip(jobs.tolist(), faults.reason, strict=True):
            self._kind.evict(now_us, job)
            core.reasons[job] = reason
        core.ledger.status[jobs] = faults.end
        core.stops.add(now_us, jobs, core.attempt[jobs], faults.reason)
        core.since_last_decision.drop_ended(jobs)
        core.since_last_decision.completed.add(jobs)

    def _stop(self, now_us: int, faults: Faults) -> None:
        core, jobs = self._core, faults.job
        if not len(jobs):
            return
        lost_us = self._kind.stop(now_us, jobs, faults.keep)
        if faults.lost_us is not None:
            core.ledger.lost[jobs] += faults.lost_us
            lost_us = lost_us + faults.lost_us
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
