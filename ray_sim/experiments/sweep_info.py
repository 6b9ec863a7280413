"""Progress of a stored sweep: finished and failed runs, axes, and the policies ranked so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ray_sim.experiments.results.result_files import read_summary
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import other_versions
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import RaySimError
from ray_sim.model.readable import duration, first_and_others
from ray_sim.model.units import FloatArray
from ray_sim.reports.compare import completion_note, paired_by_seed
from ray_sim.reports.statistics import ROUNDING, ConfidenceInterval, ValueRange, interval_text, mean_interval
from ray_sim.reports.tables import Place, place_title

SHOWN = 8
"""Values of an axis that are listed by name."""

READ_S = 5.0
"""Seconds between two readings of the results of a running sweep."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy that has the least mean JCT over the common seeds."""

    workload: str
    cluster: str
    setting: str
    policy: str
    runs: int
    """Number of its runs in the mean: those of the common seeds."""
    seeds: int
    """Number of runs that it has when all are finished."""
    completed: float
    """Mean number of jobs that completed."""
    mean_jct_s: float
    interval: ConfidenceInterval | None
    """95 % interval of the mean; None for too few runs."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Policies of one workload, cluster and setting by mean JCT, over the seeds that all have finished."""

    place: str
    label: str
    """``least mean JCT``, or ``mean JCT`` where none is the least of several."""
    best: tuple[Standing, ...]
    """The policy with the least mean JCT, or those whose means are equal; empty where none is named."""
    seeds: int
    """Number of common seeds; 0 where no run depends on one."""
    remark: str | None
    """Why no policy is named, or that they complete different numbers of jobs."""
    standings: tuple[Standing, ...] = ()
    """All policies, the best first; empty where none is named."""

    @property
    def text(self) -> str:
        """Text such as ``fifo and las, equal: 5,310 s (4,900 to 5,720) over 5 common seeds``."""
        if not self.best:
            return self.remark or ""
        first = self.best[0]
        names = " and ".join(each.policy for each in self.best) + (", equal" if len(self.best) > 1 else "")
        ends = interval_text(first.interval, first.runs, duration)
        shown = "" if ends == "-" else f" ({ends})"
        common = f" over {self.seeds} common seed{'s' if self.seeds > 1 else ''}" if self.seeds else ""
        return "; ".join(filter(None, [f"{names}: {duration(first.mean_jct_s)}{shown}{common}", self.remark]))


class Standings:
    """Mean JCTs of the configurations of a sweep, from its finished runs; each result is read once."""

    def __init__(self, store: ResultStore, entries: Iterable[Entry]) -> None:
        self._store = store
        self._places: dict[Place, dict[str, list[Entry]]] = {}
        for entry in entries:
            self._places.setdefault(entry.place, {}).setdefault(entry.policy, []).append(entry)
        self._found: dict[str, tuple[float | None, int]] = {}
        """Mean JCT, None where no job completed, and completed jobs by content hash."""

    def update(self) -> None:
        """Read the results that are new."""
        for entry in (one for place in self._places.values() for group in place.values() for one in group):
            if entry.content_hash not in self._found and self._store.has(entry.content_hash):
                summary = read_summary(self._store.run_directory(entry.content_hash))
                self._found[entry.content_hash] = summary.jct_s.mean, summary.completed

    @property
    def done(self) -> int:
        """Number of finished runs at the last update."""
        return len(self._found)

    def rankings(self) -> list[Ranking]:
        """Ranking of each workload, cluster and setting."""
        return [self._ranking(place_title(place), groups) for place, groups in self._places.items()]

    def _ranking(self, place: str, groups: Mapping[str, Sequence[Entry]]) -> Ranking:
        """Ranking by mean JCT of the policies that complete the most jobs."""
        jct_s: dict[str, dict[int | None, float]] = {policy: {} for policy in groups}
        done: dict[str, dict[int | None, float]] = {policy: {} for policy in groups}
        for entry in (one for group in groups.values() for one in group if one.content_hash in self._found):
            mean_s, done[entry.policy][entry.seed] = self._found[entry.content_hash]
            if mean_s is not None:
                jct_s[entry.policy][entry.seed] = mean_s
        means, completed = paired_by_seed(jct_s), paired_by_seed(done)
        if not (all(jct_s.values()) and len(next(iter(means.values())))):
            return Ranking(place, "mean JCT", (), 0, _what_is_missing(done, jct_s))
        standings = [_standing(group, means[policy], completed[policy]) for policy, group in groups.items()]
        standings.sort(key=lambda each: (-each.completed, each.mean_jct_s))
        least = standings[0]
        best = tuple(
            each
            for each in standings
            if each.completed == least.completed
            and math.isclose(each.mean_jct_s, least.mean_jct_s, rel_tol=ROUNDING)
        )
        drawn = any(each.seed is not None for group in groups.values() for each in group)
        label = "least mean JCT" if len(groups) > 1 else "mean JCT"
        remark = completion_note(
            (policy, seed, jobs) for policy, runs in done.items() for seed, jobs in runs.items()
        )
        return Ranking(place, label, best, least.runs if drawn else 0, remark, tuple(standings))


