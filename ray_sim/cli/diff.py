"""`ray-sim diff`: compare two runs job by job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ray_sim.cli.options import Json

if TYPE_CHECKING:
    import polars as pl


def diff(
    here: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.")],
    other: Annotated[Path, typer.Argument(help="Another run, or a Parquet or CSV table with job_id.")],
    start: Annotated[str, typer.Option(help="Column of OTHER with the start in seconds.")] = "start_s",
    finish: Annotated[str, typer.Option(help="Column of OTHER with the finish in seconds.")] = "finish_s",
    json_output: Json = False,
) -> None:
    """Compare start and finish of every job to the microsecond; the exit code is 1 if any job differs.

    Example: ray-sim diff runs/fifo-1a2b other.csv --start fifo_start_s --finish fifo_finish_s
    """
    from dataclasses import astuple

    from ray_sim.cli.console import exact, print_json, print_rows, print_table
    from ray_sim.experiments.result_files import read_table
    from ray_sim.model.errors import InvalidInputError
    from ray_sim.reports.diff import diff_jobs, read_job_times
    from workloads.sources import require_regular

    def jobs_of(source: Path) -> pl.DataFrame:
        if source.is_dir():
            return read_table(source, "jobs")
        require_regular(source, InvalidInputError)
        return read_job_times(source)

    found = diff_jobs(jobs_of(here), jobs_of(other), start, finish)
    if json_output:
        print_json(found.to_dict())
    else:
        counts = found.to_dict()
        names = {"compared": "jobs compared", "differing": "differing"}
        names |= {"only_here": f"only in {here}", "only_there": f"only in {other}"}
        print_rows((label, counts[name]) for name, label in names.items())
        if found.first_differences:
            columns = ["job_id", "start_s", "start_s, other", "finish_s", "finish_s, other"]
            rows = [[exact(cell) for cell in astuple(each)] for each in found.first_differences]
            print_table(columns, rows, "first differences")
        for label, jobs in (("only here", found.first_only_here), ("only there", found.first_only_there)):
            if jobs:
                print_rows([(label, ", ".join(jobs))])
    if not found.same:
        raise typer.Exit(1)
