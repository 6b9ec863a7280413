"""Summary metrics of a run: completion times, delays, utilisation and fairness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.distribution import Distribution, distribution
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import JobStatus, Summary
from ray_sim.model.units import (
    MAX_TIME_S,
    US_PER_S,
    BoolArray,
    FloatArray,
    IntArray,
    seconds_to_us,
    us_to_seconds,
)


@dataclass(frozen=True, slots=True)
class Trim:
    """Warm-up and cool-down: submissions in them do not count in a summary.

    All jobs are simulated. A job counts if it is submitted between the first submission plus the warm-up and
    the last submission minus the cool-down, both instants included.
    """

    warm_up_s: float = 0.0
    cool_down_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("warm_up_s", "cool_down_s"):
            seconds = getattr(self, name)
            if not 0 <= seconds <= MAX_TIME_S:
                raise InvalidScenarioError(f"trim.{name}: must be 0 to {MAX_TIME_S} s, got {seconds:g}")

    def window_us(self, submit_us: IntArray) -> tuple[int, int]:
        """First and last instant at which a submission counts.

        Parameters
        ----------
        submit_us : (J,) non-decreasing, from any zero

        Raises
        ------
        InvalidScenarioError : no job is submitted in between
        """
        first, last = (int(submit_us[0]), int(submit_us[-1])) if len(submit_us) else (0, 0)
        begin = first + int(seconds_to_us(self.warm_up_s))
        end = last - int(seconds_to_us(self.cool_down_s))
        if not _within(submit_us, begin, end).any():
            raise InvalidScenarioError(
                f"trim: no job is submitted between a warm-up of {self.warm_up_s:g} s and a cool-down of"
                f" {self.cool_down_s:g} s; the {len(submit_us):,} submissions span"
                f" {(last - first) / US_PER_S:g} s, trim less"
            )
        return begin, end

    def counted(self, submit_us: IntArray) -> BoolArray:
        """(J,) whether each job counts; see `window_us`."""
        return _within(submit_us, *self.window_us(submit_us))


def _within(submit_us: IntArray, begin: int, end: int) -> BoolArray:
    inside: BoolArray = (submit_us >= begin) & (submit_us <= end)
    return inside


def summarise(
    jobs: pl.DataFrame,
    timeline: pl.DataFrame,
    capacity: Mapping[str, float],
    trim: Trim | None = None,
    absent: pl.DataFrame | None = None,
    groups: pl.Series | None = None,
) -> Summary:
    """Compute the summary of a run, over all its jobs or over those that `trim` counts.

    Parameters
    ----------
    jobs, timeline : as in `RunResult`
    capacity : amount of each resource on all servers together
    absent : amount that is unavailable from each `time_s` on, a column per resource; the first row is
        not later than the first instant. Without it all servers are always available.
    groups : group of each job, null for a job without a group

    Raises
    ------
    InvalidScenarioError : `trim` counts no job
    """
    submit_us = seconds_to_us(jobs["submit_s"].to_numpy())
    inside = np.ones(len(jobs), np.bool_) if trim is None else trim.counted(submit_us)
    counted = jobs.filter(inside)
    status, reasons = counted["status"], counted["reason"].drop_nulls()
    done = counted.filter(status == JobStatus.COMPLETED)
    jct, duration = done["jct_s"].to_numpy(), done["duration_s"].to_numpy()
    busy_s = _first_to_last(counted["submit_s"], done["finish_s"])
    window_s = busy_s if trim is None else us_to_seconds(np.array(trim.window_us(submit_us)))
    utility = counted["utility"].drop_nulls()
    return Summary(
        jobs=len(counted),
        completed=len(done),
        rejected=_count(status, JobStatus.REJECTED),
        evicted=_count(status, JobStatus.EVICTED),
        unfinished=_count(status, JobStatus.UNFINISHED),
        reasons={} if reasons.is_empty() else dict(reasons.value_counts().sort("reason").iter_rows()),
        jct_s=distribution(jct),
        queue_s=distribution(done["queue_s"].to_numpy()),
        makespan_s=None if busy_s is None else float(busy_s[1] - busy_s[0]),
        utilisation=utilisation(timeline, capacity, window_s, absent),
        jain_index=jain_index(progress_rates(duration, jct)),
        finish_time_fairness=distribution(done["rho"].drop_nulls().to_numpy()),
        preemptions=int(counted["preemptions"].sum()),
        restarts=int(counted["restarts"].sum()),
        interruptions=int(counted["interruptions"].sum()),
        lost_s=float(counted["lost_s"].sum()),
        utility=float(utility.sum()) if len(utility) else None,
        group_jct_s=None if groups is None else distribution(group_jct_s(jobs, groups, inside)),
        failed=_count(status, JobStatus.FAILED),
        killed=_count(status, JobStatus.KILLED),
        jct_ended_s=_jct_ended_s(counted),
        trimmed_jobs=None if trim is None else len(jobs) - len(counted),
    )


def _jct_ended_s(jobs: pl.DataFrame) -> Distribution | None:
    """Time to the end of completed, failed and killed jobs; None where none failed or was killed."""
    ended = jobs.filter(jobs["status"].is_in([JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.KILLED]))
    if not (ended["status"] != JobStatus.COMPLETED).any():
        return None
    return distribution((ended["finish_s"] - ended["submit_s"]).to_numpy())


def _count(values: pl.Series, value: str) -> int:
    return int((values == value).sum())


def _first_to_last(submit_s: pl.Series, finish_s: pl.Series) -> FloatArray | None:
    """(2,) first submission and last completion; None if no job completed."""
    if finish_s.is_empty():
        return None
    return np.array([submit_s.min(), finish_s.max()], dtype=np.float64)


def group_jct_s(jobs: pl.DataFrame, groups: pl.Series, counted: BoolArray) -> FloatArray:
    """Seconds from first submission to last completion of each group whose jobs all count and completed."""
    done = pl.Series(counted) & (jobs["status"] == JobStatus.COMPLETED)
    whole = (
        jobs.select("submit_s", "finish_s", group=groups, done=done)
        .filter(pl.col("group").is_not_null())
        .group_by("group", maintain_order=True)
        .agg(pl.col("submit_s").min(), pl.col("finish_s").max(), pl.col("done").all())
        .filter("done")
    )
    return (whole["finish_s"] - whole["submit_s"]).to_numpy()


def utilisation(
    timeline: pl.DataFrame,
    capacity: Mapping[str, float],
    window_s: FloatArray | None,
    absent: pl.DataFrame | None = None,
) -> dict[str, float]:
    """Used over offered amount of each resource, averaged over a window of time.

    Resources that the cluster does not have are left out; the value is 0 for an empty window.

    Parameters
    ----------
    window_s : (2,) begin, not before the timeline's first instant, and end; None is an empty window. Time
        after the timeline's last instant, beyond a horizon, is left out.
    absent : see `summarise`
    """
    offered = {name: amount for name, amount in capacity.items() if amount > 0}
    if window_s is None or len(timeline) == 0:
        return dict.fromkeys(offered, 0.0)
    time = timeline["time_s"].to_numpy()
    inside = np.clip(time, *window_s)
    total = float(inside[-1] - inside[0])
    shares = {}
    for name, amount in offered.items():
        there = total * amount - (0.0 if absent is None else _area(absent, name, inside))
        shares[name] = _area(timeline, f"used_{name}", inside) / there if there > 0 else 0.0
    return shares


def _area(steps: pl.DataFrame, column: str, window_s: FloatArray) -> float:
    """Integrate a step function, whose values hold from `time_s` on, over the window."""
    inside = np.clip(steps["time_s"].to_numpy(), window_s[0], window_s[-1])
    span = np.diff(inside, append=window_s[-1])
    return float((steps[column].to_numpy() * span).sum())


def progress_rates(duration_s: FloatArray, jct_s: FloatArray) -> FloatArray:
    """Duration over completion time of each job, in (0, 1] at speed 1; 1 for jobs of no length."""
    return np.divide(duration_s, jct_s, out=np.ones_like(jct_s), where=jct_s > 0)


def jain_index(x: FloatArray) -> float | None:
    """(sum x)^2 / (n sum x^2), in [1/n, 1]. Source: Jain, Chiu, Hawe 1984."""
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else None


def finish_time_fairness(
    jobs: pl.DataFrame,
    alone_s: FloatArray,
    timeline: pl.DataFrame,
    gpus: float,
    absent: pl.DataFrame | None = None,
) -> pl.Series:
    """JCT of each job over its run time on an equal share of the GPUs, (J,), in O((J + T) log T).

    With n jobs in the system and G GPUs available on average while the job was present, its share is
    G / n; alone on that share it would run alone_s x max(1, job's GPUs x n / G). Null for jobs of no length,
    those that did not complete, and in a cluster without GPUs.

    Parameters
    ----------
    jobs : `submit_s`, `finish_s`, `jct_s` and `num_gpus` of `JOB_SCHEMA`
    alone_s : (J,) run time with all that the job asks for
    gpus : GPUs of all servers together
    absent : see `summarise`

    Source: Mahajan et al., Themis, NSDI 2020 (finish-time fairness rho, rigid jobs).
    """
    rho = np.full(len(jobs), np.nan)
    jct_s = jobs["jct_s"].fill_null(0.0).to_numpy()
    rated = np.flatnonzero((alone_s > 0) & (jct_s > 0)) if gpus > 0 else np.empty(0, np.int64)
    if len(rated):
        stay = jobs["submit_s"].to_numpy()[rated], jobs["finish_s"].to_numpy()[rated], jct_s[rated]
        present = timeline["waiting"] + timeline["running"]
        asked = jobs["num_gpus"].to_numpy()[rated] * _means(timeline["time_s"], present, *stay)
        there = gpus if absent is None else gpus - _means(absent["time_s"], absent["gpu"], *stay)
        # Where no GPU was ever there, only a job without GPUs can have completed.
        slowdown = np.divide(asked, there, out=np.zeros_like(asked), where=np.asarray(there) > 0)
        rho[rated] = stay[2] / (alone_s[rated] * np.maximum(1.0, slowdown))
    return pl.Series("rho", rho, nan_to_null=True)


def _means(
    time_s: pl.Series, values: pl.Series, begin_s: FloatArray, end_s: FloatArray, span_s: FloatArray
) -> FloatArray:
    """(n,) mean of a step function, whose values hold from `time_s` on, over each of n intervals."""
    time = np.append(time_s.to_numpy(), max(time_s[-1], end_s.max()))
    area = np.concatenate([[0.0], np.cumsum(values.to_numpy().astype(np.float64) * np.diff(time))])
    means: FloatArray = (np.interp(end_s, time, area) - np.interp(begin_s, time, area)) / span_s
    return means
