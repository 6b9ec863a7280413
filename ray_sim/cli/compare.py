"""`ray-sim compare`: policies over the same seeds, and the tables of their differences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows, print_table, print_text, progress
from ray_sim.cli.options import Json
from ray_sim.model.readable import number

if TYPE_CHECKING:
    from ray_sim.experiments.compare import ComparisonReport, Group
    from ray_sim.reports.across import Scale
    from ray_sim.reports.breakdown import Breakdown, ClassRatio, JobComparison


def compare(
    sources: Annotated[
        list[Path], Argument(metavar="RUN_OR_SWEEP...", help="Directories of sweeps or of runs.")
    ],
    metric: Annotated[
        str | None,
        Option(
            help="Number of summary.json to compare, e.g. jct_s.p99, makespan_s, utilisation.gpu "
            "[welfare.welfare if all runs have it, else jct_s.mean]."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Policy, or with --across value of the axis, to compare the others with [the policy of the "
            "best mean, the first value].",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Option(
            metavar="CLASS",
            help="Also compare by class of job: size, vc, user, load or duration; repeatable.",
        ),
    ] = None,
    across: Annotated[
        str | None,
        Option(
            metavar="AXIS",
            help="Compare each policy with itself instead, across cluster, workload, params or world (with "
            "partition and trim).",
        ),
    ] = None,
    settings: Annotated[
        bool,
        Option("--settings", help="The same as --across world."),
    ] = False,
    json_output: Json = False,
) -> None:
    """Compare policies, or clusters, over the same seeds: size and significance of the differences.

    Example: ray-sim compare results/study --baseline fifo --by size
    """
    from ray_sim.experiments.compare import compare_results

    with progress("compare", quiet=json_output) as report:
        found = compare_results(
            map(str, sources), metric, baseline, by or [], across=across, settings=settings, progress=report
        )
    if json_output:
        print_json(found.to_dict())
    else:
        _print(found)


LEGEND = (
    "d_z: mean of the differences over their standard deviation; wins: share of seeds with the better value, "
    "equal ones half; gap: of the mean to the bound, whose parts B1 to B4 docs/certificates.md explains"
)


def _print(report: ComparisonReport) -> None:
    """Print the groups of a comparison with their tables, and the notes on what it leaves out."""
    sign = "lower" if report.lower_is_better else "higher"
    sys.stdout.write(f"{report.metric} ({sign} is better), 95 % intervals, p after Holm\n")
    for group in report.groups:
        _print_group(group, report.scale, sign)
    sys.stdout.write("\n")
    print_text(LEGEND)
    if (cover := report.cover) is not None:
        shares = ", ".join(f"{percent} % if {name}" for name, percent in cover.percent.items())
        sys.stdout.write("\n")
        print_text(
            f"intervals over {cover.seeds} seeds hold the true value in 95 % of cases if the differences are "
            f"normal, {shares} (docs/compare.md, Cover)"
        )
    left_out = [
        *report.notes,
        *(f"{'not run' if each.error is None else 'failed'}: {each.entry.label}" for each in report.missing),
    ]
    if left_out:
        sys.stdout.write("\nleft out\n")
        for line in left_out:
            print_text(line, indent="  ")
    if report.differing_versions:
        sys.stdout.write(f"\nruns of different versions: {'; '.join(report.differing_versions)}\n")


def _print_group(group: Group, scale: Scale | None, sign: str) -> None:
    from ray_sim.reports.statistics import bracketed

    comparison = group.comparison
    rows: list[Sequence[object]] = [
        (comparison.baseline, comparison.baseline_runs, comparison.baseline_mean, *["-"] * 5, "baseline")
    ]
    rows += [
        (
            each.policy,
            each.pairs,
            each.mean,
            _signed(each.difference) + bracketed(each.interval, each.pairs),
            _signed(each.relative_percent) + bracketed(each.relative_interval, each.pairs),
            each.effect_size,
            each.superiority,
            each.p_holm,
            f"{each.verdict}" + ("" if each.seeds_needed is None else f": {each.seeds_needed} needed"),
        )
        for each in comparison.policies
    ]
    compared = "policy" if scale is None else str(scale.across)
    columns = [compared, "seeds", "mean", "difference", "in %", "d_z", "wins", "p", "verdict"]
    if scale is not None and scale.numeric:
        rows = [(row[0], scale.xs[str(row[0])], *row[1:]) for row in rows]
        columns.insert(1, scale.title)
    sys.stdout.write("\n")
    print_table(columns, rows, ", ".join(filter(None, (group.workload, group.cluster, group.setting))))
    for note in comparison.notes:
        print_text(note, indent="  ")
    if group.bounds:
        side = "lower" if sign == "lower" else "upper"
        bounds = [(each.policy, each.runs, each.bound, each.gap, each.largest) for each in group.bounds]
        sys.stdout.write("\n")
        title = "bounds that hold for every schedule of the same jobs"
        print_table([compared, "runs", f"{side} bound", "gap", "largest bound"], bounds, title)
    for each in group.breakdowns:
        _print_breakdown(each, comparison.baseline)
    if group.jobs:
        _print_jobs(group.jobs, comparison.baseline)


MOST_CLASSES = 20
"""Classes of jobs in a table of the terminal; those with the most jobs."""


def _print_breakdown(breakdown: Breakdown, baseline: str) -> None:
    from ray_sim.reports.statistics import bracketed

    by_jobs = sorted(breakdown.classes, key=lambda each: -each.jobs)
    left_out = by_jobs[MOST_CLASSES:]
    rows = [
        (
            each.label,
            each.jobs,
            each.mean_jct_s,
            each.baseline_mean_jct_s,
            number(each.ratio) + bracketed(each.interval, each.pairs),
            _ahead(each, breakdown.policy, baseline),
        )
        for each in breakdown.classes
        if each not in left_out
    ]
    columns = [breakdown.by.heading, "jobs", "mean JCT s", "baseline's", "ratio", "ahead"]
    sys.stdout.write("\n")
    print_table(columns, rows, f"by {breakdown.by}: {breakdown.policy} over {baseline}")
    if left_out:
        sys.stdout.write(f"  {len(left_out):,} more with fewer jobs: --json has all\n")
    if breakdown.left_out:
        sys.stdout.write(f"  {breakdown.left_out:,} jobs completed under one of the two only: left out\n")


def _ahead(each: ClassRatio, policy: str, baseline: str) -> str:
    """Policy with the lower mean JCT, if the interval excludes 1."""
    if each.interval is None or each.interval.low <= 1 <= each.interval.high:
        return "-"
    return policy if each.interval.high < 1 else baseline


def _print_jobs(jobs: JobComparison, baseline: str) -> None:
    sys.stdout.write(f"\njob by job: {jobs.policy} against {baseline}\n")
    print_rows(
        [
            ("jobs completed under both", jobs.jobs),
            ("under one of the two only", jobs.left_out),
            ("faster", jobs.faster),
            ("slower", jobs.slower),
            ("the same", jobs.same),
            ("mean difference s", jobs.mean_difference_s),
            ("median difference s", jobs.median_difference_s),
        ]
    )
    for title, changes in (("most faster", jobs.most_faster), ("most slower", jobs.most_slower)):
        if changes:
            rows = [(each.job_id, each.jct_s, each.baseline_jct_s) for each in changes]
            print_table(["job_id", "JCT s", "baseline's"], rows, title)


def _signed(value: float | None) -> str:
    return ("+" if value is not None and value > 0 else "") + number(value)