def _what_is_missing(runs: Mapping[str, Sized], with_jobs: Mapping[str, Sized]) -> str:
    """Why policies are not ranked yet.

    Parameters
    ----------
    runs, with_jobs : by policy, its finished runs, and those of them in which a job completed
    """
    if waiting := [policy for policy, each in runs.items() if not each]:
        return f"compared once every policy has a finished run; none yet: {first_and_others(waiting)}"
    if idle := [policy for policy, each in with_jobs.items() if not each]:
        return f"not compared, no job completed under {first_and_others(idle)}; jobs.parquet has the reasons"
    return "compared once every policy has finished the same seed"


def _standing(group: Sequence[Entry], jct_s: FloatArray, completed: FloatArray) -> Standing:
    first = group[0]
    return Standing(
        workload=first.workload,
        cluster=first.cluster,
        setting=first.setting,
        policy=first.policy,
        runs=len(jct_s),
        seeds=len(group),
        completed=float(np.mean(completed)),
        mean_jct_s=float(np.mean(jct_s)),
        interval=mean_interval(jct_s, ValueRange.NOT_NEGATIVE),
    )


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
        """Text such as ``(1 failed) least mean JCT: sjf: 5,310 s over 1 common seed``.

        The ``last`` text of a sweep stays on the screen, and so is of all results.
        """
        now = self._clock()
        if last or now - self._read_at >= READ_S:
            self._read_at = now
            with suppress(RaySimError, OSError):  # a result that is being replaced
                self._standings.update()
            rankings = self._standings.rankings() if self._standings.done else []
            if rankings:
                shown = next((each for each in rankings if each.best), rankings[0])
                place = f" in {shown.place}" if len(rankings) > 1 else ""
                self._best = f"{shown.label}{place}: {shown.text}"
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
    rankings: tuple[Ranking, ...]
    """Ranking of the policies so far, of each workload, cluster and setting."""
    other_versions: tuple[str, ...]
    """Packages, and our code, of which results have other versions than runs would have now."""

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of the printed table."""
        axes = {
            "workloads": self.workloads,
            "clusters": self.clusters,
            "settings": tuple(filter(None, self.settings)),
            "policies": self.policies,
            "seeds": tuple(map(str, self.seeds)),
        }
        return [
            ("sweep", self.name),
            ("done", f"{self.done:,} of {self.runs:,}"),
            *([("failed", self.failed)] if self.failed else []),
            *((label, _listing(values)) for label, values in axes.items() if values),
            *(
                (f"{each.label} so far", (f"{each.place}: " if len(self.rankings) > 1 else "") + each.text)
                for each in self.rankings
            ),
        ]

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON; ``best`` has the policies of all rankings, ``remarks`` is by place."""
        content = asdict(self)
        del content["rankings"]
        content["best"] = [asdict(best) for each in self.rankings for best in each.best]
        content["remarks"] = {each.place: each.remark for each in self.rankings if each.remark}
        return content


def _listing(values: Sequence[str]) -> str:
    more = f", and {len(values) - SHOWN:,} more" if len(values) > SHOWN else ""
    return f"{len(values):,}: {', '.join(values[:SHOWN])}{more}"


def describe_sweep(directory: Path) -> SweepInfo:
    """Describe the results of a sweep, also of one that is running."""
    store = ResultStore(directory)
    name, entries = store.read_plan()
    standings = Standings(store, entries)
    standings.update()
    outcomes = list(store.outcomes(entries))
    finished = [outcome.entry for outcome in outcomes if outcome.error is None]
    return SweepInfo(
        name=name,
        runs=len(entries),
        done=standings.done,
        failed=len(outcomes) - len(finished),
        workloads=tuple(dict.fromkeys(entry.workload for entry in entries)),
        clusters=tuple(dict.fromkeys(entry.cluster for entry in entries)),
        settings=tuple(dict.fromkeys(entry.setting for entry in entries)),
        policies=tuple(dict.fromkeys(entry.policy for entry in entries)),
        seeds=tuple(sorted({entry.seed for entry in entries if entry.seed is not None})),
        rankings=tuple(standings.rankings()),
        other_versions=tuple(other_versions(store, finished)),
    )
