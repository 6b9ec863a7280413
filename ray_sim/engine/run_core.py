"""State of a run that every kind of job shares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ray_sim.engine.decision import Causes
from ray_sim.engine.placements import Placements, nothing_for
from ray_sim.engine.recording import Recording
from ray_sim.engine.since_last_decision import SinceLastDecision
from ray_sim.engine.sites.fleet import Fleet
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import (
    State,
    all_within,
    check_heaps,
    copies,
    joined,
    overwrite,
    same,
    section,
    sorted_indices,
    within,
)
from ray_sim.engine.stops import StopLog
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import (
    FUTURE,
    KILLED,
    RUNNING,
    WAITING,
    Books,
    Calendar,
    Changes,
    Ledger,
    device_rows,
    devices,
    new_calendar,
    new_ledger,
)
from ray_sim.kernels.handle import handle
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray


class RunCore:
    """Ledger of jobs, calendar of completions, placements, record, and events since the last decision."""

    def __init__(self, world: World, fleet: Fleet) -> None:
        self.world = world
        self.fleet = fleet
        self.placements = Placements(world.arrays, world.there, world.row_bound)
        self.ledger: Ledger = new_ledger(world.work, world.losses, world.checkpoint_us)
        self.calendar: Calendar = new_calendar(len(world.table))
        self.recording = Recording(world)
        self.counts: IntArray = np.zeros(2, dtype=np.int64)
        """Jobs that wait, and jobs that run."""
        self.affected: IntArray = np.empty(len(world.table), dtype=np.int64)
        """(J,) work space: jobs that a step of kernels names."""
        self.since_last_decision = SinceLastDecision()
        self.reasons: dict[int, str] = {}
        """Why each job was rejected or evicted; one who evicts a job names its reason here."""
        self.attempt: IntArray = np.zeros(len(world.table), dtype=np.int64)
        """(J,) times that each job has failed and was tried again."""
        self.placed_anew: BoolArray = np.ones(len(world.table), dtype=np.bool_)
        """(J,) jobs that injectors have not looked at since they were placed."""
        self.stops = StopLog()
        self.after: IntArray = np.empty_like(world.arrays.empty)
        """(S, R + D) working space of validation."""
        self.row_device = device_rows(1, devices(world.arrays))
        """(1, D) working space of validation; None where tasks share no device."""

    @cached_property
    def books(self) -> Books:
        """Arrays of the run as kernels take them; they are the same as long as the run lives.

        A run in the compiled loop and the check of a sweep never ask, and compile nothing for it.
        """
        return handle(
            Books(
                self.world.arrays,
                self.ledger,
                self.placements.pool,
                self.calendar,
                self.placements.used,
                self.counts,
                self.affected,
                self.world.beyond_capacity,
            )
        )

    def clear(self, fleet: Fleet) -> None:
        """Begin a new run of the same world in the same arrays, so that `books` stay valid."""
        world = self.world
        self.fleet = fleet
        self.placements.clear(world.there)
        fresh = new_ledger(world.work, world.losses, world.checkpoint_us)
        overwrite(self.ledger, fresh._asdict())
        self.calendar.position[:] = -1
        self.calendar.size[:] = 0
        self.recording.clear()
        self.counts[:] = 0
        self.since_last_decision.clear()
        self.reasons = {}
        self.attempt[:] = 0
        self.placed_anew[:] = True
        self.stops.clear()

    @cached_property
    def work(self) -> FloatArray:
        """(J,) all work of each job, in the unit of its kind."""
        return self.world.work.astype(np.float64)

    @property
    def occupied(self) -> bool:
        """Whether a job waits or runs."""
        return bool(self.counts[0] or self.counts[1])

    @property
    def scheduled(self) -> IntArray:
        """Running jobs whose completion is in the calendar, in no order."""
        return self.calendar.heap[: self.calendar.size[0]]

    @property
    def running(self) -> IntArray:
        """Running jobs, in no order; completions of jobs in chunks are in the calendars of sites."""
        if self.calendar.size[0] == self.counts[1]:
            return self.scheduled
        return np.flatnonzero(self.ledger.status == RUNNING)

    def tell_placed(self, now_us: int, changes: Changes) -> None:
        """Tell the sites of new placements."""
        if self.fleet.listens:
            self.fleet.command(now_us, Commands(changes=changes))

    def tell_ended(self, now_us: int, jobs: IntArray) -> None:
        """Tell the sites of jobs, sorted, that give up what they hold."""
        if self.fleet.listens:
            self.fleet.command(now_us, Commands(changes=nothing_for(jobs)))

    def note_endings(self, jobs: IntArray) -> None:
        """Jobs that did all their work have failed or were killed, where the trace says so."""
        endings = self.world.endings
        if endings is None:
            return
        ended = jobs[endings[jobs] > 0]
        self.ledger.status[ended] = endings[ended]
        self.reasons |= dict.fromkeys(ended.tolist(), "trace")

    def note_preempted(
        self, now_us: int, jobs: IntArray, causes: Causes | None, lost_us: IntArray | int
    ) -> None:
        """Log jobs that the policy has suspended, with the causes that it tells."""
        by, reason = np.full(len(jobs), -1), ["policy"] * len(jobs)
        if causes is not None:
            _, mine, told = np.intersect1d(jobs, causes.job, return_indices=True)
            by[mine] = causes.by[told]
            for at, number in zip(mine.tolist(), told.tolist(), strict=True):
                reason[at] = causes.reason[number]
        self.stops.add(now_us, jobs, self.attempt[jobs], reason, lost_us, by)

    def note_moved(self, now_us: int, jobs: IntArray, lost_us: IntArray) -> None:
        """Log jobs that lose progress by a move."""
        self.stops.add(now_us, jobs, self.attempt[jobs], ["move"] * len(jobs), lost_us)

    def take_back(self, jobs: IntArray) -> None:
        """Note jobs, sorted, that lost what they had on a server and are to be placed again."""
        self.since_last_decision.arrived.add(jobs)
        self.since_last_decision.returned.add(jobs)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        parts = {
            "ledger": copies(self.ledger),
            "calendar": copies(self.calendar),
            "recording": self.recording.state(),
            "placements": self.placements.state(),
            "fleet": self.fleet.state(),
            "since_last_decision": self.since_last_decision.state(),
            "stops": self.stops.state(),
        }
        reasons = [[job, len(text)] for job, text in self.reasons.items()]
        return {
            **joined(parts),
            "counts": self.counts.copy(),
            "attempt": self.attempt.copy(),
            "reasons": np.array(reasons, dtype=np.int64).reshape(-1, 2),
            "reason_texts": np.frombuffer("".join(self.reasons.values()).encode(), dtype=np.uint8),
        }

    def _check(self, state: Mapping[str, np.ndarray]) -> None:
        """Refuse numbers out of range, and counts and a calendar that do not follow from the ledger."""
        ledger, since = section(state, "ledger"), section(state, "since_last_decision")
        jobs = len(self.affected)
        status = within(ledger, "status", FUTURE, KILLED)
        within(state, "attempt", 0, NEVER_US)
        lost = ledger.pop("lost")  # of a preempted chunk it may be below 0, by what it owes
        all_within({**ledger, "lost": np.abs(lost)})
        same("ledger.checkpoint_us", self.ledger.checkpoint_us, ledger["checkpoint_us"])
        same("counts", [np.sum(status == WAITING), np.sum(status == RUNNING)], state["counts"])
        check_heaps(section(state, "calendar"), ledger["finish"], np.zeros(1, dtype=np.int64))
        for name in vars(self.since_last_decision):
            sorted_indices(since, name, len(self.after) if name == "changed_servers" else jobs)
        within({"reasons": state["reasons"][:, 0]}, "reasons", 0, jobs - 1)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state of the same world."""
        self._check(state)
        overwrite(self.ledger, section(state, "ledger"))
        overwrite(self.calendar, section(state, "calendar"))
        self.recording.restore(section(state, "recording"))
        self.placements.restore(section(state, "placements"))
        self.fleet.restore(section(state, "fleet"))
        self.since_last_decision.restore(section(state, "since_last_decision"))
        self.stops.restore(section(state, "stops"))
        self.attempt[:] = state["attempt"]
        self.counts[:] = state["counts"]
        text = state["reason_texts"].tobytes().decode()
        self.reasons = {}
        for job, length in state["reasons"].tolist():
            self.reasons[job], text = text[:length], text[length:]
