"""`ray-sim compare`: policies over the same seeds, and the tables of their differences."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_legend, print_page_table, print_rows, print_text, progress
from ray_sim.cli.options import Json

if TYPE_CHECKING:
    from ray_sim.experiments.compare import ComparisonReport, Group
    from ray_sim.reports.across import Scale
    from ray_sim.reports.breakdown import Breakdown, JobComparison
    from ray_sim.reports.page import Table


def compare(
    sources: Annotated[
        list[Path], Argument(metavar="RUN_OR_SWEEP...", help="Sweeps, runs, or folders of these.")
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
            help="Also compare by class of job: all (completed under both), size, vc, team, user, load or "
            "duration; repeatable.",
        ),
    ] = None,
    policy: Annotated[
        str | None, Option(metavar="NAME", help="With --by: only the tables of this policy.")
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
            map(str, sources),
            metric,
            baseline,
            by or [],
            across=across,
            settings=settings,
            policy=policy,
            progress=report,
        )
    if json_output:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(report: ComparisonReport) -> None:
    """Print the groups of a comparison with their tables, and the notes on what it leaves out."""
    from ray_sim.reports.small_tables import texts_of

    sign = "lower" if report.lower_is_better else "higher"
    sys.stdout.write(f"{report.metric} ({sign} is better), 95 % intervals, p after Holm\n")
    tables = [table for group in report.groups for table in _print_group(group, report.metric, report.scale)]
    sys.stdout.write("\n")
    print_legend(texts_of(tables))
    if report.cover is not None:
        sys.stdout.write("\n")
        print_text(str(report.cover))
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


def _print_group(group: Group, metric: str, scale: Scale | None) -> list[Table]:
    """Print the tables of a group; those of policies, with words that a legend explains, are returned."""
    from ray_sim.reports.across import Across
    from ray_sim.reports.breakdown import SPLIT
    from ray_sim.reports.small_tables import bounds_table, comparison_table

    table = comparison_table(group.comparison, scale)
    tables = [table]
    sys.stdout.write("\n")
    print_page_table(table, ", ".join(filter(None, (group.workload, group.cluster, group.setting))))
    for note in group.comparison.notes:
        print_text(note, indent="  ")
    same_jobs = scale is None or scale.across is not Across.WORKLOAD
    if group.comparison.completions_differ and metric in SPLIT and same_jobs and not group.breakdowns:
        print_text("--by all compares the jobs that both complete", indent="  ")
    if group.bounds:
        sys.stdout.write("\n")
        tables.append(bounds_table(group.bounds, metric, table.columns[0]))
        print_page_table(tables[-1], "bounds that hold for every schedule of the same jobs")
    for each in group.breakdowns:
        _print_breakdown(each, group.comparison.baseline)
    if group.jobs:
        _print_jobs(group.jobs, group.comparison.baseline)
    return tables


MOST_CLASSES = 20
"""Classes of jobs in a table of the terminal; those with the most jobs."""


def _print_breakdown(breakdown: Breakdown, baseline: str) -> None:
    from ray_sim.reports.small_tables import breakdown_table

    by_jobs = sorted(breakdown.classes, key=lambda each: -each.jobs)
    left_out = by_jobs[MOST_CLASSES:]
    shown = tuple(each for each in breakdown.classes if each not in left_out)
    title = f"by {breakdown.by}: {breakdown.policy} over {baseline}"
    sys.stdout.write("\n")
    print_page_table(breakdown_table(replace(breakdown, classes=shown), baseline), title)
    if left_out:
        sys.stdout.write(f"  {len(left_out):,} more with fewer jobs: --json has all\n")
    if breakdown.left_out:
        sys.stdout.write(f"  {breakdown.left_out:,} jobs completed under one of the two only: left out\n")


def _print_jobs(jobs: JobComparison, baseline: str) -> None:
    from ray_sim.reports.small_tables import changes_table, job_facts

    sys.stdout.write(f"\njob by job: {jobs.policy} against {baseline}\n")
    print_rows(job_facts(jobs))
    for title, changes in (("most faster", jobs.most_faster), ("most slower", jobs.most_slower)):
        if changes:
            print_page_table(changes_table(changes), title)
