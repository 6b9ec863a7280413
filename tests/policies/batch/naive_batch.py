"""One decision of `batch` as its rules say, in plain Python: intervals, sets and fractions, everything anew.

GPUs only, on servers of any size, under the placement rules `pooled` and `consolidate`. Nothing is kept from
one decision to the next but the promises of a grace period.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from ray_sim.model.teams import Team
from tests.naive_placement import DEFINITIONS, Gang, Placement

FOREVER = math.inf


@dataclass(frozen=True)
class Facts:
    """What does not change in a run. Amounts in milli-GPU, times in microseconds."""

    servers: list[int]
    gpus: list[int]
    """GPUs of each job, a task each."""
    limit: list[int]
    submit: list[int]
    team: list[int]
    rank: list[int]
    preemptible: list[bool]
    teams: tuple[Team, ...]
    placement: str = "pooled"
    backfill: bool = True
    reserve: int = 1
    preempt: str = "never"
    reclaim: str = "any"
    fair: bool = False
    grace: int = 0


class Holding(NamedTuple):
    """Servers of a job from one time to before another."""

    job: int
    rows: Placement
    begin: float
    end: float
    planned: bool = False


@dataclass
class Answer:
    """Who starts where, and who stops for whom."""

    starts: dict[int, Placement] = field(default_factory=dict)
    stops: dict[int, int] = field(default_factory=dict)


class Naive:
    """The policy; `decide` is asked once for each decision."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.promises: dict[int, tuple[int, list[int]]] = {}

    def decide(self, now: int, running: dict[int, tuple[int, Placement]], waiting: list[int]) -> Answer:
        """Answer for the waiting jobs, in order, and the running ones with start and servers."""
        facts = self.facts
        self.now, self.answer, self.running, self.new = now, Answer(), dict(running), set[int]()
        self.reserved = 0
        leaving = {victim: due for due, victims in self.promises.values() for victim in victims}
        self.plan = [
            Holding(
                job, rows, -FOREVER, max(min(start + facts.limit[job], leaving.get(job, FOREVER)), now + 1)
            )
            for job, (start, rows) in running.items()
        ]
        self.held = [0] * max(len(facts.teams), 1)
        for job in running:
            self.held[facts.team[job]] += self.need(job)
        self._keep_promises(waiting)
        left = [job for job in waiting if job not in self.promises and job not in self.new]
        while left:
            job = self._turn(left)
            left.remove(job)
            if not self._let_in(job) and not facts.backfill:
                if self.passes(job):
                    return self.answer  # room: one pool
                left = [other for other in left if facts.team[other] != facts.team[job]]
        return self.answer

    # --- quotas

    def need(self, job: int) -> int:
        return 1000 * self.facts.gpus[job]

    def quota(self, team: int) -> tuple[int, float, int]:
        """Nominal, most to borrow, lent; a team without a quota may hold all."""
        teams = self.facts.teams
        if not teams or not teams[team].quotas:
            return 10**9, FOREVER, 0
        quota = teams[team].quotas[0]
        return quota.nominal, FOREVER if quota.borrow is None else quota.borrow, quota.lend

    def cohort(self, team: int) -> list[int]:
        """Teams with a quota that share with a team."""
        teams = self.facts.teams
        return [m for m, other in enumerate(teams) if other.quotas and other.cohort == teams[team].cohort]

    def available(self, team: int) -> float:
        nominal, borrow, lend = self.quota(team)
        pool = sum(self.quota(m)[2] for m in self.cohort(team)) if self.facts.teams else 0
        used = 0
        for m in self.cohort(team) if self.facts.teams else ():
            local = self.quota(m)[0] - self.quota(m)[2]
            used += max(0, self.held[m] - local)
        local = nominal - lend
        return max(0, local - self.held[team]) + min(
            pool - used, lend - max(0, self.held[team] - local) + borrow
        )

    def unlimited(self, team: int) -> bool:
        return not self.facts.teams or not self.facts.teams[team].quotas

    def passes(self, job: int) -> bool:
        team = self.facts.team[job]
        return self.unlimited(team) or self.need(job) == 0 or self.need(job) <= self.available(team)

    def within(self, job: int) -> bool:
        team = self.facts.team[job]
        return self.unlimited(team) or self.held[team] + self.need(job) <= self.quota(team)[0]

    def borrows(self, team: int) -> bool:
        return not self.unlimited(team) and self.held[team] > self.quota(team)[0]

    def share(self, team: int, more: int = 0) -> Fraction | float:
        if self.unlimited(team):
            return Fraction(0)
        above = max(0, self.held[team] + more - self.quota(team)[0])
        lent = sum(self.quota(m)[2] for m in self.cohort(team)) * Fraction(self.facts.teams[team].weight)
        if above == 0:
            return Fraction(0)
        return Fraction(above) / lent if lent else FOREVER

    def _turn(self, left: list[int]) -> int:
        firsts: dict[int, int] = {}
        for job in left:
            firsts.setdefault(self.facts.team[job], job)

        def key(job: int) -> tuple[bool, Fraction | float, int]:
            fair = self.share(self.facts.team[job], self.need(job)) if self.facts.fair else Fraction(0)
            return not self.within(job), fair, left.index(job)

        return min(firsts.values(), key=key)

    # --- room

    def free(self, at: float, without: Iterable[int] = ()) -> list[int]:
        """GPUs free on each server at a time."""
        left = list(self.facts.servers)
        for holding in self.plan:
            if holding.job not in without and holding.begin <= at < holding.end:
                for server, tasks in holding.rows.items():
                    left[server] -= tasks
        return left

    def rows(self, job: int, at: float) -> Placement | None:
        """Servers from a time on for the job's limit; None if it does not fit."""
        tasks = self.facts.gpus[job]
        until = at + self.facts.limit[job]
        times = {at} | {t for h in self.plan for t in (h.begin, h.end) if at <= t < until}
        frees = [self.free(t) for t in sorted(times)]
        least = [min(each) for each in zip(*frees, strict=True)]
        if self.facts.placement == "pooled":  # only the sum counts
            if min(map(sum, frees)) < tasks:
                return None
            least = frees[0]
        whole = self.facts.servers
        gang = Gang(tasks, [1], [[n] for n in whole], [[n] for n in least], [True] * len(whole))
        found = DEFINITIONS[self.facts.placement](gang)
        return found if sum(found.values()) == tasks else None

    def _reserve(self, job: int, earliest: float) -> bool:
        for time in sorted({h.end for h in self.plan if h.end > self.now}):
            if time >= earliest and (rows := self.rows(job, time)) is not None:
                if self.facts.placement == "pooled":  # no server is meant: the first that are free then
                    rows = {0: self.facts.gpus[job]}
                self.plan.append(Holding(job, rows, time, time + self.facts.limit[job], planned=True))
                return True
        return False

    # --- one job

    def _let_in(self, job: int) -> bool:
        facts = self.facts
        if self.passes(job) and (rows := self.rows(job, self.now)) is not None:
            self._start(job, rows)
            return True
        if victims := self._victims(job):
            if facts.grace:
                self._promise(job, victims)
            else:
                for victim in victims:
                    self._stop(victim, job)
                again = self.rows(job, self.now)
                assert again is not None
                self._start(job, again)
            return True
        if self.passes(job) and facts.backfill and self.reserved < facts.reserve:
            self.reserved += self._reserve(job, 0)
        return False

    def _start(self, job: int, rows: Placement) -> None:
        self.answer.starts[job] = rows
        self.new.add(job)
        self.plan.append(Holding(job, rows, self.now, self.now + self.facts.limit[job]))
        self.held[self.facts.team[job]] += self.need(job)

    def _stop(self, victim: int, job: int) -> None:
        self.answer.stops[victim] = job
        self._remove(victim)

    def _remove(self, victim: int) -> Holding:
        """Take away what a running job holds, for good or on trial."""
        holding = next(h for h in self.plan if h.job == victim and not h.planned)
        self.plan.remove(holding)
        self.held[self.facts.team[victim]] -= self.need(victim)
        return holding

    def _give_back(self, holding: Holding) -> None:
        self.plan.append(holding)
        self.held[self.facts.team[holding.job]] += self.need(holding.job)

    # --- victims

    def _candidates(self, job: int) -> list[int]:
        facts = self.facts
        leaving = {victim for _, victims in self.promises.values() for victim in victims}
        team = facts.team[job]

        def may(other: int) -> bool:
            own = facts.team[other] == team
            rule = facts.preempt if own else facts.reclaim
            if not own and facts.teams[facts.team[other]].cohort != facts.teams[team].cohort:
                return False
            lower = facts.rank[other] < facts.rank[job]
            newer = facts.rank[other] == facts.rank[job] and facts.submit[other] > facts.submit[job]
            return {
                "never": False,
                "lower": lower,
                "lower_or_newer": lower or newer,
                "any": True,
            }[rule]

        now_running = [h.job for h in self.plan if not h.planned and h.job not in self.new]
        found = [
            other
            for other in now_running
            if other not in leaving and facts.preemptible[other] and facts.gpus[other] > 0 and may(other)
        ]
        start = {other: self.running[other][0] for other in found}
        return sorted(
            found, key=lambda other: (facts.team[other] == team, facts.rank[other], -start[other], other)
        )

    def _holds(self, job: int, nominal: bool) -> bool:
        return self.passes(job) and (not nominal or self.within(job)) and self.rows(job, self.now) is not None

    def _victims(self, job: int) -> list[int]:
        if self.need(job) == 0:
            return []
        facts, candidates = self.facts, self._candidates(job)
        if facts.fair:
            return self._fair(job, candidates)
        own = [other for other in candidates if facts.team[other] == facts.team[job]]
        if self.within(job):
            return self._first_come(job, candidates, nominal=False)
        below = self.unlimited(facts.team[job]) or self.held[facts.team[job]] < self.quota(facts.team[job])[0]
        if below and (found := self._first_come(job, candidates, nominal=True)):
            return found
        return self._first_come(job, own, nominal=False)

    def _minimal(self, job: int, removed: list[Holding], nominal: bool) -> list[int]:
        """Victims that are needed; all that was removed is given back."""
        kept = list(removed)
        for holding in reversed(removed[:-1]):
            self._give_back(holding)
            if self._holds(job, nominal):
                kept.remove(holding)
            else:
                self._remove(holding.job)
        for holding in kept:
            self._give_back(holding)
        return [holding.job for holding in kept]

    def _first_come(self, job: int, candidates: list[int], nominal: bool) -> list[int]:
        removed: list[Holding] = []
        for other in candidates:
            team = self.facts.team[other]
            if team != self.facts.team[job] and not self.borrows(team):
                continue
            removed.append(self._remove(other))
            if self._holds(job, nominal):
                return self._minimal(job, removed, nominal)
        for holding in removed:
            self._give_back(holding)
        return []

    def _fair(self, job: int, candidates: list[int]) -> list[int]:
        removed: list[Holding] = []
        own, waits, passed = self.facts.team[job], list(candidates), list[int]()

        def largest(left: list[int]) -> int | None:
            teams = [self.facts.team[other] for other in left]
            count = [m for m in dict.fromkeys(teams) if m == own or self.borrows(m)]
            shares = {m: self.share(m, self.need(job) if m == own else 0) for m in count}
            return max(count, key=shares.__getitem__) if count else None

        def take(other: int) -> bool:
            removed.append(self._remove(other))
            return self._holds(job, nominal=False)

        while (team := largest(waits)) is not None:
            for other in [each for each in waits if self.facts.team[each] == team]:
                waits.remove(other)
                asked = self.share(own, self.need(job))
                if team == own or asked <= self.share(team, -self.need(other)):
                    if take(other):
                        return self._minimal(job, removed, nominal=False)
                    break
                passed.append(other)
        passed.sort(key=candidates.index)
        while (team := largest(passed)) is not None:
            other = next(each for each in passed if self.facts.team[each] == team)
            if self.share(own, self.need(job)) < self.share(team) and take(other):
                return self._minimal(job, removed, nominal=False)
            passed = [each for each in passed if self.facts.team[each] != team]
        for holding in removed:
            self._give_back(holding)
        return []

    # --- grace

    def _promise(self, job: int, victims: list[int]) -> None:
        due = self.now + self.facts.grace
        self.promises[job] = (due, victims)
        self.plan = [h._replace(end=min(h.end, due)) if h.job in victims else h for h in self.plan]
        self.answer.stops |= dict.fromkeys(victims, job)
        self.held[self.facts.team[job]] += self.need(job)
        self._reserve(job, due)

    def _keep_promises(self, waiting: list[int]) -> None:
        """Promises by due time: those that are due, or whose victims have all ended, are carried out."""
        self.promises = {job: p for job, p in self.promises.items() if job in waiting}
        for job, (due, victims) in sorted(
            self.promises.items(), key=lambda each: (each[1][0], waiting.index(each[0]))
        ):
            left = [victim for victim in victims if victim in self.running]
            if left and due > self.now:
                self.promises[job] = (due, left)
                self.held[self.facts.team[job]] += self.need(job)
                self._reserve(job, due)
                continue
            del self.promises[job]
            removed = [self._remove(victim) for victim in left]
            rows = self.rows(job, self.now)
            if rows is None:
                for holding in removed:
                    self._give_back(holding)
            else:
                self.answer.stops |= dict.fromkeys(left, job)
                self._start(job, rows)
