"""Rounds that turn shares of time on GPU types into GPUs; the policy gavel plays its jobs by them.

At every latest end, and at the next arrival when nothing runs, the policy calls `book`, `add`, `take` if
`due`, `begin` and `run`, in this order.

Source: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI
2020, sections 3.3 and 5. Details follow the authors' simulator, whose job times these rounds give to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.ledger import Entries, Ledger, LiveJobs, PairSpeed
from ray_sim.policies.gavel.room import Room
from ray_sim.policy_api import State, all_within, joined, section, within

SHUFFLE_OFFSET = 5
"""Added to the seed for the order of types."""

MOST_FAILURES = 5

BLOCK = 128
"""Entries that become Python's numbers together: a round is mostly full after few of them."""


@dataclass(frozen=True, slots=True)
class RoundRules:
    """How rounds are played; the defaults are the authors', without their oddities."""

    round_s: float = 360.0
    """Longest run of a job in a round, > 0; a job does one step even if that takes longer."""
    reset_s: float = 1920.0
    """Least time between computations of shares, except after one at 0 s; 0: at every change."""
    shuffle_types: bool = False
    """Types are served in a random order each round: policies that see no speeds and do not pack."""
    fill_idle: bool = True
    """Entries of priority 0 get GPUs that are left; not so in FIFO."""
    one_server: bool = False
    """The GPUs of an entry stand on one server."""
    published: bool = False
    """With the authors' oddities: time from the end of the last round on counts as received; both jobs of a
    pair end at the later end; an entry that does less than a step per GPU books nothing, and a job is dropped
    after five such rounds running; a new pair has received nothing."""


class Leases(NamedTuple):
    """L entries that have GPUs in a round, up to its end.

    member : (L, 2) rows of the jobs of each entry; the second is -1 in a job
    entry : (L,) index in the ledger, -1 once a job of the entry is gone
    gpus : (L, most) numbers within the type, from 0; -1 after the last
    kept : (L,) whether the entry had these GPUs in the last round
    steps, ends_s : (L, 2) whole steps of each job and when they are done; 0 where there is none
    """

    member: IntArray
    entry: IntArray
    type: IntArray
    gpus: IntArray
    kept: BoolArray
    steps: FloatArray
    ends_s: FloatArray


class Ended(NamedTuple):
    """Jobs that leave; one that has not finished was dropped, see `RoundRules.published`."""

    job: IntArray
    end_s: FloatArray
    finished: BoolArray


