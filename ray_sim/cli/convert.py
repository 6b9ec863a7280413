"""`ray-sim convert`: convert a trace to a workload."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from ray_sim.cli.console import print_json, print_rows, print_table, print_text, progress, say
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError


def _lift(context: Context, asked: bool) -> bool:
    """With --guess, all arguments are files, and no output is required."""
    for parameter in context.command.params if asked else ():
        parameter.required = False
    return asked


def convert(
    format_name: Annotated[
        str,
        Argument(
            metavar="FORMAT",
            help="Trace format, such as philly, google-2019, csv for any table, or your own as module:NAME.",
        ),
    ],
    sources: Annotated[list[str], Argument(metavar="SRC...", help="The trace's files.")],
    out: Annotated[Path | None, Option("-o", "--out", help="File to write.")],
    guess: Annotated[
        bool,
        Option(
            "--guess",
            callback=_lift,
            is_eager=True,
            help="Guess the mapping of tables: no FORMAT, and -o only to convert all rows.",
        ),
    ] = False,
    map_out: Annotated[
        Path | None, Option("--map-out", help="Write the guessed mapping to this file [FILE.map.yaml].")
    ] = None,
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
        Option(metavar="RULE", help="Run time of a job started more than once: span, sum, log or attempts."),
    ] = None,
    rows: Annotated[str, Option(metavar="KIND", help="Rows for jobs with many tasks: task or job.")] = "task",
    censored: Annotated[
        str,
        Option(metavar="RULE", help="Rule for runs whose end is not in the trace: drop, cut or resample."),
    ] = "drop",
    seed: Annotated[int, Option(min=0, help="Seed of the draws of --censored resample.")] = 0,
    keep_pending: Annotated[
        bool, Option("--keep-pending", help="Keep pods that never started, with a run time of 0.")
    ] = False,
    speeds: Annotated[
        str | None,
        Option(
            metavar="TABLE",
            help="Measured speeds by which run times of gavel follow: gavel_simulation, gavel_physical or a "
            "CSV file [gavel_simulation].",
        ),
    ] = None,
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
    address: Annotated[
        str | None, Option(help="Open many files by tasks of Ray: local, auto or ray://HOST:PORT.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert a trace to a Parquet workload; every row is kept or rejected with a counted reason.

    Example: ray-sim convert philly-csv philly.csv.gz -o philly.parquet

    Example for an unknown table: ray-sim convert --guess jobs.csv
    """
    if guess:
        files = [mapping, speeds, cluster_out, rejects, html, address]
        if any([*files, rebase, run_time, rows != "task", censored != "drop", seed, keep_pending, window]):
            raise InvalidInputError("--guess: takes -o, --map-out, --time-zone and --json only")
        _guess([format_name, *(sources or ())] if format_name else [], out, map_out, time_zone, json_output)
        return
    if map_out is not None:
        raise InvalidInputError(f"--map-out {map_out}: only with --guess")
    assert out is not None
    from ray_sim.experiments.conversion import convert_files
    from ray_sim.experiments.fanout.pools import opening_pool

    began = time.perf_counter()
    with opening_pool(address, say) as pool, progress("convert, % of the work", quiet=json_output) as tell:
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
            keep_pending=keep_pending,
            speeds=speeds,
            cluster_out=cluster_out,
            window=window,
            rejects=rejects,
            html=html,
            pool=pool,
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


def _guess(
    sources: list[str], out: Path | None, map_out: Path | None, time_zone: str | None, json_output: bool
) -> None:
    """Guess and print; raise InvalidInputError where the workload that was asked for is not written."""
    from ray_sim.experiments.guess import guess_files

    report = guess_files(sources, out, map_out, time_zone)
    if json_output:
        print_json(report.to_dict())
    else:
        print_text(f"{', '.join(sources)}: {report.guess.taken_for}")
        if rows := report.guess.proposal.rows():
            print_table(("our column", "theirs", "evidence"), rows)
        for doubt in report.guess.proposal.doubts():
            print_text(f"DOUBT: {doubt}")
        for warning in report.warnings:
            say(f"warning: {warning}")
        print_rows([("mapping", report.mapping), ("to convert all rows", report.command)])
        print_rows(report.workload.rows() if report.workload else [])
    if report.problem and out is not None:
        raise InvalidInputError(f"{report.problem}; then: {report.command}")
    if report.problem and not json_output:
        print_text(f"PROBLEM: {report.problem}")
