"""Progress of a stored sweep: finished and failed runs, axes, and the best configuration so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ray_sim.experiments.results.result_files import read_summary
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import RaySimError
from ray_sim.model.readable import number
from ray_sim.reports.statistics import ConfidenceInterval, mean_interval

SHOWN = 8
"""Values of an axis that are listed by name."""

READ_S = 5.0
"""Seconds between two readings of the results of a running sweep."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A configuration, and its mean JCT over the seeds that are finished."""

    workload: str
    cluster: str
    setting: str
    policy: str
    runs: int
    seeds: int
    """Number of runs that it has when all are finished."""
    completed: float
    """Mean number of jobs that completed."""
    mean_jct_s: float
    interval: ConfidenceInterval | None
    """95 % interval of the mean; None for one run."""

    @property
    def text(self) -> str:
        """Mean, interval and number of runs, such as ``sjf: 5,310 s (4,900 to 5,720), 3 of 5 seeds``."""
        interval = self.interval
        shown = "" if interval is None else f" ({number(interval.low)} to {number(interval.high)})"
        return f"{self.policy}: {number(self.mean_jct_s)} s{shown}, {self.runs} of {self.seeds} seeds"


class Standings:
    """Mean JCTs of the configurations of a sweep, from its finished runs; each result is read once."""

    def __init__(self, store: ResultStore, entries: Iterable[Entry]) -> None:
        self._store = store
        self._groups: dict[str, list[Entry]] = {}
        for entry in entries:
            self._groups.setdefault(replace(entry, seed=None).label, []).append(entry)
        self._found: dict[str, tuple[float, int] | None] = {}
        """Mean JCT and completed jobs by content hash; None where no job completed."""

    def update(self) -> None:
        """Read the results that are new."""
        for entry in (one for group in self._groups.values() for one in group):
            if entry.content_hash not in self._found and self._store.has(entry.content_hash):
                summary = read_summary(self._store.run_directory(entry.content_hash))
                mean = summary.jct_s.mean
                self._found[entry.content_hash] = None if mean is None else (mean, summary.completed)

    @property
    def done(self) -> int:
        """Number of finished runs at the last update."""
        return len(self._found)

    def best(self) -> list[Standing]:
        """For each workload, cluster and setting, the policy with the least mean JCT so far.

        Of policies that complete different numbers of jobs those that complete more come first.
        """
        best: dict[tuple[str, str, str], Standing] = {}
        for group in self._groups.values():
            standing = self._standing(group)
            if standing is None:
                continue
            place = standing.workload, standing.cluster, standing.setting
            if place not in best or _rank(standing) < _rank(best[place]):
                best[place] = standing
        return list(best.values())

    def _standing(self, group: Sequence[Entry]) -> Standing | None:
        values = [found for one in group if (found := self._found.get(one.content_hash)) is not None]
        if not values:
            return None
        means = np.array([mean for mean, _ in values])
        first = group[0]
        return Standing(
            workload=first.workload,
            cluster=first.cluster,
            setting=first.setting,
            policy=first.policy,
            runs=len(values),
            seeds=len(group),
            completed=float(np.mean([completed for _, completed in values])),
            mean_jct_s=float(means.mean()),
            interval=mean_interval(means),
        )


def _rank(standing: Standing) -> tuple[float, float]:
    return -standing.completed, standing.mean_jct_s


class LiveNote:
    """Text on a running sweep: failures, and the best configuration so far.

    Parameters
    ----------
    clock : monotonic seconds; results are read every `READ_S`, and at the end
    """

    def __init__(self, standings: Standings, clock: Callable[[], float] = time.monotonic) -> None:
        self._standings = standings
        self._clock = clock
        self._read_at = -math.inf
        self._best = ""

    def text(self, failed: int, *, last: bool = False) -> str:
        """Text such as ``(1 failed) least mean JCT: sjf: 5,310 s, 1 of 1 seeds``.

        The ``last`` text of a sweep stays on the screen, and so is of all results.
        """
        now = self._clock()
        if last or now - self._read_at >= READ_S:
            self._read_at = now
            with suppress(RaySimError, OSError):  # a result that is being replaced
                self._standings.update()
            best = self._standings.best()
            place = f" in {_place(best[0])}" if len(best) > 1 else ""
            self._best = f"least mean JCT{place}: {best[0].text}" if best else ""
        return " ".join(filter(None, [f"({failed} failed)" if failed else "", self._best]))


@dataclass(frozen=True, slots=True)
class SweepInfo:
    """Facts about the directory of a sweep, finished or not."""

    name: str
    runs: int
    done: int
    failed: int
    workloads: tuple[str, ...]
    clusters: tuple[str, ...]
    settings: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    """Seeds of the runs that draw."""
    best: tuple[Standing, ...]
    """The best policy so far of each workload, cluster and setting."""

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of the printed table."""
        axes = {
            "workloads": self.workloads,
            "clusters": self.clusters,
            "settings": tuple(filter(None, self.settings)),
            "policies": self.policies,
            "seeds": tuple(map(str, self.seeds)),
        }
        places = [f"{_place(each)}: " if len(self.best) > 1 else "" for each in self.best]
        return [
            ("sweep", self.name),
            ("done", f"{self.done:,} of {self.runs:,}"),
            *([("failed", self.failed)] if self.failed else []),
            *((label, _listing(values)) for label, values in axes.items() if values),
            *(
                ("least mean JCT so far", place + each.text)
                for place, each in zip(places, self.best, strict=True)
            ),
        ]

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return asdict(self)


def _listing(values: Sequence[str]) -> str:
    more = f", and {len(values) - SHOWN:,} more" if len(values) > SHOWN else ""
    return f"{len(values):,}: {', '.join(values[:SHOWN])}{more}"


def _place(standing: Standing) -> str:
    return ", ".join(filter(None, [standing.workload, standing.cluster, standing.setting]))


def describe_sweep(directory: Path) -> SweepInfo:
    """Describe the results of a sweep, also of one that is running.

    Raises
    ------
    InvalidInputError : the directory is not that of a sweep, or is damaged
    """
    store = ResultStore(directory)
    name, entries = store.read_plan()
    standings = Standings(store, entries)
    standings.update()
    failed = sum(outcome.error is not None for outcome in store.outcomes(entries))
    return SweepInfo(
        name=name,
        runs=len(entries),
        done=standings.done,
        failed=failed,
        workloads=_each(entry.workload for entry in entries),
        clusters=_each(entry.cluster for entry in entries),
        settings=_each(entry.setting for entry in entries),
        policies=_each(entry.policy for entry in entries),
        seeds=tuple(sorted({entry.seed for entry in entries if entry.seed is not None})),
        best=tuple(standings.best()),
    )


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
