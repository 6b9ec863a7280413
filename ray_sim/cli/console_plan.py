"""Tables of `ray-sim plan`."""

from __future__ import annotations

import sys

from ray_sim.cli.console import print_rows, print_table, say
from ray_sim.experiments.capacity.answers import answers, points_columns, points_rows
from ray_sim.experiments.capacity.report import PlanReport


def print_plan(report: PlanReport) -> None:
    """Print what was evaluated, what each policy needs, what the bounds allow, and failures."""
    if any(plan.points for plan in report.plans):
        _print_points(report)
        sys.stdout.write("\n")
    print_rows(answers(report))
    if report.sweep is None:
        return
    for failure in report.sweep.failures:
        error = (failure.error or "").replace("\n", "\n  ")
        say(f"failed: {failure.entry.label}\n  {error}")
    if report.sweep.stopped:
        say(f"stopped: {report.sweep.stopped}; go on with the same command and --resume")
    if report.sweep.tracking_error:
        say(f"error: {report.sweep.tracking_error}")


def _print_points(report: PlanReport) -> None:
    title = f"{report.request.goal}: means over seeds, 95 % intervals"
    print_table(points_columns(report), points_rows(report), title)
