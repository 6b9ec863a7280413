"""Check of the books of a run at the end of every instant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ray_sim.contract.outcome import BrokenError
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.run import GeneralRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import fleet_of
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import (
    COMPLETED,
    EVICTED,
    FAILED,
    FUTURE,
    KILLED,
    NEVER,
    REJECTED,
    RUNNING,
    SUBMIT,
    WAITING,
)
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.result import RunResult
from ray_sim.model.units import US_PER_S, BoolArray, IntArray

_SAME = -1
_STATE_AFTER = np.array(
    [WAITING, REJECTED, RUNNING, RUNNING, WAITING, COMPLETED, EVICTED, _SAME, WAITING, _SAME, _SAME]
)
"""Status of a job after each kind of event, in the order of `EVENT_NAMES`."""


def check_books(core: RunCore, now_us: int, arrivals: int, used: IntArray) -> None:
    """Raise unless all accounts of jobs, servers, events and lines agree.

    Parameters
    ----------
    arrivals : number of jobs submitted
    used : (R,) quanta in use, as the timeline tells

    Raises
    ------
    BrokenError : it names the first rule that is broken
    """
    for rule, holds in _rules(core, now_us, arrivals, used):
        if not np.all(holds):
            raise BrokenError(f"books at {now_us / US_PER_S:g} s: {rule}")


def _rules(
    core: RunCore, now_us: int, arrivals: int, used: IntArray
) -> Iterator[tuple[str, bool | np.bool_ | BoolArray]]:
    arrays, ledger, pool, status = core.world.arrays, core.ledger, core.placements.pool, core.ledger.status
    jobs, running, ended = np.arange(len(status)), status == RUNNING, status >= COMPLETED
    states = [np.count_nonzero(status == WAITING), np.count_nonzero(running)]
    yield "counts = jobs that wait and run", core.counts == states
    yield "waiting + running + ended = arrived", sum(states) + np.count_nonzero(ended) == arrivals
    yield "jobs arrive in order", (status != FUTURE) == (jobs < arrivals)
    yield "jobs that have ended have an end, by now", (ledger.end <= now_us) == ended

    rows, held = core.placements.of(jobs), np.zeros_like(arrays.capacity)
    np.add.at(held, rows.server, rows.count[:, None] * arrays.demand[rows.job, rows.role])
    yield "nothing free is negative", pool.free >= 0
    yield (
        "free + held = capacity of available servers",
        (core.placements.free + held == arrays.capacity * pool.there[:, None]),
    )
    yield "tasks are on available servers", pool.there[rows.server]
    yield "used = held", core.placements.used == held.sum(axis=0)
    yield "jobs that have ended hold nothing", ~ended[rows.job]
    if pool.row_device is not None:
        yield from _device_rules(core, pool.row_device, held)

    record, chunked = core.recording.joined(), isinstance(core.world.facts, ChunkFacts)
    submitted = record.job[record.kind == SUBMIT]
    yield "events are in order, and by now", np.diff(np.append(record.time, now_us)) >= 0
    yield "each job that arrived is submitted once", submitted.tolist() == list(range(arrivals))
    of_jobs = (record.kind < len(_STATE_AFTER)) & ~(chunked & (record.role >= 0))
    job, after = record.job[of_jobs], _STATE_AFTER[record.kind[of_jobs]]
    told = np.full(len(status), FUTURE)
    told[job[after != _SAME]] = after[after != _SAME]
    # A fault evicts a job, or follows its completion.
    faulty = np.isin(status, (FAILED, KILLED)) & np.isin(told, (COMPLETED, EVICTED))
    told = np.where(faulty, status, told)
    yield "events tell which jobs have ended", (told == status) | ((told < COMPLETED) & ~ended)
    if record.line_time[-1:].tolist() == [now_us]:
        line = [record.line_waiting[-1], record.line_running[-1], *record.line_used[-1]]
        yield "the line of the timeline = counts and use", line == [*states, *used]
    if chunked:
        return
    yield "events tell the state of each job", told == status
    yield "jobs that run are those that hold tasks", running == np.isin(jobs, rows.job)
    yield "jobs that run are those in the calendar", running == np.isin(jobs, core.scheduled)
    yield "use = held", used == held.sum(axis=0)
    longest = np.minimum(ledger.end, now_us) - arrays.submit
    waited = np.where(ledger.first_start == NEVER, 0, ledger.first_start - arrays.submit)
    spent = ledger.held + np.where(running, now_us - ledger.held_since, 0)
    fits = (waited >= 0) & (spent >= 0) & (waited + spent <= longest)
    yield "jobs hold tasks between arrival and end only", fits[:arrivals]


def _device_rules(core: RunCore, row_device: IntArray, held: IntArray) -> Iterator[tuple[str, BoolArray]]:
    """Rules of worlds whose GPUs are devices; ``held`` is (S, R) quanta by server."""
    arrays, pool = core.world.arrays, core.placements.pool
    live = core.placements.live_rows()
    server, taken = pool.row_server[live], row_device[live]
    on_devices = np.zeros_like(core.placements.free_devices)
    np.add.at(on_devices, server, taken)
    offered = arrays.empty[:, arrays.capacity.shape[1] :] * pool.there[:, None]
    yield "free + held = capacity of every device", core.placements.free_devices + on_devices == offered
    yield "no task takes less than nothing of a device", taken >= 0
    yield "GPUs held = held of devices", on_devices.sum(axis=1) == held[:, GPU]


class CheckedSimulation(Simulation):
    """A simulation whose books are checked at the end of every instant, which is a line of the timeline."""

    def _close_instant(self) -> None:
        super()._close_instant()
        check_books(self.core, max(self._now, 0), self.arrivals, self._kind.used)


def checked_run(
    world: World, policy: Policy, *, sites: int = 1, loop: type[Simulation] = CheckedSimulation
) -> RunResult:
    """Run a policy to the end in the general loop with books that are checked; raises as `check_books`."""
    fleet = fleet_of(world, sites, always=sites > 1)
    run = GeneralRun(world, policy, seed=0, fleet=fleet, loop=loop)
    while run.decide_once():
        pass
    return run.result(None, "asked for")
