"""Runs of the authors' simulator, and a loop that plays `Rounds` by the shares that they recorded."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.ledger import LiveJobs
from ray_sim.policies.gavel.rounds import Ended, RoundRules, Rounds

TYPES = ("K80", "P100", "V100")
RECORDED_ORDER = [2, 1, 0]
"""Positions in the order V100, P100, K80 of the types in alphabetical order."""


def names(folder: Path) -> list[str]:
    """Runs of a folder of references, by name."""
    return sorted(path.stem for path in (folder / "reference/gavel").glob("*.csv"))


@dataclass(frozen=True)
class RecordedRun:
    """One run: its jobs, and what the authors' simulator did with them."""

    jobs: LiveJobs
    capacity: list[int]
    model: list[tuple[str, str]]
    pair_table: dict[tuple[tuple[str, str], tuple[str, str]], list[tuple[float, float]]]
    computed: list[tuple[float, dict[str, list[float]]]]
    played: list[tuple[float, dict[str, list[int]]]]
    jct_s: list[float]

    def shares(self, rounds: Rounds) -> Callable[[JobsNow], FloatArray]:
        """The recorded shares, computation by computation."""

        def shares(now: JobsNow) -> FloatArray:
            allocation = self.computed[rounds.computations][1]
            names = [name_of(job, -1) for job in now.job] + [name_of(*now.job[pair]) for pair in now.pairs]
            return np.array([allocation[name] for name in names], np.float64).reshape(-1, 3)[
                :, RECORDED_ORDER
            ]

        return shares

    def pair_speed(self, pairs: IntArray) -> FloatArray:
        """(P, 2, T) speeds of pairs of jobs."""
        found = [self.pair_table[self.model[a], self.model[b]] for a, b in pairs.tolist()]
        return np.array(found, dtype=np.float64).reshape(-1, len(TYPES), 2).transpose(0, 2, 1)


def load(folder: Path, name: str) -> RecordedRun:
    """Read a run, named TRACE_V100-P100-K80_POLICY."""
    trace, counts = re.fullmatch(r"(\w+?)_(\d+-\d+-\d+)_\w+", name).groups()  # type: ignore[union-attr]
    rows = [line.split("\t") for line in _text(folder / f"data/gavel/{trace}.trace.gz").splitlines()]
    gpus = [int(row[6]) for row in rows]
    model = [_model(row[0]) for row in rows]
    speeds = {
        (row["model"], row["batch"], int(row["gpus"]), row["gpu_type"]): float(row["steps_per_s"])
        for row in _table(folder / "data/gavel/speeds.csv.gz")
        if row["table"] == "simulation" and row["consolidated"] == "1"
    }
    record: dict[str, Any] = json.loads(_text(folder / f"reference/gavel/allocations/{name}.alloc.json.gz"))
    results = list(csv.DictReader((folder / f"reference/gavel/{name}.csv").read_text().splitlines()))
    return RecordedRun(
        jobs=LiveJobs(
            row=np.arange(len(rows)),
            arrival_s=np.array([float(row[9]) for row in rows]),
            gpus=np.array(gpus, np.int64),
            weight=np.array([float(row[7]) for row in rows]),
            steps_left=np.array([float(row[5]) for row in rows]),
            speed=np.array(
                [[speeds[*key, n, each] for each in TYPES] for key, n in zip(model, gpus, strict=True)]
            ),
        ),
        capacity=[int(count) for count in reversed(counts.split("-"))],
        model=model,
        pair_table=_pair_table(folder),
        computed=[(each["time"], each["allocation"]) for each in record["log"]],
        played=[(start_s, gpus_of) for start_s, gpus_of in record["rounds"]],
        jct_s=[float(row["jct_s"]) for row in results],
    )


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _table(path: Path) -> Iterator[dict[str, str]]:
    return iter(csv.DictReader(_text(path).splitlines()))


def _model(text: str) -> tuple[str, str]:
    model, batch = re.fullmatch(r"(.+?)(?: \(batch size (\d+)\))?", text).groups()  # type: ignore[union-attr]
    return model, batch or ""


def _pair_table(folder: Path) -> dict[tuple[tuple[str, str], tuple[str, str]], list[tuple[float, float]]]:
    table: dict[tuple[tuple[str, str], tuple[str, str]], list[tuple[float, float]]] = {}
    for row in _table(folder / "data/gavel/pairs.csv.gz"):
        if row["table"] == "simulation":
            a, b = (row["model_a"], row["batch_a"]), (row["model_b"], row["batch_b"])
            speeds = float(row["steps_per_s_a"]), float(row["steps_per_s_b"])
            at = TYPES.index(row["gpu_type"])
            table.setdefault((a, b), [(0.0, 0.0)] * 3)[at] = speeds
            table.setdefault((b, a), [(0.0, 0.0)] * 3)[at] = speeds[::-1]
    return table


@dataclass
class Replay:
    """What `Rounds` did, in the form of the records."""

    computed_s: list[float]
    played: list[tuple[float, dict[str, list[int]]]]
    jct_s: list[float]
    rounds: Rounds


def rules_of(name: str) -> RoundRules:
    """The authors' rules for the policy of a run."""
    shuffle = not name.endswith(("_perf", "_allox", "_packed", "_gandiva"))
    return RoundRules(shuffle_types=shuffle, fill_idle="_fifo" not in name, published=True)


def replay(run: RecordedRun, name: str) -> Replay:
    """Play the rounds of a run, given the shares that it recorded."""
    packed = name.endswith(("_packed", "_gandiva"))
    rounds = Rounds(
        [[1] * n for n in run.capacity], rules_of(name), pair_speed=run.pair_speed if packed else None
    )
    first = np.cumsum([0, *run.capacity])
    result = Replay([], [], [float("nan")] * len(run.jobs.row), rounds)
    recorded = run.shares(rounds)

    def shares(now: JobsNow) -> FloatArray:
        result.computed_s.append(rounds.clock_s)
        return recorded(now)

    for ended in play(rounds, run.jobs, shares):
        for job, end_s, finished in zip(*ended, strict=True):
            assert finished
            result.jct_s[job] = end_s - run.jobs.arrival_s[job]
        each = rounds.leases
        numbers = [first[t] + gpus[gpus >= 0] for t, gpus in zip(each.type, each.gpus, strict=True)]
        names = [name_of(*member) for member in each.member]
        result.played.append((rounds.clock_s, {a: b.tolist() for a, b in zip(names, numbers, strict=True)}))
    return result


def name_of(first: int, second: int) -> str:
    """Name of an entry in the records."""
    return f"{first}" if second < 0 else f"({first}, {second})"


def play(rounds: Rounds, jobs: LiveJobs, shares: Callable[[JobsNow], FloatArray]) -> Iterator[Ended]:
    """Play rounds of jobs that arrive; yields, with each round planned, the jobs that ended before it."""
    arrived = len(jobs.row)
    came = int(np.searchsorted(jobs.arrival_s, rounds.clock_s, side="right")) if rounds.computations else 0
    while True:
        if not rounds.running:
            if came == arrived and rounds.rounds:
                return
            rounds.clock_s = float(jobs.arrival_s[came])
        ended = rounds.book()
        new = np.arange(came, np.searchsorted(jobs.arrival_s, rounds.clock_s, side="right"))
        came += len(new)
        rounds.add(LiveJobs._make(column[new] for column in jobs))
        if rounds.due(coming=came < arrived):
            rounds.take(shares(rounds.now()))
        rounds.begin()
        rounds.run()
        yield ended
