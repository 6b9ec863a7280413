"""Tiny worlds of announced jobs, and the most that schedulers can earn in them, by trying everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.units import IntArray

Point = tuple[int, int, float]
"""Arrival, rounds after the birth; duration; probability."""


@dataclass(frozen=True)
class Announced:
    """One job; ``values[k]`` units for a finish k rounds after the birth."""

    values: Sequence[float]
    points: Sequence[Point] = ((0, 1, 1.0),)
    birth: int = 0
    concurrency: int = 1


def told(signal: str, duration: int) -> int:
    """Signal of a duration: nothing, the duration, or the whole part of its logarithm."""
    return {"none": 0, "full": duration, "partial": duration.bit_length() - 1}[signal]


def statements_of(jobs: Sequence[Announced], signal: str = "full", *, copies: int = 1) -> Statements:
    """Statements of jobs in order of birth, each with rows of its own, which its copies share."""
    rows = [sorted((a, told(signal, d), d, p) for a, d, p in job.points) for job in jobs]
    points = [point for row in rows for point in row]
    longest = max((len(job.values) for job in jobs), default=0)
    values = np.zeros((len(jobs), longest + 1), dtype=np.int64)
    for row, job in zip(values, jobs, strict=True):
        row[: len(job.values)] = np.rint(np.array(job.values) * NANO).astype(np.int64)
    return Statements(
        birth=np.repeat([job.birth for job in jobs], copies).astype(np.int64),
        concurrency=np.repeat([job.concurrency for job in jobs], copies).astype(np.int64),
        value_row=np.repeat(np.arange(len(jobs)), copies),
        outlook_row=np.repeat(np.arange(len(jobs)), copies),
        values=values,
        outlooks=Outlooks(
            ptr=np.cumsum([0, *(len(row) for row in rows)]),
            arrival=np.array([point[0] for point in points], dtype=np.int64),
            signal=np.array([point[1] for point in points], dtype=np.int64),
            duration=np.array([point[2] for point in points], dtype=np.int64),
            probability=np.array([point[3] for point in points], dtype=np.float64),
        ),
    )


def tiny_jobs(seed: int, *, jobs: int = 3, points: int = 3) -> tuple[list[Announced], int, int]:
    """Some jobs, the nodes and the rounds; values differ in size, and some stay equal for some rounds."""
    draw = np.random.default_rng(seed)
    nodes, rounds = int(draw.integers(1, 4)), int(draw.integers(3, 6))
    made = []
    for _ in range(int(draw.integers(1, jobs + 1))):
        grid = [(a, d) for a in range(3) for d in range(1, 4)]
        chosen = draw.choice(len(grid), int(draw.integers(1, points + 1)), replace=False)
        weight = draw.integers(1, 5, len(chosen))
        made.append(
            Announced(
                values=np.sort(draw.choice([0.0, 0.0, 1.0, 3.0, 3.5, 9.0], int(draw.integers(2, 7))))[
                    ::-1
                ].tolist(),
                points=[(*grid[i], float(w / weight.sum())) for i, w in zip(chosen, weight, strict=True)],
                birth=int(draw.integers(0, 3)),
                concurrency=int(draw.integers(1, 4)),
            )
        )
    return sorted(made, key=lambda job: job.birth), nodes, rounds


def without_chance(jobs: Sequence[Announced], seed: int) -> tuple[IntArray, IntArray]:
    """Draw (absolute) arrivals and durations."""
    draw = np.random.default_rng([seed, 1])
    drawn = [job.points[draw.choice(len(job.points), p=[p for *_, p in job.points])] for job in jobs]
    arrival = [job.birth + point[0] for job, point in zip(jobs, drawn, strict=True)]
    return np.array(arrival, dtype=np.int64), np.array([point[1] for point in drawn], dtype=np.int64)


def outcomes(jobs: Sequence[Announced]) -> Iterator[tuple[float, IntArray, IntArray]]:
    """Probability, arrivals and durations of each outcome."""
    for points in product(*(job.points for job in jobs)):
        arrival = [job.birth + point[0] for job, point in zip(jobs, points, strict=True)]
        chance = float(np.prod([point[2] for point in points]))
        yield (
            chance,
            np.array(arrival, dtype=np.int64),
            np.array([point[1] for point in points], dtype=np.int64),
        )


def worth(job: Announced, finish: int) -> float:
    after = finish - job.birth
    return job.values[after] if after < len(job.values) else 0.0


def best_by_trying(
    jobs: Sequence[Announced], arrival: IntArray, duration: IntArray, nodes: int, rounds: int
) -> float:
    """Largest welfare of all vectors of starts."""
    choices = [
        [None, *range(a, rounds - d + 1)] for a, d in zip(arrival.tolist(), duration.tolist(), strict=True)
    ]
    best = 0.0
    for starts in product(*choices):
        load, total = np.zeros(rounds, dtype=np.int64), 0.0
        for job, start, length in zip(jobs, starts, duration.tolist(), strict=True):
            if start is not None:
                load[start : start + length] += job.concurrency
                total += worth(job, start + length)
        if (load <= nodes).all():
            best = max(best, total)
    return best


State = tuple[str, int, int, int]
"""Of one job: absent; waiting or running, with its arrival, signal and start; gone."""

ABSENT, GONE = ("absent", 0, 0, 0), ("gone", 0, 0, 0)


def best_adaptive(
    jobs: Sequence[Announced], signal: str, nodes: int, rounds: int, *, evictions: bool
) -> float:
    """Largest expected welfare of all schedulers that see arrivals, signals and completions when they happen.

    The scheduler knows all statements from the beginning, and in each round evicts and starts what it likes.
    """
    made = statements_of(jobs, signal).outlooks
    groups: list[dict[tuple[int, int], list[tuple[int, float]]]] = []
    for j in range(len(jobs)):
        group: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for i in range(made.ptr[j], made.ptr[j + 1]):
            key = (int(made.arrival[i]) + jobs[j].birth, int(made.signal[i]))
            group.setdefault(key, []).append((int(made.duration[i]), float(made.probability[i])))
        groups.append(group)

    def events(j: int, state: State, now: int) -> list[tuple[float, float, State]]:
        """Probability, value earned and next state."""
        kind, arrival, sign, start = state
        if kind == "absent":
            left = {key: sum(p for _, p in points) for key, points in groups[j].items() if key[0] >= now}
            total = sum(left.values())
            come = [(p / total, 0.0, ("waiting", a, s, 0)) for (a, s), p in left.items() if a == now]
            later = sum(p for (a, _), p in left.items() if a > now)
            return come + ([(later / total, 0.0, ABSENT)] if later else [])
        if kind != "running":
            return [(1.0, 0.0, state)]
        points = [(d, p) for d, p in groups[j][arrival, sign] if d >= now - start]
        total = sum(p for _, p in points)
        ended = sum(p for d, p in points if d == now - start)
        lasts = sum(p for d, p in points if d > now - start)
        both = ((ended / total, worth(jobs[j], now), GONE), (lasts / total, 0.0, state))
        return [event for event in both if event[0] > 0]

    def options(state: State, now: int) -> list[State]:
        kind, arrival, sign, _ = state
        if kind == "waiting":
            return [state, ("running", arrival, sign, now)]
        return [state, GONE] if kind == "running" and evictions else [state]

    @cache
    def best(now: int, states: tuple[State, ...]) -> float:
        total = 0.0
        for drawn in product(*(events(j, state, now) for j, state in enumerate(states))):
            chance = float(np.prod([p for p, _, _ in drawn]))
            total += chance * (sum(v for _, v, _ in drawn) + decide(now, tuple(s for _, _, s in drawn)))
        return total

    @cache
    def decide(now: int, states: tuple[State, ...]) -> float:
        if now == rounds:
            return 0.0
        most = 0.0
        for chosen in product(*(options(state, now) for state in states)):
            held = sum(
                job.concurrency for job, state in zip(jobs, chosen, strict=True) if state[0] == "running"
            )
            if held <= nodes:
                most = max(most, best(now + 1, chosen))
        return most

    return best(0, (ABSENT,) * len(jobs))
