"""The check of books finds each account that does not agree, in runs that suspend, reject and evict jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.contract.books import CheckedSimulation, checked_run
from ray_sim.contract.chunked_worlds import busy_chunks, failing_chunks
from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.contract.outcome import BrokenError
from ray_sim.contract.rigid_worlds import busy_world, failing_world
from ray_sim.contract.subject import Subject
from ray_sim.contract.suite import CLAUSES, check_clause
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.rigid.jobs import RigidJobs
from ray_sim.engine.kinds.run import KindRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import EVICT, EVICTED, LEVEL, NEVER, RUNNING, START, SUBMIT, WAITING
from ray_sim.policies.chunk_least_loaded import ChunkFifo
from ray_sim.policies.drf import Drf
from ray_sim.policies.fifo import Fifo
from ray_sim.policies.srtf import Srtf
from ray_sim.policy_api import ChunkedDecision, ChunkedView, Decision, ElasticView, View
from tests.proofs import quick_first


def _with_evictions(decision: Decision, view: View) -> Decision:
    """The decision, which also evicts some jobs that it does not change."""
    jobs = np.concatenate([view.running[view.running % 3 == 0], view.waiting[view.waiting % 5 == 1]])
    changed = np.array(sorted(decision.served), dtype=np.int64)
    return replace(decision, evict=np.setdiff1d(jobs, [*changed, *decision.reject]).astype(np.int64))


class EvictingSrtf(Srtf):
    """Suspends jobs for shorter ones, evicts running jobs, and rejects one job of seven when it comes."""

    def decide(self, view: View) -> Decision:
        running, odd = view.running[view.running % 3 == 0], view.arrived % 7 == 6
        if len(running) == 0 and not odd.any():
            return super().decide(view)
        self._service.push(view.arrived[~odd], self._time_left_us(view, view.arrived[~odd]))
        return Decision(evict=running, reject=view.arrived[odd], review_us=view.now_us + 1)


class EvictingDrf(Drf):
    """DRF that evicts jobs which it leaves as they are."""

    def decide(self, view: ElasticView) -> Decision:
        return _with_evictions(super().decide(view), view)


class EvictingChunkFifo(ChunkFifo):
    """Chunks in order of arrival; active jobs are evicted."""

    def decide(self, view: ChunkedView) -> ChunkedDecision:
        found = super().decide(view)
        assert isinstance(found, ChunkedDecision)
        given = set() if found.dispatch is None else set(found.dispatch.job.tolist())
        jobs = [job for job in view.running.tolist() if job % 3 == 0 and job not in given | found.served]
        changed = [] if found.changes is None else found.changes.job[: found.changes.size[0]].tolist()
        return replace(found, evict=np.array(sorted(set(jobs) - set(changed)), dtype=np.int64))


@pytest.mark.parametrize(
    ("policy", "world"),
    quick_first(
        [
            (EvictingSrtf, busy_world),
            (EvictingSrtf, failing_world),
            (EvictingSrtf, failing_elastic),
            (EvictingDrf, busy_elastic),
            (EvictingDrf, failing_elastic),
            (EvictingChunkFifo, busy_chunks),
            (EvictingChunkFifo, failing_chunks),
        ],
        2,
    ),
)
def test_books_agree_where_jobs_are_evicted(policy: type[Policy], world: Callable[[int, int], World]) -> None:
    for seed in range(2):
        summary = checked_run(world(40, seed), policy()).summary
        assert summary.evicted > 0
        assert summary.completed + summary.evicted + summary.rejected == 40


def _lowest(core: RunCore, status: int) -> int:
    """First job in a state."""
    return int(np.flatnonzero(core.ledger.status == status)[0])


def _put(array: np.ndarray, at: int | tuple[int, int], value: int | bool) -> None:
    array[at] = value


def _add(array: np.ndarray, at: int | tuple[int, int], value: int) -> None:
    array[at] += value


def _forget(core: RunCore, kind: int) -> None:
    """Turn the last event of a kind into one that says nothing of a job."""
    record, n = core.recording.current, int(core.recording.current.size[0])
    record.kind[np.flatnonzero(record.kind[:n] == kind)[-1]] = LEVEL


COUNTS, LATER = "counts = jobs", "between arrival and end"
FAULTS: dict[str, tuple[str, Callable[[RunCore], None]]] = {
    "an eviction leaves the running count": (COUNTS, lambda core: _add(core.counts, 1, 1)),
    "a rejection leaves the waiting count": (COUNTS, lambda core: _add(core.counts, 0, 1)),
    "a job waits before it comes": (COUNTS, lambda core: _put(core.ledger.status, -1, WAITING)),
    "a job is ended and has no end": (
        "have an end",
        lambda core: _put(core.ledger.end, _lowest(core, EVICTED), NEVER),
    ),
    "a job runs and has an end": (
        "have an end",
        lambda core: _put(core.ledger.end, _lowest(core, RUNNING), 0),
    ),
    "capacity is given back twice": (
        "free . held = capacity",
        lambda core: _add(core.placements.free, (0, 0), 1),
    ),
    "capacity is taken twice": ("negative", lambda core: _add(core.placements.free, (0, 0), -99_000)),
    "a lost server keeps what is free": (
        "free . held = capacity",
        lambda core: _put(core.placements.available, 0, False),
    ),
    "a release leaves the use": ("used = held", lambda core: _add(core.placements.used, 0, 1000)),
    "tasks are dropped without a stop": (
        "free . held = capacity",
        lambda core: _put(core.placements.pool.head, _lowest(core, RUNNING), -1),
    ),
    "a start is not recorded": ("events tell", lambda core: _forget(core, START)),
    "a submission is not recorded": ("submitted once", lambda core: _forget(core, SUBMIT)),
    "an end is not recorded": ("events tell which", lambda core: _forget(core, EVICT)),
    "an event is of the future": (
        "events are in order",
        lambda core: _put(core.recording.current.time, int(core.recording.current.size[0]) - 1, NEVER),
    ),
    "a running job is not in the calendar": ("calendar", lambda core: _add(core.calendar.size, 0, -1)),
    "a job starts before it comes": (
        LATER,
        lambda core: _put(core.ledger.first_start, _lowest(core, RUNNING), -(10**9)),
    ),
    "held time counts twice": (LATER, lambda core: _add(core.ledger.held, _lowest(core, RUNNING), 10**12)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_named(fault: str) -> None:
    rule, spoil = FAULTS[fault]
    policy = EvictingSrtf()
    simulation = CheckedSimulation(busy_world(40), policy)
    policy.start(simulation.world, simulation.streams)
    for _ in range(20):
        view = simulation.advance()
        assert view is not None
        simulation.apply(policy.decide(view))
    spoil(simulation.core)
    with pytest.raises(BrokenError, match=rf"^books at [\d.]+ s: .*{rule}"):
        simulation.advance()


@pytest.mark.parametrize("column", ["line_waiting", "line_running", "line_used"])
def test_a_line_of_the_timeline_that_tells_something_else_is_found(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Simulation._close_instant

    def close_wrongly(simulation: Simulation) -> None:
        close(simulation)
        record = simulation.core.recording.current
        getattr(record, column)[record.size[1] - 1] += 1

    monkeypatch.setattr(Simulation, "_close_instant", close_wrongly)
    with pytest.raises(BrokenError, match="the line of the timeline = counts and use"):
        checked_run(busy_world(40), Fifo())


class ForgetfulRun(KindRun):
    """Leaves the running count when a job is evicted."""

    def evict(self, now_us: int, job: int) -> None:
        running = self._core.ledger.status[job] == RUNNING
        super().evict(now_us, job)
        self._core.counts[1] += running


def test_an_eviction_that_leaves_the_running_count_fails_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        RigidJobs, "start", lambda self, core, *_: ForgetfulRun(core, core.world.facts.progress)
    )
    found = check_clause("feasible", CLAUSES["feasible"], Subject(EvictingSrtf))
    assert found.detail.endswith("counts = jobs that wait and run")
    assert found.detail.startswith("books at ")
