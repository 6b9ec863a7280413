"""Comparison of results in memory: policies on the same jobs, over the same seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ray_sim.experiments.compare import ComparisonReport, Group, cover_of
from ray_sim.model.arguments import expect
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult
from ray_sim.model.text import shown
from ray_sim.reports.breakdown import JOB_COLUMNS, JobComparison, compare_jobs
from ray_sim.reports.compare import compare_policies, default_metric, find_baseline, lower_is_better, no_value
from ray_sim.reports.policy_bounds import policy_bounds

Results = Mapping[str, RunResult | Sequence[RunResult]]
"""Results by the label of their policy: one, or one for each seed, in the same order for every policy."""


def labelled_runs(results: Results) -> dict[str, list[RunResult]]:
    """The results of each label as a list.

    Raises
    ------
    InvalidInputError : a label is no text, or what it has are no results
    """
    runs = {}
    for label, given in results.items():
        expect("results", label, str, "labels that are texts, {'fifo': a, 'las': b}")
        expect(f"results['{shown(label)}']", given, (RunResult, Sequence), "a result, or one for each seed")
        runs[label] = [given] if isinstance(given, RunResult) else list(given)
        for each in runs[label]:
            expect(f"results['{shown(label)}']", each, RunResult, "results of `simulate` or `load`")
    return runs


def compare_in_memory(
    results: Results, metric: str | None = None, baseline: str | None = None
) -> ComparisonReport:
    """Compare the results of policies on the same jobs and servers.

    Parameters
    ----------
    metric : a key of `Summary.flat`; by default `default_metric`
    baseline : a label; by default that of the best mean

    Raises
    ------
    InvalidInputError : fewer than two policies, or results of different jobs
    UnknownNameError : no such metric or baseline
    """
    runs = labelled_runs(results)
    if len(runs) < 2 or not all(runs.values()):
        raise InvalidInputError(
            f"nothing to compare: expected results of two policies, found {len(runs)}, with "
            f"{', '.join(str(len(each)) for each in runs.values()) or 'no'} runs"
        )
    _check_jobs(runs)
    metrics = [run.summary.flat() for each in runs.values() for run in each]
    metric = default_metric(metrics) if metric is None else metric
    known = set.intersection(*map(set, metrics))
    if metric not in known:
        raise no_value(metric, known)
    if baseline is not None:
        baseline = find_baseline(baseline, runs)
    values = [
        (label, seed, run.summary.flat()[metric], run.summary.completed)
        for label, each in runs.items()
        for seed, run in enumerate(each)
    ]
    schema = {"policy": pl.String, "seed": pl.Int64, "value": pl.Float64, "completed": pl.Int64}
    comparison = compare_policies(pl.DataFrame(values, schema=schema, orient="row"), metric, baseline)
    bounds = policy_bounds(((label, run.summary) for label, each in runs.items() for run in each), metric)
    jobs = _job_by_job(runs, comparison.baseline)
    groups = (Group("", "", "", comparison, bounds, (), jobs),)
    return ComparisonReport(
        sources=tuple(runs),
        metric=metric,
        compared="policies",
        lower_is_better=lower_is_better(metric),
        runs=len(values),
        groups=groups,
        missing=(),
        notes=(),
        differing_versions=(),
        cover=cover_of(groups),
    )


def _check_jobs(runs: Mapping[str, Sequence[RunResult]]) -> None:
    """Raise unless the n-th results of all policies have the same jobs."""
    first, *others = runs.items()
    for label, each in others:
        for seed, (one, other) in enumerate(zip(first[1], each, strict=False)):
            if not one.jobs.select("job_id", "submit_s").equals(other.jobs.select("job_id", "submit_s")):
                raise InvalidInputError(
                    f"{label}[{seed}] has other jobs, or other submissions, than {first[0]}[{seed}]; compare "
                    "results of the same workload"
                )


def _job_by_job(runs: Mapping[str, Sequence[RunResult]], baseline: str) -> JobComparison | None:
    """Comparison of two results that count all jobs; None for more."""
    every = [run for each in runs.values() for run in each]
    if len(every) != 2 or any(run.summary.trimmed_jobs is not None for run in every):
        return None
    [other] = [label for label in runs if label != baseline]
    frames = [
        runs[label][0].jobs.select(JOB_COLUMNS).with_columns(seed=pl.lit(None, pl.Int64))
        for label in (other, baseline)
    ]
    return compare_jobs(other, *frames)
