"""Comparison of results, stored or in memory: policies on the same jobs, in one group per place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import polars as pl

from ray_sim.experiments.axis import find_scale
from ray_sim.experiments.results.result_files import read_table, read_teams
from ray_sim.experiments.results.stored_runs import FoundRun, Missing, differing_versions, find_runs
from ray_sim.model.arguments import expect
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.html import facts_html
from ray_sim.model.result import RunResult
from ray_sim.model.text import natural, shown
from ray_sim.model.units import seconds_to_us
from ray_sim.reports.across import Across, Scale, axis_of, compare_across, turned
from ray_sim.reports.breakdown import (
    JOB_COLUMNS,
    SPLIT,
    Breakdown,
    By,
    JobComparison,
    break_down,
    classify,
    compare_jobs,
    jobs_in_system,
)
from ray_sim.reports.compare import (
    JCT,
    RUNS_SCHEMA,
    GroupComparison,
    compare_policies,
    default_metric,
    find_baseline,
    lower_is_better,
    no_value,
)
from ray_sim.reports.policy_bounds import PolicyBound, policy_bounds
from ray_sim.reports.small_tables import breakdown_table, comparison_table, job_facts, page_table_html
from ray_sim.reports.statistics import Cover, shortfall
from ray_sim.reports.tables import KEYS
from ray_sim.reports.teams import team_of
from workloads.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class Group:
    """Comparison of the policies of one workload, cluster and setting."""

    workload: str
    cluster: str
    setting: str
    comparison: GroupComparison
    bounds: tuple[PolicyBound, ...]
    """Bounds on the metric, one for each policy whose runs have them."""
    breakdowns: tuple[Breakdown, ...]
    jobs: JobComparison | None
    """Job-by-job comparison; present where the group has two runs."""

    def html(self, metric: str) -> str:
        """Small tables of the group, for notebooks."""
        place = ", ".join(filter(None, [metric, self.workload, self.cluster, self.setting]))
        baseline = self.comparison.baseline
        tables = [page_table_html(place, comparison_table(self.comparison))]
        tables += [
            page_table_html(f"by {each.by}: {each.policy} over {baseline}", breakdown_table(each, baseline))
            for each in self.breakdowns
        ]
        if self.jobs is not None:
            tables.append(
                facts_html(f"jobs under {self.jobs.policy} against {baseline}", job_facts(self.jobs))
            )
        return "".join(tables)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Result of `ray-sim compare`."""

    sources: tuple[str, ...]
    metric: str
    compared: str
    """Compared dimension: `policies`, or that of the axis, whose policies are then among the settings."""
    lower_is_better: bool
    runs: int
    """Number of finished runs found."""
    groups: tuple[Group, ...]
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    """One line for each thing left out."""
    differing_versions: tuple[str, ...] = ()
    """One line for each package, or source, of which the runs have several versions."""
    cover: Cover | None = None
    """Measured cover of the intervals with the fewest seeds, where it is below 95 %."""
    scale: Scale | None = None
    """Axis of a comparison across one."""

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON, in which the means of a class have the name of their column."""
        told = asdict(self)
        for group in told["groups"]:
            for each in group["breakdowns"]:
                column = SPLIT[each["metric"]]
                each["classes"] = [
                    {f"{key}_{column}" if key.endswith("mean") else key: value for key, value in one.items()}
                    for one in each["classes"]
                ]
        return told

    def _repr_html_(self) -> str:
        left_out = [("left out", note) for note in self.notes]
        tables = [group.html(self.metric) for group in self.groups]
        return "".join([*tables, *([facts_html("", left_out)] if left_out else [])])


def compare_results(
    sources: Iterable[str],
    metric: str | None = None,
    baseline: str | None = None,
    by: Iterable[str] = (),
    *,
    across: str | None = None,
    settings: bool = False,
    policy: str | None = None,
    progress: Progress = silent,
) -> ComparisonReport:
    """Compare the policies among stored results; the order of the sources does not matter.

    Parameters
    ----------
    sources : directories of sweeps or of single runs
    metric : a key of `Summary.flat`; by default `default_metric`
    baseline : a policy, by default the best of each group; or a value of the axis, by default the first
    by : names of `By`, classes of jobs to break the metric down by, one of `SPLIT`; JCT if none is named
    across : a name of `Across`: compare the values of this axis under each policy instead
    settings : the older name of ``across="world"``
    policy : with `by`: the only one whose classes are compared with the baseline's, as `baseline` names it
    progress : called with the number of runs read, and of those whose jobs were read for the breakdown

    Raises
    ------
    InvalidInputError : a source holds no results, or no two runs can be compared
    UnknownNameError : no such metric, baseline, policy, kind of class or axis
    """
    if settings and across not in (None, Across.WORLD):
        raise InvalidInputError(f"settings: are compared across world; not together with across {across}")
    axis = Across.WORLD if settings else None if across is None else axis_of(across)
    kinds = [_kind(name) for name in dict.fromkeys(by)]
    names = sorted(set(sources))
    if policy is not None and not kinds:
        raise InvalidInputError(f"--policy {policy}: only with --by, whose tables it restricts to one policy")
    if axis is Across.WORKLOAD and kinds:
        raise InvalidInputError("--by: not with --across workload, whose jobs differ")
    if kinds and metric not in (None, *SPLIT):
        raise InvalidInputError(
            f"--metric {shown(metric)}: has no value for a class of jobs; with --by name {' or '.join(SPLIT)}"
        )
    runs, missing = find_runs(names, progress)
    differs = {None: "policy", Across.WORLD: "setting", Across.PARAMS: "policy"}.get(axis, str(axis))
    compared = {None: "policies", Across.WORLD: "settings", Across.PARAMS: "params"}.get(axis, f"{axis}s")
    scale = None
    if axis is not None:
        given, runs = runs, [_turned(run, axis) for run in runs]
        pairs = zip(runs, given, strict=True)
        scale = find_scale(
            axis, ((new.place, new.entry.policy, old.entry, old.directory) for new, old in pairs)
        )
    metrics = [run.summary.flat() for run in runs]
    known = {key for each in metrics for key in each}
    metric = default_metric(metrics) if metric is None else metric
    if runs and metric not in known:
        raise no_value(metric, known)
    labels = sorted({run.entry.policy for run in runs})
    others = {run.entry.labelled: run.entry.policy for run in runs if run.entry.labelled}
    if runs and baseline is not None:
        baseline = find_baseline(baseline, labels, others)
    if runs and policy is not None:
        policy = find_baseline(policy, labels, others, "policy")
    numbers = itertools.count(1)

    def read() -> None:
        progress(next(numbers), len(runs), "jobs of runs")

    groups, notes = _compare_places(runs, metric, baseline, kinds, compared, scale, read)
    if not groups:
        facts = [f"finished runs: {len(runs)}; failed or missing: {len(missing)}", *notes]
        raise InvalidInputError(
            f"nothing to compare: it takes runs of two {compared} on the same "
            f"{', '.join(key for key in KEYS if key != differs)} and seed\n  " + "\n  ".join(facts)
        )
    if policy is not None:
        groups = [
            replace(group, breakdowns=tuple(each for each in group.breakdowns if each.policy == policy))
            for group in groups
        ]
        if not any(group.breakdowns for group in groups):
            raise InvalidInputError(f"--policy {policy}: is the baseline; name another policy or --baseline")
    return ComparisonReport(
        sources=tuple(names),
        metric=metric,
        compared=compared,
        lower_is_better=lower_is_better(metric),
        runs=len(runs),
        groups=tuple(groups),
        missing=tuple(missing),
        notes=tuple(notes),
        differing_versions=tuple(differing_versions(runs)),
        cover=cover_of(groups),
        scale=scale,
    )


def cover_of(groups: Iterable[Group]) -> Cover | None:
    """Measured cover of the intervals with the fewest seeds, where it is below 95 %."""
    compared = (each for group in groups for each in group.comparison.policies)
    seeds = [each.pairs for each in compared if each.interval]
    return shortfall(min(seeds)) if seeds else None


def _turned(run: FoundRun, across: Across) -> FoundRun:
    """The run with the value of the axis as its policy, and the policy in its setting.

    Across parameters the label of a policy is another name of their value.
    """
    policy, labelled = run.entry.policy, None
    if across is Across.PARAMS and run.entry.labelled:
        policy, labelled = run.entry.labelled, policy
    (workload, cluster, setting), line, value = turned(run.entry.place, policy, across)
    setting = ", ".join(filter(None, [setting, line]))
    entry = replace(run.entry, workload=workload, cluster=cluster, setting=setting)
    entry = replace(entry, policy=value, labelled=labelled)
    (workload, cluster, setting), line, value = turned(run.place, run.policy, across)
    setting = f"{setting}, {line}"
    return replace(run, entry=entry, workload=workload, cluster=cluster, setting=setting, policy=value)


def _kind(name: str) -> By:
    if name not in list(By):
        raise UnknownNameError("--by", name, By)
    return By(name)


def _compare_places(
    runs: Sequence[FoundRun],
    metric: str,
    baseline: str | None,
    kinds: Sequence[By],
    compared: str,
    scale: Scale | None,
    read: Callable[[], None],
) -> tuple[list[Group], list[str]]:
    """One group per place with at least two policies, and a note on everything left out."""
    places: dict[tuple[str, str, str], list[FoundRun]] = {}
    for run in runs:
        places.setdefault(run.place, []).append(run)
    groups: list[Group] = []
    notes: list[str] = []
    for labels, members in sorted(map(_labelled, places.values()), key=lambda each: [*map(natural, each[0])]):
        where = ", ".join(filter(None, labels))
        values = _values(members, metric)
        if without := values["value"].null_count():
            notes.append(f"{where}: {without} runs without {metric} left out")
        policies = sorted(set(values.drop_nulls("value")["policy"]))
        if baseline is not None and baseline not in policies:
            notes.append(f"{where}: left out, the baseline {baseline} has no run there")
            continue
        if len(policies) < 2:
            notes.append(f"{where}: left out, it has no two {compared}: {', '.join(policies) or 'none'}")
            continue
        if scale is None:
            comparison = compare_policies(values, metric, baseline)
        else:
            comparison = compare_across(values, metric, scale, baseline)
        if not any(each.pairs for each in comparison.policies):
            notes.append(f"{where}: left out, {comparison.baseline} has no seed in common with the others")
            continue
        by_job = len(runs) == 2 and (scale is None or scale.across is not Across.WORKLOAD)
        groups.append(_group(labels, comparison, members, kinds, read, by_job=by_job))
    return groups, notes


def _labelled(runs: list[FoundRun]) -> tuple[tuple[str, str, str], list[FoundRun]]:
    """The runs of a place, and its labels; the first labels where the place has several."""
    entries = [run.entry for run in runs]
    labels = (
        min(entry.workload for entry in entries),
        min(entry.cluster for entry in entries),
        min(entry.setting for entry in entries),
    )
    return labels, runs


def _values(runs: Iterable[FoundRun], metric: str) -> pl.DataFrame:
    """The runs in the form of `compare_policies`."""
    # The summary omits a reason that no job has; it counts as 0.
    absent = 0.0 if metric.startswith("reasons.") else None
    rows = [
        (run.entry.policy, run.entry.seed, run.summary.flat().get(metric, absent), run.summary.completed)
        for run in runs
    ]
    return pl.DataFrame(rows, schema=RUNS_SCHEMA, orient="row")


def _group(
    labels: tuple[str, str, str],
    comparison: GroupComparison,
    runs: Sequence[FoundRun],
    kinds: Sequence[By],
    read: Callable[[], None],
    *,
    by_job: bool,
) -> Group:
    """A group with the requested comparisons of its runs' jobs."""

    def jobs_of(policy: str) -> pl.DataFrame:
        own = [run for run in runs if run.entry.policy == policy]
        return _jobs(own, read, kinds)

    breakdowns: list[Breakdown] = []
    jobs: JobComparison | None = None
    split = comparison.metric if comparison.metric in SPLIT else JCT
    if kinds or by_job:
        base = jobs_of(comparison.baseline)
        classes = {kind: classify(kind, base) for kind in kinds}
        for policy in (each.policy for each in comparison.policies if each.pairs):
            other = jobs_of(policy)
            breakdowns += [break_down(kind, policy, other, classes[kind], split) for kind in kinds]
            jobs = compare_jobs(policy, other, base) if by_job else None
    bounds = policy_bounds(((run.entry.policy, run.summary) for run in runs), comparison.metric)
    return Group(*labels, comparison, bounds, tuple(breakdowns), jobs)


