"""Goal of a plan, such as ``p95_jct_s<7200``, and its metric in a finished run."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from ray_sim.experiments.results.result_files import read_summary, read_table, read_teams
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.model.figures import all_figures
from ray_sim.model.metrics import Trim
from ray_sim.model.result import JobStatus, Summary
from ray_sim.model.text import number_of
from ray_sim.model.units import FloatArray, seconds_to_us

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

SAME = 1e-9
"""Relative difference up to which two values are equal; means are sums in floating point."""

_GOAL = re.compile(r"(?P<key>[A-Za-z][\w.-]*)\s*(?P<relation><=|>=|<|>)\s*(?P<limit>\S.*)")
_NOW = re.compile(r"(?:(?P<factor>[^\s*]+?)\s*[x*]\s*)?now")
"""Limit relative to the scenario's own cluster and policy, such as ``0.5 x now``."""

_FIGURE_FIRST = re.compile(r"(?P<figure>mean|median|p\d+(?:\.\d+)?)_(?P<key>\w+)")
_OF_JOBS = re.compile(r"(?P<column>jct_s|queue_s)\.(?P<figure>mean|median|p(?P<percent>\d+(?:\.\d+)?))")
"""Metrics of single jobs, in which a job that did not complete counts with an infinite time."""

_FIGURES_FIRST = [f"{figure}_{key}" for key in ("jct_s", "queue_s") for figure in ("mean", "median", "pNN")]
"""What `parse_goal` reads as metrics of single jobs, for messages."""

_OF_COMPLETED = ("makespan_s", "group_jct_s", "finish_time_fairness", "jain_index")
"""Metrics of completed jobs only; they tell nothing of a run in which other jobs remained."""

