"""A run in numbers: completion times, delays, use and fairness."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.result import Distribution, JobStatus, Summary
from ray_sim.model.units import FloatArray


def summarise(jobs: pl.DataFrame, timeline: pl.DataFrame, capacity: Mapping[str, float]) -> Summary:
    """Summary of a run.

    Parameters
    ----------
    jobs, timeline : as in `RunResult`
    capacity : offered amount of each resource, all servers together
    """
    done = jobs.filter(pl.col("status") == JobStatus.COMPLETED)
    counts = dict(jobs.group_by("status").len().iter_rows())
    reasons = jobs.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("reason")
    jct, duration = done["jct_s"].to_numpy(), done["duration_s"].to_numpy()
    begin = jobs["submit_s"].min() if len(jobs) else None
    end = done["finish_s"].max() if len(done) else None
    makespan = None
    if isinstance(begin, float) and isinstance(end, float):
        makespan = end - begin
    utility = jobs["utility"].drop_nulls()
    return Summary(
        jobs=len(jobs),
        completed=counts.get(JobStatus.COMPLETED, 0),
        rejected=counts.get(JobStatus.REJECTED, 0),
        evicted=counts.get(JobStatus.EVICTED, 0),
        unfinished=counts.get(JobStatus.UNFINISHED, 0),
        reasons=dict(reasons.iter_rows()),
        jct_s=distribution(jct),
        queue_s=distribution(done["queue_s"].to_numpy()),
        makespan_s=makespan,
        utilisation=utilisation(timeline, capacity, end if isinstance(end, float) else None),
        jain_index=jain_index(progress_rates(duration, jct)),
        finish_time_fairness=distribution(finish_time_fairness(done, timeline, capacity.get("gpu", 0.0))),
        preemptions=int(jobs["preemptions"].sum()),
        restarts=int(jobs["restarts"].sum()),
        utility=float(utility.sum()) if len(utility) else None,
    )


def distribution(sample: FloatArray) -> Distribution:
    """Mean and quantiles (linear interpolation between order statistics)."""
    if len(sample) == 0:
        return Distribution(None, None, None, None)
    median, p90, p99 = np.quantile(sample, [0.5, 0.9, 0.99])
    return Distribution(float(np.mean(sample)), float(median), float(p90), float(p99))


def utilisation(
    timeline: pl.DataFrame, capacity: Mapping[str, float], end_s: float | None
) -> dict[str, float]:
    """Used over offered per resource, averaged over time from the first instant to ``end_s``.

    Resources that the cluster does not have are left out; 0 where no time passes.
    """
    offered = {name: amount for name, amount in capacity.items() if amount > 0}
    if end_s is None or len(timeline) == 0:
        return dict.fromkeys(offered, 0.0)
    time = timeline["time_s"].to_numpy()
    span = np.diff(np.minimum(np.append(time, max(end_s, time[-1])), end_s))
    total = float(span.sum())
    return {
        name: float((timeline[f"used_{name}"].to_numpy() * span).sum()) / (total * amount) if total else 0.0
        for name, amount in offered.items()
    }


def progress_rates(duration_s: FloatArray, jct_s: FloatArray) -> FloatArray:
    """Duration over completion time of each job, in (0, 1] at speed 1; jobs without length count 1."""
    return np.divide(duration_s, jct_s, out=np.ones_like(jct_s), where=jct_s > 0)


def jain_index(x: FloatArray) -> float | None:
    """(sum x)^2 / (n sum x^2), in [1/n, 1]. Source: Jain, Chiu, Hawe 1984."""
    squares = float((x * x).sum())
    return float(x.sum()) ** 2 / (len(x) * squares) if squares > 0 else None


def finish_time_fairness(done: pl.DataFrame, timeline: pl.DataFrame, gpus: float) -> FloatArray:
    """JCT of each completed job over its run time on an equal share of the GPUs.

    With n jobs in the system on average while the job was there, its share is gpus / n; alone on
    that share it would run duration x max(1, job's GPUs x n / gpus). Jobs without length are left out.

    Source: Mahajan et al., Themis, NSDI 2020 (finish-time fairness rho, rigid jobs).
    """
    done = done.filter(pl.col("duration_s") > 0)
    if len(done) == 0 or gpus <= 0:
        return np.empty(0)
    time = timeline["time_s"].to_numpy()
    present = (timeline["waiting"] + timeline["running"]).to_numpy().astype(np.float64)
    area = np.concatenate([[0.0], np.cumsum(present[:-1] * np.diff(time))])
    submit, finish = done["submit_s"].to_numpy(), done["finish_s"].to_numpy()
    jct = done["jct_s"].to_numpy()
    mean_present = (np.interp(finish, time, area) - np.interp(submit, time, area)) / jct
    slowdown = np.maximum(1.0, done["num_gpus"].to_numpy() * mean_present / gpus)
    fair_s: FloatArray = done["duration_s"].to_numpy() * slowdown
    return jct / fair_s