def _jobs(runs: Iterable[FoundRun], read: Callable[[], None], kinds: Sequence[By]) -> pl.DataFrame:
    """The counted jobs of a policy's runs in order of seed, with `seed` and what `kinds` need of a run."""
    frames = []
    for run in sorted(runs, key=lambda run: run.entry.seed or 0):
        jobs = read_table(run.directory, "jobs").select(JOB_COLUMNS)
        if By.TEAM in kinds:
            jobs = jobs.with_columns(team=team_of(jobs["vc"], read_teams(run.directory)["team"]))
        if By.LOAD in kinds:
            timeline = read_table(run.directory, "timeline")
            present = jobs_in_system(jobs["submit_s"].to_numpy(), timeline)
            jobs = jobs.with_columns(in_system=pl.Series(present))
        if run.trim is not None:
            jobs = jobs.filter(run.trim.counted(seconds_to_us(jobs["submit_s"].to_numpy())))
        frames.append(jobs.with_columns(seed=pl.lit(run.entry.seed, pl.Int64)))
        read()
    return pl.concat(frames)


Results = Mapping[str, RunResult | Sequence[RunResult]]
"""Results by the label of their policy: one, or one for each seed, in the same order for every policy."""


def labelled_runs(results: Results) -> dict[str, list[RunResult]]:
    """The results of each label as a list."""
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
    frame = pl.DataFrame(values, schema=RUNS_SCHEMA, orient="row")
    comparison = compare_policies(frame, metric, baseline)
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