_FALL = ("jct_s", "queue_s", "makespan_s", "jct_or_horizon_s", "group_jct_s", "rejected", "unfinished")
_WITHIN_SLO = "within_slo"
_RISE = ("completed", "utility", "welfare", _WITHIN_SLO)
"""Metrics that more servers are assumed to lower, and to raise."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on one metric of a run, or on its ratio to that of the scenario as it is now."""

    key: str
    """Dotted key of `Summary.flat`; ``jct_s.pNN``, ``queue_s.pNN`` for any quantile; ``within_slo.TEAM``."""
    relation: str
    """Key of `RELATIONS`."""
    limit: float
    """Not a number where it is relative, and not yet known."""
    factor: float | None = None
    """Limit on the ratio to `now`, > 0; None of a goal that is a number."""
    now: tuple[float, ...] = ()
    """Metric of the scenario's own cluster and policy by seed; one value if the run depends on none."""

    def __str__(self) -> str:
        limit = f"{self.limit:.15g}" if self.factor is None else f"{self.factor:.15g} x now"
        return f"{self.key} {self.relation} {limit}"

    def relative_to(self, now: Sequence[float]) -> Goal:
        """The goal with its limit, `factor` times the mean of these values."""
        assert self.factor is not None, "the goal is relative"
        mean_now = mean(np.array(now))
        if not 0 <= mean_now < math.inf:
            found = f"{mean_now:.6g}" if math.isfinite(mean_now) else "infinite, as jobs do not complete"
            raise InvalidScenarioError(
                f"--goal {self}: expected a metric that now is finite and at least 0, found {found}; give a "
                "number as the limit"
            )
        return replace(self, limit=self.factor * mean_now, now=tuple(now))

    @property
    def falls(self) -> bool:
        """Whether smaller values are better."""
        return self.relation in ("<", "<=")

    @property
    def helped_by_servers(self) -> bool:
        """Whether it may be assumed that more servers do not make the metric worse."""
        return self.key.split(".")[0] in (_FALL if self.falls else _RISE)

    @property
    def quantile(self) -> float | None:
        """Share q of the quantile of the JCT that is limited from above; None for other goals."""
        found = _OF_JOBS.fullmatch(self.key)
        if found is None or found["column"] != "jct_s" or found["figure"] == "mean" or not self.falls:
            return None
        return _share(found)

    def met(self, value: float, limit: float | None = None) -> bool:
        """Whether a value of the metric meets the goal; one that is the limit up to `SAME` is equal to it.

        ``limit`` replaces that of the goal.
        """
        limit = self.limit if limit is None else limit
        if abs(value - limit) <= SAME * abs(limit):
            return self.relation in ("<=", ">=")
        return RELATIONS[self.relation](value, limit)

    def paired(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values of runs and the limit of each, both (N,), by seed; a relative goal has `factor` times `now`.

        A run that depends on no seed pairs with every seed.
        """
        limits = self.limit if self.factor is None else self.factor * np.array(self.now)
        paired, limit_of = np.broadcast_arrays(values, limits)
        return paired, limit_of

    def value_of(self, directory: Path, trim: Trim | None) -> float:
        """Value of the metric in a stored run, infinitely bad where jobs that count did not complete."""
        summary = read_summary(directory)
        if (of_jobs := _OF_JOBS.fullmatch(self.key)) is not None:
            times = _times_s(directory, of_jobs["column"], trim)
            return mean(times) if of_jobs["figure"] == "mean" else quantile(times, _share(of_jobs))
        if self.key.split(".")[0] == _WITHIN_SLO:
            return _within_slo(directory, self.key.removeprefix(_WITHIN_SLO).removeprefix("."))
        known = summary.flat()
        if self.key.startswith(_OF_COMPLETED) and summary.completed < summary.jobs:
            return math.inf if self.falls else -math.inf
        if self.key not in known:
            raise UnknownNameError("metric", self.key, [*known, "jct_s.pNN", "queue_s.pNN"])
        return known[self.key]


def parse_goal(text: str) -> Goal:
    """Parse a goal: a metric, ``<``, ``<=``, ``>`` or ``>=``, and a number, ``0.5 x now`` or ``now``.

    ``p95_jct_s`` and ``mean_jct_s`` stand for ``jct_s.p95`` and ``jct_s.mean``.
    """
    found = _GOAL.fullmatch(text.strip())
    if found is None:
        raise InvalidScenarioError(
            f"--goal {text}: expected METRIC<NUMBER with <, <=, > or >=, such as 'p95_jct_s<7200'"
        )
    relative = _NOW.fullmatch(found["limit"])
    try:
        limit = number_of(found["limit"] if relative is None else relative["factor"] or "1")
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit) or (relative is not None and limit <= 0):
        raise InvalidScenarioError(
            f"--goal {text}: expected a number after {found['relation']}, or one above 0 times now, such as "
            "'0.5 x now'"
        )
    figure_first = _FIGURE_FIRST.fullmatch(found["key"])
    key = f"{figure_first['key']}.{figure_first['figure']}" if figure_first else found["key"]
    of_jobs = _OF_JOBS.fullmatch(key)
    if of_jobs is not None and of_jobs["percent"] is not None and not 0 < float(of_jobs["percent"]) <= 100:
        raise InvalidScenarioError(f"--goal {text}: expected pNN with NN above 0, at most 100")
    tops = {each.name for each in fields(Summary)} | all_figures({}).keys() | {_WITHIN_SLO}
    if key.split(".")[0] not in tops:
        raise UnknownNameError("metric", found["key"], [*tops, *_FIGURES_FIRST])
    if relative is not None:
        return Goal(key, found["relation"], math.nan, factor=limit)
    return Goal(key, found["relation"], limit)


def mean(values: FloatArray) -> float:
    """Mean of at least one value; infinite if one is."""
    return float(np.mean(values))


def quantile(values: FloatArray, share: float) -> float:
    """Quantile by linear interpolation between order statistics, of at least one value.

    Parameters
    ----------
    values : (N,), may be infinite
    share : in [0, 1]
    """
    ordered = np.sort(values)
    rank, part = quantile_rank(len(ordered), share)
    if part == 0 or np.isinf(ordered[rank + 1]):
        return float(ordered[rank] if part == 0 else np.inf)
    return float(np.quantile(ordered[: rank + 2], (rank + part) / (rank + 1)))


def quantile_rank(n: int, share: float) -> tuple[int, float]:
    """Index of the order statistic below a quantile of n values, and the way to the next one, in [0, 1)."""
    position = (n - 1) * share
    rank = math.floor(position)
    return rank, position - rank


def _share(of_jobs: re.Match[str]) -> float:
    return 0.5 if of_jobs["figure"] == "median" else float(of_jobs["percent"]) / 100


def _within_slo(directory: Path, team: str) -> float:
    """Share of a team's jobs whose wait is within its `slo_wait_s`; without a name the least one of all.

    Raises
    ------
    InvalidInputError : the cluster has no teams
    UnknownNameError : no such team has jobs and an SLO
    """
    shares = dict(read_teams(directory).select("team", _WITHIN_SLO).drop_nulls().iter_rows())
    if not shares or team not in {"", *shares}:
        raise UnknownNameError("team with jobs and slo_wait_s", team or "any", shares)
    return float(shares[team] if team else min(shares.values()))


def _times_s(directory: Path, column: str, trim: Trim | None) -> FloatArray:
    """Times of the jobs that count, in seconds; infinite for those that did not complete."""
    jobs = read_table(directory, "jobs")
    completed = (jobs["status"] == JobStatus.COMPLETED).to_numpy()
    times = np.where(completed, jobs[column].fill_null(np.inf).to_numpy(), np.inf)
    return times if trim is None else times[trim.counted(seconds_to_us(jobs["submit_s"].to_numpy()))]
