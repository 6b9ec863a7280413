"""`ray-sim convert`: convert a trace to a workload."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows, progress, say
from ray_sim.cli.options import Json, Out


def convert(
    format_name: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="Trace format, such as philly, google-2019, csv for any table, or your own as module:NAME.",
        ),
    ],
    sources: Annotated[list[str], Argument(metavar="SRC...", help="The trace's files.")],
    out: Out,
    mapping: Annotated[
        str | None, Option("--map", help="YAML file that maps the trace's columns to workload columns.")
    ] = None,
    time_zone: Annotated[
        str | None,
        Option(metavar="ZONE", help="Zone of dates without an offset from UTC, such as Europe/Berlin [UTC]."),
    ] = None,
    rebase: Annotated[
        bool, Option("--rebase", help="Count submit_s from the first kept submission.")
    ] = False,
    run_time: Annotated[
        str | None,
        Option(metavar="RULE", help="Run time of a job started more than once: span, sum or attempts."),
    ] = None,
    rows: Annotated[str, Option(metavar="KIND", help="Rows for jobs with many tasks: task or job.")] = "task",
    censored: Annotated[
        str,
        Option(metavar="RULE", help="Rule for runs whose end is not in the trace: drop, cut or resample."),
    ] = "drop",
    seed: Annotated[int, Option(min=0, help="Seed of the draws of --censored resample.")] = 0,
    cluster_out: Annotated[
        Path | None, Option("--cluster-out", help="Write the trace's machines, if any, to this YAML file.")
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        Option(metavar="FROM TO", help="Keep only jobs submitted from second FROM to before second TO."),
    ] = None,
    rejects: Annotated[
        Path | None, Option("--rejects", help="File for the rejected rows [OUT.rejects.parquet].")
    ] = None,
    html: Annotated[
        Path | None, Option("--html", help="Write a page of what became of the trace to this HTML file.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert a trace to a Parquet workload; every row is kept or rejected with a counted reason.

    Example: ray-sim convert philly-csv philly.csv.gz -o philly.parquet
    """
    from ray_sim.experiments.conversion import convert_files

    began = time.perf_counter()
    with progress("convert, % of the work", quiet=json_output) as tell:
        report = convert_files(
            format_name,
            sources,
            out,
            mapping=mapping,
            time_zone=time_zone,
            rebase=rebase,
            run_time=run_time,
            rows=rows,
            censored=censored,
            seed=seed,
            cluster_out=cluster_out,
            window=window,
            rejects=rejects,
            html=html,
            progress=tell,
        )
    seconds = time.perf_counter() - began
    if json_output:
        print_json({**report.to_dict(), "seconds": seconds})
        return
    for warning in report.warnings:
        say(f"warning: {warning}")
    written = [(name, path) for name, path in (("cluster", cluster_out), ("page", html)) if path]
    print_rows([*report.rows(), *written, ("seconds", round(seconds, 2))])
