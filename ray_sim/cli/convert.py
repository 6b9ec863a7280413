"""`ray-sim convert`: a trace becomes a workload."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def convert(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="Trace format, e.g. philly-csv, csv.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SRC...", help="The trace's files.")],
    out: Out,
    mapping: Annotated[
        Path | None, typer.Option("--map", help="YAML that maps the trace's columns to the schema's.")
    ] = None,
    rebase: Annotated[
        bool, typer.Option("--rebase", help="Count submit_s from the first kept submission.")
    ] = False,
    run_time: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Of a job started more than once: span, sum or attempts."),
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Keep the jobs submitted in [FROM, TO) seconds."),
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option("--rejects", help="File for the rejected rows [OUT.rejects.parquet].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert a trace to a Parquet workload; every row is kept or rejected with a counted reason.

    Example: ray-sim convert philly-csv philly.csv.gz -o philly.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.convert import convert as convert_trace
    from workloads.realise import Window
    from workloads.trace_format import ConvertOptions, RunTime, choose

    began = time.perf_counter()
    report = convert_trace(
        format_name,
        sources,
        out,
        options=ConvertOptions(
            mapping=mapping, rebase=rebase, run_time=choose(RunTime, "--run-time", run_time)
        ),
        window=None if window is None else Window(*window),
        rejects=rejects,
    )
    seconds = time.perf_counter() - began
    if json_output:
        print_json({**report.to_dict(), "seconds": seconds})
        return
    for warning in report.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    print_rows(
        [
            ("workload", out),
            ("rows read", report.read),
            ("rows kept", report.kept),
            *([("rows outside the window", report.outside_window)] if window else []),
            *((f"rejected, {reason}", count) for reason, count in report.rejected.items()),
            *([("rejects", report.rejects)] if report.rejects else []),
            ("seconds", round(seconds, 2)),
        ]
    )
