"""Live jobs and pairs of them, their shares of time and the time that they received; `Rounds` keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policy_api import State, joined, section

PairSpeed = Callable[[IntArray], FloatArray]
"""(P, 2) rows of jobs -> (P, 2, T) steps per second of both jobs of each pair, on GPUs that they share."""

UNSERVED = 1e9
"""Priority of a whole share on a type of which no entry has received time."""


class LiveJobs(NamedTuple):
    """J jobs that have arrived and not ended, in order of arrival; (J,) each.

    row : in the workload, increasing
    steps_left : whole, > 0
    speed : (J, T) steps per second alone; 0 where a job cannot run
    """

    row: IntArray
    arrival_s: FloatArray
    gpus: IntArray
    weight: FloatArray
    steps_left: FloatArray
    speed: FloatArray


class Entries(NamedTuple):
    """E jobs and pairs on T types, as created: a job, then its pairs with earlier jobs, by partner.

    member : (E, 2) rows of jobs, the earlier first; the second is -1 in a job
    gpus : (E,) of the entry, which are those of each of its jobs
    speed : (E, 2, T) steps per second of each member, 0 for the second of a job
    share : (E, T) of the last computation, 0 for entries that are newer
    known : (E,) whether the last computation had the entry
    received_s : (E, T) received since the last computation, plus a start
    deficit_s : (E, T) owed as of the last computation
    failures : (E,) rounds running that booked nothing, see `RoundRules.published`
    """

    member: IntArray
    gpus: IntArray
    speed: FloatArray
    share: FloatArray
    known: BoolArray
    received_s: FloatArray
    deficit_s: FloatArray
    failures: IntArray

    def pair(self) -> BoolArray:
        """(E,): the entry is a pair."""
        return self.member[:, 1] >= 0

    def runs(self) -> BoolArray:
        """(E, T): every member has a speed there."""
        return (self.speed[:, 0] > 0) & ((self.speed[:, 1] > 0) | ~self.pair()[:, None])


class Ledger:
    """Live jobs, their pairs where jobs may be packed, and what each has received on each of T types.

    Parameters
    ----------
    types : T
    start_s : seconds that count as received by each entry on each type at a computation
    new_pair_s : the same for a pair before its first computation; a new job has ``start_s``
    pair_speed : speeds of pairs; None: jobs are not packed
    """

    def __init__(self, types: int, start_s: float, new_pair_s: float, pair_speed: PairSpeed | None) -> None:
        self._start_s, self._new_pair_s, self._pair_speed = start_s, new_pair_s, pair_speed
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        self.jobs = LiveJobs(whole, real, whole, real, real, np.zeros((0, types)))
        self.entries = self._new(np.zeros((0, 2), np.int64), whole, np.zeros((0, 2, types)))
        self.type_received_s = np.zeros(types)
        """(T,) received by all entries as of the last computation, and since; 0 before the first."""

    def add(self, new: LiveJobs) -> None:
        """Add jobs, with rows above those of earlier ones, and their pairs; they have no shares yet."""
        self.jobs = LiveJobs._make(np.concatenate(columns) for columns in zip(self.jobs, new, strict=True))
        member = np.stack([new.row, np.full_like(new.row, -1)], axis=1)
        gpus, speed = new.gpus, np.stack([new.speed, np.zeros_like(new.speed)], axis=1)
        if self._pair_speed is not None:
            same = (self.jobs.gpus[:, None] == new.gpus) & (self.jobs.row[:, None] < new.row)
            first, second = np.nonzero(same)
            pairs = np.stack([self.jobs.row[first], new.row[second]], axis=1)
            member = np.concatenate([member, pairs])
            gpus = np.concatenate([gpus, new.gpus[second]])
            speed = np.concatenate([speed, self._pair_speed(pairs)])
        created = np.lexsort((member.min(axis=1), member.max(axis=1)))
        more = self._new(member[created], gpus[created], speed[created])
        self.entries = Entries._make(
            np.concatenate(columns) for columns in zip(self.entries, more, strict=True)
        )

    def _new(self, member: IntArray, gpus: IntArray, speed: FloatArray) -> Entries:
        none, never = np.zeros_like(speed[:, 0]), np.zeros_like(gpus)
        received_s = none + np.where(member[:, 1:] >= 0, self._new_pair_s, self._start_s)
        return Entries(member, gpus, speed, none, never > 0, received_s, none.copy(), never)

    def remove(self, rows: IntArray) -> IntArray:
        """Remove jobs and their pairs; the new index of each former entry, (E,), -1 for the removed."""
        live = ~np.isin(self.jobs.row, rows)
        keep = np.isin(self.entries.member, rows).sum(axis=1) == 0
        self.jobs = LiveJobs._make(column[live] for column in self.jobs)
        self.entries = Entries._make(column[keep] for column in self.entries)
        index: IntArray = np.where(keep, np.cumsum(keep) - 1, -1)
        return index

    def now(self, clock_s: float, capacity: IntArray) -> JobsNow:
        """What a computation of shares takes at an instant."""
        jobs, pair = self.jobs, self.entries.pair()
        return JobsNow(
            job=jobs.row,
            speed=jobs.speed,
            gpus=jobs.gpus,
            weight=jobs.weight,
            steps_left=jobs.steps_left.copy(),
            age_s=clock_s - jobs.arrival_s,
            capacity=capacity,
            pairs=np.searchsorted(jobs.row, self.entries.member[pair]),
            pair_speed=self.entries.speed[pair],
        )

    def take(self, shares: FloatArray, elapsed_s: float) -> None:
        """Book the deficits of the shares over the seconds since their computation, then replace them.

        shares : (J + P, T) in the order of `now`
        """
        entries, pair = self.entries, self.entries.pair()
        entries.deficit_s[:] += entries.share * elapsed_s - (entries.received_s - self._start_s)
        entries.received_s[:] = self._start_s
        self.type_received_s[:] = self._start_s * len(pair)
        entries.share[~pair], entries.share[pair] = np.split(shares, [len(self.jobs.row)])
        entries.known[:] = True

    def priority(self) -> FloatArray:
        """(E, T) share over the fraction of the type's time that the entry received."""
        entries, total = self.entries, self.type_received_s
        fraction = entries.received_s / np.where(total > 0, total, np.inf)
        return np.divide(entries.share, fraction, out=entries.share * UNSERVED, where=fraction > 0)

    def book(
        self, entry: IntArray, type_: IntArray, received_s: FloatArray, failed: BoolArray, order: IntArray
    ) -> IntArray:
        """Entries, each once, -1 for a removed one, received seconds on types, which add them up in order.

        Returns the rounds running that each of them has failed in.
        """
        np.add.at(self.type_received_s, type_[order], received_s[order])
        live = entry >= 0
        self.entries.received_s[entry[live], type_[live]] += received_s[live]
        failures: IntArray = np.where(failed, np.append(self.entries.failures, 0)[entry] + 1, 0)
        self.entries.failures[entry[live]] = failures[live]
        return failures

    def state(self) -> State:
        """Arrays that `restore` takes."""
        parts = {"jobs": self.jobs._asdict(), "entries": self.entries._asdict()}
        types = {"received_s": self.type_received_s}
        return {name: array.copy() for name, array in joined({**parts, "types": types}).items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        state = {name: array.copy() for name, array in state.items()}
        self.jobs, self.entries = LiveJobs(**section(state, "jobs")), Entries(**section(state, "entries"))
        self.type_received_s = state["types.received_s"]
