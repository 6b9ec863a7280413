"""Gavel's rounds in plain Python, one entry at a time, as their rules are written; and worlds to play."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.ledger import LiveJobs
from ray_sim.policies.gavel.rounds import RoundRules

Entry = tuple[int, ...]
"""A job, or the two of a pair."""

Shares = Callable[[int, Entry], list[float]]
"""Shares of an entry on each type, by the number of the computation."""


@dataclass(frozen=True)
class World:
    """Jobs that arrive, GPUs of each type, and shares."""

    jobs: LiveJobs
    capacity: list[int]
    rules: RoundRules
    seed: int
    packed: bool

    def pair_speed(self, pairs: IntArray) -> FloatArray:
        """(P, 2, T) by chance, a third of them 0."""
        return np.array([self._pair_speed(*pair) for pair in pairs.tolist()]).reshape(
            -1, 2, len(self.capacity)
        )

    def _pair_speed(self, first: int, second: int) -> FloatArray:
        draw = np.random.default_rng((self.seed, first, second))
        together = draw.random(len(self.capacity)) < 2 / 3
        return draw.uniform(0.3, 1.1, (2, len(self.capacity))) * self.jobs.speed[[first, second]] * together

    def shares(self, computation: int, entry: Entry) -> list[float]:
        """Multiples of a quarter, so that priorities are often equal."""
        draw = np.random.default_rng((self.seed, computation, *entry))
        return [int(quarters) / 4 for quarters in draw.integers(0, 5, len(self.capacity))]


def random_world(seed: int) -> World:
    """A few jobs of 1, 2 or 4 GPUs, slow enough for tens of rounds; some do less than a step per GPU."""
    draw = np.random.default_rng(seed)
    count, types = int(draw.integers(3, 12)), int(draw.integers(1, 4))
    capacity = draw.integers(1, 6, types).tolist()
    gpus = np.array([min(2 ** int(draw.integers(0, 3)), max(capacity)) for _ in range(count)])
    speed = draw.uniform(0.002, 0.2, (count, types)) * (draw.random((count, types)) < 0.8)
    speed[:, int(np.argmax(capacity))] = draw.uniform(0.002, 0.2, count)
    arrival_s = np.sort(
        draw.choice([0.0, 100.0, 5000.0, 20000.0], count) + draw.integers(0, 2, count) * 777.7
    )
    jobs = LiveJobs(
        np.arange(count), arrival_s, gpus, np.ones(count), draw.integers(1, 300, count).astype(float), speed
    )
    rules = RoundRules(
        reset_s=float(draw.choice([0, 700, 1920])),
        shuffle_types=bool(draw.random() < 0.5),
        fill_idle=bool(draw.random() < 0.7),
        published=bool(draw.random() < 0.5),
    )
    return World(jobs, capacity, rules, seed, packed=bool(draw.random() < 0.6))


@dataclass
class Played:
    """What happened: computations, rounds with type and GPUs of each entry, ends, and counts."""

    computed_s: list[float] = field(default_factory=list)
    rounds: list[tuple[float, dict[Entry, tuple[int, list[int]]]]] = field(default_factory=list)
    ends: dict[int, tuple[float, bool]] = field(default_factory=dict)
    extensions: int = 0
    extendable: int = 0


class NaiveRounds:
    """The rules, step by step; each step is a method."""

    def __init__(self, world: World) -> None:
        self.world, self.rules, self.played = world, world.rules, Played()
        self.half_s = world.rules.round_s / 2
        self.types = range(len(world.capacity))
        self.left: dict[int, float] = {}
        self.received: dict[Entry, list[float]] = {}
        self.deficit: dict[Entry, list[float]] = {}
        self.share: dict[Entry, list[float]] = {}
        self.speed: dict[Entry, list[list[float]]] = {}
        self.failures: dict[Entry, int] = {}
        self.total = [0.0 for _ in self.types]
        self.last: dict[Entry, tuple[int, list[int]]] = {}
        self.random = random.Random(world.seed + 5)
        self.h0 = self.end_s = 0.0
        self.changed = False

    def play(self, most_rounds: int) -> Played:
        """Play until all jobs ended, nothing changes any more, or so many rounds were played."""
        arrival_s = self.world.jobs.arrival_s.tolist()
        h, came = arrival_s[0], 0
        for _ in range(most_rounds):
            while came < len(arrival_s) and arrival_s[came] <= h:
                self.arrive(came)
                came += 1
            coming = came < len(arrival_s)
            self.compute(h, coming)
            self.count_and_place(h)
            if self.last:
                h = self.run_and_book(h)
            elif coming:
                h = arrival_s[came]
            else:
                break
        return self.played

    def arrive(self, job: int) -> None:
        jobs = self.world.jobs
        self.add((job,), [jobs.speed[job].tolist()], self.half_s)
        for other in self.left if self.world.packed else ():
            if jobs.gpus[other] == jobs.gpus[job]:
                speed = self.world.pair_speed(np.array([[other, job]]))[0].tolist()
                self.add((other, job), speed, 0.0 if self.rules.published else self.half_s)
        self.left[job] = float(jobs.steps_left[job])
        self.changed = True

    def add(self, entry: Entry, speed: list[list[float]], received_s: float) -> None:
        self.speed[entry] = speed
        self.received[entry] = [received_s for _ in self.types]
        self.deficit[entry] = [0.0 for _ in self.types]
        self.failures[entry] = 0

    def compute(self, h: float, coming: bool) -> None:
        due = h - self.h0 >= self.rules.reset_s or self.h0 == 0 or not (self.last or coming)
        if not (self.changed and due):
            return
        for entry in self.received:
            for t in self.types:
                owed = self.share.get(entry, [0.0] * len(self.types))[t] * (h - self.h0)
                self.deficit[entry][t] += owed - (self.received[entry][t] - self.half_s)
                self.received[entry][t] = self.half_s
        self.total = [self.half_s * len(self.received) for _ in self.types]
        self.share = {entry: self.world.shares(len(self.played.computed_s), entry) for entry in self.received}
        self.played.computed_s.append(h)
        self.h0, self.changed = h, False

    def key(self, entry: Entry, t: int) -> tuple[float, float, float]:
        share = self.share.get(entry, [0.0] * len(self.types))[t]
        if share == 0 or any(speed[t] == 0 for speed in self.speed[entry]):
            priority = 0.0
        elif self.total[t] == 0 or self.received[entry][t] == 0:
            priority = 1e9 * share
        else:
            priority = share / (self.received[entry][t] / self.total[t])
        return priority, self.deficit[entry][t], share

    def gpus(self, entry: Entry) -> int:
        return int(self.world.jobs.gpus[entry[0]])

    def choose(self) -> dict[int, list[Entry]]:
        types = list(self.types)[::-1]
        if self.rules.shuffle_types:
            self.random.shuffle(types)
        taken: set[int] = set()
        chosen: dict[int, list[Entry]] = {}
        for t in types:
            chosen[t] = []
            left = self.world.capacity[t]
            for entry in sorted(self.received, key=lambda entry: self.key(entry, t), reverse=True):
                able = all(speed[t] > 0 for speed in self.speed[entry])
                able = able and (self.rules.fill_idle or self.key(entry, t)[0] > 0)
                if able and not taken & set(entry) and self.gpus(entry) <= left:
                    chosen[t].append(entry)
                    taken |= set(entry)
                    left -= self.gpus(entry)
        return chosen

    def count_and_place(self, h: float) -> None:
        self.played.extendable += sum(any(job in self.left for job in entry) for entry in self.last)
        now: dict[Entry, tuple[int, list[int]]] = {}
        for t, entries in self.choose().items():
            untaken = set(range(self.world.capacity[t]))
            for count in sorted({self.gpus(entry) for entry in entries}, reverse=True):
                same = [entry for entry in entries if self.gpus(entry) == count]
                for entry in same:
                    if (
                        entry in self.last
                        and self.last[entry][0] == t
                        and untaken >= set(self.last[entry][1])
                    ):
                        now[entry] = self.last[entry]
                        untaken -= set(now[entry][1])
                for entry in same:
                    if entry not in now and entry in self.share:
                        now[entry] = t, sorted(untaken)[:count]
                        untaken -= set(now[entry][1])
        self.played.extensions += sum(self.last.get(entry) == held for entry, held in now.items())
        self.played.rounds.append((h, now))
        self.last = now

    def run(self, entry: Entry, t: int) -> tuple[list[float], list[float]]:
        """Steps and seconds of each job of an entry."""
        speed = [of_job[t] for of_job in self.speed[entry]]
        least = 0 if self.rules.published else 1
        steps = [
            min(max(math.floor(self.rules.round_s * v), least), self.left[job])
            for v, job in zip(speed, entry, strict=True)
        ]
        took = [k / v for k, v in zip(steps, speed, strict=True)]
        if len(entry) == 2 and self.rules.published:
            took = [max(took)] * 2
        elif len(entry) == 2:
            done = sorted((took[i], i) for i in (0, 1) if steps[i] == self.left[entry[i]])
            if done:
                first_s, other = done[0][0], 1 - done[0][1]
                shared = speed[other] * first_s
                alone = self.speed[entry[other],][0][t]
                whole = math.floor(shared + alone * max(self.rules.round_s - first_s, 0))
                steps[other] = min(whole, self.left[entry[other]])
                if steps[other] > shared:
                    took[other] = first_s + (steps[other] - shared) / alone
                else:
                    took[other] = steps[other] / speed[other]
        return steps, took

    def run_and_book(self, h: float) -> float:
        runs = {entry: (t, *self.run(entry, t)) for entry, (t, _) in self.last.items()}
        ends = {entry: [h + each for each in took] for entry, (_, _, took) in runs.items()}
        for entry in sorted(runs, key=lambda entry: (-max(ends[entry]), entry)):
            t, steps, _ = runs[entry]
            if self.rules.published and min(steps) < self.gpus(entry):
                self.changed = True
                self.failures[entry] += 1
                if len(entry) == 1 and self.failures[entry] == 5:
                    self.end(entry[0], max(ends[entry]), finished=False)
                continue
            self.failures[entry] = 0
            received_s = max(ends[entry]) - (self.end_s if self.rules.published else h)
            self.received[entry][t] += received_s
            self.total[t] += received_s
            for job, k, end_s in zip(entry, steps, ends[entry], strict=True):
                self.left[job] -= k
                if self.left[job] == 0:
                    self.end(job, end_s, finished=True)
        self.end_s = max(end_s for of_entry in ends.values() for end_s in of_entry)
        return self.end_s

    def end(self, job: int, end_s: float, finished: bool) -> None:
        self.played.ends[job] = end_s, finished
        self.changed = True
        del self.left[job]
        for kept in (self.received, self.deficit, self.share):
            for entry in [entry for entry in kept if job in entry]:
                del kept[entry]
