"""Runs of the authors' simulator: their jobs, shares and rounds, and a loop that plays `Rounds` by them."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.ledger import Ledger, LiveJobs
from ray_sim.policies.gavel.rounds import Ended, RoundRules, Rounds
from workloads.training.speed_tables import load_speeds

TYPES = ("K80", "P100", "V100")
"""Records have them in the opposite order."""


def names(folder: Path) -> list[str]:
    """Runs of a folder of references, by name."""
    return sorted(path.stem for path in (folder / "reference/gavel").glob("*.csv"))


class RecordedState(NamedTuple):
    """One computation: its jobs, (J + P, T) shares, and the optimum; NaN where the record has none."""

    now: JobsNow
    shares: FloatArray
    value: float


@dataclass(frozen=True)
class RecordedRun:
    """One run: its jobs, and what the simulator did with them."""

    jobs: LiveJobs
    capacity: IntArray
    pair_speed: Callable[[IntArray], FloatArray]
    computed: list[dict[str, Any]]
    played: list[tuple[float, dict[str, list[int]]]]
    """Start of each round, and the GPUs of each entry; none where they were not recorded."""
    jct_s: list[float]

    def shares(self, computation: int, now: JobsNow) -> FloatArray:
        """The recorded shares of a computation; 0 of pairs without any."""
        recorded = self.computed[computation]["allocation"]
        names = [name_of(job, -1) for job in now.job] + [name_of(*now.job[pair]) for pair in now.pairs]
        return np.reshape([recorded.get(name, [0.0] * 3)[::-1] for name in names], (-1, len(TYPES)))

    def states(self, *, packed: bool) -> Iterator[RecordedState]:
        """All computations; the steps left follow from the rounds, and are all where there are none."""
        left, played = self.jobs.steps_left.copy(), self.played[::-1]
        for number, computation in enumerate(self.computed):
            while played and played[-1][0] < computation["time"]:
                for entry, gpus in played.pop()[1].items():
                    jobs = np.array(members(entry))
                    speed = self.jobs.speed[jobs] if len(jobs) == 1 else self.pair_speed(jobs[None])[0]
                    gpu_type = np.searchsorted(np.cumsum(self.capacity), gpus[0], side="right")
                    left[jobs] -= np.minimum(np.floor(360 * speed[:, gpu_type]), left[jobs])
            rows = np.unique([job for entry in computation["allocation"] for job in members(entry)])
            ledger = Ledger(len(TYPES), 0.0, 0.0, self.pair_speed if packed else None)
            here = self.jobs._replace(steps_left=left)
            ledger.add(LiveJobs._make(column[rows.astype(np.int64)] for column in here))
            now = ledger.now(computation["time"], self.capacity)
            yield RecordedState(now, self.shares(number, now), computation.get("value", np.nan))


def load(folder: Path, name: str, reference: str = "gavel") -> RecordedRun:
    """Read a run, named TRACE_V100-P100-K80_POLICY, from a folder of data and references."""
    parts = re.fullmatch(r"(\w+?)_(\d+-\d+-\d+)_\w+", name)
    assert parts is not None, name
    trace, counts = parts.groups()
    rows = [line.split("\t") for line in _text(folder / f"data/gavel/{trace}.trace.gz").splitlines()]
    steps, gpus, weight, arrival_s = np.array([[row[k] for k in (5, 6, 7, 9)] for row in rows], np.float64).T
    models = [_model(row[0]) for row in rows]
    kinds = sorted(set(models))
    kind = np.array([kinds.index(model) for model in models])
    model, batch = zip(*kinds, strict=True)
    pairs = np.nan_to_num(
        load_speeds().pair_speeds(model, np.array([each or np.nan for each in batch]), TYPES)
    )
    batches = np.array([batch or np.nan for _, batch in models])
    alone = load_speeds().speeds([each for each, _ in models], batches, gpus.astype(np.int64), TYPES)
    results = folder / "reference" / reference
    record = json.loads(_text(results / f"allocations/{name}.alloc.json.gz"))
    times = csv.DictReader((results / f"{name}.csv").read_text().splitlines())
    return RecordedRun(
        LiveJobs(np.arange(len(rows)), arrival_s, gpus.astype(np.int64), weight, steps, alone[:, :, 0]),
        np.array([int(count) for count in reversed(counts.split("-"))]),
        lambda rows: pairs[kind[rows[:, 0]], kind[rows[:, 1]]],
        record["log"],
        [(start_s, gpus_of) for start_s, gpus_of in record.get("rounds", [])],
        [float(row["jct_s"]) for row in times],
    )


def recorded_states(
    folder: Path, run: str, *, reference: str = "gavel", pairs: bool = False
) -> Iterator[RecordedState]:
    """Computations of a run; ``pairs``: those of jobs of one GPU may share it."""
    return load(folder, run, reference).states(packed=pairs)


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _model(text: str) -> tuple[str, int]:
    """Model and batch; 0 without one."""
    parts = re.fullmatch(r"(.+?)(?: \(batch size (\d+)\))?", text)
    assert parts is not None, text
    return parts[1], int(parts[2] or 0)


def members(entry: str) -> tuple[int, ...]:
    """Jobs of an entry, by its name in the records."""
    return tuple(int(job) for job in re.findall(r"\d+", entry))


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

    def shares(now: JobsNow) -> FloatArray:
        result.computed_s.append(rounds.clock_s)
        return run.shares(rounds.computations, now)

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
