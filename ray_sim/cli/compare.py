"""`ray-sim compare`: policies over the same seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json


def compare(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_SWEEP...", help="Directories of sweeps or of runs.")
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            help="Number of summary.json to compare, e.g. jct_s.p99, makespan_s, utilisation.gpu "
            "[welfare.welfare if all runs have it, else jct_s.mean].",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Policy to compare the others with [that with the best mean]."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            help="Also compare by class of job: size, vc, user, load or duration; repeatable.",
        ),
    ] = None,
    settings: Annotated[
        bool,
        typer.Option(
            "--settings", help="Compare the settings (world, partition, trim) of each policy instead."
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Compare policies over the same seeds: size and significance of the differences.

    Example: ray-sim compare results/study --baseline fifo --by size
    """
    from ray_sim.cli.console import print_json, progress
    from ray_sim.cli.console_compare import print_comparison
    from ray_sim.experiments.compare import compare_results

    with progress("compare", quiet=json_output) as report:
        found = compare_results(
            map(str, sources), metric, baseline, by or [], settings=settings, progress=report
        )
    if json_output:
        print_json(found.to_dict())
    else:
        print_comparison(found)