class Rounds:
    """Shares of time of live jobs, played in rounds on GPUs of T types in alphabetical order.

    Time is in seconds, in double precision, and the rounds' own.

    Parameters
    ----------
    servers : GPUs of each server of each type; GPUs are numbered within the type, server by server
    seed : of the order of types
    pair_speed : speeds of pairs of jobs of equally many GPUs; None: jobs are not packed
    """

    def __init__(
        self,
        servers: Sequence[Sequence[int]],
        rules: RoundRules,
        seed: int = 0,
        pair_speed: PairSpeed | None = None,
    ) -> None:
        half_s = rules.round_s / 2
        self.ledger = Ledger(len(servers), half_s, 0.0 if rules.published else half_s, pair_speed)
        self.clock_s = 0.0
        """Start of the round that runs, else of the next; if nothing runs, set it to an arrival."""
        self.leases = _leases(self.ledger.entries.member, [])
        """Of the round that runs, else of the last one."""
        self.running = False
        self.computations = self.rounds = self.extensions = self.extendable = 0
        """Counts: computations of shares, rounds in which an entry ran, entries that kept their GPUs of the
        round before, and those of the round before with a live job."""
        self._rules = rules
        self._server = [np.repeat(np.arange(len(gpus)), gpus) for gpus in servers]
        self._there = [np.ones(len(server), np.bool_) for server in self._server]
        self._random = random.Random(seed + SHUFFLE_OFFSET)
        self._computed_s = self._ended_s = 0.0
        self._changed = False

    def add(self, new: LiveJobs) -> None:
        """Jobs arrive, in order of their rows; they run from the next computation on."""
        self.ledger.add(new)
        self._changed = self._changed or len(new.row) > 0

    def fail(self, job: int, at_s: float, steps_left: float) -> None:
        """Set the steps left of a live job; if it runs, its run ends at ``at_s`` for this round."""
        self._cut(job, at_s)
        self.ledger.jobs.steps_left[self.ledger.jobs.row == job] = steps_left
        self._changed = True

    def remove(self, job: int, at_s: float) -> None:
        """A live job vanishes."""
        self._cut(job, at_s)
        self._remove(np.array([job]))

    def set_there(self, type_: int, there: BoolArray) -> None:
        """Which GPUs of a type are there, (N,), from the next round on."""
        self._changed = self._changed or not np.array_equal(self._there[type_], there)
        self._there[type_] = there.copy()

    def due(self, coming: bool) -> bool:
        """Whether shares must be computed before the next round, be it for no job.

        coming : more jobs will arrive
        """
        old = self.clock_s - self._computed_s >= self._rules.reset_s or self._computed_s == 0
        return self._changed and (old or not (len(self.leases.entry) or coming))

    def now(self) -> JobsNow:
        """What a computation of shares takes."""
        return self.ledger.now(self.clock_s, np.array([there.sum() for there in self._there], np.int64))

    def take(self, shares: FloatArray) -> None:
        """Take the shares of a computation, (J + P, T) in the order of `now`."""
        self.ledger.take(shares, self.clock_s - self._computed_s)
        self._computed_s = self.clock_s
        self._changed = False
        self.computations += 1

    def begin(self) -> Leases:
        """Choose the entries of the next round and their GPUs; `run` says for how long."""
        last, entries = self.leases, self.ledger.entries
        self.extendable += int(np.isin(last.member, self.ledger.jobs.row).any(axis=1).sum())
        types = list(reversed(range(len(self._there))))
        if self._rules.shuffle_types:
            self._random.shuffle(types)
        columns = (last.entry.tolist(), last.type.tolist(), last.gpus.tolist())
        held = {(e, t): tuple(n for n in gpus if n >= 0) for e, t, gpus in zip(*columns, strict=True)}
        priority = self.ledger.priority()
        able = entries.runs() & (self._rules.fill_idle | (priority > 0))
        taken: set[int] = set()
        leases: list[_Given] = []
        for type_ in types:
            room = self._room(type_)
            order = np.lexsort([-key[:, type_] for key in (entries.share, entries.deficit_s, priority)])
            chosen = _choose(entries, order[able[order, type_]], room, taken)
            known = [entry for entry in chosen if entries.known[entry]]
            had = [held.get((entry, type_), ()) for entry in known]
            given = room.give(entries.gpus[known].tolist(), had)
            got = zip(known, given, had, strict=True)
            leases += [(entry, type_, gpus, gpus == before) for entry, gpus, before in got if gpus]
        self.leases = _leases(entries.member, leases)
        self.running = bool(leases)
        self.rounds += self.running
        self.extensions += int(self.leases.kept.sum())
        return self.leases

    def _room(self, type_: int) -> Room:
        numbers = np.flatnonzero(self._there[type_])
        servers = np.split(numbers, np.flatnonzero(np.diff(self._server[type_][numbers])) + 1)
        sizes = np.unique(self.ledger.jobs.gpus).tolist() if self._rules.one_server else []
        return Room([server.tolist() for server in servers], sizes)

    def run(self, speed: FloatArray | None = None, pause_s: FloatArray | None = None) -> None:
        """Plan the steps and ends of each job of the round that `begin` chose.

        Parameters
        ----------
        speed : (L, 2) steps per second of each job on the GPUs that it has, > 0; by default the type's
        pause_s : (L,) seconds before the first step, >= 0; by default 0
        """
        leases, jobs, published = self.leases, self.ledger.jobs, self._rules.published
        if speed is None:
            speed = self.ledger.entries.speed[leases.entry, :, leases.type]
        pause = np.zeros((len(speed), 1)) if pause_s is None else pause_s[:, None]
        there = leases.member >= 0
        at = np.searchsorted(jobs.row, np.where(there, leases.member, leases.member[:, :1]))
        rate, left = np.where(there, speed, 1.0), np.where(there, jobs.steps_left[at], 0.0)
        run_s = self._rules.round_s - pause
        steps = np.minimum(np.maximum(np.floor(run_s * rate), 0 if published else 1), left)
        took_s = steps / rate
        if published:
            took_s[:] = took_s.max(axis=1, keepdims=True)
        else:
            _go_on_alone(steps, took_s, rate, left, jobs.speed[at, leases.type[:, None]], run_s)
        leases.steps[:] = steps
        leases.ends_s[:] = np.where(there, self.clock_s + (pause + took_s), 0)

    @property
    def end_s(self) -> float:
        """Latest end of the round that runs."""
        return float(self.leases.ends_s.max())

    def book(self) -> Ended:
        """Book the round that ran, and set the clock to its latest end; the jobs that leave."""
        leases, ledger, published = self.leases, self.ledger, self._rules.published
        if not self.running:
            return Ended(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_))
        there, end_s = leases.member >= 0, leases.ends_s.max(axis=1)
        # GPUs of each entry: the fewest steps that the authors' simulator books.
        fewest = (leases.gpus >= 0).sum(axis=1, keepdims=True)
        failed = published & (there & (leases.steps < fewest)).any(axis=1)
        received_s = np.where(failed, 0, end_s - (self._ended_s if published else self.clock_s))
        order = np.lexsort((leases.member[:, 0], -end_s))
        failures = ledger.book(leases.entry, leases.type, received_s, failed, order)
        live = there & np.isin(leases.member, ledger.jobs.row)
        at = np.searchsorted(ledger.jobs.row, leases.member[live])
        ledger.jobs.steps_left[at] -= np.where(failed[:, None], 0, leases.steps)[live]
        finished = ledger.jobs.steps_left[at] <= 0
        dropped = (failures >= MOST_FAILURES) & ~there[:, 1]
        gone = finished | np.broadcast_to(dropped[:, None], live.shape)[live]
        ended = Ended(leases.member[live][gone], leases.ends_s[live][gone], finished[gone])
        self._ended_s = self.clock_s = self.end_s
        self.running = False
        self._changed = self._changed or bool(failed.any())
        self._remove(ended.job)
        return ended

    def _cut(self, job: int, at_s: float) -> None:
        """End the run of a job in this round, without steps."""
        mine = (self.leases.member == job) & self.running
        self.leases.steps[mine] = 0
        self.leases.ends_s[mine] = np.minimum(self.leases.ends_s[mine], at_s)

    def _remove(self, jobs: IntArray) -> None:
        if len(jobs):
            self._changed = True
            self.leases.entry[:] = np.append(self.ledger.remove(jobs), -1)[self.leases.entry]

    def state(self) -> State:
        """Arrays that `restore` takes."""
        flags = self.running, self._changed
        counts = [self.computations, self.rounds, self.extensions, self.extendable, *flags]
        own = {
            "clock_s": np.array([self.clock_s, self._computed_s, self._ended_s]),
            "counts": np.array(counts, np.int64),
            "random": np.array(self._random.getstate()[1], np.int64),
            "there": np.concatenate(self._there),
        }
        leases = {name: array.copy() for name, array in self.leases._asdict().items()}
        return joined({"own": own, "leases": leases, "ledger": self.ledger.state()})

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state of equal servers and rules.

        Raises
        ------
        UnfitStateError : a value that no run leads to
        """
        own, leases = section(state, "own"), section(state, "leases")
        self.ledger.restore(section(state, "ledger"))
        counts = [len(there) for there in self._there]
        all_within(own)
        within(own, "random", 0, np.array([2**32 - 1] * 624 + [624]))
        all_within(leases, -1)
        within(leases, "entry", -1, len(self.ledger.entries.gpus) - 1)
        within(leases, "type", 0, len(counts) - 1)
        within(leases, "gpus", -1, np.array(counts)[leases["type"], None] - 1)
        self.leases = Leases(**{name: array.copy() for name, array in leases.items()})
        self.clock_s, self._computed_s, self._ended_s = own["clock_s"].tolist()
        self.computations, self.rounds, self.extensions, self.extendable = own["counts"][:4].tolist()
        self.running, self._changed = own["counts"][4:].astype(bool).tolist()
        self._random.setstate((3, tuple(own["random"].tolist()), None))
        self._there = np.split(own["there"].copy(), np.cumsum(counts)[:-1])


_Given = tuple[int, int, tuple[int, ...], bool]
"""Entry, type, GPUs, and whether it had them in the last round."""


def _leases(member: IntArray, given: Sequence[_Given]) -> Leases:
    """Leases without steps."""
    most = max((len(gpus) for _, _, gpus, _ in given), default=1)
    gpus = np.array([(*gpus, *[-1] * (most - len(gpus))) for _, _, gpus, _ in given], np.int64)
    entry, type_, kept = np.array([(each[0], each[1], each[3]) for each in given], np.int64).reshape(-1, 3).T
    return Leases(
        member[entry], entry, type_, gpus.reshape(-1, most), kept > 0, *np.zeros((2, len(given), 2))
    )


def _choose(entries: Entries, order: IntArray, room: Room, taken: set[int]) -> list[int]:
    """Entries that run on a type, of those in order; their jobs are added to those taken."""
    chosen: list[int] = []
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        columns = (block.tolist(), entries.member[block].tolist(), entries.gpus[block].tolist())
        for entry, (first, second), gpus in zip(*columns, strict=True):
            if room.full:
                return chosen
            if first not in taken and second not in taken and room.count(gpus):
                taken.update((first, second) if second >= 0 else (first,))
                chosen.append(entry)
    return chosen


def _go_on_alone(
    steps: FloatArray,
    took_s: FloatArray,
    rate: FloatArray,
    left: FloatArray,
    alone: FloatArray,
    run_s: FloatArray,
) -> None:
    """Where a job of a pair ends, the other has the GPUs alone for the rest of the round.

    Changes the steps and the time of the other; (L, 2) each, run_s (L, 1); left is 0 for the second of a job.
    """
    ends = (steps == left) & (left > 0)
    pair = np.flatnonzero(ends.any(axis=1) & (left[:, 1] > 0))
    first = np.where(ends, took_s, np.inf)[pair].argmin(axis=1)
    other = pair, 1 - first
    before_s = took_s[pair, first]
    shared = rate[other] * before_s
    rest_s = np.maximum(run_s[pair, 0] - before_s, 0)
    steps[other] = np.minimum(np.floor(shared + alone[other] * rest_s), left[other])
    more_s = (steps[other] - shared) / np.where(alone[other] > 0, alone[other], np.inf)
    took_s[other] = np.where(steps[other] > shared, before_s + more_s, steps[other] / rate[other])
