"""`ray-sim bench`: the budgets, measured."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json


def bench(
    name: Annotated[str | None, typer.Argument(help="One benchmark, e.g. replay; all without it.")] = None,
    json_output: Json = False,
) -> None:
    """Measure the budgets: speeds, and ratios of things timed in one run.

    Example: ray-sim bench replay
    """
    from benchmarks.runner import run_benchmarks
    from ray_sim.console import print_json, print_rows, print_table

    report = run_benchmarks(name)
    if json_output:
        print_json(report.to_dict())
        return
    print_rows([*report.machine.items(), *report.versions.items()])
    for key, measured in report.benchmarks.items():
        print_table(measured.headings(), measured.cells(), title=f"{key}: {measured.workload}")
